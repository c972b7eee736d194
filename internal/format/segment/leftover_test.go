package segment

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/host/disk"
)

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// TestNamesOfWriters has every file that is being written under a name that a later run knows as left over, and holds
// its lock.
func TestNamesOfWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	temporary := temporaryIndex(IndexPath(filepath.Join(dir, rotatedName+Gzipped)))
	f, err := disk.WriteTemporary(disk.OS, temporary, FileMode, func(io.WriterAt) error {
		return errors.Join(RemoveLeftOvers(path), exists(temporary))
	})
	if err != nil {
		t.Fatalf("it was removed while it was written: %v", err)
	}
	defer f.Close()
	if !NamesOf(path).LeftOver(filepath.Base(temporary)) {
		t.Errorf("%s is not known", temporary)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(RemoveLeftOvers(path), exists(temporary)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was left: %v", err)
	}
	if err := WriteIndex(filepath.Join(dir, rotatedName+Gzipped), []byte("an index")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != rotatedName+Indexed {
		t.Errorf("%v, %v", entries, err)
	}
}

// takenAtOnce has another run look for what was left over as soon as a file is there, before its writer has the lock.
type takenAtOnce struct {
	disk.FS
	t     *testing.T
	times int
}

func (d *takenAtOnce) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if d.times--; err == nil && d.times >= 0 {
		if err := RemoveLeftOver(disk.OS, path); err != nil {
			d.t.Error(err)
		}
	}
	return f, err
}

// TestTakenForLeftOver has a file removed between its creation and its lock: it is written all the same, and has its
// name.
func TestTakenForLeftOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".journal.jsonl.coverage.tmp")
	for _, c := range []struct {
		times int
		there bool
	}{{0, true}, {1, true}, {3, true}, {100, false}} {
		f, err := disk.WriteTemporary(&takenAtOnce{disk.OS, t, c.times}, path, FileMode, func(w io.WriterAt) error {
			_, err := w.WriteAt([]byte("content"), 0)
			return err
		})
		if c.there != (err == nil) {
			t.Errorf("removed %d times: %v", c.times, err)
		}
		if f == nil {
			continue
		}
		if content, err := os.ReadFile(path); string(content) != "content" {
			t.Errorf("removed %d times: %q, %v", c.times, content, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
