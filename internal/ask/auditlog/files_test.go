package auditlog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// logger writes an audit log as servers and logrotate do.
type logger struct {
	t       *testing.T
	rand    *rand.Rand
	dir     string
	n       int
	rotated []string // plain ones
	torn    string   // of the event that is being written
	look    func()   // reads
}

func (l *logger) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *logger) path() string { return filepath.Join(l.dir, "audit.log") }

func (l *logger) append(text string) {
	l.t.Helper()
	f, err := os.OpenFile(l.path(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	l.check(err)
	_, err = f.WriteString(text)
	l.check(err)
	l.check(f.Close())
}

func event(n int) string {
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"id-%d","stageTimestamp":%q,"verb":"get"}`, n, at.Format(time.RFC3339Nano)) + "\n"
}

// step does one thing. A file is rotated between events, as the server does.
func (l *logger) step() {
	l.t.Helper()
	if l.torn != "" {
		l.append(l.torn)
		l.torn = ""
		return
	}
	switch l.rand.IntN(12) {
	default:
		text := event(l.n)
		l.n++
		if cut := l.rand.IntN(2 * len(text)); cut < len(text) {
			text, l.torn = text[:cut], text[cut:]
		}
		l.append(text)
	case 0, 1:
		if _, err := os.Stat(l.path()); err != nil {
			return
		}
		to := filepath.Join(l.dir, fmt.Sprintf("audit-2026-11-20T14-00-00.%06d.log", l.n))
		l.check(os.Rename(l.path(), to))
		l.rotated = append(l.rotated, to)
	case 2:
		if len(l.rotated) == 0 {
			return
		}
		path := l.rotated[0]
		content, err := os.ReadFile(path)
		l.check(err)
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err = z.Write(content)
		l.check(err)
		l.check(z.Close())
		half := l.rand.IntN(out.Len())
		l.check(os.WriteFile(path+".gz", out.Bytes()[:half], 0o600))
		if l.rand.IntN(2) == 0 {
			l.look() // while it is being compressed
		}
		l.check(os.WriteFile(path+".gz", out.Bytes(), 0o600))
		l.check(os.Remove(path))
		l.rotated = l.rotated[1:]
	case 3: // logrotate with copytruncate
		content, err := os.ReadFile(l.path())
		if err != nil || len(content) == 0 {
			return
		}
		l.check(os.WriteFile(filepath.Join(l.dir, fmt.Sprintf("audit.log.%06d", l.n)), content, 0o600))
		l.check(os.Truncate(l.path(), 0))
		l.append(event(l.n)) // it begins otherwise
		l.n++
	}
}

// reading collects the ids that are read.
type reading struct {
	files
	ids   map[string]int
	bytes int
}

func (r *reading) round(t *testing.T, dir string) {
	t.Helper()
	if err := r.look([]string{filepath.Join(dir, "audit*.log*")}, time.Now()); err != nil && !strings.Contains(err.Error(), ".gz") {
		t.Fatal(err)
	}
	for f := r.next(); f != nil; f = r.next() {
		lines, err := r.read(f)
		if err != nil {
			if !strings.Contains(err.Error(), ".gz") {
				t.Fatal(err)
			}
			continue
		}
		r.bytes += len(lines)
		for line := range bytes.Lines(lines) {
			var e struct{ AuditID string }
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v: %q", f.path, err, line)
			}
			r.ids[e.AuditID]++
		}
	}
}

// TestRotation reads a log that is rotated, compressed, copied and cut off: each event is read, and few twice.
func TestRotation(t *testing.T) {
	for seed := range uint64(40) {
		l := &logger{t: t, rand: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir()}
		r := &reading{ids: make(map[string]int)}
		l.look = func() { r.round(t, l.dir) }
		for range 300 {
			l.step()
			if l.rand.IntN(4) == 0 {
				r.round(t, l.dir)
			}
			if l.rand.IntN(100) == 0 { // killed
				for _, f := range r.all {
					f.close()
				}
				r.files = files{}
			}
		}
		l.append(l.torn)
		r.round(t, l.dir)
		r.round(t, l.dir)
		for n := range l.n {
			if r.ids[fmt.Sprintf("id-%d", n)] == 0 {
				t.Errorf("seed %d: event %d of %d was not read", seed, n, l.n)
			}
		}
		for _, f := range r.all {
			f.close()
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// TestReadOnce reads what is new alone, and in the order of time.
func TestReadOnce(t *testing.T) {
	l := &logger{t: t, rand: rand.New(rand.NewPCG(1, 1)), dir: t.TempDir()}
	for part := range 3 {
		for range 100 {
			l.append(event(l.n))
			l.n++
		}
		l.check(os.Rename(l.path(), filepath.Join(l.dir, fmt.Sprintf("audit-%d.log", 9-part)))) // names say nothing
	}
	r := &reading{ids: make(map[string]int)}
	if err := r.look([]string{filepath.Join(l.dir, "audit*.log*")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	var order []string
	for f := r.next(); f != nil; f = r.next() {
		order = append(order, filepath.Base(f.path))
		if _, err := r.read(f); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"audit-9.log", "audit-8.log", "audit-7.log"}; !slices.Equal(order, want) {
		t.Errorf("read %v", order)
	}
	r.round(t, l.dir)
	r.bytes = 0
	l.append(event(l.n))
	r.round(t, l.dir)
	l.check(os.Rename(l.path(), filepath.Join(l.dir, "audit-1.log")))
	r.round(t, l.dir)
	if r.bytes != len(event(l.n)) {
		t.Errorf("%d bytes were read, not %d", r.bytes, len(event(l.n)))
	}
	// a file with no name that is followed is read to its end
	l.append(event(l.n + 1))
	r.round(t, l.dir)
	l.append(event(l.n + 2))
	l.check(os.Rename(l.path(), filepath.Join(l.dir, "other")))
	r.round(t, l.dir)
	if r.ids[fmt.Sprintf("id-%d", l.n+2)] != 1 {
		t.Error("the end of a file was not read")
	}
	r.round(t, l.dir)
	for _, f := range r.all {
		if f.f != nil && f.gone {
			t.Errorf("%s is still open", f.path)
		}
		f.close()
	}
}

// TestLongLine passes over a line that is too long, and no other.
func TestLongLine(t *testing.T) {
	defer func(was int) { maxLine = was }(maxLine)
	maxLine = chunkSize
	l := &logger{t: t, dir: t.TempDir()}
	l.append(event(0) + `{"auditID":"` + strings.Repeat("x", 3*chunkSize) + "\"}\n" + event(1))
	r := &reading{ids: make(map[string]int)}
	r.round(t, l.dir)
	if r.ids["id-0"] != 1 || r.ids["id-1"] != 1 || len(r.ids) != 2 {
		t.Errorf("%d were read", len(r.ids))
	}
	for _, f := range r.all {
		f.close()
	}
}
