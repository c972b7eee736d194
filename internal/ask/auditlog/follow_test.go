package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/segment"
)

// busy writes the log of a server, of which one event in three is of a write, and the journal of these.
type busy struct {
	t        testing.TB
	log      *os.File
	journal  *os.File
	n, lines int
}

func newBusy(t testing.TB) (b *busy, dir string) {
	t.Helper()
	dir = t.TempDir()
	b = &busy{t: t}
	var err error
	if b.log, err = os.Create(filepath.Join(dir, "audit.log")); err != nil {
		t.Fatal(err)
	}
	if b.journal, err = os.Create(filepath.Join(dir, "journal.jsonl")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.log.Close()
		_ = b.journal.Close()
	})
	return b, dir
}

const filler = 1200 // bytes of an object in a log

// second writes what happens in a second, and returns how many bytes the log has more.
func (b *busy) second(at time.Time, events int) int {
	var log, journal bytes.Buffer
	for i := range events {
		b.n++
		when := at.Add(time.Duration(i) * time.Second / time.Duration(events))
		text := when.UTC().Format("2006-01-02T15:04:05.000000Z")
		verb, answer := "get", ""
		if i%3 == 0 {
			verb = "update"
			answer = fmt.Sprintf(`,"responseObject":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m%d","namespace":"shop","uid":"u%d","resourceVersion":"%d"},"data":{"a":%q}}`, b.n%500, b.n%500, b.n, strings.Repeat("x", filler))
			b.lines++
			fmt.Fprintf(&journal, `{"seq":%d,"time":%q,"type":"MODIFIED","origin":"watch","id":"u%d/%d/MODIFIED","stream":"configmaps","version":"v1","resource":"configmaps","kind":"ConfigMap","namespace":"shop","name":"m%d","uid":"u%d","resourceVersion":"%d","manager":"kubectl","writtenAt":%q,"object":{"metadata":{}}}`+"\n",
				b.lines, when.Add(20*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000000000Z"), b.n%500, b.n, b.n%500, b.n%500, b.n, when.UTC().Truncate(time.Second).Format(time.RFC3339))
		}
		fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"7f3c1a52-0000-4000-8000-%012d","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/configmaps/m%d?fieldManager=kubectl","verb":%q,"user":{"username":"user-%d@example.com","groups":["dev","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=xyz"]}},"sourceIPs":["10.0.0.%d"],"userAgent":"kubectl/v1.37.0 (linux/amd64) kubernetes/abc","objectRef":{"resource":"configmaps","namespace":"shop","name":"m%d","apiVersion":"v1","resourceVersion":"%d"},"responseStatus":{"metadata":{},"code":200}%s,"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding"}}`+"\n",
			b.n, b.n%500, verb, b.n%20, b.n%200, b.n%500, b.n-1, answer, text, text)
	}
	for f, content := range map[*os.File]*bytes.Buffer{b.log: &log, b.journal: &journal} {
		if _, err := f.Write(content.Bytes()); err != nil {
			b.t.Fatal(err)
		}
	}
	return log.Len()
}

// TestRound follows a server for some minutes with restarts: each line that is old enough has its user, and nobody else.
func TestRound(t *testing.T) {
	b, dir := newBusy(t)
	path := filepath.Join(dir, "journal.jsonl")
	start := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	f := New(path, false)
	defer func() { f.Close() }()
	const seconds = 400
	for n := range seconds {
		b.second(start.Add(time.Duration(n)*time.Second), 6)
		if n%5 > 0 {
			continue
		}
		if n%70 == 0 {
			f.Close()
			f = New(path, false)
		}
		if err := f.Round(t.Context(), []string{filepath.Join(dir, "audit*")}, start.Add(time.Duration(n+1)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if f.Files != 1 {
			t.Fatalf("%d files", f.Files)
		}
	}
	if want := start.Add(396 * time.Second).Add(-time.Minute); !f.Decided.Equal(want) {
		t.Errorf("decided up to %s", f.Decided)
	}
	side, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for text := range bytes.Lines(content) {
		var l struct {
			Seq             uint64
			Time            time.Time
			ID              string
			ResourceVersion string
		}
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		p := side.Of(l.Seq, []byte(l.ID))
		var version int
		if _, err := fmt.Sscan(l.ResourceVersion, &version); err != nil {
			t.Fatal(err)
		}
		switch old := l.Time.Before(start.Add(336 * time.Second)); {
		case old != (p != nil):
			t.Fatalf("line %d of %s: %v", l.Seq, l.Time, p)
		case p != nil && p.User != fmt.Sprintf("user-%d@example.com", version%20):
			t.Fatalf("line %d is by %s", l.Seq, p.User)
		case p != nil:
			named++
		}
	}
	t.Logf("%d of %d lines", named, b.lines)
}

// TestFaultsOfFollowing shows what cannot be read, follows the others, and goes on.
func TestFaultsOfFollowing(t *testing.T) {
	b, dir := newBusy(t)
	start := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	b.second(start, 30)
	bad := filepath.Join(dir, "audit-bad.log.gz")
	if err := os.WriteFile(bad, []byte("\x1f\x8bno"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(bad, start, start.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	f := New(filepath.Join(dir, "journal.jsonl"), true)
	defer f.Close()
	for n := range patience + 2 {
		err := f.Round(t.Context(), []string{filepath.Join(dir, "audit*"), filepath.Join(dir, "none*")}, start.Add(2*time.Minute))
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("no fault: %v", err)
		}
		want := uint64(0)
		if n >= patience-1 { // it is not only being written
			want = 10
		}
		if f.Lines[string(audit.Exact)] != want || f.Events != 3*int(want) || f.Files != 2 {
			t.Errorf("%+v", f.Status)
		}
	}
	// another one may have requests of these seconds
	both := New(filepath.Join(dir, "journal.jsonl"), true)
	defer both.Close()
	if err := os.Chtimes(bad, start, start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(segment.AuditPath(filepath.Join(dir, "journal.jsonl"))); err != nil {
		t.Fatal(err)
	}
	for range patience + 2 {
		if err := both.Round(t.Context(), []string{filepath.Join(dir, "audit*")}, start.Add(2*time.Minute)); err == nil {
			t.Error("no fault")
		}
	}
	if len(both.Lines) > 0 || both.Decided.IsZero() {
		t.Errorf("%+v", both.Status)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	// the side file is another's
	side := segment.AuditPath(filepath.Join(dir, "journal.jsonl"))
	if err := os.WriteFile(side, []byte("something else\nand more of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.second(start.Add(3*time.Minute), 30)
	for range 3 {
		if err := f.Round(t.Context(), []string{filepath.Join(dir, "audit*")}, start.Add(5*time.Minute)); err == nil {
			t.Error("no fault")
		}
	}
	if err := os.Remove(side); err != nil {
		t.Fatal(err)
	}
	if err := f.Round(t.Context(), []string{filepath.Join(dir, "audit*")}, start.Add(5*time.Minute)); err != nil || f.Lines[string(audit.Exact)] != 20 {
		t.Errorf("%v, %+v", err, f.Status)
	}
}

// BenchmarkRound is 5 seconds of 500 events.
func BenchmarkRound(b *testing.B) {
	busy, dir := newBusy(b)
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	f := New(filepath.Join(dir, "journal.jsonl"), false)
	defer f.Close()
	size := 0
	write := func() {
		for range 5 {
			at = at.Add(time.Second)
			size += busy.second(at, 500)
		}
	}
	round := func() {
		if err := f.Round(b.Context(), []string{filepath.Join(dir, "audit*")}, at); err != nil {
			b.Fatal(err)
		}
	}
	for range 100 { // so that requests are dropped
		write()
		round()
	}
	size = 0
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		write()
		b.StartTimer()
		round()
	}
	b.StopTimer()
	b.SetBytes(int64(size / b.N))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc>>20), "MiB")
	b.ReportMetric(float64(f.live.Requests()), "requests")
}
