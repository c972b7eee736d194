package watcher_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// unusable is what a server may send in the place of a value of an object, by the value that stands for it; and why a
// line then has no object.
var unusable = map[string]struct{ sent, reason string }{
	"@deep":     {strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), "ObjectTooDeep"},
	"@control":  {"\"hunter2 \x01\"", "ObjectMalformed"},
	"@newline":  {"\"hunter2 }\nhunter3\"", "ObjectMalformed"},
	"@escape":   {`"\x"`, "ObjectMalformed"},
	"@infinity": {`Infinity`, "ObjectMalformed"},
	"@large":    {`"` + strings.Repeat("x", 3*maxUnusable) + `"`, "ObjectTooLarge"},
}

// maxUnusable is the limit of an object in these tests, in bytes.
const maxUnusable = 200 << 10

// spoil has the server send the values of unusable.
func (w *harness) spoil() {
	var pairs []string
	for value, u := range unusable {
		pairs = append(pairs, `"`+value+`"`, u.sent)
	}
	w.maxObject = maxUnusable
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return &spoiler{next, strings.NewReplacer(pairs...)} }
}

type spoiler struct {
	next   http.RoundTripper
	values *strings.Replacer
}

func (s *spoiler) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if err == nil {
		response.Body = &spoiledBody{response.Body, bufio.NewReader(response.Body), s.values, nil}
		response.ContentLength = -1
	}
	return response, err
}

// spoiledBody reads line by line.
type spoiledBody struct {
	io.Closer
	lines  *bufio.Reader
	values *strings.Replacer
	rest   []byte
}

func (b *spoiledBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadString('\n')
		if b.rest = []byte(b.values.Replace(line)); len(b.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// An object that no line can hold, or that is no JSON, is named by a line, and what comes after it is written: in a
// list of either kind, in a watch, while nobody watched, and across a kill.
func TestUnusable(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for server, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		for _, changes := range []bool{false, true} {
			for value, u := range unusable {
				t.Run(fmt.Sprintf("%s/changes=%t/%s", server, changes, value[1:]), func(t *testing.T) {
					bubble(t, o, demanding("configmaps", func(e *config.Resource) { e.Changes = changes }), func(w *harness) {
						w.spoil()
						testUnusable(w, value, u.reason)
						if changes {
							must(w.t, invariant.Changes(w.lines()))
						}
						w.check()
					})
				})
			}
		}
	}
}

func testUnusable(w *harness, bad, reason string) {
	told := 0 // lines without an object
	named := func(l invariant.Line) {
		w.t.Helper()
		told++
		if l.Object != nil || !l.Truncated || string(l.Raw("truncatedReason")) != `"`+reason+`"` || l.UID == "" || l.ResourceVersion == "" {
			w.t.Errorf("%s: %.300s %s", brief(l), l.Object, l.Raw("truncatedReason"))
		}
	}
	last := func() invariant.Line { lines := w.lines(); return lines[len(lines)-1] }
	whole := func(changes bool) {
		w.t.Helper()
		if l := last(); l.Object == nil || l.Truncated || (l.Raw("changes") != nil) != changes {
			w.t.Errorf("%s: %.300s, changes %.300s", brief(l), l.Object, l.Raw("changes"))
		}
	}
	changes := w.entries[0].Changes

	w.set("default", "a", "good", "0")
	w.set("default", "b", bad, "0")
	w.set("default", "c", "good", "0")
	w.start()
	w.settled()
	n := w.tell(0, "ADDED snapshot a", "ADDED snapshot b", "ADDED snapshot c", "SYNCED +3 ~0 -0 =0")
	named(w.lines()[1])

	w.set("default", "d", bad, "0")
	w.settled()
	n = w.tell(n, "ADDED watch d")
	named(last())
	w.set("default", "d", bad, "1")
	w.settled()
	n = w.tell(n, "MODIFIED watch d")
	named(last())
	w.set("default", "d", "good", "2")
	w.settled()
	n = w.tell(n, "MODIFIED watch d")
	whole(false) // the version before is not known
	w.set("default", "d", "good", "3")
	w.settled()
	n = w.tell(n, "MODIFIED watch d")
	whole(changes)
	w.set("default", "d", bad, "4")
	w.settled()
	n = w.tell(n, "MODIFIED watch d")
	named(last())

	// Not committed: read back from the journal.
	w.set("default", "a", bad, "1")
	w.await("a is told", func() bool { return last().Name == "a" })
	n = w.tell(n, "MODIFIED watch a")
	named(last())
	w.kill()
	w.start()
	w.settled()
	n = w.tell(n)
	w.set("default", "a", "good", "2")
	w.settled()
	n = w.tell(n, "MODIFIED watch a")
	whole(false)

	// The history is gone: what is unchanged stays so, the rest is told.
	w.kill()
	w.srv.DropHistory()
	w.start()
	w.settled()
	for _, l := range w.lines()[n:] {
		if l.Type != invariant.Gap && l.Type != invariant.Synced {
			w.t.Errorf("told again: %s", brief(l))
		}
	}
	n = len(w.lines())
	w.kill()
	w.set("default", "a", bad, "3")
	w.set("default", "d", bad, "5")
	_, err := w.srv.Delete(configMaps, "default", "b")
	must(w.t, err)
	w.srv.DropHistory()
	w.start()
	w.settled()
	n = w.tell(n, "GAP Expired", "MODIFIED relist a", "MODIFIED relist d", "DELETED relist b", "SYNCED +0 ~2 -1 =1")
	named(w.lines()[n-4])
	named(w.lines()[n-3])

	w.set("default", "a", "good", "4")
	_, err = w.srv.Delete(configMaps, "default", "d")
	must(w.t, err)
	w.settled()
	n = w.tell(n, "MODIFIED watch a", "DELETED watch d")
	named(last())
	w.stop()
	w.start()
	w.settled()
	w.tell(n)

	if data := journalBytes(w); bytes.Contains(data, []byte("hunter")) || strings.Contains(w.log.String(), "hunter") {
		w.t.Error("the journal or the log has what the object holds")
	}
	for _, name := range []string{"a", "b", "d"} {
		if !strings.Contains(w.log.String(), `"name": "`+name+`"`) {
			w.t.Errorf("the log does not name %s", name)
		}
	}
	if told < 7 {
		w.t.Errorf("%d lines without an object", told)
	}
}

func journalBytes(w *harness) []byte {
	var all []byte
	for _, l := range w.lines() {
		all = slices.Concat(all, l.Object, l.Raw("changes"), []byte(l.ID))
	}
	return all
}

// What a filter cannot decide without the object is counted, and written; types and excludeNamespaces decide all the
// same, and ignoreFields does not hold back what it cannot compare.
func TestUnusableSelected(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*config.Resource)
		want   []string // behind the first SYNCED
		failed float64
	}{
		"filter": {func(e *config.Resource) { e.Filter = `object.data.note == "0"` }, []string{"ADDED watch a", "MODIFIED watch a", "DELETED watch a"}, 3},
		"filter of types": {func(e *config.Resource) {
			e.Filter = `type == "MODIFIED" || type == "ADDED" && object.data.note == "0"`
		}, []string{"ADDED watch a", "MODIFIED watch a"}, 1},
		"types":               {func(e *config.Resource) { e.Types = []string{"MODIFIED"} }, []string{"MODIFIED watch a"}, 0},
		"excluded namespaces": {func(e *config.Resource) { e.ExcludeNamespaces = []string{"def*"} }, nil, 0},
		"ignored fields":      {func(e *config.Resource) { e.IgnoreFields = []string{"data.note"} }, []string{"ADDED watch a", "MODIFIED watch a", "DELETED watch a"}, 0},
		"no payload":          {func(e *config.Resource) { e.Payload = "none" }, []string{"ADDED watch a", "MODIFIED watch a", "DELETED watch a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, demanding("configmaps", c.set), func(w *harness) {
				w.spoil()
				w.start()
				w.settled()
				n := len(w.lines())
				w.set("default", "a", "@deep", "0")
				w.set("default", "a", "@deep", "1")
				_, err := w.srv.Delete(configMaps, "default", "a")
				must(t, err)
				w.settled()
				w.tell(n, c.want...)
				for _, l := range w.lines()[n:] {
					if !l.Truncated || l.Object != nil {
						t.Errorf("%s: %.200s", brief(l), l.Object)
					}
				}
				if got := testutil.ToFloat64(w.life.metrics.FilterErrors.WithLabelValues("", "configmaps")); got != c.failed {
					t.Errorf("%v errors of the filter were counted, want %v", got, c.failed)
				}
				if got := testutil.ToFloat64(w.life.metrics.Unusable.WithLabelValues("", "configmaps")); got != 3 {
					t.Errorf("%v objects were counted", got)
				}
				if got := strings.Count(w.log.String(), "its line has no object"); got != 1 {
					t.Errorf("logged %d times", got)
				}
				_, err = w.srv.Create(configMaps, map[string]any{"metadata": map[string]any{"name": "b", "namespace": "other"}, "data": map[string]any{"note": "0"}})
				must(t, err)
				w.settled()
			})
		})
	}
}
