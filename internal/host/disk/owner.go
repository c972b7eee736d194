package disk

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// ErrTakenOver says that another process has opened a file to write to it while this one does.
var ErrTakenOver = errors.New("another process writes to it too, and the locks of this volume do not keep the two " +
	"apart; stop one of them, or give each files of its own")

// Owner detects a second process that writes to the same file, for volumes on which a lock does nothing. Each process
// that opens the file writes its own id to an owner file beside it, over what is there, and checks later that the id is
// still its own: of two processes the first one finds out, and the second continues. So an owner file that a crash has
// left blocks nobody, and no clock is needed. Where the owner file cannot be written, a second process goes unnoticed.
// Each check reopens it, since network file systems promise no more than that an open shows what was closed before.
type Owner struct {
	Inherited bool // Claim found the owner file of another process, which was killed or has yet to find out

	fs   FS
	path string // of the owner file
	id   []byte

	mu      sync.Mutex
	before  []byte // what the owner file held when it could not be written, nil once it was; guarded by mu
	readErr error  // why it could not be read then either; guarded by mu
}

// OwnerPath returns the path of a file's owner file.
func OwnerPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".owner")
}

// Claim makes this process, which has locked the file at path, its owner: the last one to claim it continues. An error
// is why the owner file could not be written; the Owner can be used all the same.
func Claim(f FS, path string) (*Owner, error) {
	o := &Owner{fs: f, path: OwnerPath(path), id: []byte(rand.Text() + "\n")}
	before, _ := o.read() // what cannot be read can hardly be written, which is an error
	o.Inherited = len(before) > 0
	if err := o.claim(); err != nil {
		return o, fmt.Errorf("cannot write the owner file; a second process may go unnoticed where locks do not "+
			"work: %w", err)
	}
	return o, nil
}

// Release removes the owner file, for a process that will not write to the file any more. A crash, or a failure, leaves
// it.
func (o *Owner) Release() {
	if is, err := o.read(); err == nil && bytes.Equal(is, o.id) {
		_ = o.fs.Remove(o.path)
	}
}

// claim writes the owner file, which the next Check retries. A crash leaves any part of it, to the same effect as all
// of it.
func (o *Owner) claim() error {
	f, err := o.fs.OpenFile(o.path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o640)
	if err == nil {
		_, err = f.WriteAt(o.id, 0)
		err = errors.Join(err, f.Close())
	}
	if o.before, o.readErr = nil, nil; err != nil {
		o.before, o.readErr = o.read()
	}
	return err
}

// read returns what the owner file holds, nothing where there is none.
func (o *Owner) read() ([]byte, error) {
	f, err := o.fs.OpenFile(o.path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	b := make([]byte, len(o.id))
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// Check returns ErrTakenOver once another process has claimed the file. An owner file that was removed is written
// again.
func (o *Owner) Check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, err := o.read()
	switch {
	case errors.Is(err, fs.ErrPermission) || err != nil && o.readErr != nil:
		return nil // it cannot be read here
	case err != nil:
		return fmt.Errorf("look for another owner: %w", err)
	case bytes.Equal(is, o.id):
		return nil
	case len(is) > 0 && !bytes.Equal(is, o.before) && o.readErr == nil:
		return ErrTakenOver
	}
	_ = o.claim() // Claim has reported it, and the next Check retries
	return nil
}
