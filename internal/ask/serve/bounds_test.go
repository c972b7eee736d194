package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/test/journaltest"
)

// Watches are counted while they are open, whatever ends them.
func TestWatchesAtATime(t *testing.T) {
	s := serveAt(t, newDay(t), minute(3.5))
	for range maxWatches - 1 {
		s.watches <- struct{}{}
	}
	for range 2 {
		answered(t, s, 200, "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=125")
		answered(t, s, 504, "/api/v1/pods?watch=1&resourceVersion=99999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		answered(t, s, 410, "/api/v1/pods?watch=1&resourceVersion=1")
	}
	s.watches <- struct{}{}
	answered(t, s, 429, "/api/v1/pods?watch=1&timeoutSeconds=1")
	answered(t, s, 200, "/api/v1/pods")
}

// A selection by two streams of one resource has each object once, and its watch tells once that it was made.
func TestTwoStreams(t *testing.T) {
	j := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
	all, own := j.Stream("configmaps", "ConfigMap"), j.Stream("configmaps?namespace=shop", "ConfigMap")
	object := func(name, uid string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"labels":{"app":"web"}}}`, name, uid)
	}
	for _, s := range []*journaltest.Stream{all, own} {
		s.Snapshot()
		s.Put("", object("web", "h1"))
		s.Synced()
	}
	j.Now = minute(1)
	all.Put("kubectl", object("db", "h2"))
	own.Put("kubectl", object("db", "h2"))
	j.Now = minute(2)
	j.Confirm(false, all, own)
	s := serveWith(t, Options{Paths: []string{j.Path}, At: argument.Moment{Time: minute(1.5)}})
	if got, _ := names(t, answered(t, s, 200, "/api/v1/configmaps")); !slices.Equal(got, []string{"shop/db", "shop/web"}) {
		t.Error(got)
	}
	replay := serveWith(t, Options{Paths: []string{j.Path}, From: minute(0.5), Speed: 600})
	got := events(t, replay, "/api/v1/configmaps?watch=1&timeoutSeconds=2&labelSelector=app%3Dweb")
	added := 0
	for _, e := range got {
		if strings.HasPrefix(e, "ADDED db") {
			added++
		}
	}
	if added != 1 || len(got) < 2 {
		t.Errorf("%q", got)
	}
}

// Of several journals without a moment it is that of the start, and lines that come later are not in it.
func TestSeveralJournalsNow(t *testing.T) {
	d := newDay(t)
	other := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
	nodes := other.Stream("nodes", "Node")
	nodes.Snapshot()
	nodes.Put("", `{"metadata":{"name":"n1","uid":"i1"}}`)
	nodes.Synced()
	s := serveWith(t, Options{Paths: []string{d.Path, other.Path}})
	if at := s.moment(); at.IsLatest() || time.Since(at.Time) > time.Minute {
		t.Error(at)
	}
	one := serveWith(t, Options{Paths: []string{d.Path}})
	if at := one.moment(); !at.IsLatest() {
		t.Error(at)
	}
}

// What a file had that was removed is told of, and is no object.
func TestRemovedFile(t *testing.T) {
	j := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
	pods := j.Stream("pods", "Pod")
	pods.Snapshot()
	pods.Put("", pod("a", "old", "1", "n1", "Running"))
	pods.Put("", pod("a", "web", "2", "n1", "Pending"))
	pods.Synced()
	j.Now = minute(1)
	j.Rotate()
	pods.Put("kubelet", pod("a", "web", "2", "n1", "Running"))
	j.Now = minute(2)
	j.Confirm(false, pods)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(j.Path), "journal-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".jsonl") || strings.HasSuffix(f, ".gz") {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := serveWith(t, Options{Paths: []string{j.Path}, At: argument.Moment{Time: minute(1.5)}})
	r := ask(t, s, "/api/v1/pods")
	if got, _ := names(t, body(t, r)); slices.Contains(got, "a/old") || !slices.Contains(got, "a/web") {
		t.Error(got)
	}
	if warnings := strings.Join(r.Header.Values("Warning"), "\n"); !strings.Contains(warnings, "not in the journal's files any more") {
		t.Error(warnings)
	}
}

// The warnings of an answer are some, and say how many more there are.
func TestManyWarnings(t *testing.T) {
	v := &view{k: &kind{}, lacks: map[string][]string{}}
	v.k.Resource.Resource = "pods"
	for n := range maxWarnings + 5 {
		v.lacks[fmt.Sprintf("reason %02d", n)] = []string{"a/web", "a/db"}
	}
	w := httptest.NewRecorder()
	v.warn(w)
	all := w.Header().Values("Warning")
	if len(all) != maxWarnings+1 || all[0] != `299 - "pods a/web and 1 more: reason 00"` || all[maxWarnings] != `299 - "5 more doubts"` {
		t.Errorf("%d: %q", len(all), all)
	}
}

// Journals that are followed are opened again when they have grown or, as coverage does too, after a while.
func TestStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		age, took time.Duration
		size      int64
		want      bool
	}{
		{fresh / 2, 0, 1, false}, {2 * fresh, 0, 1, true}, {2 * fresh, 0, 3, false}, {6 * fresh, 0, 3, true},
		{2 * fresh, fresh, 1, false}, {11 * fresh, fresh, 1, true},
	} {
		p := &past{opened: time.Now().Add(-c.age), took: c.took, size: c.size}
		if got := p.stale([]string{path}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A kind of Kubernetes' own whose columns are not known has a name and an age.
func TestUnknownColumns(t *testing.T) {
	k := &kind{}
	k.Resource.Resource, k.Group, k.Version = "things", "things.k8s.io", "v1"
	if got := builtinPrinter(k).columns; len(got) != 2 || got[1].Name != "Age" {
		t.Errorf("%+v", got)
	}
}

// A client that goes away ends its watch.
func TestClientGoes(t *testing.T) {
	s := serveAt(t, newDay(t), minute(3.5))
	server := httptest.NewServer(s)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/pods?watch=1&resourceVersion=105", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(answer.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for len(s.watches) > 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the watch is still open")
		case <-time.After(time.Millisecond):
		}
	}
}

// Rows that several clients have read at once are counted once, and what is kept has a bound.
func TestRowsKept(t *testing.T) {
	var r rows
	for range 2 {
		for n := range uint64(3) {
			r.keep(row{seq: n}, make([]byte, maxRows/3))
		}
	}
	if len(r.of) != 3 || r.size != 3*(maxRows/3) {
		t.Errorf("%d rows of %d bytes", len(r.of), r.size)
	}
	r.keep(row{seq: 4}, make([]byte, 10))
	if len(r.of) != 1 || r.size != 10 {
		t.Errorf("then %d rows of %d bytes", len(r.of), r.size)
	}
}
