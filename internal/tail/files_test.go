package tail

import (
	"bytes"
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

	"kubejournal/internal/journal"
)

var start = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)

// numbered returns the line seq, received seq seconds after start; every third is about a deployment.
func numbered(seq int) string {
	resource, kind := "pods", "Pod"
	if seq%3 == 0 {
		resource, kind = "deployments", "Deployment"
	}
	return fmt.Sprintf(`{"seq":%d,"time":%q,"type":"ADDED","origin":"watch","id":"u-%d/%d/ADDED","stream":%q,"version":"v1","resource":%q,"kind":%q,"namespace":"shop","name":"web-%d","object":{"metadata":{"name":"web-%d"},"pad":%q}}`,
		seq, start.Add(time.Duration(seq)*time.Second).Format("2006-01-02T15:04:05.000000000Z"), seq, seq, resource, resource, kind, seq, seq, strings.Repeat("x", seq%50))
}

func numberedLines(from, to int) string {
	var b strings.Builder
	for seq := from; seq <= to; seq++ {
		b.WriteString(numbered(seq) + "\n")
	}
	return b.String()
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func zip(t testing.TB, path, content string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.String())
}

// sink takes what a Printer writes. Tests wait for lines to be there.
type sink struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // closed at the next Write
}

func newSink() *sink { return &sink{more: make(chan struct{})} }

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	close(s.more)
	s.more = make(chan struct{})
	return len(b), nil
}

func (s *sink) state() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text), s.more
}

// seqs are those of the JSON lines that were shown.
func (s *sink) seqs(t testing.TB) []int {
	t.Helper()
	text, _ := s.state()
	var all []int
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, `{"seq":`)
		n, err := strconv.Atoi(rest[:max(strings.IndexByte(rest, ','), 0)])
		if !ok || err != nil {
			t.Fatalf("shown: %q", line)
		}
		all = append(all, n)
	}
	return all
}

// soon is how long a condition may take to come true on a machine under load.
const soon = time.Minute

// until waits for the line seq to be shown.
func (s *sink) until(t testing.TB, seq int) {
	t.Helper()
	late := time.After(soon)
	for {
		text, more := s.state()
		if strings.Contains(text, fmt.Sprintf(`{"seq":%d,`, seq)) {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("line %d was never shown; shown are %v", seq, s.seqs(t))
		}
	}
}

func count(from, to int) []int {
	var all []int
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// layout makes a journal of lines 1 to 100: two compressed files, one that logrotate renamed, one plain and the active
// one, which begins at 81. A torn line stands at the end.
func layout(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.jsonl")
	dir := filepath.Dir(path)
	zip(t, filepath.Join(dir, "journal-2026-11-20T15-00-20.000.jsonl.gz"), numberedLines(1, 20))
	zip(t, filepath.Join(dir, "journal-2026-11-20T15-00-40.000.jsonl.gz"), numberedLines(21, 40))
	write(t, path+".1", numberedLines(41, 60))
	write(t, filepath.Join(dir, "journal-2026-11-20T15-01-20.000.jsonl"), numberedLines(61, 80))
	write(t, filepath.Join(dir, "journal-eu.jsonl"), numberedLines(500, 510))
	write(t, path, numberedLines(81, 100)+numbered(101)[:60])
	return path
}

func shownOf(t *testing.T, path string, o Options) ([]int, []string) {
	t.Helper()
	var notices []string
	o.Notice = func(s string) { notices = append(notices, s) }
	s := newSink()
	if err := File(context.Background(), path, o, NewPrinter(s, Style{JSON: true})); err != nil {
		t.Fatal(err)
	}
	return s.seqs(t), notices
}

func TestLastLines(t *testing.T) {
	path := layout(t)
	for _, n := range []int{0, 1, 5, 19, 20, 21, 40, 41, 59, 60, 61, 75, 80, 81, 99, 100, 101, 1000, All} {
		want := count(max(1, 101-n), 100)
		if n == All {
			want = count(1, 100)
		}
		if got, notices := shownOf(t, path, Options{Lines: n}); !slices.Equal(got, want) || notices != nil {
			t.Errorf("last %d: %v %v", n, got, notices)
		}
	}
	deploy, err := ParseResource("deploy")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for n := 3; n <= 100; n += 3 {
		all = append(all, n)
	}
	for _, n := range []int{0, 1, 7, 8, 20, 33, 34, All} {
		want := all[min(len(all), max(0, len(all)-n)):]
		if n == All {
			want = all
		}
		if got, _ := shownOf(t, path, Options{Lines: n, Filter: Filter{Resources: []Resource{deploy}}}); !slices.Equal(got, want) {
			t.Errorf("last %d deployments: %v", n, got)
		}
	}
	if got, _ := shownOf(t, path, Options{Lines: 5, Filter: Filter{Types: []string{"GAP"}}}); len(got) > 0 {
		t.Errorf("no line is a GAP: %v", got)
	}
}

func TestSince(t *testing.T) {
	path := layout(t)
	for _, first := range []int{0, 1, 2, 20, 21, 35, 40, 41, 55, 61, 80, 81, 90, 100, 101, 500} {
		f := Filter{Since: start.Add(time.Duration(first) * time.Second)}
		if got, _ := shownOf(t, path, Options{Lines: All, Filter: f}); !slices.Equal(got, count(max(1, first), 100)) {
			t.Errorf("since line %d: %v", first, got)
		}
		if got, _ := shownOf(t, path, Options{Lines: 7, Filter: f}); !slices.Equal(got, count(max(1, first, 94), 100)) {
			t.Errorf("the last 7 since line %d: %v", first, got)
		}
	}
}

func TestOddFiles(t *testing.T) {
	path := layout(t)
	dir := filepath.Dir(path)
	file := func(name string) string { return filepath.Join(dir, name) }
	// Named itself, a rotated file is shown alone, and nobody waits for more.
	for name, want := range map[string][]int{
		"journal-2026-11-20T15-00-40.000.jsonl.gz": count(31, 40), "journal-2026-11-20T15-01-20.000.jsonl": count(71, 80),
	} {
		if got, _ := shownOf(t, file(name), Options{Lines: 10, Follow: true}); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A link: the rotated files are where it leads.
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if got, _ := shownOf(t, link, Options{Lines: 30}); !slices.Equal(got, count(71, 100)) {
		t.Errorf("by a link: %v", got)
	}
	// The active one is not there, between two steps of a rotation.
	if err := os.Rename(path, file("journal-2026-11-20T15-01-41.000.jsonl")); err != nil {
		t.Fatal(err)
	}
	if got, _ := shownOf(t, path, Options{Lines: 30}); !slices.Equal(got, count(71, 100)) {
		t.Errorf("without an active file: %v", got)
	}
	// A damaged file is named, and the others are shown.
	b, err := os.ReadFile(file("journal-2026-11-20T15-00-40.000.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, file("journal-2026-11-20T15-00-40.000.jsonl.gz"), string(b[:len(b)-len(b)/3]))
	got, notices := shownOf(t, path, Options{Lines: All})
	if len(notices) != 2 || !strings.Contains(notices[0], "15-00-40.000.jsonl.gz cannot be read to its end") || !strings.Contains(notices[1], "lines ") {
		t.Errorf("notices %q", notices)
	}
	if !slices.Equal(got[:21], count(1, 21)) || !slices.Equal(got[len(got)-60:], count(41, 100)) {
		t.Errorf("with a damaged file: %v", got)
	}
	for name, want := range map[string]string{
		file("none.jsonl"): "open journal " + file("none.jsonl") + ": no such file", dir: "open journal " + dir + ": is a directory; name the file in it",
	} {
		if err := File(context.Background(), name, Options{}, NewPrinter(newSink(), Style{})); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEmptyAndForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	write(t, path, "")
	for _, n := range []int{0, 5, All} {
		if got, _ := shownOf(t, path, Options{Lines: n}); got != nil {
			t.Errorf("empty file: %v", got)
		}
	}
	long := strings.Repeat("y", 1<<20)
	write(t, path, "first\n"+long+"\n"+numbered(5)+"\n\nlast\nno end")
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 4, 5: 5, 9: 5} {
		s := newSink()
		if err := File(context.Background(), path, Options{Lines: n}, NewPrinter(s, Style{Location: time.UTC})); err != nil {
			t.Fatal(err)
		}
		text, _ := s.state()
		if got := strings.Count(text, "BAD") + strings.Count(text, "ADDED"); got != want {
			t.Errorf("last %d: %d lines:\n%s", n, got, text)
		}
		if len(text) > 10*maxBad {
			t.Errorf("last %d: %d bytes", n, len(text))
		}
	}
}

func TestStream(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(numberedLines(1, 100))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{numberedLines(1, 100), strings.TrimSuffix(numberedLines(1, 100), "\n"), zipped.String()} {
		for _, n := range []int{0, 1, 10, 100, 1000, All} {
			s := newSink()
			if err := Stream(context.Background(), strings.NewReader(in), Options{Lines: n}, NewPrinter(s, Style{JSON: true})); err != nil {
				t.Fatal(err)
			}
			want := count(max(1, 101-n), 100)
			if n == All {
				want = count(1, 100)
			}
			if got := s.seqs(t); !slices.Equal(got, want) {
				t.Errorf("last %d: %v", n, got)
			}
		}
	}
}

// A pipe's lines are shown as they come, and the end of ctx is the end.
func TestStreamWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	s, ended := newSink(), make(chan error, 1)
	go func() { ended <- Stream(ctx, r, Options{Lines: All}, NewPrinter(s, Style{JSON: true})) }()
	for i := 1; i <= 20; i++ {
		if _, err := w.WriteString(numbered(i) + "\n" + numbered(i + 1)[:20]); err != nil {
			t.Fatal(err)
		}
		s.until(t, i)
		if _, err := w.WriteString(numbered(i + 1)[20:] + "\n"); err != nil {
			t.Fatal(err)
		}
		i++
		s.until(t, i)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.Close()
}

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
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{sink: newSink(), cancel: cancel, ended: make(chan error, 1)}
	o.Follow = true
	o.Notice = func(s string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notices = append(f.notices, s)
	}
	go func() { f.ended <- File(ctx, path, o, NewPrinter(f.sink, Style{JSON: true})) }()
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
	for seed := range uint64(12) {
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
		if !strings.Contains(n, "was truncated or written anew") {
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
	// A journal that begins anew.
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
		"the journal goes on with line 1 behind line 12: it was begun anew, or lines were taken back",
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
		gone <- File(context.Background(), path, Options{Lines: 1, Follow: true, Gone: func() bool { return true }}, NewPrinter(newSink(), Style{}))
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

// A line may be long, and as deep as the writer makes any, read forwards and backwards.
func TestLongLine(t *testing.T) {
	const longest = 1<<20 + 17 // longer than any buffer
	with := func(n int, members string) string { return strings.TrimSuffix(numbered(n), "}") + members + "}\n" }
	long := func(n int) string {
		return with(n, `,"a":"`+strings.Repeat("x", longest-len(with(n, `,"a":""`)))+`"`)
	}
	levels := 9_997
	deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	write(t, path, numbered(1)+"\n"+long(2)+numbered(3)+"\n"+with(4, `,"changes":[{"op":"replace","path":"","old":`+deep+`,"value":`+deep+`}]`)+long(5))
	for _, lines := range []int{All, 5, 4, 1} {
		got, notices := shownOf(t, path, Options{Lines: lines})
		want := count(1, 5)
		if lines != All {
			want = want[5-lines:]
		}
		if !slices.Equal(got, want) || notices != nil {
			t.Errorf("%d lines: %v %v", lines, got, notices)
		}
	}
}
