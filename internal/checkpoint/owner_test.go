package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubejournal/internal/host/disk"
)

// unlock makes the lock of a checkpoint one that does nothing.
func unlock(t *testing.T, s *Store) {
	t.Helper()
	if err := syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
}

func commitOne(s *Store, name string) error {
	var c Changes
	c.Put([]byte("default"), []byte(name), []byte("u"), []byte("1"))
	b := NewBatch()
	b.Add("pods", &c)
	return s.Commit(b)
}

// Of two processes that no lock keeps from one checkpoint the first one commits nothing
// more, and the file stays whole.
func TestTwoProcesses(t *testing.T) {
	for _, commits := range []int{0, 1, 3} { // of the second, before the first one's
		path := filepath.Join(t.TempDir(), "c.db")
		first := mustOpen(t, path)
		if err := commitOne(first, "a"); err != nil {
			t.Fatal(err)
		}
		unlock(t, first)
		second := mustOpen(t, path)
		unlock(t, second)
		for range commits {
			if err := commitOne(second, "b"); err != nil {
				t.Fatal(err)
			}
		}
		if err := commitOne(first, "c"); !errors.Is(err, disk.ErrTakenOver) {
			t.Errorf("the first one's commit: %v", err)
		}
		if err := first.SetCluster("x"); !errors.Is(err, disk.ErrTakenOver) {
			t.Errorf("SetCluster: %v", err)
		}
		if err := commitOne(second, "d"); err != nil {
			t.Errorf("the second one's commit: %v", err)
		}
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, path)
		for name, want := range map[string]bool{"a": true, "b": commits > 0, "c": false, "d": true} {
			if _, ok, err := s.Get("pods", "default", name); err != nil || ok != want {
				t.Errorf("%s: %t, %v", name, ok, err)
			}
		}
	}
}

// A commit that was under way when another process opened the file shows there.
func TestCommittedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	first := mustOpen(t, path)
	unlock(t, first)
	second := mustOpen(t, path)
	unlock(t, second)
	// The look at the note comes before the other's opening, the commit after it.
	note, err := os.ReadFile(disk.OwnerPath(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk.OwnerPath(path), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := commitOne(first, "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk.OwnerPath(path), note, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := commitOne(second, "b"); !errors.Is(err, disk.ErrTakenOver) {
		t.Errorf("Commit = %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

// The owner file of a process that was killed does not block the next one, and readers leave it alone.
func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	if err := mustOpen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(disk.OwnerPath(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that has ended leaves its note: %v", err)
	}
	if err := os.WriteFile(disk.OwnerPath(path), []byte("KILLED\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path)
	unlock(t, s)
	read, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	if err := commitOne(s, "a"); err != nil {
		t.Error(err)
	}
}

// A checkpoint that somebody else has planted in a folder that everybody may write to is not used, and not changed.
func TestForeignCheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoint.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := read(t, path)
	if os.Chown(path, 12345, -1) != nil {
		t.Skip("only root can give a file to another user")
	}
	for mode, want := range map[os.FileMode]string{0o755: "", 0o777 | os.ModeSticky: "belongs to user 12345"} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err == nil {
			err = s.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || errors.Is(err, ErrDamaged)) {
			t.Errorf("%v: %v, want %q", mode, err, want)
		}
	}
	if !bytes.Equal(read(t, path), before) {
		t.Error("the file has changed")
	}
}
