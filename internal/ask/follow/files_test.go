package follow

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
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
	if err := Files(context.Background(), []string{path}, o, NewPrinter(s, Style{JSON: true})); err != nil {
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
	var all []int
	for n := 3; n <= 100; n += 3 {
		all = append(all, n)
	}
	for _, n := range []int{0, 1, 7, 8, 20, 33, 34, All} {
		want := all[min(len(all), max(0, len(all)-n)):]
		if n == All {
			want = all
		}
		if got, _ := shownOf(t, path, Options{Lines: n, Filter: argument.Filter{Selection: argument.Selection{Objects: objects(t, "deploy")}}}); !slices.Equal(got, want) {
			t.Errorf("last %d deployments: %v", n, got)
		}
	}
	if got, _ := shownOf(t, path, Options{Lines: 5, Filter: argument.Filter{Types: []string{"GAP"}}}); len(got) > 0 {
		t.Errorf("no line is a GAP: %v", got)
	}
}

func TestSince(t *testing.T) {
	path := layout(t)
	for _, first := range []int{0, 1, 2, 20, 21, 35, 40, 41, 55, 61, 80, 81, 90, 100, 101, 500} {
		f := argument.Filter{Since: argument.Moment{Time: start.Add(time.Duration(first) * time.Second)}}
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
		if err := Files(context.Background(), []string{name}, Options{}, NewPrinter(newSink(), Style{})); err == nil || err.Error() != want {
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
		if err := Files(context.Background(), []string{path}, Options{Lines: n}, NewPrinter(s, Style{})); err != nil {
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
