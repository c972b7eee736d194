package journal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/format/segment"
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

// A size is kept, but for a line that is longer.
func TestMaxSize(t *testing.T) {
	inBubble(t, Options{MaxSize: 300}, func(r *rig) {
		r.write(30)
		long := strings.Replace(numbered(31), `"type"`, `"pad":"`+strings.Repeat("p", 1000)+`","type"`, 1)
		for p := []byte(long + numbered(32)); len(p) > 0; {
			n, err := r.j.Write(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
		if n, err := r.j.Write(nil); n != 0 || err != nil {
			t.Errorf("a write of nothing: %d, %v", n, err)
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
		future := segment.NamesOf(r.path).Rotated(time.Now().Add(time.Hour))
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

// Nothing is added to a file that has its lasting name, also where the rename was reported as failed.
func TestRenameFailedPersisted(t *testing.T) {
	failing := true
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if failing && op.Kind == faultdisk.Rename {
			failing = false
			return faultdisk.FailPersisted
		}
		return faultdisk.None
	})
	most := int64(len(lines(1, 3)))
	inBubble(t, Options{MaxSize: most, Disk: d}, func(r *rig) {
		r.write(2)
		long := strings.Replace(numbered(3), "u", strings.Repeat("u", 100), 1)
		if n, err := r.j.Write([]byte(long)); n != 0 || err == nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		r.write(1) // which the file had room for
		if got := contentOf(t, r.path); got != numbered(3) {
			t.Errorf("the new file holds %s", outline(got))
		}
		r.holds(1, "map[journal.jsonl:1 rotated:1]")
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
