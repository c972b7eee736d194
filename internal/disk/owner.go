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
)

// ErrTakenOver says that another process has opened a file to write to it while
// this one does.
var ErrTakenOver = errors.New("another process writes to it too, and the locks of this volume do not keep the two apart; stop one of them, or give each files of its own")

// ownerMode is that of the files that an Owner writes to.
const ownerMode = 0o640

// Owner tells the processes apart that write to one file, for volumes on which a
// lock does nothing. Whoever opens the file writes an id of its own to a note beside
// it, over whatever stands there, and looks later whether it still does: of two
// processes the first one finds out, and the second goes on. So a note that a crash
// has left behind is in nobody's way, and no clock is asked. Where the note cannot be
// written nothing is found out.
//
// The note is opened anew for each look, since network file systems promise no more
// than that an open shows what was closed before.
type Owner struct {
	fs   FS
	path string // of the note
	id   []byte
	// inherited says that the note was another's.
	inherited bool

	mu sync.Mutex
	// before is what stood in the note when it could not be written, nil once it
	// was; guarded by mu.
	before []byte
	// unknown says that it could not be read then either; guarded by mu.
	unknown bool
}

// OwnerPath is where the Owner of a file has its note.
func OwnerPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".owner")
}

// Claim makes this process the owner of the file at path. Whoever can lock it has
// done so before: the last to claim it goes on. An error is why the note could not be
// written; the Owner is of use all the same.
func Claim(f FS, path string) (*Owner, error) {
	o := &Owner{fs: f, path: OwnerPath(path), id: []byte(rand.Text() + "\n")}
	before, _ := o.read() // what cannot be read can hardly be written, which is an error
	o.inherited = len(before) > 0
	if err := o.claim(); err != nil {
		return o, fmt.Errorf("cannot write the owner file; a second process may go unnoticed where locks do not work: %w", err)
	}
	return o, nil
}

// Inherited reports whether the note of another process stood there: of one that was
// killed, or of one that has yet to find out.
func (o *Owner) Inherited() bool { return o.inherited }

// Release removes the note, for a process that will not write to the file any more.
// A crash, or a failure, leaves it.
func (o *Owner) Release() {
	if is, err := o.read(); err == nil && bytes.Equal(is, o.id) {
		_ = o.fs.Remove(o.path)
	}
}

// claim writes the note. A crash leaves any part of it, which says as little as all of it.
// What cannot be written, on a full disk or in a folder that is read-only, is tried
// again with the next Check.
func (o *Owner) claim() error {
	f, err := o.fs.OpenFile(o.path, os.O_RDWR|os.O_CREATE, ownerMode)
	if err == nil {
		_, err = f.WriteAt(o.id, 0)
		err = errors.Join(err, f.Close())
	}
	if o.before, o.unknown = nil, false; err != nil {
		var readErr error
		o.before, readErr = o.read()
		o.unknown = readErr != nil
	}
	return err
}

// read returns what stands in the note, nothing where there is none.
func (o *Owner) read() ([]byte, error) {
	f, err := o.fs.OpenFile(o.path, os.O_RDONLY, 0)
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

// Check returns ErrTakenOver once another process has claimed the file. A note that
// was removed is written again.
func (o *Owner) Check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, err := o.read()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil // not meant for us
	case err != nil && o.unknown:
		return nil // it never could be read here
	case err != nil:
		return fmt.Errorf("look for another owner: %w", err)
	case bytes.Equal(is, o.id):
		return nil
	case len(is) > 0 && !bytes.Equal(is, o.before) && !o.unknown:
		return ErrTakenOver
	}
	_ = o.claim() // Claim has told, and the next Check tries again
	return nil
}
