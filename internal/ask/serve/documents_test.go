package serve

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/apidocs"
)

const discoveryText = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[%s]}`

const (
	saidOfCore = `{"metadata":{"name":""},"versions":[{"version":"v1","resources":[
		{"resource":"bindings","responseKind":{"kind":"Binding"},"scope":"Namespaced","singularResource":"binding","verbs":["create"]},
		{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","singularResource":"pod","shortNames":["po"],
		"verbs":["create","delete","get","list","patch","update","watch"],"subresources":[{"subresource":"log","verbs":["get"]}]},
		{"resource":"leftovers","responseKind":{"kind":"Leftover"},"scope":"Cluster","singularResource":"leftover","verbs":["get","list"]}]}]}`
	saidOfTeams = `{"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[{"resource":"teams","responseKind":
		{"group":"example.com","version":"v1","kind":"Team"},"scope":"Namespaced","singularResource":"team","verbs":["get","list","watch"]}]},
		{"version":"v1alpha1","resources":[{"resource":"teams","responseKind":{"group":"example.com","version":"v1alpha1","kind":"Team"},
		"scope":"Namespaced","singularResource":"team","verbs":["get","list","watch"]}]}]}`
	saidOfMore = `{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","resources":[{"resource":"pods","responseKind":
		{"group":"","version":"","kind":"PodMetrics"},"scope":"Namespaced","singularResource":"pod","verbs":["get","list"]}]}]}`
)

// say has a daemon record what the API server said, from a time until another.
func say(t *testing.T, journal string, from, until time.Time, docs map[string]string, missing ...apidocs.Missing) {
	t.Helper()
	w, err := apidocs.OpenWriter(nil, journal)
	if err != nil {
		t.Fatal(err)
	}
	m := apidocs.Manifest{Missing: missing}
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		sum, size, err := w.Put(strings.NewReader(docs[path]))
		if err != nil {
			t.Fatal(err)
		}
		m.Documents = append(m.Documents, apidocs.Document{Path: path, Type: "text/html", ETag: fmt.Sprintf("%q", sum[:4]), Size: size, Sum: sum})
	}
	for at := from; !at.After(until); at = at.Add(30 * time.Second) {
		if err := w.Record(m, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

const openapi = `{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.35.2"},"paths":{}}`

// sayAll has what was said from noon to the third minute recorded.
func sayAll(t *testing.T, journal string) {
	t.Helper()
	say(t, journal, noon, minute(3), map[string]string{
		"/version": `{"gitVersion":"v1.35.2"}`, "/openapi/v2": openapi, "/openapi/v3": `{"paths":{}}`, "/openapi/v3/api/v1": "{}",
		"/api": fmt.Sprintf(discoveryText, saidOfCore), "/apis": fmt.Sprintf(discoveryText, saidOfTeams+","+saidOfMore),
	}, apidocs.Missing{Path: "/openapi/v3/apis/metrics.k8s.io/v1beta1", Reason: "the server answered 503 Service Unavailable"})
}

func TestDocuments(t *testing.T) {
	d := newDay(t)
	sayAll(t, d.Path)
	s := serveAt(t, d, minute(2.5))
	if text := answered(t, s, 200, "/version"); text != `{"gitVersion":"v1.35.2"}` {
		t.Error(text)
	}
	r := ask(t, s, "/openapi/v3")
	if got := body(t, r); got != `{"paths":{}}` || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Warning") != "" {
		t.Error(got, r.Header)
	}
	if r := ask(t, s, "/openapi/v3", "If-None-Match", r.Header.Get("Etag")); r.StatusCode != 304 {
		t.Error(r.StatusCode)
	}
	answered(t, s, 404, "/openapi/v3/apis/nobody.example.com/v1")
	if r := ask(t, s, "/openapi/v3/apis/metrics.k8s.io/v1beta1"); r.StatusCode != 404 || !strings.Contains(r.Header.Get("Warning"), "the server answered 503") {
		t.Error(r.StatusCode, r.Header)
	}
	answered(t, s, 406, "/openapi/v3", "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	for _, accept := range []string{openapiProtobuf, protobufAsked} {
		r := ask(t, s, "/openapi/v2", "Accept", accept)
		var is openapi_v2.Document
		if err := proto.Unmarshal([]byte(body(t, r)), &is); err != nil || is.Info.Version != "v1.35.2" || r.Header.Get("Content-Type") != openapiProtobuf {
			t.Error(err, r.Header)
		}
	}

	// What nobody watched is there, in versions that are not in the journal too; what cannot be read has the verbs that it had.
	text := answered(t, s, 200, "/api/v1")
	for _, want := range []string{
		`{"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]}`,
		`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"],"shortNames":["po"]}`,
		`{"name":"leftovers","singularName":"leftover","namespaced":false,"kind":"Leftover","verbs":["get","list"]}`,
		`"name":"namespaces"`, // of a stream, whatever the server said
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "configmaps") {
		t.Errorf("what the server did not have is there: %s", text)
	}
	if r := ask(t, s, "/apis/metrics.k8s.io/v1beta1/pods"); r.StatusCode != 200 || !strings.Contains(r.Header.Get("Warning"), "no stream was watched that has such objects") {
		t.Error(r.StatusCode, r.Header, body(t, r))
	}
	if got, _ := names(t, answered(t, s, 200, "/apis/example.com/v1/teams")); !slices.Equal(got, []string{"a/blue", "a/red"}) {
		t.Error(got)
	}
	if text := answered(t, s, 200, "/apis/example.com"); !strings.Contains(text, `"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}`) || !strings.Contains(text, "v1alpha1") {
		t.Error(text)
	}
	// In the journal teams are of v1.
	if text := answered(t, s, 200, "/apis/example.com/v1alpha1"); !strings.Contains(text, `"resources":[]`) {
		t.Error(text)
	}
	answered(t, s, 404, "/apis/example.com/v1alpha1/teams")

	// Nobody asked any more, and the definition is gone.
	s = serveAt(t, d, minute(5))
	for _, path := range []string{"/api", "/apis", "/api/v1", "/apis/apps", "/version", "/openapi/v2", "/openapi/v3/nothing"} {
		r := ask(t, s, path)
		if got := r.Header.Get("Warning"); !strings.HasPrefix(got, `299 - "what the API server served after 2026-11-22T12:03:00Z is not known`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	answered(t, s, 404, "/apis/example.com/v1/teams")
	// A line is a moment too.
	answered(t, serveWith(t, Options{Paths: []string{d.Path}, At: argument.Moment{Seq: 8}}), 200, "/openapi/v3")
}

// Of several journals, the one answers whose daemon asked at the moment, or next to it.
func TestDocumentsOfReplicas(t *testing.T) {
	src := &source{paths: []string{filepath.Join(t.TempDir(), "journal.jsonl"), filepath.Join(t.TempDir(), "journal.jsonl"), "none.jsonl"}}
	say(t, src.paths[0], noon, minute(2), map[string]string{"/version": "1"})
	say(t, src.paths[1], minute(3), minute(4), map[string]string{"/version": "2"})
	p := &past{documents: src.openDocuments()}
	defer func() {
		for _, d := range p.documents {
			d.Close()
		}
	}()
	for at, want := range map[float64]string{-1: "1?", 1: "1", 2: "1", 2.25: "1?", 2.75: "2?", 3: "2", 4: "2", 9: "2?"} {
		m, doubt, err := p.recorded(t.Context(), argument.Moment{Time: minute(at)})
		if err != nil {
			t.Fatal(err)
		}
		doc, _, _ := m.Document("/version")
		text, err := m.Read(doc)
		got := string(text)
		if doubt != "" {
			got += "?"
		}
		if got != want || err != nil {
			t.Errorf("at %v: %s, %v, want %s", at, got, err, want)
		}
	}
}

// Without a moment it is what was said last, if that is not long ago.
func TestDocumentsNow(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}})
	answered(t, s, 404, "/openapi/v3")
	now := time.Now()
	say(t, d.Path, now.Add(-70*time.Second), now.Add(-10*time.Second), map[string]string{"/openapi/v3": "{}"})
	s.source.mu.Lock()
	s.source.now.opened = now.Add(-time.Hour)
	s.source.mu.Unlock()
	if r := ask(t, s, "/openapi/v3"); body(t, r) != "{}" || r.Header.Get("Warning") != "" {
		t.Error(r)
	}
	if err := os.Remove(d.Path + ".api"); err != nil {
		t.Fatal(err)
	}
	say(t, d.Path, now.Add(-300*time.Second), now.Add(-150*time.Second), map[string]string{"/openapi/v3": "{}"})
	if r := ask(t, serveWith(t, Options{Paths: []string{d.Path}}), "/openapi/v3"); r.Header.Get("Warning") == "" {
		t.Error(r)
	}
}

// A file that cannot be used costs what it says, and one line.
func TestDocumentsDamaged(t *testing.T) {
	d := newDay(t)
	sayAll(t, d.Path)
	path := d.Path + ".api"
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[1700] ^= 1
	newer := bytes.Clone(good)
	newer[16]++
	for _, tc := range []struct {
		what   string
		text   []byte
		notice string
	}{
		{"damaged", flipped, "damaged; what the API server served is not known for a part of the time"},
		{"cut off", good[:1800], ""},
		{"cut off in its header", good[:12], "not a file of API documents"},
		{"newer", newer, "a later version of kubejournal has written it; use that version"},
		{"foreign", []byte("<html>"), "not a file of API documents that kubejournal has written; move it away"},
		{"gone", nil, ""},
	} {
		if err := os.WriteFile(path, tc.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if tc.text == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		var notices []string
		s, err := New(t.Context(), Options{Paths: []string{d.Path}, At: argument.Moment{Time: minute(2.5)}, Notice: func(text string) { notices = append(notices, text) }})
		if err != nil {
			t.Fatal(tc.what, err)
		}
		for range 3 {
			if got, _ := names(t, answered(t, s, 200, "/api/v1/pods")); len(got) != 4 {
				t.Errorf("%s: %v", tc.what, got)
			}
			answered(t, s, 200, "/version")
			if r := ask(t, s, "/apis"); r.StatusCode != 200 || (r.Header.Get("Warning") != "") != (tc.what == "damaged") {
				t.Errorf("%s: %d, %s", tc.what, r.StatusCode, r.Header)
			}
			if r := ask(t, s, "/openapi/v3"); tc.what != "damaged" && (r.StatusCode != 404 || r.Header.Get("Warning") == "") {
				t.Errorf("%s: %d, %s", tc.what, r.StatusCode, body(t, r))
			}
		}
		want := 1
		switch tc.what {
		case "damaged":
			want = 2 // and which document could not be read
		case "cut off", "gone":
			want = 0
		}
		if len(notices) != want || want > 0 && (!strings.Contains(notices[0], path) || !strings.Contains(notices[0], tc.notice)) {
			t.Errorf("%s: %q", tc.what, notices)
		}
		s.Close()
	}
}
