package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/kube/fake"
)

// apis is /apis as the server answers it.
func (l *live) apis() string {
	client, err := rest.HTTPClientFor(l.srv.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodGet, l.srv.URL()+"/apis", http.NoBody)
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	answer, err := client.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !json.Valid(body) {
		l.t.Fatalf("%s, %v", body, err)
	}
	return string(body)
}

// TestRecordsAPI has the daemon record what the server serves, and again once a resource is added; a server without
// OpenAPI is no fault.
func TestRecordsAPI(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	recorded := func() string {
		f, err := apidocs.Open(l.journal())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		spans := f.Spans()
		if len(spans) == 0 {
			return ""
		}
		m, doubt, err := f.At(spans[len(spans)-1].Until)
		if err != nil || doubt != "" {
			t.Fatalf("doubt %q, error %v", doubt, err)
		}
		doc, _, _ := m.Document("/apis")
		b, err := m.Read(doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, why, is := m.Document("/openapi/v3"); is || why != "the server answered 404 Not Found" {
			t.Errorf("OpenAPI v3 is recorded, or missing since %q", why)
		}
		return string(b)
	}
	l.until("what it serves is recorded", func() bool { return recorded() == l.apis() })
	before := l.apis()
	l.srv.AddResource(fake.Resource{
		Group: "example.com", Version: "v1", Resource: "levers", Kind: "Lever",
	})
	if l.apis() == before {
		t.Fatal("the server serves the same")
	}
	l.until("what it serves now is recorded", func() bool { return recorded() == l.apis() })
	if n := l.logged("does not show all of what it serves"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	if n := l.logged(`"level":"error"`); n > 0 {
		t.Errorf("%d errors are logged", n)
	}

	// stdout has no files beside it.
	folder := t.TempDir()
	t.Chdir(folder)
	writeFile(t, l.config(), l.text("configmaps", `output: {path: "-"}`))
	l.start()
	l.watched("configmaps")
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Error(fmt.Sprint(files), err)
	}
}
