package past

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/serve"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

const (
	patience  = 3 * time.Minute
	timeLimit = 10 * time.Minute
)

// config has all of every object in the journal: what the defaults drop and redact is no difference of serve.
const config = `
resources: [{resource: "*", group: "*"}]
dropFields: []
redactSecrets: false
output: {path: journal.jsonl}
checkpoint: {path: kubejournal.db}
listen: 127.0.0.1:0
`

// stage is an API server, and kubejournal that watches it.
type stage struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  *http.Client
	dir     string
	program string
	daemon  *program.Process
	moments []moment
}

// moment is what the API server has answered at a time.
type moment struct {
	at      time.Time
	answers map[Request]Answer
}

func open(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir()}
	var err error
	if s.cluster, err = cluster.Start(t.Context(), cluster.Options{TimeLimit: timeLimit}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.client, err = rest.HTTPClientFor(s.cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	if s.program, err = program.Build(t.Context(), s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "kubejournal.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) start() {
	s.t.Helper()
	cmd := exec.Command(s.program, "run")
	cmd.Dir, cmd.Env = s.dir, program.Environ(s.dir, "KUBECONFIG="+s.cluster.Kubeconfig())
	var err error
	if s.daemon, err = program.Start(cmd, filepath.Join(s.dir, "kubejournal.log")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.daemon.End)
	if err := s.daemon.Wait(s.t.Context(), patience, "kubejournal is ready", func() error {
		return s.daemon.Ready(s.t.Context())
	}); err != nil {
		s.t.Fatal(err)
	}
}

// send sends a request to the API server.
func (s *stage) send(method, path, accept, body string) Answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.cluster.RESTConfig().Host+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return Answer{got.StatusCode, string(text)}
}

// write writes, and waits until the journal has it.
func (s *stage) write(method, path, body string) {
	s.t.Helper()
	got := s.send(method, path, "", body)
	if got.Status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	var o struct {
		Kind     string
		Metadata struct{ UID, ResourceVersion string }
		Details  struct{ UID string }
	}
	if err := json.Unmarshal([]byte(got.Body), &o); err != nil {
		s.t.Fatal(err)
	}
	want := fmt.Sprintf(`"id":"%s/%s/`, o.Metadata.UID, o.Metadata.ResourceVersion)
	if method == http.MethodDelete {
		if want = fmt.Sprintf(`"id":"%s/`, o.Details.UID); o.Kind != "Status" {
			want = fmt.Sprintf(`"id":"%s/`, o.Metadata.UID)
		}
	}
	if s.daemon == nil {
		return
	}
	if err := s.daemon.Wait(s.t.Context(), patience, "the journal has "+path, func() error {
		text, err := os.ReadFile(filepath.Join(s.dir, "journal.jsonl"))
		if err != nil {
			return err
		}
		for l := range bytes.Lines(text) {
			if bytes.Contains(l, []byte(want)) && (method == http.MethodDelete) == bytes.Contains(l, []byte(`"type":"DELETED"`)) {
				return nil
			}
		}
		return errors.New("no line has " + want)
	}); err != nil {
		s.t.Fatal(err)
	}
}

// requests are asked at each moment.
var requests = []Request{
	{"/api/v1/namespaces/shop/configmaps", ""},
	{"/api/v1/namespaces/shop/configmaps/settings", ""},
	{"/api/v1/namespaces/shop/configmaps/settings", AsPartial},
	{"/api/v1/namespaces/shop/configmaps/gone", ""},
	{"/api/v1/namespaces/shop/configmaps?labelSelector=app%3Dweb", ""},
	{"/api/v1/namespaces/shop/configmaps?labelSelector=app%20notin%20(web),tier", ""},
	{"/api/v1/configmaps?fieldSelector=metadata.name%3Dsettings", ""},
	{"/api/v1/configmaps?fieldSelector=metadata.namespace%21%3Dkube-system", ""},
	{"/api/v1/configmaps", AsList},
	{"/api/v1/configmaps?labelSelector=app%20has%20web", ""},
	{"/api/v1/namespaces", ""},
	{"/api/v1/namespaces/shop", ""},
	{"/api/v1/namespaces?fieldSelector=status.phase%3DActive", ""},
	{"/api/v1/namespaces/none/configmaps", ""},
	{"/api/v1/namespaces/shop/secrets", ""},
	{"/api/v1/secrets?fieldSelector=type%3Dkubernetes.io/basic-auth", ""},
	{"/api/v1/namespaces/shop/secrets/login", ""},
	{"/api/v1/services", ""},
	{"/api/v1/services?fieldSelector=spec.type%3DNodePort", ""},
	{"/api/v1/pods", ""},
	{"/api/v1/pods?fieldSelector=status.phase%3DPending", ""},
	{"/api/v1/pods?fieldSelector=spec.nodeName%21%3D", ""},
	{"/api/v1/pods?fieldSelector=spec.hostNetwork%3Dtrue", ""},
	{"/api/v1/pods?fieldSelector=spec.colour%3Dred", ""},
	{"/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue", ""},
	{"/api/v1/nodes/node-a", ""},
	{"/api/v1/nodes/node-b", ""},
	{"/api/v1/events?fieldSelector=involvedObject.name%3Dweb,reason%3DTested", ""},
	{"/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dweb,reason%3DTested", ""},
	{"/apis/apps/v1/deployments", ""},
	{"/apis/apps/v1/namespaces/shop/deployments/web", ""},
	{"/apis/apps/v1/deployments?fieldSelector=status.replicas%3D1", ""},
	{"/apis/batch/v1/jobs?fieldSelector=status.successful%3D0", ""},
	{"/apis/batch/v1/jobs?fieldSelector=status.failed%3D0", ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles/view", ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", ""},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", ""},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/teams.example.com", ""},
	{"/apis/example.com/v1/teams", ""},
	{"/api/v1/namespaces/shop/configmaps", AsTable},
	{"/api/v1/namespaces/shop/configmaps/settings?includeObject=Object", AsTable},
	{"/api/v1/namespaces", AsTable},
	{"/api/v1/services?includeObject=None", AsTable},
	{"/api/v1/pods", AsTable},
	{"/api/v1/nodes", AsTable},
	{"/apis/apps/v1/deployments", AsTable},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", AsTable},
	{"/apis/example.com/v1/teams", AsTable},
	{"/apis/example.com/v1/teams", AsList},
	{"/apis/example.com/v1/namespaces/shop/teams?includeObject=None", AsTable},
	{"/apis/example.com/v1/namespaces/shop/teams?includeObject=Object", AsTable},
	{"/apis/example.com/v1/namespaces/shop/teams/red", ""},
	{"/apis/example.com/v1/namespaces/shop/teams/red", AsTable},
	{"/apis/example.com/v1/namespaces/shop/teams/red", AsPartial},
	{"/apis/example.com/v1/namespaces/shop/teams/none", ""},
	{"/apis/example.com/v1/teams?fieldSelector=spec.colour%3Dred", ""},
	{"/apis/example.com/v1/teams?fieldSelector=spec.size%3D1", ""},
	{"/apis/example.com/v1/things", ""},
	{"/apis/nobody.example.com/v1/things", ""},
	{"/apis/nobody.example.com", ""},
	{"/api/v1/pods?limit=1000&resourceVersionMatch=Exact", ""},
	{"/api/v1/pods?sendInitialEvents=true", ""},
	{"/api/v1/pods?watch=1&sendInitialEvents=true", ""},
	{"/api/v1/configmaps?includeObject=All", AsTable},
	{"/api/v1/configmaps?pretty=true", ""},
	{"/api/v1/namespaces/shop/configmaps/settings?pretty=true", ""},
	{"/apis/example.com/v1/teams?pretty=true", ""},
	{"/api", ""},
	{"/apis/example.com", ""},
	{"/readyz", ""},
}

// record has the API server answer the requests.
func (s *stage) record() {
	s.t.Helper()
	m := moment{answers: map[Request]Answer{}}
	for _, r := range requests {
		m.answers[r] = s.send(http.MethodGet, r.Path, r.Accept, "")
	}
	m.at = time.Now()
	s.moments = append(s.moments, m)
}

func (s *stage) serve(at time.Time) *serve.Server {
	s.t.Helper()
	past, err := serve.New(s.t.Context(), serve.Options{
		Paths: []string{filepath.Join(s.dir, "journal.jsonl")}, At: argument.Moment{Time: at}, Notice: func(text string) { s.t.Log(text) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(past.Close)
	return past
}

const team = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"teams.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"teams","singular":"team","kind":"Team","shortNames":["tm"],"categories":["people"]},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
"selectableFields":[],"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},{"name":"Colour","type":"string","jsonPath":".spec.colour"},
{"name":"All","type":"string","jsonPath":".spec.list"},{"name":"First","type":"string","jsonPath":".spec.list[0]"},{"name":"Ratio","type":"number","jsonPath":".spec.size"},
{"name":"Since","type":"date","jsonPath":".spec.since"},{"name":"Good","type":"boolean","jsonPath":".spec.good","priority":1},
{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}]}]}}`

func (s *stage) setUp() {
	s.t.Helper()
	definition := strings.Replace(team, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		`{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"colour":{"type":"string"}}}}}`, 1)
	definition = strings.Replace(definition, `"selectableFields":[]`, `"selectableFields":[{"jsonPath":".spec.colour"}]`, 1)
	for path, bodies := range map[string][]string{
		"/api/v1/namespaces": {`{"metadata":{"name":"shop"}}`, `{"metadata":{"name":"shop-2"}}`},
		"/api/v1/nodes":      {`{"metadata":{"name":"node-a"}}`, `{"metadata":{"name":"node-b"},"spec":{"unschedulable":true}}`},
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {definition},
	} {
		for _, body := range bodies {
			s.write(http.MethodPost, path, body)
		}
	}
	if err := program.Eventually(s.t.Context(), patience, "teams are served", func() error {
		if got := s.send(http.MethodGet, "/apis/example.com/v1/teams", "", ""); got.Status != http.StatusOK {
			return errors.New(got.Body)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) objects() {
	s.t.Helper()
	spec := `{"containers":[{"name":"web","image":"web:1"}],"automountServiceAccountToken":false,"serviceAccountName":"none"`
	for path, bodies := range map[string][]string{
		"/api/v1/namespaces/shop/configmaps": {`{"metadata":{"name":"settings","labels":{"app":"web"}},"data":{"html":"<b>&</b>","b":"1","a":"2"}}`,
			`{"metadata":{"name":"other","labels":{"app":"db","tier":"back"}}}`, `{"metadata":{"name":"settings-2"},"binaryData":{"x":"AAEC"}}`},
		"/api/v1/namespaces/shop-2/configmaps":      {`{"metadata":{"name":"settings"}}`},
		"/api/v1/namespaces/shop/secrets":           {`{"metadata":{"name":"login"},"type":"kubernetes.io/basic-auth","stringData":{"username":"u","password":"p"}}`},
		"/api/v1/namespaces/shop/services":          {`{"metadata":{"name":"web"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`},
		"/apis/apps/v1/namespaces/shop/deployments": {`{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` + spec + `}}}}`},
		"/apis/batch/v1/namespaces/shop/jobs":       {`{"metadata":{"name":"once"},"spec":{"template":{"spec":` + spec + `,"restartPolicy":"Never"}}}}`},
		"/api/v1/namespaces/shop/events":            {`{"metadata":{"name":"web.1"},"involvedObject":{"kind":"Deployment","namespace":"shop","name":"web"},"reason":"Tested","message":"m","type":"Normal","source":{"component":"test"}}`},
		"/apis/example.com/v1/namespaces/shop/teams": {`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red"},"spec":{"size":3,"colour":"red","good":true,"list":["x",1,{"y":2.5}],"since":"2020-01-01T00:00:00Z"}}`,
			`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"blue"},"spec":{"size":"many","since":"never","good":"yes"}}`},
		"/apis/example.com/v1/namespaces/shop-2/teams": {`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red"},"spec":{"size":2.5,"colour":"green"}}`},
	} {
		for _, body := range bodies {
			s.write(http.MethodPost, path, body)
		}
	}
}

// TestSame has kubejournal join a server that has objects, records what the server answers at moments between writes, and
// asks the journal for them afterwards.
func TestSame(t *testing.T) {
	s := open(t)
	s.setUp()
	s.write(http.MethodPost, "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"early"},"data":{"a":"1"}}`)
	s.start()
	s.record()
	s.objects()
	s.record()
	s.write(http.MethodPatch, "/api/v1/namespaces/shop/configmaps/settings", `{"data":{"a":"3"},"metadata":{"labels":{"app":"db"}}}`)
	s.write(http.MethodPatch, "/apis/example.com/v1/namespaces/shop/teams/blue", `{"spec":{"colour":"red"}}`)
	s.write(http.MethodDelete, "/api/v1/namespaces/shop/configmaps/other", "")
	s.write(http.MethodDelete, "/apis/example.com/v1/namespaces/shop/teams/red", "")
	s.write(http.MethodPatch, "/api/v1/nodes/node-b", `{"spec":{"unschedulable":false}}`)
	s.record()
	for n := range 17 { // which makes 20 moments
		s.write(http.MethodPost, "/api/v1/namespaces/shop/configmaps", fmt.Sprintf(`{"metadata":{"name":"n%d","labels":{"app":"web"}}}`, n))
		if n%3 > 0 {
			s.write(http.MethodDelete, fmt.Sprintf("/api/v1/namespaces/shop/configmaps/n%d", n-1), "")
		}
		s.write(http.MethodPatch, "/api/v1/namespaces/shop/configmaps/settings", fmt.Sprintf(`{"data":{"n":"%d"}}`, n))
		s.write(http.MethodPatch, "/apis/apps/v1/namespaces/shop/deployments/web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n%4))
		s.write(http.MethodPatch, "/apis/example.com/v1/namespaces/shop/teams/blue", fmt.Sprintf(`{"spec":{"size":%d}}`, n))
		s.record()
	}
	compared := 0
	for n, m := range s.moments {
		past := s.serve(m.at)
		for _, r := range requests {
			want, got := Same(m.answers[r]), Same(Get(past, r))
			compared++
			if got != want {
				t.Errorf("moment %d, %s %s: %s", n, r.Path, r.Accept, Difference(got, want))
			}
		}
	}
	t.Logf("%d answers were the same", compared)
	s.pages()
	s.watches()
	s.discovery()
}

// pages compares lists that come in pages, whose tokens differ.
func (s *stage) pages() {
	s.t.Helper()
	past := s.serve(s.moments[len(s.moments)-1].at)
	token := regexp.MustCompile(`"continue":"([^"]+)"`)
	for _, path := range []string{
		"/api/v1/configmaps?limit=2", "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=50", "/apis/example.com/v1/teams?limit=1",
		"/api/v1/configmaps?limit=1&labelSelector=app%3Ddb",
	} {
		var wantNext, gotNext string
		for n := 0; n == 0 || wantNext != "" || gotNext != ""; n++ {
			want := Same(s.send(http.MethodGet, path+"&continue="+wantNext, "", ""))
			got := Same(Get(past, Request{path + "&continue=" + gotNext, ""}))
			next := func(a *Answer) string {
				m := token.FindStringSubmatch(a.Body)
				a.Body = regexp.MustCompile(`"resourceVersion":"(\d+|…)"`).ReplaceAllString(token.ReplaceAllString(a.Body, `"continue":"…"`), "")
				if m == nil {
					return ""
				}
				return m[1]
			}
			if wantNext, gotNext = next(&want), next(&got); got != want {
				s.t.Errorf("page %d of %s: %s", n, path, Difference(got, want))
				break
			}
		}
	}
}

// watches compares what came after the first moment.
func (s *stage) watches() {
	s.t.Helper()
	past := s.serve(s.moments[len(s.moments)-1].at)
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/shop/configmaps", "/apis/example.com/v1/teams"} {
		for _, query := range []string{"", "&labelSelector=app%3Dweb", "&fieldSelector=metadata.name%3Dsettings"} {
			first := Get(s.serve(s.moments[0].at), Request{path, ""})
			if err := json.Unmarshal([]byte(first.Body), &list); err != nil {
				s.t.Fatal(err)
			}
			r := Request{path + "?watch=1&timeoutSeconds=2&resourceVersion=" + list.Metadata.ResourceVersion + query, ""}
			want, got := s.send(http.MethodGet, r.Path, "", ""), Get(past, r)
			if got != want || got.Body == "" && query == "" {
				s.t.Errorf("%s: %s", r.Path, Difference(got, want))
			}
		}
	}
}

// discovery compares what is said of each resource that is served.
func (s *stage) discovery() {
	s.t.Helper()
	past := s.serve(s.moments[len(s.moments)-1].at)
	resources := func(a Answer) map[string]string {
		all, err := Resources(a)
		if err != nil {
			s.t.Fatal(err)
		}
		return all
	}
	for _, path := range []string{"/api", "/apis"} {
		want, got := resources(s.send(http.MethodGet, path, AsGroups, "")), resources(Get(past, Request{path, AsGroups}))
		for name, text := range got {
			if text != want[name] {
				s.t.Errorf("%s: %s, want %s", name, text, want[name])
			}
		}
		if len(got) < 15 {
			s.t.Errorf("%d resources below %s", len(got), path)
		}
	}
}
