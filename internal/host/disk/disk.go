// Package disk has the file operations of journal and owner files as an interface: tests number each operation and let
// it fail, or be the last one (test/faultdisk). Everything else uses OS. bbolt's own file operations do not go through
// it.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked says that another process holds a file's lock.
var ErrLocked = errors.New("held by another process")

// FS is a file system, with the functions of package os. Errors are the operating system's.
type FS interface {
	OpenFile(path string, flag int, mode fs.FileMode) (File, error)
	// Stat follows symbolic links; what it returns is for os.SameFile.
	Stat(path string) (fs.FileInfo, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a folder outlast a power cut.
	SyncDir(path string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes the content outlast a power cut.
	Sync() error
	// Lock takes the file's lock for this process until Close or its end, or returns ErrLocked or ErrNoLocks. It does
	// not hinder readers.
	Lock() error
	Close() error
}

// OS is the operating system's own file system.
var OS FS = system{}

type system struct{}

func (system) OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	// Others may have put a FIFO there, whose opening would wait. Of a regular file the flag says nothing.
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (system) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (system) Rename(from, to string) error               { return os.Rename(from, to) }
func (system) Remove(path string) error                   { return os.Remove(path) }

func (system) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network file systems do not support it
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// Create creates a file in the place of what has that name: what a crash has left, or what others have put there in a
// folder that is not this process's alone, such as a symbolic link, which is not followed, or a file that they keep
// open.
func Create(d FS, path string, mode fs.FileMode) (File, error) {
	const flag = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := d.OpenFile(path, flag, mode)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := d.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return d.OpenFile(path, flag, mode)
}

// WriteTemporary creates a file in the place of what has that name, has fn write it, and syncs it. It stays open, and
// locked if the volume has locks, until the caller has renamed it: what looks for files that a crash has left sees that
// it is written. Once it is created it is returned also with an error, for the caller to close.
func WriteTemporary(d FS, path string, mode fs.FileMode, fn func(io.WriterAt) error) (File, error) {
	f, err := createLocked(d, path, mode)
	if err != nil {
		return nil, err
	}
	if err = fn(f); err == nil {
		err = f.Sync()
	}
	return f, err
}

// createLocked creates a file and locks it. What removes files that a crash has left may find it before it is locked,
// and locks and removes it: then it is created again.
func createLocked(d FS, path string, mode fs.FileMode) (File, error) {
	for range mostRemovals {
		f, err := Create(d, path, mode)
		if err != nil {
			return nil, err
		}
		locked := f.Lock()
		is, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		at, err := d.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, f.Close())
		}
		if err == nil && os.SameFile(is, at) && !errors.Is(locked, ErrLocked) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: removed or locked by another process, again and again", path)
}

// mostRemovals is how often in turn a file can be taken for one that was left between its creation and its lock: once
// is unlikely.
const mostRemovals = 10

type file struct{ *os.File }

func (f file) Lock() error { return Lock(f.File) }

// Lock is File.Lock for a file of package os.
func Lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) { // as a signal does on network volumes
			return LockError(err)
		}
	}
}
