package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/disk"
	"kubejournal/test/faultdisk"
)

// rig is a journal in a bubble of testing/synctest, so that the time of names and
// of the tidier is the test's.
type rig struct {
	*keeper
	j    *File
	next uint64
}

func inBubble(t *testing.T, o Options, test func(*rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{keeper: &keeper{t: t, path: filepath.Join(dir, "journal.jsonl"), options: o}, next: 1}
		r.open()
		defer func() { r.j.Close() }()
		test(r)
	})
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.j, err = OpenFile(r.path, r.options); err != nil {
		r.t.Fatal(err)
	}
}

// write writes n lines.
func (r *rig) write(n uint64) {
	r.t.Helper()
	for p := []byte(lines(r.next, r.next+n-1)); len(p) > 0; {
		n, err := r.j.Write(p)
		if err != nil {
			r.t.Fatal(err)
		}
		p = p[n:]
	}
	r.next += n
}

func (r *rig) commitAll() {
	r.t.Helper()
	if err := r.commit(r.j, r.next-1); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
	synctest.Wait()
}

// holds checks all lines from first on, and the names of the files.
func (r *rig) holds(first uint64, names string) {
	r.t.Helper()
	if got := r.files(); got != lines(first, r.next-1) {
		r.t.Errorf("the files hold %s, want %d to %d", outline(got), first, r.next-1)
	}
	if got := r.names(); names != "" && got != names {
		r.t.Errorf("files are %s, want %s", got, names)
	}
}

func (r *rig) move(from, to string) {
	r.t.Helper()
	if err := os.Rename(filepath.Join(filepath.Dir(r.path), from), filepath.Join(filepath.Dir(r.path), to)); err != nil {
		r.t.Fatal(err)
	}
}

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

// While a file cannot be removed, none behind it is: what is left has no hole.
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
			t.Error("nobody is told")
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

// A size is kept, but for a line that is longer.
func TestMaxSize(t *testing.T) {
	inBubble(t, Options{MaxSize: 300}, func(r *rig) {
		r.write(30)
		long := strings.Replace(line(31), `"type"`, `"pad":"`+strings.Repeat("p", 1000)+`","type"`, 1)
		for p := []byte(long + line(32)); len(p) > 0; {
			n, err := r.j.Write(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
		entries, err := os.ReadDir(filepath.Dir(r.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			content := contentOf(t, filepath.Join(filepath.Dir(r.path), e.Name()))
			if len(content) > 300 && content != long {
				t.Errorf("%s has %d bytes", e.Name(), len(content))
			}
			if !strings.HasSuffix(content, "\n") {
				t.Errorf("%s ends within a line", e.Name())
			}
		}
	})
}

// Names rise with seq where the clock goes back, and where a second has many.
func TestNamesRise(t *testing.T) {
	inBubble(t, Options{MaxSize: 90}, func(r *rig) {
		future := namingOf(r.path).rotated(time.Now().Add(time.Hour))
		if err := os.WriteFile(filepath.Join(filepath.Dir(r.path), future), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.write(6)
		entries, err := os.ReadDir(filepath.Dir(r.path))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{
			".journal.jsonl.owner",
			"journal-2000-01-01T01-00-00.000.jsonl", "journal-2000-01-01T01-00-00.001.jsonl", "journal-2000-01-01T01-00-00.002.jsonl",
			"journal-2000-01-01T01-00-00.003.jsonl", "journal-2000-01-01T01-00-00.004.jsonl", "journal-2000-01-01T01-00-00.005.jsonl", "journal.jsonl",
		}
		if !slices.Equal(names, want) {
			t.Errorf("files are %q", names)
		}
	})
}

// What others do to the active file, at every point between lines written and
// committed: no line is lost that was not removed with it, none stands twice.
func TestTakenAway(t *testing.T) {
	for _, settled := range []bool{false, true} { // seen in its place after the last write
		for _, committed := range []bool{false, true} {
			name := fmt.Sprintf("settled %v, committed %v", settled, committed)
			prepare := func(r *rig) {
				r.write(20)
				if committed {
					r.commitAll()
				}
				if settled {
					r.wait(2 * checkEvery)
					r.write(1)
				}
			}
			after := func(r *rig) {
				r.wait(2 * checkEvery)
				r.write(5)
				r.commitAll()
				r.j.Close()
				r.open()
				if _, _, err := readBack(t, r.j, r.mark, r.seq); err != nil {
					t.Fatal(err)
				}
				r.write(5)
			}
			t.Run("renamed, "+name, func(t *testing.T) {
				inBubble(t, Options{MaxSize: 700}, func(r *rig) {
					prepare(r)
					r.move("journal.jsonl", "journal.jsonl.1")
					r.write(1) // not noticed yet: goes with it
					after(r)
					r.holds(1, "")
				})
			})
			t.Run("renamed and made anew, "+name, func(t *testing.T) {
				inBubble(t, Options{MaxSize: 700}, func(r *rig) {
					prepare(r)
					r.move("journal.jsonl", "journal.jsonl.1")
					if err := os.WriteFile(r.path, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					after(r)
					r.holds(1, "")
				})
			})
			t.Run("removed, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					r.wait(2 * checkEvery)
					r.write(1) // looks first: all before is known to stand there
					last := r.next
					if err := os.Remove(r.path); err != nil {
						t.Fatal(err)
					}
					r.write(1)
					after(r)
					r.holds(last-1, "map[journal.jsonl:1]")
				})
			})
			t.Run("truncated, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					r.wait(2 * checkEvery)
					r.write(1)
					first := r.next
					if err := os.Truncate(r.path, 0); err != nil {
						t.Fatal(err)
					}
					r.write(3) // far behind the end of the file
					after(r)
					r.holds(first, "map[journal.jsonl:1]")
				})
			})
			t.Run("truncated and quiet, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					first := r.next
					if err := os.Truncate(r.path, 0); err != nil {
						t.Fatal(err)
					}
					after(r)
					r.holds(first, "map[journal.jsonl:1]")
				})
			})
		}
	}
}

// Another's file in the active one's place is not touched; writing goes on when
// it is gone.
func TestPlaceTaken(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(3)
		r.move("journal.jsonl", "journal.jsonl.1")
		if err := os.WriteFile(r.path, []byte("mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.wait(time.Second)
		for range 3 {
			if n, err := r.j.Write([]byte(line(4))); n != 0 || err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if contentOf(t, r.path) != "mine\n" {
			t.Error("the other file was touched")
		}
		r.move("journal.jsonl", "mine.txt")
		r.write(2)
		if err := os.Remove(filepath.Join(filepath.Dir(r.path), "mine.txt")); err != nil {
			t.Fatal(err)
		}
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// A torn line in a file that is renamed or removed is completed: there, or in
// the new one.
func TestTakenAwayTorn(t *testing.T) {
	for what, take := range map[string]func(path string) error{
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"removed": os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			full := false
			d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
				switch {
				case full && op.Kind == faultdisk.Write && op.Size > 20:
					return faultdisk.Half
				case full:
					return faultdisk.Fail
				}
				return faultdisk.None
			})
			inBubble(t, Options{Disk: d}, func(r *rig) {
				r.write(3)
				r.wait(time.Second)
				r.write(1)
				full = true
				p := []byte(line(5))
				n, err := r.j.Write(p)
				if err == nil || n == 0 {
					t.Fatalf("Write = %d, %v", n, err)
				}
				if err := take(r.path); err != nil {
					t.Fatal(err)
				}
				r.wait(time.Second)
				p = p[n:]
				if n, err = r.j.Write(p); err == nil {
					t.Fatal("a full disk took a line")
				}
				full = false
				for p = p[n:]; len(p) > 0; p = p[n:] {
					if n, err = r.j.Write(p); err != nil {
						t.Fatal(err)
					}
				}
				r.next = 6
				r.wait(time.Second)
				r.write(2)
				r.commitAll()
				first := uint64(1)
				if what == "removed" {
					first = 4
				}
				r.holds(first, "")
			})
		})
	}
}

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

// A link leads to the file; its predecessors lie beside the file.
func TestSymbolicLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(filepath.Join(other, "real.jsonl"), filepath.Join(dir, "link.jsonl")); err != nil {
		t.Fatal(err)
	}
	j, err := OpenFile(filepath.Join(dir, "link.jsonl"), Options{MaxSize: 300})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for p := []byte(lines(1, 10)); len(p) > 0; {
		n, err := j.Write(p)
		if err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	rotated, err := filepath.Glob(filepath.Join(other, "real-*.jsonl"))
	if err != nil || len(rotated) != 3 {
		t.Errorf("rotated files: %v, %v", rotated, err)
	}
	if got := contentOf(t, filepath.Join(dir, "link.jsonl")); !strings.HasSuffix(lines(1, 10), got) || got == "" {
		t.Errorf("the link leads to %q", got)
	}
}

// A line whose write failed and was done all the same does not stay in a file
// that is renamed before it is written again.
func TestPersistedThenRenamed(t *testing.T) {
	strike := false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if strike && op.Kind == faultdisk.Write {
			strike = false
			return faultdisk.FailPersisted
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		r.write(2)
		strike = true
		if n, err := r.j.Write([]byte(line(3))); err == nil || n != 0 {
			t.Fatalf("Write = %d, %v", n, err)
		}
		r.move("journal.jsonl", "journal.jsonl.1")
		r.wait(2 * checkEvery)
		r.write(3)
		r.commitAll()
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// What a truncated file is to begin with is not forgotten when it cannot be
// written at once, and nothing is written before it.
func TestTruncatedAndFailing(t *testing.T) {
	failing := false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if failing && op.Kind == faultdisk.Write {
			return faultdisk.Fail
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		r.write(20)
		r.commitAll()
		if err := os.Truncate(r.path, 0); err != nil {
			t.Fatal(err)
		}
		r.write(2) // not noticed yet
		failing = true
		for range 2 {
			if err := r.j.Sync(); !errors.Is(err, faultdisk.ErrInjected) {
				t.Fatalf("Sync = %v", err)
			}
		}
		if n, err := r.j.Write([]byte(line(23))); n != 0 || err == nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		failing = false
		r.commitAll()
		r.write(2)
		r.holds(21, "map[journal.jsonl:1]")
	})
}

// A file that is cut within a line goes on with a whole one.
func TestCutShort(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(5)
		r.commitAll() // looks: what comes now has not been seen in its place
		r.write(3)
		if err := os.Truncate(r.path, r.j.Mark().Offset-int64(len(line(8)))-20); err != nil {
			t.Fatal(err)
		}
		r.wait(2 * checkEvery)
		r.write(2)
		// The one line that stood there as a whole, and the new ones.
		if got, want := r.files(), line(6)+lines(9, 10); got != want {
			t.Errorf("the file holds %s, want %s", outline(got), outline(want))
		}
	})
}

// A rename by others while the tail is read back is left to the first Write.
func TestRenamedInReadBack(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(6)
		r.j.Close()
		r.open()
		tail, err := r.j.ReadBack(Mark{}, 0, true, func(_ []byte, n uint64) error {
			if n == 2 {
				r.move("journal.jsonl", "journal.jsonl.1")
			}
			return r.j.Sync() // as Recover does on its way
		})
		if err != nil || tail != (Tail{}) || r.j.Mark() != (Mark{FirstSeq: 1, Offset: int64(len(lines(1, 6)))}) {
			t.Fatalf("ReadBack = %+v, %v, the mark is %+v", tail, err, r.j.Mark())
		}
		r.wait(2 * checkEvery)
		r.write(2)
		r.commitAll()
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// heldDisk holds up the first sync of a file until release is closed, and lets it
// fail then: the system tells of a failure once.
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
		first, next := lines(1, 2), line(3)+line(4)
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
