package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubejournal/internal/format/apidocs"
	"kubejournal/test/workload"
)

// A custom resource comes, changes, and goes while the daemon is killed: of each time, the file beside the journal has
// exactly what the server served then. While nothing changes the file does not grow.
func TestAPIDocuments(t *testing.T) {
	s := own.get(t)
	ctx := t.Context()
	crd := workload.Definition("levers", "Lever", "v1")
	levers := widgets // still to be defined, so that the daemon watches definitions
	levers.Kind, levers.Resource = "Lever", workload.Defined(crd)
	d := newDaemon(t, s.Kubeconfig(), []entry{{Kind: configMaps}, {Kind: levers}})
	d.start()

	type seen struct {
		what string
		at   time.Time
		docs map[string]string
	}
	var all []seen
	size := func() int64 {
		info, err := os.Stat(d.journal() + ".api")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	// settle waits until the last moment has what the server serves.
	settle := func(what string) {
		t.Helper()
		eventually(t, later, what, func() error {
			docs, err := s.served()
			if err != nil {
				return err
			}
			recorded, err := readAPI(d.journal(), time.Time{})
			if err != nil {
				return err
			}
			if different := differ(docs, recorded.docs); different != "" {
				return fmt.Errorf("%s differs", different)
			}
			all = append(all, seen{what, recorded.until, docs})
			return nil
		})
		t.Logf("%s: %d documents, %d bytes", what, len(all[len(all)-1].docs), size())
	}
	settle("at first")
	before := size()
	was, err := readAPI(d.journal(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, later, "it is asked again", func() error {
		is, err := readAPI(d.journal(), time.Time{})
		if err == nil && is.until.Sub(was.until) < 20*time.Second {
			err = fmt.Errorf("last at %s", is.until)
		}
		return err
	})
	if now := size(); now != before {
		t.Errorf("nothing has changed, and the file has grown from %d to %d", before, now)
	}

	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	definitions := s.client.Resource(workload.Definitions)
	t.Cleanup(func() { _ = definitions.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}) })
	settle("with a custom resource")
	patch := `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"what moves the earth"}]`
	if _, err := definitions.Patch(ctx, crd.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	settle("with another schema")
	d.kill()
	down := time.Now()
	if err := definitions.Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "definition is gone", func() error {
		if _, err := definitions.Get(ctx, crd.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	d.start()
	settle("without it")
	for n, a := range all {
		recorded, err := readAPI(d.journal(), a.at)
		if err != nil {
			t.Fatal(err)
		}
		if different := differ(a.docs, recorded.docs); different != "" || recorded.doubt != "" {
			t.Errorf("%s: %s differs, doubt %q", a.what, different, recorded.doubt)
		}
		if n > 0 && differ(a.docs, all[n-1].docs) == "" {
			t.Errorf("%s: the server serves what it did before", a.what)
		}
	}
	if recorded, err := readAPI(d.journal(), down); err != nil || recorded.doubt == "" {
		t.Errorf("the daemon was down, and what was served then is not doubted, %v", err)
	}
	d.stop()
}

// served is what the server serves, by path.
func (s *server) served() (map[string]string, error) {
	docs := make(map[string]string)
	get := func(path, url string) error {
		request, err := http.NewRequest(http.MethodGet, s.RESTConfig().Host+url, http.NoBody)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", "application/json")
		if strings.HasPrefix(path, "/api") {
			request.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		}
		answer, err := s.transport.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, answer.Status)
		}
		docs[path] = string(body)
		return err
	}
	for _, path := range []string{"/version", "/api", "/apis", "/openapi/v2", "/openapi/v3"} {
		if err := get(path, path); err != nil {
			return nil, err
		}
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal([]byte(docs["/openapi/v3"]), &index); err != nil {
		return nil, err
	}
	for name, of := range index.Paths {
		if err := get("/openapi/v3/"+name, of.ServerRelativeURL); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// recordedAPI is what the file says of a time.
type recordedAPI struct {
	until time.Time
	doubt string
	docs  map[string]string
}

// readAPI reads what the file says of a time; of the last one that it claims, without one.
func readAPI(journal string, at time.Time) (is recordedAPI, err error) {
	f, err := apidocs.Open(journal)
	if err != nil {
		return is, err
	}
	defer f.Close()
	if spans := f.Spans(); at.IsZero() && len(spans) > 0 {
		at = spans[len(spans)-1].Until
	}
	m, doubt, err := f.At(at)
	if err != nil || m == nil {
		return is, fmt.Errorf("nothing is recorded: %s, %w", doubt, err)
	}
	is = recordedAPI{m.Until, doubt, make(map[string]string)}
	for _, doc := range m.Documents {
		b, err := m.Read(doc)
		if err != nil {
			return is, err
		}
		is.docs[doc.Path] = string(bytes.Clone(b))
	}
	return is, nil
}

// differ names a path at which two sets of documents differ; "" is none.
func differ(a, b map[string]string) string {
	for path := range maps.Keys(a) {
		if a[path] != b[path] {
			return path
		}
	}
	for path := range maps.Keys(b) {
		if _, is := a[path]; !is {
			return path
		}
	}
	return ""
}
