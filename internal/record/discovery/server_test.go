package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/test/loggingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(loggingtest.Hold(m)) }

// server answers discovery as an API server does, legacy or aggregated, and can lose groups.
type server struct {
	aggregated bool

	mu     sync.Mutex
	groups []group         // in the order in which they are announced; "" is core
	down   map[string]bool // "group/version" that does not answer
	broken bool            // everything answers 503
	noCore bool            // /api answers 404
	asked  int             // requests so far
	onList func()          // called when the resources of one group version are asked for; may be nil
}

type group struct {
	name     string
	versions []version // the first is preferred
}

type version struct {
	name      string
	resources []metav1.APIResource
}

var readOnly = metav1.Verbs{"get", "list", "watch"}

func res(name, singular, kind string, namespaced bool, verbs metav1.Verbs, short ...string) metav1.APIResource {
	return metav1.APIResource{Name: name, SingularName: singular, Kind: kind, Namespaced: namespaced, Verbs: verbs, ShortNames: short}
}

// cluster is the usual groups, and some odd ones.
func cluster() []group {
	return []group{
		{"", []version{{"v1", []metav1.APIResource{
			res("pods", "pod", "Pod", true, readOnly, "po"),
			res("pods/log", "", "Pod", true, metav1.Verbs{"get"}),
			res("nodes", "node", "Node", false, readOnly, "no"),
			res("configmaps", "configmap", "ConfigMap", true, readOnly, "cm"),
			res("events", "event", "Event", true, readOnly, "ev"),
			res("componentstatuses", "componentstatus", "ComponentStatus", false, metav1.Verbs{"get", "list"}, "cs"),
			res("bindings", "binding", "Binding", true, metav1.Verbs{"create"}),
		}}}},
		{"apps", []version{{"v1", []metav1.APIResource{
			res("deployments", "deployment", "Deployment", true, readOnly, "deploy"),
		}}, {"v1beta1", []metav1.APIResource{
			res("deployments", "deployment", "Deployment", true, readOnly, "deploy"),
			res("oldthings", "oldthing", "OldThing", true, readOnly),
		}}}},
		{"events.k8s.io", []version{{"v1", []metav1.APIResource{res("events", "event", "Event", true, readOnly, "ev")}}}},
		{"metrics.k8s.io", []version{{"v1beta1", []metav1.APIResource{
			res("pods", "pod", "PodMetrics", true, metav1.Verbs{"get", "list"}),
			res("nodes", "node", "NodeMetrics", false, metav1.Verbs{"get", "list"}),
		}}}},
		{"one.example.com", []version{{"v2", []metav1.APIResource{
			res("widgets", "widget", "Widget", true, readOnly, "wd"),
			res("gadgetry", "gadgetry", "BigGadget", false, readOnly),
		}}, {"v1", []metav1.APIResource{res("widgets", "widget", "Widget", true, readOnly, "wd")}}}},
		{"two.example.com", []version{{"v1", []metav1.APIResource{res("widgets", "widget", "Widget", true, readOnly, "wd")}}}},
	}
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.broken {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	if s.noCore && strings.HasPrefix(r.URL.Path, "/api") && !strings.HasPrefix(r.URL.Path, "/apis") {
		http.NotFound(w, r)
		return
	}
	aggregated := s.aggregated && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	var body any
	switch path := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); {
	case len(path) == 1 && aggregated:
		body = s.aggregate(path[0] == "api")
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	case len(path) == 1 && path[0] == "api":
		body = metav1.APIVersions{Versions: []string{"v1"}}
	case len(path) == 1:
		body = s.groupList()
	case len(path) == 2 && path[0] == "api":
		body = s.list("", path[1])
	case len(path) == 3:
		body = s.list(path[1], path[2])
	}
	if list, ok := body.(*metav1.APIResourceList); body == nil || ok && list == nil {
		http.Error(w, "the server is currently unable to handle the request", http.StatusServiceUnavailable)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (s *server) groupList() metav1.APIGroupList {
	var list metav1.APIGroupList
	for _, g := range s.groups {
		if g.name == "" {
			continue
		}
		out := metav1.APIGroup{Name: g.name}
		for _, v := range g.versions {
			out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v.name, Version: v.name})
		}
		out.PreferredVersion = out.Versions[0]
		list.Groups = append(list.Groups, out)
	}
	return list
}

func (s *server) list(groupName, versionName string) *metav1.APIResourceList {
	if s.onList != nil {
		s.onList()
	}
	if s.down[groupName+"/"+versionName] {
		return nil
	}
	for _, g := range s.groups {
		for _, v := range g.versions {
			if g.name == groupName && v.name == versionName {
				gv := strings.TrimPrefix(groupName+"/"+versionName, "/")
				return &metav1.APIResourceList{GroupVersion: gv, APIResources: v.resources}
			}
		}
	}
	return nil
}

func (s *server) aggregate(core bool) apidiscoveryv2.APIGroupDiscoveryList {
	var list apidiscoveryv2.APIGroupDiscoveryList
	for _, g := range s.groups {
		if (g.name == "") != core {
			continue
		}
		out := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			av := apidiscoveryv2.APIVersionDiscovery{Version: v.name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			if s.down[g.name+"/"+v.name] {
				av.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
			} else {
				av.Resources = aggregateResources(g.name, v)
			}
			out.Versions = append(out.Versions, av)
		}
		list.Items = append(list.Items, out)
	}
	return list
}

func aggregateResources(groupName string, v version) []apidiscoveryv2.APIResourceDiscovery {
	var out []apidiscoveryv2.APIResourceDiscovery
	for _, r := range v.resources {
		scope := apidiscoveryv2.ScopeCluster
		if r.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		if strings.Contains(r.Name, "/") {
			continue
		}
		out = append(out, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Name, SingularResource: r.SingularName, Scope: scope, ShortNames: r.ShortNames, Verbs: r.Verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: groupName, Version: v.name, Kind: r.Kind},
		})
	}
	return out
}

// newResolver starts a server and a resolver of it; both forms of discovery must give the same answers.
func newResolver(t *testing.T, aggregated bool) (*server, *Resolver) {
	t.Helper()
	s := &server{aggregated: aggregated, groups: cluster(), down: map[string]bool{}}
	ts := httptest.NewServer(s)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: ts.URL, Timeout: 10 * time.Second, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return s, New(client)
}

// bothForms runs a test against legacy and aggregated discovery.
func bothForms(t *testing.T, test func(t *testing.T, s *server, r *Resolver)) {
	t.Helper()
	for name, aggregated := range map[string]bool{"legacy": false, "aggregated": true} {
		t.Run(name, func(t *testing.T) {
			s, r := newResolver(t, aggregated)
			test(t, s, r)
		})
	}
}
