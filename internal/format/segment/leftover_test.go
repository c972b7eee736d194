package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
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
	f, err := createTemporary(IndexPath(filepath.Join(dir, rotatedName+Gzipped)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if name := filepath.Base(f.Name()); !NamesOf(path).LeftOver(name) {
		t.Errorf("%s is not known", name)
	}
	if err := errors.Join(RemoveLeftOvers(path), exists(f.Name())); err != nil {
		t.Errorf("it was removed while it was written: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(RemoveLeftOvers(path), exists(f.Name())); !errors.Is(err, fs.ErrNotExist) {
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
