package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/test/faultdisk"
)

// Nothing is compressed or removed before it is committed, and then by age and
// number; names say when, and rise.
func TestTidy(t *testing.T) {
	o := Options{MaxSize: 700, MaxFiles: 4, MaxAge: time.Hour, Compress: true}
	inBubble(t, o, func(r *rig) {
		r.write(60)
		r.wait(time.Minute)
		r.holds(1, "map[journal.jsonl:1 rotated:8]")
		r.commitAll()
		r.wait(time.Second)
		r.holds(29, "map[journal.jsonl:1 rotated.gz:4]")
		r.wait(time.Hour - 2*time.Minute)
		r.write(10)
		r.commitAll()
		r.wait(20 * time.Minute)
		r.holds(57, "map[journal.jsonl:1 rotated.gz:1]")
		for _, e := range []string{"journal-2000-01-01T00-00-00.000.jsonl.gz.tmp", ".journal-2000-01-01T00-00-00.000.jsonl.gz.tmp", "journal-old.jsonl", "journal-2000-01-01T00-00-00.jsonl"} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(r.path), e), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.wait(time.Hour)
		// Ours to remove is only what we have named.
		if got := r.names(); strings.Contains(got, " .journal") || strings.Count(got, ":") != 4 {
			t.Errorf("files are %s", got)
		}
	})
}

// After the first commit too, a file whose lines are not all committed is neither compressed nor removed.
func TestTidyLeavesUncommitted(t *testing.T) {
	inBubble(t, Options{MaxSize: 700, MaxFiles: 1, MaxAge: time.Minute, Compress: true}, func(r *rig) {
		r.write(3)
		r.commitAll()
		r.write(30)
		r.wait(2 * tidyEvery)
		r.holds(1, "map[journal.jsonl:1 rotated:4]")
		if err := errors.Join(r.j.Sync(), r.j.Verify()); err != nil {
			t.Fatal(err)
		}
		r.j.Committed(20) // within a file
		r.wait(time.Second)
		if got := r.names(); got != "map[journal.jsonl:1 rotated:2]" {
			t.Errorf("files are %s", got)
		}
	})
}

// The compressed file is on disk, and then its name, before the plain one is removed: a power cut may undo any operation
// that no sync has followed.
func TestCompressOrder(t *testing.T) {
	var kinds []faultdisk.Kind // from the temporary file's on
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if len(kinds) > 0 || strings.HasSuffix(op.Path, ".tmp") {
			kinds = append(kinds, op.Kind)
		}
		return faultdisk.None
	})
	inBubble(t, Options{MaxSize: 700, Compress: true, Disk: d}, func(r *rig) {
		r.write(10)
		r.commitAll()
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated.gz:1]")
		want := []faultdisk.Kind{faultdisk.Create, faultdisk.Write, faultdisk.Sync,
			faultdisk.Create, faultdisk.Write, faultdisk.Write, faultdisk.Sync, // the index's header is written last
			faultdisk.Rename, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Remove}
		if !slices.Equal(kinds, want) {
			t.Errorf("operations are %q, want %q", kinds, want)
		}
	})
}

// Close does not wait for an index, which can be large; the next pass makes it.
func TestCloseWhileIndexing(t *testing.T) {
	var r *rig
	closing := true
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if closing && op.Kind == faultdisk.Write && strings.HasSuffix(op.Path, segment.Indexed+".tmp") {
			r.j.tidy.stop() // as Close does, and then waits for the pass to end
		}
		return faultdisk.None
	})
	inBubble(t, Options{MaxSize: 700, Disk: d}, func(opened *rig) {
		r = opened
		indexes := func() int {
			all, err := filepath.Glob(filepath.Join(filepath.Dir(r.path), "*"+segment.Indexed))
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		r.write(10)
		r.commitAll()
		r.wait(time.Second)
		if got := indexes(); got != 0 {
			t.Errorf("%d indexes were finished", got)
		}
		if err := r.j.Close(); err != nil {
			t.Fatal(err)
		}
		closing = false
		r.open()
		r.commitAll()
		r.wait(time.Second)
		if got := indexes(); got == 0 {
			t.Error("there is no index")
		}
	})
}

// While a file cannot be removed, none after it is: what is left has no hole.
func TestRemoveInOrder(t *testing.T) {
	failing := true
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if failing && op.Kind == faultdisk.Remove {
			failing = false
			return faultdisk.Fail
		}
		return faultdisk.None
	})
	inBubble(t, Options{MaxSize: 90, MaxFiles: 1, Disk: d}, func(r *rig) {
		r.write(5)
		r.wait(0) // a rotation wakes the tidier too
		if err := errors.Join(r.j.Sync(), r.j.Verify()); err != nil {
			t.Fatal(err)
		}
		r.j.Committed(5)
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated:4]")
		if r.j.TidyError() == nil {
			t.Error("TidyError = nil while a file cannot be removed")
		}
		r.wait(tidyRetry)
		r.holds(4, "map[journal.jsonl:1 rotated:1]")
	})
}

// Limits change while the file is open: the size for the next write, the rest for
// the files that are there, and still not before they are committed.
func TestSetLimits(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(60)
		r.j.SetLimits(Options{MaxSize: 700})
		r.write(30)
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated:5]")
		r.j.SetLimits(Options{MaxSize: 700, Compress: true, MaxFiles: 2})
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated:5]")
		r.commitAll()
		r.wait(time.Second)
		if got := r.names(); got != "map[journal.jsonl:1 rotated.gz:2]" {
			t.Errorf("files are %s", got)
		}
		r.wait(time.Minute)
		r.j.SetLimits(Options{MaxAge: time.Second})
		r.wait(0)
		if got := r.names(); got != "map[journal.jsonl:1]" {
			t.Errorf("files are %s", got)
		}
		r.write(100)
		if got := r.names(); got != "map[journal.jsonl:1]" {
			t.Errorf("rotated without a size: files are %s", got)
		}
	})
}

// totalSize is how many bytes the journal's files have, with their indexes.
func (r *rig) totalSize() (total int64) {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(r.path))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(e.Name(), ".jsonl") && !strings.HasPrefix(e.Name(), ".") {
			total += info.Size()
		}
	}
	return total
}

// The files' bytes stay within their limit, whatever the active one grows to: the oldest go, no more than it takes, and what
// is not committed stays.
func TestMaxTotalSize(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const limit = 40 << 10
	for _, compress := range []bool{false, true} {
		inBubble(t, Options{MaxSize: 4 << 10, MaxTotalSize: limit, Compress: compress}, func(r *rig) {
			full := int64(0) // the most that there was
			for range 60 {
				r.write(40)
				r.commitAll()
				r.wait(time.Second)
				size := r.totalSize()
				if full = max(full, size); size > limit {
					t.Fatalf("compress %t: %d bytes", compress, size)
				}
			}
			if full < limit-6<<10 {
				t.Errorf("compress %t: at most %d bytes are kept", compress, full)
			}
			first := r.first()
			r.holds(first, "")
			if first == 1 {
				t.Errorf("compress %t: nothing was removed", compress)
			}
			r.write(600)
			r.wait(2 * tidyEvery)
			if size := r.totalSize(); size <= limit {
				t.Errorf("compress %t: %d bytes of lines that are not committed", compress, size)
			}
			r.holds(r.first(), "")
		})
	}
}

// first is seq of the first line that is left.
func (r *rig) first() uint64 {
	r.t.Helper()
	seq, ok := segment.SeqOf([]byte(r.files()))
	if !ok {
		r.t.Fatal("there is no line")
	}
	return seq
}

// The active file counts as what it can grow to, and without a limit of its own as what it has. It is never removed. What
// only age and number leave is removed by the size too, from the start on.
func TestMaxTotalSizeOfTheActive(t *testing.T) {
	inBubble(t, Options{MaxSize: 700}, func(r *rig) {
		r.write(60)
		r.commitAll()
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated:8]")
		if err := r.j.Close(); err != nil {
			t.Fatal(err)
		}
		r.options.MaxTotalSize = 1
		r.open()
		if err := r.commit(r.j, r.next-1); err != nil {
			t.Fatal(err)
		}
		r.wait(time.Second)
		if got := r.names(); got != "map[journal.jsonl:1]" {
			t.Errorf("files are %s", got)
		}
		r.j.SetLimits(Options{MaxTotalSize: 1 << 20})
		r.write(30000)
		r.commitAll()
		r.wait(tidyEvery)
		if got := r.names(); got != "map[journal.jsonl:1]" {
			t.Errorf("files are %s", got)
		}
	})
}

// While a file cannot be removed for the size, none after it is.
func TestShrinkInOrder(t *testing.T) {
	var first atomic.Value // the first file that was to be removed
	var works atomic.Bool
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if op.Kind != faultdisk.Remove || works.Load() {
			return faultdisk.None
		}
		if first.CompareAndSwap(nil, op.Path) || first.Load() == op.Path {
			return faultdisk.Fail
		}
		return faultdisk.None
	})
	inBubble(t, Options{MaxSize: 700, MaxTotalSize: 1500, Disk: d}, func(r *rig) {
		r.write(30)
		r.commitAll()
		r.wait(time.Second)
		r.holds(1, "map[journal.jsonl:1 rotated:4]")
		if r.j.TidyError() == nil {
			t.Error("TidyError = nil while a file cannot be removed")
		}
		works.Store(true)
		r.wait(tidyRetry)
		if first := r.first(); first == 1 || r.j.TidyError() != nil {
			t.Errorf("first line %d, %v", first, r.j.TidyError())
		}
		r.holds(r.first(), "")
	})
}

// A journal is measured by the names of its files, through a link too, while it is written.
func TestMeasure(t *testing.T) {
	inBubble(t, Options{MaxSize: 700, Compress: true}, func(r *rig) {
		if kept, err := Measure(r.path); err != nil || kept != (Kept{}) {
			t.Errorf("a new journal: %+v, %v", kept, err)
		}
		before := time.Now()
		r.write(60)
		r.commitAll()
		r.wait(time.Second)
		link := filepath.Join(t.TempDir(), "link.jsonl")
		if err := os.Symlink(r.path, link); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(r.path)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := Measure(link)
		if err != nil || kept.Files != 8 || kept.Size != r.totalSize()-info.Size() || kept.Oldest.Before(before) ||
			kept.Oldest.After(time.Now()) {
			t.Errorf("%+v, %v; the files have %d bytes", kept, err, r.totalSize())
		}
	})
	if _, err := Measure(filepath.Join(t.TempDir(), "none", "a.jsonl")); err == nil {
		t.Error("a folder that is missing is measured")
	}
}
