package journal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

const rotatedName = "journal-2026-11-20T16-10-24.000.jsonl"

// leftOvers are temporary files of a journal, foreign are files that look like them.
var (
	leftOvers = []string{
		"." + rotatedName + ".gz.tmp", "." + rotatedName + ".index.tmp", "." + rotatedName + ".index.1234567.tmp",
		".journal-2031-01-01T00-00-00.000.jsonl.index.9.tmp", ".journal.jsonl.coverage.tmp", ".journal.jsonl.api.tmp",
	}
	foreign = []string{
		rotatedName + ".index.tmp", "." + rotatedName + ".tmp", "." + rotatedName + ".gz.index.tmp",
		"." + rotatedName + ".index.x1.tmp", "." + rotatedName + ".index",
		".journal-eu-2026-11-20T16-10-24.000.jsonl.index.1.tmp", ".journal.jsonl.tmp", ".journal-eu.jsonl.coverage.tmp",
		".journal.jsonl.owner", ".other.tmp",
	}
)

func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// there returns those of some names that a folder has.
func there(t *testing.T, dir string, of []string) (names []string) {
	t.Helper()
	for _, name := range of {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// TestLeftOvers has temporary files that runs which were killed have left, ones that somebody is writing, and files
// that are none.
func TestLeftOvers(t *testing.T) {
	for _, removes := range []string{"the tidier", "a run of index"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal.jsonl")
		j := mustOpen(t, path)
		if _, err := j.Write([]byte(numbered(1))); err != nil {
			t.Fatal(err)
		}
		touch(t, dir, foreign...)
		for _, name := range leftOvers {
			touch(t, dir, name)
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() }) // should the test end before that
			if err := disk.Lock(f); err != nil {
				t.Fatal(err)
			}
			if err := removeAll(j, removes); err != nil || len(there(t, dir, []string{name})) == 0 {
				t.Errorf("%s has removed %s, which is being written: %v", removes, name, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := removeAll(j, removes); err != nil || len(there(t, dir, []string{name})) > 0 {
				t.Errorf("%s has left %s: %v", removes, name, err)
			}
		}
		if left := there(t, dir, slices.Concat(leftOvers, foreign)); !slices.Equal(left, foreign) {
			t.Errorf("%s has left %q", removes, left)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func removeAll(j *File, by string) error {
	if by == "the tidier" {
		_, _, err := j.archives()
		return err
	}
	return segment.RemoveLeftOvers(j.Path())
}

// TestTidierLocks has the tidier write while another run looks for what was left over: it finds nothing, at any
// operation.
func TestTidierLocks(t *testing.T) {
	watching := &watchingFS{FS: disk.OS, t: t}
	inBubble(t, Options{MaxSize: 700, Compress: true, Disk: watching}, func(r *rig) {
		r.write(30)
		r.commitAll()
		r.wait(time.Minute)
		r.holds(1, "map[journal.jsonl:1 rotated.gz:4]")
	})
	if watching.seen != 8 { // an index and a compressed file each
		t.Errorf("%d temporary files were renamed", watching.seen)
	}
}

// watchingFS has a run of index begin before each rename.
type watchingFS struct {
	disk.FS
	t    *testing.T
	seen int
}

func (w *watchingFS) Rename(from, to string) error {
	if strings.HasSuffix(from, ".tmp") {
		w.seen++
		if err := segment.RemoveLeftOvers(filepath.Join(filepath.Dir(to), "journal.jsonl")); err != nil {
			w.t.Error(err)
		}
	}
	return w.FS.Rename(from, to)
}
