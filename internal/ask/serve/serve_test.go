package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// noon is when the journals of these tests begin.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// minute is so many minutes after that.
func minute(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }

// day is a journal that tests serve.
type day struct {
	*journaltest.Journal
	t                             *testing.T
	pods, namespaces, crds, teams *journaltest.Stream
	secrets                       *journaltest.Stream
}

const crd = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
	"metadata":{"name":"teams.example.com","uid":"d1"},"spec":{"group":"example.com","scope":"Namespaced",
	"names":{"plural":"teams","singular":"team","kind":"Team","listKind":"TeamList","shortNames":["tm"],"categories":["people"]},
	"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.colour"}],
	"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},
	{"name":"Colour","type":"string","jsonPath":".spec.colour","description":"of the shirts"},
	{"name":"Since","type":"date","jsonPath":".spec.since"},{"name":"Ratio","type":"number","jsonPath":".spec.ratio","priority":1},
	{"name":"Good","type":"boolean","jsonPath":".spec.good"},{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}]},
	{"name":"v1alpha1","served":false,"storage":false}]}}`

func pod(namespace, name, uid, node, phase string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":{"app":%q}},`+
		`"spec":{"nodeName":%q},"status":{"phase":%q}}`, name, namespace, uid, strings.TrimRight(name, "0123456789"), node, phase)
}

// newDay writes a journal: pods at noon in two namespaces, a change at each of the next minutes.
func newDay(t *testing.T) *day {
	t.Helper()
	d := &day{Journal: journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon), t: t}
	d.pods, d.namespaces = d.Stream("pods", "Pod"), d.Stream("namespaces", "Namespace")
	d.crds = d.Stream("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition")
	d.teams, d.secrets = d.Stream("teams.example.com", "Team"), d.Stream("secrets", "Secret")
	d.list(d.namespaces, `{"metadata":{"name":"a","uid":"e1"},"status":{"phase":"Active"}}`,
		`{"metadata":{"name":"a-b","uid":"e2"},"status":{"phase":"Active"}}`)
	d.list(d.pods, pod("a", "web1", "1", "n1", "Running"), pod("a-b", "web2", "2", "n2", "Running"),
		pod("a", "db1", "3", "n2", "Pending"))
	d.list(d.crds, crd)
	d.list(d.teams, `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"a","uid":"f1"},`+
		`"spec":{"colour":"red","good":true,"ratio":1,"since":"2026-11-22T11:00:00Z","size":3.0}}`,
		`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"blue","namespace":"a","uid":"f2"},"spec":{"colour":{"x":1}}}`)
	d.list(d.secrets, `{"metadata":{"name":"key","namespace":"a","uid":"c1"},"data":{"password":"REDACTED"},"type":"Opaque"}`)
	d.at(1)
	d.pods.Put("kubectl", pod("a", "db1", "3", "n2", "Running"))
	d.at(2)
	d.pods.Put("kubectl", pod("a", "web3", "4", "n1", "Pending"))
	d.at(3)
	d.pods.Delete("1")
	d.at(4)
	d.crds.Delete("d1")
	d.at(10)
	return d
}

func (d *day) list(s *journaltest.Stream, objects ...string) {
	d.t.Helper()
	s.Snapshot()
	for _, o := range objects {
		s.Put("", o)
	}
	s.Synced()
}

// at is some minutes later, and everything up to then is confirmed.
func (d *day) at(n float64) {
	d.t.Helper()
	d.Now = minute(n)
	d.Confirm(false, d.pods, d.namespaces, d.crds, d.teams, d.secrets)
	for t := d.t; ; <-time.After(time.Millisecond) { // coverage is written a moment later
		all, err := coverage.Read(d.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		if len(all) == 5 && !slices.ContainsFunc(all, func(s coverage.Stream) bool {
			return s.Intervals[len(s.Intervals)-1].To.Before(d.Now)
		}) {
			return
		}
	}
}

func serveAt(t *testing.T, d *day, at time.Time) *Server {
	t.Helper()
	return serveWith(t, Options{Paths: []string{d.Path}, At: argument.Moment{Time: at}})
}

func serveWith(t *testing.T, o Options) *Server {
	t.Helper()
	o.Notice = func(text string) { t.Log(text) }
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// response is an answer to a request.
type response struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// ask returns the answer to a request.
func ask(t *testing.T, s http.Handler, request string, headers ...string) response {
	t.Helper()
	method, path, ok := strings.Cut(request, " ")
	if !ok {
		method, path = http.MethodGet, request
	}
	path, body, _ := strings.Cut(path, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(t.Context())
	r.Host = "127.0.0.1:8001"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return response{w.Code, w.Header(), w.Body}
}

func body(t *testing.T, r response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answered returns the body of an answer that is to have a status.
func answered(t *testing.T, s http.Handler, status int, request string, headers ...string) string {
	t.Helper()
	r := ask(t, s, request, headers...)
	text := body(t, r)
	if r.StatusCode != status {
		t.Fatalf("%s: status %d, want %d: %s", request, r.StatusCode, status, text)
	}
	return text
}

// names returns namespace/name and version of the items of a list, and what it says of itself.
func names(t *testing.T, text string) (all []string, metadata map[string]any) {
	t.Helper()
	var list struct {
		Metadata map[string]any
		Items    []struct {
			Metadata struct{ Namespace, Name string }
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err, text)
	}
	for _, i := range list.Items {
		all = append(all, i.Metadata.Namespace+"/"+i.Metadata.Name)
	}
	return all, list.Metadata
}

func TestListsOfMoments(t *testing.T) {
	d := newDay(t)
	for _, tc := range []struct {
		at    float64
		path  string
		names string
	}{
		{0.5, "/api/v1/pods", "a-b/web2 a/db1 a/web1"}, // as keys are sorted: - comes before /
		{1.5, "/api/v1/pods?fieldSelector=status.phase%3DRunning", "a-b/web2 a/db1 a/web1"},
		{0.5, "/api/v1/pods?fieldSelector=status.phase%3DRunning", "a-b/web2 a/web1"},
		{2.5, "/api/v1/namespaces/a/pods", "a/db1 a/web1 a/web3"},
		{3.5, "/api/v1/namespaces/a/pods", "a/db1 a/web3"},
		{3.5, "/api/v1/namespaces/none/pods", ""},
		{3.5, "/api/v1/pods?labelSelector=app+in+(web)", "a-b/web2 a/web3"},
		{3.5, "/api/v1/pods?labelSelector=app%21%3Dweb", "a/db1"},
		{3.5, "/api/v1/pods?fieldSelector=metadata.name%3Dweb3", "a/web3"},
		{3.5, "/api/v1/pods?fieldSelector=metadata.namespace%21%3Da,spec.nodeName%3Dn2", "a-b/web2"},
		{3.5, "/api/v1/pods?fieldSelector=spec.host%3Dn1", "a/web3"},
		{3.5, "/api/v1/pods?fieldSelector=spec.hostNetwork%3Dfalse", "a-b/web2 a/db1 a/web3"},
		{3.5, "/apis/example.com/v1/teams?fieldSelector=spec.colour%3Dred", "a/red"},
		{3.5, "/api/v1/namespaces?fieldSelector=metadata.name%3Da", "/a"},
	} {
		got, _ := names(t, answered(t, serveAt(t, d, minute(tc.at)), 200, tc.path))
		if strings.Join(got, " ") != tc.names {
			t.Errorf("%v %s: %v, want %s", tc.at, tc.path, got, tc.names)
		}
	}
}

func TestForms(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/db1": `{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":"2026-11-22T12:00:00Z","labels":{"app":"db"},"name":"db1","namespace":"a","resourceVersion":"105",`,
		"/api/v1/namespaces?limit=1":    `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"21","continue":"`,
		"/api/v1/namespaces":            `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"21"},"items":[{"metadata":{`,
		"/apis/example.com/v1/teams":    `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Team","metadata":{`,
		"/api/v1/namespaces/a/secrets":  `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"`,
	} {
		text := answered(t, s, 200, path)
		if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "}\n") {
			t.Errorf("%s:\n%s\nwant\n%s", path, text, want)
		}
	}
	if text := answered(t, s, 200, "/api/v1/namespaces/a/secrets/key"); strings.Contains(text, "c2VjcmV0") {
		t.Error(text)
	}
	if text := answered(t, s, 200, "/apis/example.com/v1/teams"); !strings.HasSuffix(text, `],"kind":"TeamList","metadata":{"continue":"","resourceVersion":"`+listVersion(t, text)+"\"}}\n") {
		t.Error(text)
	}
	for _, tc := range []struct{ path, accept, want string }{
		{"/api/v1/namespaces/a/pods/db1", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{`},
		{"/api/v1/pods", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"`},
		{"/api/v1/pods", "application/vnd.kubernetes.protobuf, */*", `{"kind":"PodList"`},
	} {
		if text := answered(t, s, 200, tc.path, "Accept", tc.accept); !strings.HasPrefix(text, tc.want) {
			t.Errorf("%s %s: %s", tc.path, tc.accept, text)
		}
	}
	for _, accept := range []string{"application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Table;g=other;v=v1"} {
		if text := answered(t, s, 406, "/api/v1/pods", "Accept", accept); !strings.Contains(text, `"reason":"NotAcceptable"`) {
			t.Error(text)
		}
	}
}

func listVersion(t *testing.T, text string) string {
	t.Helper()
	_, metadata := names(t, text)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

func TestPages(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(2.5))
	for query, want := range map[string][]string{
		"limit=2":                         {"a-b/web2 a/db1", "a/web1 a/web3"},
		"limit=3":                         {"a-b/web2 a/db1 a/web1", "a/web3"},
		"limit=1&labelSelector=app%3Dweb": {"a-b/web2", "a/web1", "a/web3"},
		"limit=4":                         {"a-b/web2 a/db1 a/web1 a/web3"},
	} {
		var pages []string
		for next := ""; ; {
			text := answered(t, s, 200, "/api/v1/pods?"+query+"&continue="+next)
			got, metadata := names(t, text)
			pages = append(pages, strings.Join(got, " "))
			if next, _ = metadata["continue"].(string); next == "" {
				break
			}
			if left, ok := metadata["remainingItemCount"].(float64); ok == strings.Contains(query, "Selector") || ok && int(left) != 4-2*len(pages) && query == "limit=2" {
				t.Errorf("%s: %v", query, metadata)
			}
		}
		if !slices.Equal(pages, want) {
			t.Errorf("%s: %q, want %q", query, pages, want)
		}
	}
	for _, next := range []string{"x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0"} {
		if text := answered(t, s, 400, "/api/v1/pods?continue="+next); !strings.Contains(text, "continue key is not valid") {
			t.Error(text)
		}
	}
}

// The pages of one list are of one moment, though the moment moves.
func TestPagesStay(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, From: minute(2.5), Speed: 1e-9})
	_, metadata := names(t, answered(t, s, 200, "/api/v1/pods?limit=2"))
	s.From = minute(5)
	got, later := names(t, answered(t, s, 200, fmt.Sprintf("/api/v1/pods?limit=2&continue=%s", metadata["continue"])))
	if strings.Join(got, " ") != "a/web1 a/web3" || later["resourceVersion"] != metadata["resourceVersion"] {
		t.Error(got, later)
	}
}

func TestFaults(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	for _, tc := range []struct {
		request string
		status  int
		message string
	}{
		{"/api/v1/namespaces/a/pods/web1", 404, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"web1\" not found","reason":"NotFound","details":{"name":"web1","kind":"pods"},"code":404}`},
		{"/apis/example.com/v1/namespaces/a/teams/x", 404, `"message":"teams.example.com \"x\" not found","reason":"NotFound","details":{"name":"x","group":"example.com","kind":"teams"}`},
		{"/apis/nobody.example.com/v1/things", 404, "404 page not found"},
		{"/apis/nobody.example.com", 404, "404 page not found"},
		{"/api/v1/things", 404, "404 page not found"},
		{"/api/v2", 404, "404 page not found"},
		{"/debug/pprof/", 404, "404 page not found"},
		{"/api/v1/namespaces/a/nodes", 404, "404 page not found"},
		{"/api/v1/pods?fieldSelector=spec.colour%3Dred", 400, `"message":"field label not supported: spec.colour","reason":"BadRequest"`},
		{"/apis/apps/v1/deployments?fieldSelector=spec.colour%3Dred", 400, `\"spec.colour\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"`},
		{"/apis/example.com/v1/teams?fieldSelector=spec.size%3D1", 400, "field label not supported: spec.size"},
		{"/apis/batch/v1/jobs?fieldSelector=x%3D1", 400, `field label \"x\" not supported for Job`},
		{"/api/v1/pods?labelSelector=a+b", 400, "BadRequest"},
		{"/api/v1/pods?limit=x", 400, "invalid syntax"},
		{"/api/v1/pods?resourceVersion=99999999", 504, `"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]`},
		{"/api/v1/pods?resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"/api/v1/pods?watch=1&sendInitialEvents=true", 422, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"/api/v1/pods?watch=1&resourceVersion=1", 410, `"reason":"Expired"`},
		{"POST /api/v1/namespaces/a/pods {}", 405, "this is the past, as of "},
		{"DELETE /api/v1/namespaces/a/pods/db1", 405, `"reason":"MethodNotAllowed"`},
		{"PATCH /apis/apps/v1/namespaces/a/deployments/x {}", 405, "it can be read only, and patch is not possible"},
		{"PUT /api/v1/nodes/x {}", 405, "MethodNotAllowed"},
		{"/api/v1/namespaces/a/pods/db1/log?follow=true", 405, "pods/log is not possible"},
		{"POST /api/v1/namespaces/a/pods/db1/exec?command=sh", 405, "pods/exec is not possible"},
		{"/api/v1/namespaces/a/pods/db1/exec?command=sh", 405, "pods/exec"},
		{"/api/v1/namespaces/a/services/x/proxy/a/b", 405, "services/proxy/a/b"},
		{"/api/v1/proxy/namespaces/a/services/x", 405, "proxy"},
		{"/openapi/v2", 404, "kubectl explain needs"},
	} {
		text := answered(t, s, tc.status, tc.request)
		if !strings.Contains(text, tc.message) {
			t.Errorf("%s: %s", tc.request, text)
		}
	}
	if text := answered(t, s, 200, "/api/v1/namespaces/a/pods/db1/status"); !strings.Contains(text, `"phase":"Running"`) {
		t.Error(text)
	}
}

func TestWarnings(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	r := ask(t, s, "/apis/apps/v1/deployments")
	if got, _ := names(t, body(t, r)); got != nil || !strings.Contains(r.Header.Get("Warning"), `299 - "not covered: no stream was watched that has such objects"`) {
		t.Error(got, r.Header)
	}
	if r := ask(t, s, "/api/v1/pods"); r.Header.Get("Warning") != "" {
		t.Error(r.Header)
	}
	if r := ask(t, s, "/api/v1/secrets", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"); r.Header.Get("Warning") != "" {
		t.Error(r.Header)
	}
	if r := ask(t, s, "/api/v1/secrets"); !strings.Contains(r.Header.Get("Warning"), "secrets a/key: values are REDACTED, as they are in the journal\"") {
		t.Error(r.Header)
	}
	early := serveAt(t, d, noon.Add(-time.Hour))
	if r := ask(t, early, "/api/v1/namespaces/a/pods/db1"); r.StatusCode != 404 || !strings.Contains(r.Header.Get("Warning"), "not watched yet") {
		t.Error(r.StatusCode, r.Header)
	}
	d.Now = minute(20)
	d.pods.Gap(line.Expired, minute(10))
	d.pods.Synced()
	d.at(21)
	if r := ask(t, serveAt(t, d, minute(15)), "/api/v1/pods"); !strings.Contains(r.Header.Get("Warning"), "GAP Expired") {
		t.Error(r.Header)
	}
}

func TestDiscovery(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
	r := ask(t, s, "/apis", "Accept", v2)
	if got := r.Header.Get("Content-Type"); got != "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" {
		t.Error(got)
	}
	text := body(t, r)
	team := `{"resource":"teams","responseKind":{"group":"example.com","version":"v1","kind":"Team"},"scope":"Namespaced","singularResource":"team","verbs":["get","list","watch"],"shortNames":["tm"],"categories":["people"]}`
	if !strings.Contains(text, team) || strings.Contains(text, "v1alpha1") {
		t.Error(text)
	}
	if text := answered(t, s, 200, "/api", "Accept", v2); !strings.Contains(text, `"resource":"pods"`) || strings.Contains(text, "deployments") {
		t.Error(text)
	}
	if text := answered(t, s, 200, "/apis/example.com/v1"); !strings.Contains(text, `{"name":"teams","singularName":"team","namespaced":true,"kind":"Team","verbs":["get","list","watch"],"shortNames":["tm"],"categories":["people"]}`) {
		t.Error(text)
	}
	// Its definition was deleted in the fourth minute.
	answered(t, serveAt(t, d, minute(5)), 404, "/apis/example.com/v1/teams")
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if text := answered(t, s, 200, path); text != "ok" {
			t.Error(text)
		}
	}
	answered(t, s, 200, "/version")
	answered(t, s, 200, "/apis/apps")
}

func TestTables(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3))
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	text := answered(t, s, 200, "/apis/example.com/v1/namespaces/a/teams?includeObject=None", "Accept", table)
	for _, want := range []string{
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"`,
		`"columnDefinitions":[{"name":"Name","type":"string","format":"name",`,
		`{"name":"Size","type":"integer","format":"","description":"Custom resource definition column (in JSONPath format): .spec.size","priority":0}`,
		`{"name":"Colour","type":"string","format":"","description":"of the shirts","priority":0}`,
		`{"cells":["blue",null,"{\"x\":1}",null,null,null,"3m"],"object":null}`,
		`{"cells":["red",3,"red","63m",1,true,"3m"],"object":null}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	text = answered(t, s, 200, "/api/v1/namespaces/a/pods/db1", "Accept", table)
	if !strings.Contains(text, `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{`) {
		t.Error(text)
	}
	if text := answered(t, s, 400, "/api/v1/pods?includeObject=All", "Accept", table); !strings.Contains(text, "includeObject") {
		t.Error(text)
	}
}

func TestReviews(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	const path = "POST /apis/authorization.k8s.io/v1/"
	for _, tc := range []struct{ what, spec, want string }{
		{"selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"list","resource":"pods"}}`, `"status":{"allowed":true}`},
		{"selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"delete","resource":"pods"}}`, `"status":{"allowed":false,"reason":"this is the past, as of `},
		{"selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"get","resource":"pods","subresource":"log"}}`, `"allowed":false`},
		{"selfsubjectaccessreviews", `{"nonResourceAttributes":{"verb":"get","path":"/version"}}`, `"allowed":true`},
		{"subjectaccessreviews", `{"user":"x","resourceAttributes":{"verb":"watch","resource":"pods"}}`, `"kind":"SubjectAccessReview"`},
		{"selfsubjectrulesreviews", `{"namespace":"a"}`, `"verbs":["get","list","watch"]`},
	} {
		text := answered(t, s, 201, path+tc.what+" {\"spec\":"+strings.ReplaceAll(tc.spec, " ", "")+"}")
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s %s: %s", tc.what, tc.spec, text)
		}
	}
	answered(t, s, 400, path+"selfsubjectaccessreviews {")
}

func TestGuard(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, At: argument.Moment{Time: minute(3)}, Token: "0123456789abcdef", Hosts: []string{"10.0.0.7"}})
	const token = "Bearer 0123456789abcdef"
	for _, tc := range []struct {
		status  int
		headers []string
	}{
		{401, nil},
		{401, []string{"Authorization", "Bearer 0123456789abcdeg"}},
		{401, []string{"Authorization", "0123456789abcdef"}},
		{200, []string{"Authorization", token}},
		{200, []string{"Authorization", token, "Host", "localhost:1"}},
		{200, []string{"Authorization", token, "Host", "[::1]:1"}},
		{200, []string{"Authorization", token, "Host", "10.0.0.7:8001"}},
		{403, []string{"Authorization", token, "Host", "evil.example.com:8001"}},
		{403, []string{"Authorization", token, "Host", "127.0.0.1.evil.example.com"}},
		{403, []string{"Authorization", token, "Origin", "http://evil.example.com"}},
		{403, []string{"Authorization", token, "Origin", "null"}},
		{403, []string{"Authorization", token, "Sec-Fetch-Site", "cross-site"}},
		{403, []string{"Authorization", token, "Sec-Fetch-Site", "same-site"}},
		{200, []string{"Authorization", token, "Sec-Fetch-Site", "same-origin"}},
		{200, []string{"Authorization", token, "Sec-Fetch-Site", "none"}},
		{403, []string{"Authorization", token, "Host", "10.0.0.8:8001"}},
		{200, []string{"Authorization", token, "Origin", "http://127.0.0.1:8001"}},
	} {
		answered(t, s, tc.status, "/api/v1/pods", tc.headers...)
	}
	answered(t, s, 414, "/api/v1/pods?labelSelector="+strings.Repeat("a", maxURL), "Authorization", token)
}

// events returns the events of a watch that ends by itself, each as its type, its object's name and its version.
func events(t *testing.T, s http.Handler, path string, headers ...string) []string {
	t.Helper()
	return eventsIn(t, answered(t, s, 200, path, headers...))
}

func eventsIn(t *testing.T, text string) (all []string) {
	t.Helper()
	for l := range strings.Lines(text) {
		var e struct {
			Type   string
			Object struct {
				Metadata struct {
					Name, ResourceVersion string
					Annotations           map[string]string
				}
				Message string
			}
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatal(err, l)
		}
		text := e.Type + " " + e.Object.Metadata.Name + " " + e.Object.Metadata.ResourceVersion
		if e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
			text += " end"
		}
		all = append(all, strings.Join(strings.Fields(text+" "+e.Object.Message), " "))
	}
	return all
}

func TestWatchOfAMoment(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	for path, want := range map[string][]string{
		"":                   {"ADDED web2 41", "ADDED db1 105", "ADDED web3 115"},
		"&resourceVersion=0": {"ADDED web2 41", "ADDED db1 105", "ADDED web3 115"},
		"&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true": {
			"ADDED web2 41", "ADDED db1 105", "ADDED web3 115", "BOOKMARK 125 end"},
		"&resourceVersion=125":                                                           nil,
		"&resourceVersion=105":                                                           {"ADDED web3 115", "DELETED web1 125"},
		"&resourceVersion=105&labelSelector=app%3Dweb":                                   {"ADDED web3 115", "DELETED web1 125"},
		"&resourceVersion=52&fieldSelector=status.phase%3DRunning":                       {"ADDED db1 105", "DELETED web1 125"},
		"&resourceVersion=52&fieldSelector=status.phase%3DPending":                       {"DELETED db1 105", "ADDED web3 115"},
		"&resourceVersion=52&fieldSelector=metadata.name%3Ddb1":                          {"MODIFIED db1 105"},
		"&resourceVersion=52&fieldSelector=metadata.namespace%3Da-b":                     nil,
		"&resourceVersion=105&sendInitialEvents=false&resourceVersionMatch=NotOlderThan": {"ADDED web3 115", "DELETED web1 125"},
	} {
		if got := events(t, s, "/api/v1/pods?watch=1&timeoutSeconds=1"+path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A moment that moves gives watches what happened then, and what comes after a gap is not passed off as its continuation.
func TestReplay(t *testing.T) {
	d := newDay(t)
	d.Now = minute(20)
	d.pods.Gap(line.Expired, minute(10))
	d.pods.Put("", pod("a", "web4", "5", "n1", "Running"))
	d.pods.Synced()
	d.at(21)
	s := serveWith(t, Options{Paths: []string{d.Path}, From: minute(0.5), Speed: 600})
	got := events(t, s, "/api/v1/pods?watch=1&resourceVersion=52&timeoutSeconds=60")
	want := []string{"MODIFIED db1 105", "ADDED web3 115", "DELETED web1 125", "ERROR too old resource version: the journal has a gap there"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without a moment the server follows a journal that is being written.
func TestFollows(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}})
	if got, _ := names(t, answered(t, s, 200, "/api/v1/namespaces/a/pods")); !slices.Equal(got, []string{"a/db1", "a/web3"}) {
		t.Error(got)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/pods?watch=1&resourceVersion=125", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	d.Now = time.Now()
	d.pods.Put("kubectl", pod("a", "web5", "6", "n1", "Running"))
	d.Confirm(false, d.pods)
	var text strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(text.String(), "\n"); {
		n, err := answer.Body.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b[:n])
	}
	if got := eventsIn(t, text.String()); len(got) != 1 || !strings.HasPrefix(got[0], "ADDED web5") {
		t.Error(got)
	}
}
