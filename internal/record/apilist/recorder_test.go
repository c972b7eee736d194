package apilist

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/kube/client"
)

// server serves documents, each with an ETag if it has one.
type server struct {
	sync.Mutex
	docs    map[string]string // by path
	codes   map[string]int    // refusals, by path
	err     error             // of each request
	other   error             // of Confirm
	asked   []string          // with "=" where the answer was 304
	changes func(path string) // is called before each answer; nil is nothing
}

func (s *server) Document(_ context.Context, path, hash, accept, etag string) (*client.Document, error) {
	s.Lock()
	defer s.Unlock()
	s.asked = append(s.asked, path)
	if s.changes != nil {
		s.changes(path)
	}
	if s.err != nil {
		return nil, s.err
	}
	code := s.codes[path]
	content, is := s.docs[path]
	if !is && code == 0 {
		code = http.StatusNotFound
	}
	if code != 0 {
		return nil, apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, path, "", 0, true)
	}
	tag := fmt.Sprintf("%q", hashOf(content))
	if etag == tag {
		s.asked[len(s.asked)-1] += "="
		return nil, nil
	}
	kind := "application/json"
	if strings.HasPrefix(path, "/api") {
		kind += ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	}
	if path == indexPath {
		tag = ""
	}
	return client.NewDocument(strings.NewReader(content), kind, tag), nil
}

func (s *server) Confirm(context.Context) error { return s.other }

func hashOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// serve sets a document of OpenAPI v3, and the index.
func (s *server) serve(group, content string) {
	s.docs[indexPath+"/apis/"+group] = content
	var paths []string
	for path, content := range s.docs {
		if name, is := strings.CutPrefix(path, indexPath+"/"); is {
			paths = append(paths, fmt.Sprintf("%q:{\"serverRelativeURL\":\"%s?hash=%s\"}", name, path, hashOf(content)))
		}
	}
	s.docs[indexPath] = `{"paths":{` + strings.Join(paths, ",") + `}}`
	s.docs["/openapi/v2"] = s.docs[indexPath]
}

type recording struct {
	*Recorder
	t      *testing.T
	server *server
	logs   *observer.ObservedLogs
	failed int
}

func newRecording(t *testing.T) *recording {
	s := &server{docs: map[string]string{"/api": `{"api":1}`, "/apis": `{"apis":1}`, "/version": `{"gitVersion":"v1.36.3"}`}, codes: map[string]int{}}
	s.serve("apps/v1", `{"apps":1}`)
	s.serve("batch/v1", `{"batch":12}`)
	core, logs := observer.New(zap.DebugLevel)
	r := &recording{t: t, server: s, logs: logs}
	r.Recorder = New(Config{
		Server: s, Journal: filepath.Join(t.TempDir(), "journal.jsonl"), Oldest: func() time.Time { return time.Time{} },
		Log: zap.New(core), Failed: func() { r.failed++ },
	})
	t.Cleanup(func() { r.file.Close() })
	return r
}

// after runs a round, and returns whether something had changed, and what was asked for.
func (r *recording) after() (changed bool, asked string) {
	r.t.Helper()
	r.server.asked = nil
	changed, err := r.round(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return changed, strings.Join(r.server.asked, " ")
}

// recorded is what the file says of now.
func (r *recording) recorded() (docs map[string]string, why map[string]string) {
	r.t.Helper()
	d, err := apidocs.Open(r.Journal)
	if err != nil {
		r.t.Fatal(err)
	}
	defer d.Close()
	spans := d.Spans()
	m, doubt, err := d.At(spans[len(spans)-1].Until)
	if err != nil || doubt != "" {
		r.t.Fatalf("doubt %q, error %v", doubt, err)
	}
	docs, why = map[string]string{}, map[string]string{}
	for _, doc := range m.Documents {
		b, err := m.Read(doc)
		if err != nil {
			r.t.Fatal(err)
		}
		docs[doc.Path] = string(b)
	}
	for _, doc := range m.Missing {
		why[doc.Path] = doc.Reason
	}
	return docs, why
}

// same checks that the file has what the server has, but what is missing.
func (r *recording) same(missing ...string) {
	r.t.Helper()
	docs, why := r.recorded()
	for path, content := range r.server.docs {
		if reason := why[path]; reason == "" && docs[path] != content {
			r.t.Errorf("%s: recorded %q, served %q", path, docs[path], content)
		}
	}
	if len(why) != len(missing) {
		r.t.Errorf("missing are %v", why)
	}
	for _, path := range missing {
		if _, is := docs[path]; is || why[path] == "" {
			r.t.Errorf("%s is not said to be missing", path)
		}
	}
}

func (r *recording) bytes() []byte {
	b, err := os.ReadFile(r.Journal + ".api")
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func TestRound(t *testing.T) {
	r := newRecording(t)
	if changed, _ := r.after(); !changed {
		t.Error("nothing is new at first")
	}
	r.same()
	size := len(r.bytes())
	for range 3 {
		if changed, asked := r.after(); changed || asked != "/api= /apis= /openapi/v3 /openapi/v2=" {
			t.Errorf("an unchanged server: %v, asked for %s", changed, asked)
		}
	}
	if now := len(r.bytes()); now != size {
		t.Errorf("an unchanged server costs %d bytes", now-size)
	}
	r.server.serve("apps/v1", `{"apps":12345}`)
	changed, asked := r.after()
	if !changed || strings.Count(asked, "/apis/apps/v1") != 1 || strings.Contains(asked, "batch") || !strings.Contains(asked, "/version") {
		t.Errorf("one document has changed: %v, asked for %s", changed, asked)
	}
	r.same()

	// Another process goes on from what is there.
	r.file.Close()
	again := newRecording(t)
	again.Config, again.server = r.Config, r.server
	size = len(r.bytes())
	if _, asked := again.after(); asked != "/api= /apis= /openapi/v3 /openapi/v2=" {
		t.Errorf("after a restart: asked for %s", asked)
	}
	again.same()
	if grown := len(r.bytes()) - size; grown > 100 {
		t.Errorf("a restart costs %d bytes", grown)
	}
}

// TestChangesMeanwhile has the server change while it is asked: what is recorded is of one time.
func TestChangesMeanwhile(t *testing.T) {
	r := newRecording(t)
	n := 0
	r.server.changes = func(path string) {
		if path == "/openapi/v2" && n < 2 {
			n++
			r.server.docs["/apis"] = fmt.Sprintf(`{"apis":%d}`, 10*n)
			r.server.serve("apps/v1", fmt.Sprintf(`{"apps":%d}`, n*1000))
		}
	}
	r.after()
	if n != 2 {
		t.Fatal("it was asked once")
	}
	r.same()
}

// TestPace has a server that serves the same be asked once a minute, or soon after Changed, and one that changes all the
// time hardly more often.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		ctx, cancel := context.WithCancel(t.Context())
		rounds := 0
		r.server.changes = func(path string) {
			if path == "/api" {
				rounds++
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		during := func(d time.Duration, least, most int) {
			t.Helper()
			rounds = 0
			r.server.Unlock()
			time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
			synctest.Wait()
			r.server.Lock()
			if rounds < least || rounds > most {
				t.Errorf("asked %d times in %s, want %d to %d", rounds, d, least, most)
			}
		}
		r.server.Lock()
		during(10*time.Minute, 10, 17)
		during(time.Hour, 59, 61)
		r.server.serve("apps/v1", `{"apps":2}`)
		r.Changed()
		during(time.Second, 2, 2) // and again, until it is the same
		r.same()
		during(time.Hour, 60, 67)
		n := 0
		changes := r.server.changes
		r.server.changes = func(path string) {
			changes(path)
			if path == "/api" {
				n++
				r.server.docs["/api"] = fmt.Sprintf(`{"api":%d}`, n)
				r.Changed()
			}
		}
		during(time.Hour, 60, 70*(attempts+1))
		r.server.changes = changes
		during(5*time.Minute, 5, 12)
		r.same()
		r.server.Unlock()
		cancel()
		<-ended
	})
}

func TestMissing(t *testing.T) {
	r := newRecording(t)
	r.server.codes = map[string]int{"/openapi/v2": http.StatusForbidden, indexPath: http.StatusForbidden}
	r.after()
	docs, why := r.recorded()
	if docs["/apis"] == "" || why["/openapi/v2"] != "the server answered 403 Forbidden" || why[indexPath] == "" {
		t.Errorf("%v, missing %v", docs, why)
	}
	size := len(r.bytes())
	for range 3 {
		r.after()
	}
	if logged := r.logs.FilterMessageSnippet("does not show all").All(); len(logged) != 1 || logged[0].Level != zap.InfoLevel || r.failed != 0 {
		t.Errorf("logged %v, %d failures", logged, r.failed)
	}
	if len(r.bytes()) != size {
		t.Error("the file grows")
	}
	delete(r.server.codes, indexPath)
	delete(r.server.codes, "/openapi/v2")
	r.after()
	r.same()

	// A document that is too large is not read again before it changes.
	r.server.docs["/openapi/v2"] = strings.Repeat("x", apidocs.MaxDocument+1)
	r.after()
	if _, asked := r.after(); !strings.HasSuffix(asked, "/openapi/v2=") {
		t.Errorf("asked for %s", asked)
	}
	r.same("/openapi/v2")
}

// TestFaults has nothing of another cluster recorded, and each fault logged once and counted.
func TestFaults(t *testing.T) {
	r := newRecording(t)
	r.after()
	before := r.bytes()
	try := func(want string) {
		t.Helper()
		for range 2 {
			_, err := r.round(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %q", err, want)
			}
			r.note(err)
		}
	}
	r.server.docs["/apis"], r.server.other = `{"apis":"of another"}`, errors.New("another cluster")
	try("another cluster")
	if d, _ := r.recorded(); d["/apis"] == r.server.docs["/apis"] {
		t.Error("what another cluster serves is recorded")
	}
	r.server.other = nil
	if n := r.logs.FilterMessageSnippet("cannot be recorded, trying again").Len(); n != 1 || r.failed != 2 {
		t.Errorf("logged %d times, counted %d", n, r.failed)
	}
	r.server.codes["/apis"] = http.StatusUnauthorized
	try("provide credentials")
	r.server.codes["/apis"] = http.StatusInternalServerError
	try("has prevented the request")
	delete(r.server.codes, "/apis")
	r.server.err = fmt.Errorf("get: %w", client.ErrNoAnswer)
	failed := r.failed
	try("no complete answer")
	if r.failed != failed {
		t.Error("an outage is counted here too")
	}
	r.server.err = nil
	if err := os.WriteFile(r.Journal+".api", []byte("somebody's notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.fault = ""
	try("not a file of API documents")
	if b := r.bytes(); string(b) != "somebody's notes\n" || r.logs.FilterMessageSnippet("move the file away").Len() != 1 {
		t.Errorf("the file has %q", b)
	}
	if err := os.Remove(r.Journal + ".api"); err != nil {
		t.Fatal(err)
	}
	r.after()
	r.note(nil)
	r.same()
	if bytes.Equal(before, r.bytes()) || r.logs.FilterMessageSnippet("recorded again").Len() == 0 {
		t.Error("it does not go on")
	}

	// The file is moved away while it is open.
	if err := os.Rename(r.Journal+".api", r.Journal+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.round(t.Context()); err == nil {
		t.Error("it is not noticed that the file is gone")
	}
	r.after()
	r.same()
}
