package follow

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/format/journal"
)

// following is a tail that runs beside the test.
type following struct {
	*sink
	cancel  context.CancelFunc
	ended   chan error
	mu      sync.Mutex
	notices []string
}

func follow(t *testing.T, path string, o Options) *following {
	t.Helper()
	return followAll(t, []string{path}, o)
}

func followAll(t *testing.T, paths []string, o Options) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{sink: newSink(), cancel: cancel, ended: make(chan error, 1)}
	o.Follow = true
	o.Notice = func(s string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notices = append(f.notices, s)
	}
	go func() { f.ended <- Files(ctx, paths, o, NewPrinter(f.sink, Style{JSON: true})) }()
	t.Cleanup(cancel)
	return f
}

func (f *following) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}

// writer is a daemon's journal, as far as a reader can tell.
type writer struct {
	t    *testing.T
	path string
	file *journal.File
	seq  int
}

func (w *writer) open() {
	w.t.Helper()
	f, err := journal.OpenFile(w.path, journal.Options{MaxSize: 6 << 10, Compress: true})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.ReadBack(journal.Mark{}, 0, false, func([]byte, uint64) error { return nil }); err != nil {
		w.t.Fatal(err)
	}
	w.file = f
}

// add writes n lines, which may rotate the file several times.
func (w *writer) add(n int) {
	w.t.Helper()
	b := []byte(numberedLines(w.seq+1, w.seq+n))
	for len(b) > 0 {
		k, err := w.file.Write(b)
		if err != nil {
			w.t.Fatal(err)
		}
		b = b[k:]
	}
	w.seq += n
}

// A tail shows each line once, whatever is done to the files, and by whom.
func TestFollow(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			testFollow(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func testFollow(t *testing.T, rng *rand.Rand) {
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "journal.jsonl")}
	w.open()
	w.add(1 + rng.IntN(60))
	f := follow(t, w.path, Options{Lines: All})
	f.until(t, w.seq)
	done := ""
	for range 60 {
		op := [...]string{"lines", "lines", "many", "commit", "wait", "rename", "create", "remove", "copytruncate", "restart", "torn"}[rng.IntN(11)]
		done += " " + op
		switch op {
		case "lines":
			w.add(1 + rng.IntN(5))
		case "many":
			w.add(100 + rng.IntN(100)) // some rotations
		case "commit":
			if err := w.file.Sync(); err != nil {
				t.Fatal(err)
			}
			w.file.Committed(uint64(w.seq)) // rotated files are compressed now
		case "wait":
			f.until(t, w.seq)
		case "rename", "create":
			if err := os.Rename(w.path, fmt.Sprintf("%s-20261120%06d", w.path, w.seq)); err != nil {
				t.Fatal(err)
			}
			if op == "create" {
				write(t, w.path, "")
			}
			w.add(1 + rng.IntN(3)) // it may not have noticed yet
			if err := w.file.Sync(); err != nil {
				t.Fatal(err)
			}
			w.add(1)
		case "remove":
			f.until(t, w.seq) // else lines go with the file, and must
			if err := os.Remove(w.path); err != nil {
				t.Fatal(err)
			}
			w.add(1 + rng.IntN(3))
			if err := w.file.Sync(); err != nil {
				t.Fatal(err)
			}
			w.add(1)
		case "copytruncate":
			b, err := os.ReadFile(w.path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, fmt.Sprintf("%s.%d", w.path, w.seq), string(b))
			if err := os.Truncate(w.path, 0); err != nil {
				t.Fatal(err)
			}
			w.add(1 + rng.IntN(3))
			if err := w.file.Sync(); err != nil {
				t.Fatal(err)
			}
			w.add(1)
		case "restart", "torn":
			if err := w.file.Close(); err != nil {
				t.Fatal(err)
			}
			if op == "torn" {
				a, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					t.Fatal(err)
				}
				torn := strings.Replace(numbered(w.seq+1), "web-", "lost-", 1)
				if _, err := a.WriteString(torn[:20+rng.IntN(len(torn)-20)]); err != nil {
					t.Fatal(err)
				}
				a.Close()
			}
			w.open()
			w.add(1)
		}
	}
	f.until(t, w.seq)
	f.stop(t)
	if err := w.file.Close(); err != nil {
		t.Fatal(err)
	}
	if got := f.seqs(t); !slices.Equal(got, count(1, w.seq)) {
		t.Errorf("after%s: %d lines shown of %d: %v", done, len(got), w.seq, got)
	}
	if text, _ := f.state(); text != numberedLines(1, w.seq) {
		t.Errorf("after%s: the lines are not those that were written", done)
	}
	for _, n := range f.notices {
		if !strings.Contains(n, "was truncated or rewritten") {
			t.Errorf("after%s: %s", done, n)
		}
	}
	if t.Failed() {
		t.Logf("lines that went with removed files: %v", missing(t, w.path, w.seq))
	}
}

// missing are the lines that no file has.
func missing(t *testing.T, path string, to int) (lost []int) {
	files, err := filepath.Glob(filepath.Dir(path) + "/*")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		in, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = in
		if strings.HasSuffix(f, ".gz") {
			if r, err = gzip.NewReader(in); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	for n := 1; n <= to; n++ {
		if !strings.Contains(all.String(), numbered(n)+"\n") {
			lost = append(lost, n)
		}
	}
	return lost
}

// What goes before it could be read is named.
func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	write(t, path, numberedLines(1, 5))
	f := follow(t, path, Options{Lines: All})
	f.until(t, 5)
	// Lines 6 to 9 stood in a file that came and went.
	next := path + ".new"
	write(t, next, numberedLines(10, 12))
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	f.until(t, 12)
	// A journal that starts over.
	again := strings.ReplaceAll(numberedLines(1, 2), "2026-11-20", "2026-11-21")
	write(t, next, again)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	f.untilText(t, again)
	f.stop(t)
	if got := f.seqs(t); !slices.Equal(got, append(append(count(1, 5), count(10, 12)...), 1, 2)) {
		t.Errorf("shown %v", got)
	}
	want := []string{
		"lines 6 to 9 are not in the journal's files any more",
		"the journal continues with line 1 after line 12: it was started over, or lines were taken back",
	}
	if !slices.Equal(f.notices, want) {
		t.Errorf("notices %q", f.notices)
	}
}

func (s *sink) untilText(t testing.TB, want string) {
	t.Helper()
	late := time.After(soon)
	for {
		text, more := s.state()
		if strings.HasSuffix(text, want) {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("never shown: %s", want)
		}
	}
}

// A line is shown when its end is there, and a reader that has gone is noticed while nothing comes.
func TestTornLineWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	write(t, path, numberedLines(1, 3))
	f := follow(t, path, Options{Lines: 1})
	f.until(t, 3)
	a, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	line := numbered(4) + "\n"
	for i := range len(line) - 1 {
		if _, err := a.WriteString(line[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := f.state(); text != numbered(3)+"\n" {
		t.Errorf("shown before its end: %q", text)
	}
	if _, err := a.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	f.until(t, 4)
	f.stop(t)

	gone := make(chan error, 1)
	go func() {
		gone <- Files(context.Background(), []string{path}, Options{Lines: 1, Follow: true, Gone: func() bool { return true }}, NewPrinter(newSink(), Style{}))
	}()
	select {
	case err := <-gone:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("waits for nobody")
	}
}

// What is followed begins where the answer ended, also if the active file was rotated, replaced or removed in between.
func TestHandover(t *testing.T) {
	for name, change := range map[string]func(path string){
		"nothing": func(string) {},
		"rotated": func(path string) {
			if err := os.Rename(path, strings.TrimSuffix(path, ".jsonl")+"-2026-11-20T15-00-20.000.jsonl"); err != nil {
				t.Fatal(err)
			}
			write(t, path, numberedLines(9, 12))
		},
		"copied and truncated": func(path string) {
			write(t, path+".1", numberedLines(1, 8))
			write(t, path, numberedLines(7, 12))
		},
		"removed": func(path string) {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		write(t, path, numberedLines(1, 5))
		j, err := archive.Open(path, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		ends, err := j.Ends(t.Context())
		j.Close()
		if err != nil || len(ends) != 1 {
			t.Fatal(ends, err)
		}
		write(t, path, numberedLines(1, 8))
		change(path)
		s := newSink()
		p := NewPrinter(s, Style{JSON: true})
		of := newTail(path, Options{Notice: func(text string) { t.Errorf("%s: %s", name, text) }}, p)
		if err = of.open(&ends[0]); err == nil {
			err = of.follow(t.Context())
		}
		of.close()
		_ = p.Flush()
		want := count(6, 12)
		switch name {
		case "nothing":
			want = count(6, 8)
		case "removed":
			want = nil // until there is another file
		}
		if got := s.seqs(t); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
