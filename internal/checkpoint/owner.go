package checkpoint

import (
	"bytes"
	"fmt"
)

// rootSize is how much of a meta page bbolt uses, in bytes.
const rootSize = 80

// readRoots reads both meta pages, one of which changes with each commit.
func (s *Store) readRoots() ([]byte, error) {
	roots := make([]byte, metaPages*rootSize)
	for i := range metaPages {
		if _, err := s.file.ReadAt(roots[i*rootSize:(i+1)*rootSize], int64(i*s.pageSize)); err != nil {
			return nil, fmt.Errorf("read checkpoint %s: %w", s.path, err)
		}
	}
	return roots, nil
}

// OwnerError is why Open could not record that this process writes to the file; nil
// where it could.
func (s *Store) OwnerError() error { return s.ownerErr }

// owned returns ErrTakenOver once another process has opened the file to write to it,
// or has committed to it. That is for volumes without working locks: two processes that
// commit to one file would overwrite each other's pages. A commit that is under way when
// the other process opens the file can do so; the sum detects it.
func (s *Store) owned() error {
	if s.owner == nil {
		return nil
	}
	if err := s.owner.Check(); err != nil {
		return fmt.Errorf("checkpoint %s: %w", s.path, err)
	}
	if s.roots == nil {
		return nil
	}
	if is, err := s.readRoots(); err != nil {
		return err
	} else if !bytes.Equal(s.roots, is) {
		return fmt.Errorf("checkpoint %s is not as it was committed: %w", s.path, ErrTakenOver)
	}
	return nil
}
