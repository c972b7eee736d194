package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// pair is two processes on one journal whose lock does nothing, with the checkpoint
// that they share.
type pair struct {
	t         *testing.T
	path      string
	mark      Mark
	seq       uint64
	committed map[uint64]string // lines
}

// process is one of them. A line of its has its own content.
type process struct {
	*pair
	name    string
	padding int
	script  []func() error

	file    *File
	from    Mark // what the checkpoint said at its start
	fromSeq uint64
	last    uint64            // seq
	pending map[uint64]string // lines that a commit would count
	err     error             // what stopped it
}

func (p *pair) process(name string, padding int) *process {
	r := &process{pair: p, name: name, padding: padding, pending: make(map[uint64]string)}
	r.script = []func() error{r.open, r.readBack, r.write, r.verify, r.commit}
	return r
}

func (p *process) open() (err error) {
	p.from, p.fromSeq = p.mark, p.seq
	p.file, err = OpenFile(p.path, Options{Disk: faultdisk.WithoutLocks(faultdisk.New(nil))})
	return err
}

func (p *process) readBack() error {
	p.last = p.fromSeq
	_, err := p.file.ReadBack(p.from, p.fromSeq, true, func(line []byte, seq uint64) error {
		if line[len(line)-1] != '}' {
			return ErrBadLine
		}
		p.last, p.pending[seq] = seq, string(line)+"\n"
		return nil
	})
	return err
}

func (p *process) write() error {
	for range 2 {
		p.last++
		l := fmt.Sprintf(`{"seq":%d,"by":"%s%s"}`, p.last, p.name, strings.Repeat(p.name, p.padding)) + "\n"
		p.pending[p.last] = l
		if n, err := p.file.Write([]byte(l)); err != nil || n != len(l) {
			return err
		}
	}
	return nil
}

func (p *process) verify() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	return p.file.Verify()
}

// commit counts lines, which all must stand in the file.
func (p *process) commit() error {
	p.mark, p.seq = p.file.Mark(), p.last
	content := contentOf(p.t, p.path)
	for seq, l := range p.pending {
		if !strings.HasPrefix(content, l) && !strings.Contains(content, "\n"+l) {
			p.t.Errorf("%s commits line %d, which is not in the file", p.name, seq)
		}
		p.committed[seq] = l
	}
	clear(p.pending)
	return nil
}

// step does the next step of the script and reports whether there was one.
func (p *process) step() bool {
	if len(p.script) == 0 || p.err != nil {
		return false
	}
	p.err = p.script[0]()
	p.script = p.script[1:]
	return true
}

// orders calls f with each order of a steps of one process and b of the other.
func orders(a, b int, f func(order []int)) {
	var order []int
	var next func(a, b int)
	next = func(a, b int) {
		if a+b == 0 {
			f(order)
			return
		}
		for i, left := range []int{a, b} {
			if left > 0 {
				order = append(order, i)
				next(a-(1-i), b-i)
				order = order[:len(order)-1]
			}
		}
	}
	next(a, b)
}

// TestTwoProcesses lets two processes append to one journal that no lock keeps them from, in every order
// of their steps. Nothing is committed that is not there, nothing that is committed
// is lost, and the one that opened it first stops as soon as it would commit.
func TestTwoProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		padding int // of the second process's lines; the first one's have 20
		pause   time.Duration
		torn    string
	}{
		{padding: 0},
		{padding: 70, torn: `{"seq":3,`},
		{padding: 0, torn: `{"seq":3,"by":"somebody killed in the middle of a very long line`, pause: 2 * checkEvery},
	} {
		stopped, n := 0, 0
		orders(8, 5, func(order []int) {
			n++
			synctest.Test(t, func(t *testing.T) {
				first := &pair{t: t, path: filepath.Join(dir, fmt.Sprintf("%d-%d.jsonl", c.padding, n)), committed: make(map[uint64]string)}
				before := lines(1, 2)
				if err := os.WriteFile(first.path, []byte(before+c.torn), 0o640); err != nil {
					t.Fatal(err)
				}
				first.mark, first.seq = Mark{FirstSeq: 1, Offset: int64(len(before))}, 2
				defer func() { // a folder that grows would make each look at it slower
					if err := os.Remove(first.path); err != nil {
						t.Error(err)
					}
				}()
				both := []*process{first.process("a", 20), first.process("b", c.padding)}
				both[0].script = append(both[0].script, both[0].write, both[0].verify, both[0].commit)
				var opened []int
				for _, i := range order {
					p, left := both[i], len(both[i].script)
					if p.file == nil {
						opened = append(opened, i)
					}
					verifies := left == 2 || left == 5 && i == 0
					if p.step() && verifies && len(opened) == 2 && i == opened[0] && !errors.Is(p.err, disk.ErrTakenOver) {
						t.Errorf("%s goes on: %v", p.name, p.err)
					}
					time.Sleep(c.pause) //nolint:forbidigo // the time of a synctest bubble
				}
				content := contentOf(t, first.path)
				for seq, l := range first.committed {
					if !strings.Contains(content, l) {
						t.Errorf("committed line %d is lost", seq)
					}
				}
				for _, p := range both {
					if p.err != nil {
						stopped++
					}
					if p.err != nil && !errors.Is(p.err, disk.ErrTakenOver) {
						t.Errorf("%s: %v", p.name, p.err)
					}
					if p.file != nil {
						p.file.Close()
					}
				}
				if !strings.HasPrefix(content, before) {
					t.Error("what was committed before is lost")
				}
				if t.Failed() {
					t.Fatalf("padding %d, pause %s, order %v, file:\n%s", c.padding, c.pause, order, content)
				}
				// The next start finds a journal that continues from the last commit.
				next := first.process("c", 0)
				next.script = append(next.script, next.verify)
				for next.step() {
				}
				if next.err != nil {
					t.Errorf("the start after them, order %v: %v", order, next.err)
				}
				next.file.Close()
				want := uint64(1)
				for l := range strings.Lines(contentOf(t, first.path)) {
					if seq, ok := segment.SeqOf([]byte(l)); !ok || seq != want {
						t.Fatalf("order %v: line %d is %q", order, want, l)
					}
					want++
				}
			})
		})
		t.Logf("padding %d, pause %s: %d orders, %d processes stopped", c.padding, c.pause, n, stopped)
	}
}

// An owner file that a crash has left, that was removed, or that cannot be written,
// blocks nobody.
func TestOwnerFile(t *testing.T) {
	whole := func(t *testing.T, j *File) {
		t.Helper()
		if _, err := j.Write([]byte(numbered(1))); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.Sync(), j.Verify()); err != nil {
			t.Error(err)
		}
	}
	t.Run("of a process that was killed", func(t *testing.T) {
		path := fileWith(t, "")
		if err := os.WriteFile(disk.OwnerPath(path), []byte("SOMEBODY-ELSE-OF-LONG-AGO-AND-MORE\n"), 0o640); err != nil {
			t.Fatal(err)
		}
		whole(t, mustOpen(t, path))
	})
	t.Run("of a process that has ended", func(t *testing.T) {
		path := fileWith(t, "")
		j := mustOpen(t, path)
		whole(t, j)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(disk.OwnerPath(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the owner file is still there: %v", err)
		}
	})
	t.Run("of a file that is refused", func(t *testing.T) {
		path := fileWith(t, "no journal")
		if _, err := OpenFile(path, Options{}); !errors.Is(err, ErrNotJournal) {
			t.Fatal(err)
		}
		if _, err := os.Stat(disk.OwnerPath(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the owner file is still there: %v", err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		path := fileWith(t, "")
		j := mustOpen(t, path)
		if err := os.Remove(disk.OwnerPath(path)); err != nil {
			t.Fatal(err)
		}
		whole(t, j)
		if err := os.WriteFile(disk.OwnerPath(path), []byte("ANOTHER\n"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := j.Verify(); !errors.Is(err, disk.ErrTakenOver) {
			t.Errorf("Verify = %v", err)
		}
	})
	for _, fault := range []faultdisk.Fault{faultdisk.Fail, faultdisk.FailPersisted, faultdisk.Half} {
		for _, stale := range []string{"", "SOMEBODY-ELSE-OF-LONG-AGO-AND-MORE\n"} {
			t.Run(fmt.Sprintf("%s, stale %t", fault, stale != ""), func(t *testing.T) {
				path := fileWith(t, "")
				if stale != "" {
					if err := os.WriteFile(disk.OwnerPath(path), []byte(stale), 0o640); err != nil {
						t.Fatal(err)
					}
				}
				full := true
				d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
					if full && op.Path == disk.OwnerPath(path) {
						return fault
					}
					return faultdisk.None
				})
				j, err := OpenFile(path, Options{Disk: d})
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				whole(t, j)
				full = false
				if err := j.Verify(); err != nil {
					t.Error(err)
				}
				other, err := OpenFile(path, Options{Disk: faultdisk.WithoutLocks(faultdisk.New(nil))})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				if err := j.Verify(); !errors.Is(err, disk.ErrTakenOver) {
					t.Errorf("Verify = %v", err)
				}
			})
		}
	}
}

// What another process does to the file's end shows, also where it leaves no owner file.
func TestVerify(t *testing.T) {
	for what, c := range map[string]struct {
		late bool // so that only the end is read, though another process had the file
		do   func(f *os.File, size int64) error
		want error
	}{
		"nothing":        {do: func(*os.File, int64) error { return nil }},
		"nothing, later": {late: true, do: func(*os.File, int64) error { return nil }},
		"over our lines": {want: disk.ErrTakenOver, do: func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte("other"), size-300)
			return err
		}},
		"over our end, later": {late: true, want: disk.ErrTakenOver, do: func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte("other"), size-6)
			return err
		}},
		"behind our end, later": {late: true, want: disk.ErrTakenOver, do: func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte("other"), size)
			return err
		}},
		"truncated": {do: func(f *os.File, _ int64) error { return f.Truncate(0) }, want: errors.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, Options{}, func(r *rig) {
				r.j.Close()
				if err := os.WriteFile(disk.OwnerPath(r.path), []byte("another\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				r.open()
				r.write(3)
				if c.late {
					r.wait(suspectFor)
					r.commitAll()
				}
				r.write(10)
				f, err := os.OpenFile(r.path, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := c.do(f, r.j.Mark().Offset); err != nil {
					t.Fatal(err)
				}
				err = r.j.Verify()
				switch {
				case c.want == errors.ErrUnsupported: // any error that is tried again
					if err == nil || errors.Is(err, disk.ErrTakenOver) {
						t.Errorf("Verify = %v", err)
					}
				case !errors.Is(err, c.want):
					t.Errorf("Verify = %v, want %v", err, c.want)
				}
			})
		})
	}
}

// What a write that has failed left behind the file's end is not taken for another process's.
func TestVerifyBehindFailedWrite(t *testing.T) {
	failing := false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if failing && op.Kind == faultdisk.Write {
			return faultdisk.FailPersisted
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		r.write(2)
		failing = true
		if n, err := r.j.Write([]byte(numbered(3))); n != 0 || err == nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		failing = false
		if err := errors.Join(r.j.Sync(), r.j.Verify()); err != nil {
			t.Error(err)
		}
		r.write(1)
		r.commitAll()
		r.holds(1, "map[journal.jsonl:1]")
	})
}

// The owner file is beside the journal, and is listed as no file of it.
func TestOwnerFileIsNotListed(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, filepath.Join(dir, "journal.jsonl"))
	if _, err := j.Write([]byte(numbered(1))); err != nil {
		t.Fatal(err)
	}
	if all, err := segment.List(j.Path()); err != nil || len(all) != 1 || !all[0].Active {
		t.Errorf("Segments = %+v, %v", all, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == ".journal.jsonl.owner" }) {
		t.Errorf("%v, %v", entries, err)
	}
}

// A name that is fine for the file is too long for its owner file: nothing is found out, and nothing is held up.
func TestOwnerOfALongName(t *testing.T) {
	f, err := OpenFile(filepath.Join(t.TempDir(), strings.Repeat("j", 252)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte(`{"seq":1,"a":1}` + "\n")); err != nil {
		t.Error(err)
	}
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
}
