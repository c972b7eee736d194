package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// After a sync that failed, what it should have brought to the disk is written
// again: the system may have dropped it.
func TestSyncFailed(t *testing.T) {
	fail, written := true, 0
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if op.Kind == faultdisk.Write {
			written += op.Size
		}
		if op.Kind == faultdisk.Sync && fail {
			return faultdisk.Fail
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		fail = false
		r.write(5)
		r.commitAll()
		fail = true
		r.write(3)
		before := written
		if err := r.j.Sync(); !errors.Is(err, faultdisk.ErrInjected) {
			t.Fatalf("Sync = %v", err)
		}
		fail = false
		r.write(2)
		r.commitAll()
		if got, want := written-before, len(lines(9, 10))+len(lines(6, 10)); got != want {
			t.Errorf("%d bytes were written after the failure, want %d: the new lines, and all since the last sync again", got, want)
		}
		r.holds(1, "")
		// And where the system has dropped it, nothing is claimed.
		fail = true
		r.write(2)
		if err := r.j.Sync(); err == nil {
			t.Fatal("Sync succeeded")
		}
		fail = false
		f, err := os.OpenFile(r.path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 40), r.j.Mark().Offset-60); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := r.j.Sync(); !errors.Is(err, ErrUnsynced) {
			t.Errorf("Sync of lines that the disk has lost = %v", err)
		}
	})
}

// heldDisk holds up the first sync of a file until release is closed, and lets it
// fail then: the system reports a failure once.
type heldDisk struct {
	disk.FS
	release chan struct{}
	once    sync.Once
	written atomic.Int64 // bytes
}

func (d *heldDisk) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if strings.HasSuffix(path, ".owner") {
		return f, err
	}
	return heldFile{f, d}, err
}

type heldFile struct {
	disk.File
	disk *heldDisk
}

func (f heldFile) Sync() (err error) {
	f.disk.once.Do(func() {
		<-f.disk.release
		err = faultdisk.ErrInjected
	})
	return err
}

func (f heldFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.written.Add(int64(len(p)))
	return f.File.WriteAt(p, off)
}

// A rotation beside a sync that fails waits for it, and writes again what that
// was for: its own sync would not hear of the failure.
func TestRotateBesideFailingSync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &heldDisk{FS: disk.OS, release: make(chan struct{})}
		j, err := OpenFile(filepath.Join(dir, "journal.jsonl"), Options{MaxSize: 300, Disk: d})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		first, next := lines(1, 2), numbered(3)+numbered(4)
		if _, err := j.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		synced := make(chan error, 1)
		go func() { synced <- j.Sync() }()
		synctest.Wait()
		wrote := make(chan error, 1)
		go func() {
			for p := []byte(next); len(p) > 0; {
				n, err := j.Write(p)
				if err != nil {
					wrote <- err
					return
				}
				p = p[n:]
			}
			wrote <- nil
		}()
		synctest.Wait()
		close(d.release)
		if err := <-synced; !errors.Is(err, faultdisk.ErrInjected) {
			t.Errorf("Sync = %v", err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		rotated, err := filepath.Glob(filepath.Join(dir, "journal-*.jsonl"))
		if err != nil || len(rotated) != 1 {
			t.Fatalf("rotated files: %v, %v", rotated, err)
		}
		again := len(contentOf(t, rotated[0]))
		if got, want := d.written.Load(), int64(len(first)+len(next)+again); got != want {
			t.Errorf("%d bytes were written, want %d: the rotated file's twice", got, want)
		}
	})
}
