package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// verify reads all of the file at path, through a shared lock and without
// writing, and returns ErrDamaged where something cannot be read. bbolt looks at
// every page too when it opens a file for writing, but in a goroutine of its
// own: what it trips over there, a page that is not one or the end of a
// truncated file, would end the process at every start.
func verify(path string) (err error) {
	// Reading behind the end of a mapped file, which pages reads before bbolt
	// does, would be a fault, not an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var file *os.File
	defer func() {
		if p := recover(); p != nil {
			if file != nil {
				_ = file.Close() // lets go of the lock; a second close does no harm
			}
			err = fmt.Errorf("open checkpoint %s: %w: %v", path, ErrDamaged, p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, OpenFile: keep(&file)})
	if err != nil {
		return openError(path, err)
	}
	defer func() { _ = db.Close() }() // nothing was written
	s := &Store{db: db, path: path}
	if err := s.verify(file); err != nil {
		return fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return nil
}

func (s *Store) verify(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	var ours bool
	err = s.db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("%w: %d bytes where there should be %d", ErrDamaged, info.Size(), tx.Size())
		}
		size := s.db.Info().PageSize
		p := pages{file: file, size: size, seen: make([]bool, tx.Size()/int64(size))}
		if err := p.walk(uint64(tx.Cursor().Bucket().Root()), nil, nil); err != nil {
			return err
		}
		if meta := tx.Bucket(bucketMeta); meta != nil && tx.Bucket(bucketStreams) != nil && tx.Bucket(bucketKnown) != nil {
			v, _ := binary.Uvarint(meta.Get(keySchema))
			ours = v == schemaVersion
		}
		return nil
	})
	if err != nil || !ours {
		return err // what it is instead of ours, init says
	}
	return s.decodeAll()
}

// decodeAll reads all that later calls would: it is better to know at the
// start, where a damaged file can be set aside.
func (s *Store) decodeAll() error {
	if _, err := s.Mark(); err != nil {
		return err
	}
	if _, err := s.Streams(); err != nil {
		return err
	}
	var k Known
	return s.db.View(func(tx *bbolt.Tx) error {
		known := tx.Bucket(bucketKnown)
		return known.ForEachBucket(func(stream []byte) error {
			return known.Bucket(stream).ForEach(func(key, value []byte) error {
				return decodeKnown(key, value, &k)
			})
		})
	})
}

// keep opens files for bbolt and keeps the handle, which a panic would leak and
// the lock with it.
func keep(file **os.File) func(string, int, os.FileMode) (*os.File, error) {
	return func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag, mode)
		*file = f
		return f, err
	}
}

// openError says what an error of bbolt.Open means. What the operating system
// refuses says nothing about the file.
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
