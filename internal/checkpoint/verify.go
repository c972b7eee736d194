package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// OpenReadOnly opens the checkpoint at path for reading: other readers may do so at
// the same time, and the file is not written to. All of the file is read, and
// ErrDamaged returned where something is not as it was written. bbolt reads every
// page too when it opens a file for writing, but in a goroutine of its own: a page
// that is not one or the end of a truncated file makes it panic there, which would
// end the process at every start.
func OpenReadOnly(path string) (s *Store, err error) {
	path = follow(path)
	if err := checkFile(path); err != nil {
		return nil, err
	}
	// Reading behind the end of a mapped file, which pages reads before bbolt
	// does, would be a fault, not an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var file *os.File
	defer failDamaged(path, &file, &err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, OpenFile: openInto(&file)})
	if err != nil {
		return nil, openError(path, err)
	}
	s = newStoreOf(db, file, path)
	if err := s.verify(file); err != nil {
		_ = db.Close() // nothing was written
		return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return s, nil
}

// failDamaged, deferred, turns a panic of bbolt into ErrDamaged: it panics on some
// damaged files instead of returning an error. It releases the file's lock.
func failDamaged(path string, file **os.File, err *error) {
	if p := recover(); p != nil {
		if *file != nil {
			_ = (*file).Close() // a second close does no harm
		}
		*err = fmt.Errorf("open checkpoint %s: %w: %v", path, ErrDamaged, p)
	}
}

// verify reads all of the file once: the pages, which bbolt would walk blindly,
// and what stands in them.
func (s *Store) verify(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p := pages{file: file, size: s.db.Info().PageSize, objects: make(map[string]*int)}
	err = s.db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("%w: has %d bytes instead of %d", ErrDamaged, info.Size(), tx.Size())
		}
		readAhead(file, tx.Size())
		p.seen = make([]bool, tx.Size()/int64(p.size))
		return p.walk(uint64(tx.Cursor().Bucket().Root()), scope{}, nil, nil)
	})
	if err != nil {
		return err
	}
	// Before the sum: a later version may know other buckets.
	if err := s.checkSchema(); err != nil {
		return err
	}
	// What adds up is what was written: the known objects need no check of their own.
	if err := p.checkSum(); err != nil {
		return err
	}
	for name, n := range p.objects {
		s.merged[name] = *n
	}
	if err := s.loadLogs(); err != nil {
		return err
	}
	if _, err := s.Mark(); err != nil {
		return err
	}
	_, err = s.Streams()
	return err
}

// openInto opens files for bbolt and stores the handle, which a panic would leak and
// the lock with it.
func openInto(file **os.File) func(string, int, os.FileMode) (*os.File, error) {
	return func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag, mode)
		*file = f
		return f, err
	}
}

// openError classifies an error of bbolt.Open. An error of the operating system says
// nothing about the content of the file.
func openError(path string, err error) error {
	var (
		pathErr *os.PathError
		errno   syscall.Errno
	)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("open checkpoint %s: %w", path, ErrLocked)
	case errors.As(err, &pathErr):
		return fmt.Errorf("open checkpoint: %w", err)
	case errors.As(err, &errno):
		return fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return fmt.Errorf("open checkpoint %s: %w: %w", path, ErrDamaged, err)
}
