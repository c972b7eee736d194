package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

func mustRefresh(t *testing.T, r *Resolver) {
	t.Helper()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
}

// resolveOne returns resource.version.group of the one stream an entry comes to.
func resolveOne(t *testing.T, r *Resolver, entry config.Resource) string {
	t.Helper()
	streams, err := r.Resolve(entry)
	if err != nil {
		return "error: " + err.Error()
	}
	if len(streams) != 1 {
		t.Fatalf("%+v came to %d streams", entry, len(streams))
	}
	gvr := streams[0].GVR
	return gvr.Resource + "." + gvr.Version + "." + gvr.Group
}

func ptr(s string) *string { return &s }

func TestResolveNames(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		mustRefresh(t, r)
		if s.set(func(s *server) {}); s.aggregated && s.asked != 2 {
			t.Errorf("aggregated discovery took %d requests, want 2", s.asked)
		}
		for _, tc := range []struct {
			entry config.Resource
			want  string
		}{
			{config.Resource{Name: "pods"}, "pods.v1."},
			{config.Resource{Name: "pod"}, "pods.v1."},
			{config.Resource{Name: "po"}, "pods.v1."},
			{config.Resource{Name: "Pod"}, "pods.v1."},
			{config.Resource{Name: "PODS"}, "pods.v1."},
			{config.Resource{Name: "Deploy.Apps"}, "deployments.v1.apps"}, // a short name in another case, which kubectl refuses
			{config.Resource{Name: "pods.v1."}, "pods.v1."},
			{config.Resource{Name: "pods", Version: "v1"}, "pods.v1."},
			{config.Resource{Name: "ConfigMap"}, "configmaps.v1."},
			{config.Resource{Name: "cm"}, "configmaps.v1."},
			{config.Resource{Name: "deploy"}, "deployments.v1.apps"},
			{config.Resource{Name: "Deployment"}, "deployments.v1.apps"},
			{config.Resource{Name: "deployments.apps"}, "deployments.v1.apps"},
			{config.Resource{Name: "deploy.apps"}, "deployments.v1.apps"},
			{config.Resource{Name: "deployments.v1.apps"}, "deployments.v1.apps"},
			{config.Resource{Name: "deployments.v1beta1.apps"}, "deployments.v1beta1.apps"},
			{config.Resource{Name: "deploy.v1beta1.apps"}, "deployments.v1beta1.apps"},
			{config.Resource{Name: "deployments", Version: "v1beta1"}, "deployments.v1beta1.apps"},
			{config.Resource{Name: "deploy", Group: ptr("apps"), Version: "v1beta1"}, "deployments.v1beta1.apps"},
			{config.Resource{Name: "deployments.apps", Version: "v1beta1"}, "deployments.v1beta1.apps"},
			{config.Resource{Name: "oldthings"}, "oldthings.v1beta1.apps"}, // in no preferred version
			{config.Resource{Name: "events"}, "events.v1."},                // core first
			{config.Resource{Name: "ev"}, "events.v1."},
			{config.Resource{Name: "events.events.k8s.io"}, "events.v1.events.k8s.io"},
			{config.Resource{Name: "events", Group: ptr("events.k8s.io")}, "events.v1.events.k8s.io"},
			{config.Resource{Name: "events", Group: ptr("")}, "events.v1."},
			{config.Resource{Name: "widgets"}, "widgets.v2.one.example.com"}, // the group's order, the preferred version
			{config.Resource{Name: "wd"}, "widgets.v2.one.example.com"},
			{config.Resource{Name: "widgets.two.example.com"}, "widgets.v1.two.example.com"},
			{config.Resource{Name: "wd", Group: ptr("two.example.com")}, "widgets.v1.two.example.com"},
			{config.Resource{Name: "widgets.one"}, "widgets.v2.one.example.com"}, // kubectl takes the beginning of a group
			{config.Resource{Name: "BigGadget"}, "gadgetry.v2.one.example.com"},  // a kind that no name resembles
			{config.Resource{Name: "gadgetry"}, "gadgetry.v2.one.example.com"},
			{config.Resource{Name: "BigGadget.v2.one.example.com"}, "gadgetry.v2.one.example.com"},
		} {
			if got := resolveOne(t, r, tc.entry); got != tc.want {
				t.Errorf("%s %v %s: got %s, want %s", tc.entry.Name, tc.entry.Group, tc.entry.Version, got, tc.want)
			}
		}
	})
}

// Where an aggregated API names no singular, that is the kind, and like every singular it goes before short names.
func TestNoSingular(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"z.example.com", []version{{"v1", []metav1.APIResource{res("decks", "", "CM", true, readOnly)}}}})
		})
		mustRefresh(t, r)
		if got, want := resolveOne(t, r, config.Resource{Name: "cm"}), "decks.v1.z.example.com"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestNotFound(t *testing.T) {
	bothForms(t, func(t *testing.T, _ *server, r *Resolver) {
		mustRefresh(t, r)
		for _, entry := range []config.Resource{
			{Name: "gizmos"}, {Name: "gizmos.example.com"}, {Name: "deployments.v7.apps"}, {Name: "pods", Version: "v2"},
			{Name: "deployments", Group: ptr("")}, {Name: "pods", Group: ptr("apps")}, {Name: "podlists"}, {Name: "lists"},
			{Name: "podlist"}, {Name: "pods/log"}, {Name: ""}, {Name: "."}, {Name: "deployments", Group: ptr("app")},
		} {
			streams, err := r.Resolve(entry)
			var missing *NotFoundError
			if !errors.As(err, &missing) {
				t.Errorf("%q: got %v, %v, want a NotFoundError", entry.Name, streams, err)
			}
		}
		_, err := r.Resolve(config.Resource{Name: "gizmos", Group: ptr("example.com"), Version: "v1"})
		if want := `the server has no resource "gizmos.v1.example.com"`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// What a server does not have may be a slip for what it has, or a custom resource that is still to come.
func TestNotFoundNear(t *testing.T) {
	for name, want := range map[string]struct {
		near    string
		mayCome bool
	}{
		"deploymnets":               {near: "deployments"},
		"DEPLOYMNETS":               {near: "deployments"},
		"podz":                      {near: "pods"},
		"statefullset":              {near: "statefulset"},
		"pcv":                       {near: "pvc"},
		"deployments.aps":           {near: "deployments.apps"},
		"deploymnets.v1.apps":       {near: "deployments.apps"},
		"leases.cordination.k8s.io": {near: "leases.coordination.k8s.io", mayCome: true},
		"gizmos":                    {},
		"gizmos.apps":               {},
		"gizmos.v1.":                {},
		"gizmos.networking.k8s.io":  {}, // Kubernetes' own group, which comes with the server
		"gizmos.example.com":        {mayCome: true},
		"gizmos.v1.example.com":     {mayCome: true},
		"tokenreview":               {}, // which cannot be watched
	} {
		_, err := Offline().Resolve(config.Resource{Name: name})
		missing, ok := errors.AsType[*NotFoundError](err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if missing.Near != want.near || missing.MayCome() != want.mayCome {
			t.Errorf("%s: near %q, may come %t, want %q, %t", name, missing.Near, missing.MayCome(), want.near, want.mayCome)
		}
	}
	if silent := (&NotFoundError{Name: "gizmos", Failed: []schema.GroupVersion{{Group: "apps", Version: "v1"}}}); !silent.MayCome() {
		t.Error("a group that does not answer may have it")
	}
}

func TestUnwatchable(t *testing.T) {
	bothForms(t, func(t *testing.T, _ *server, r *Resolver) {
		mustRefresh(t, r)
		for name, want := range map[string]string{
			"cs":                  "componentstatuses cannot be journalled: it needs list and watch, the server offers get, list",
			"bindings":            "bindings cannot be journalled: it needs list and watch, the server offers create",
			"pods.metrics.k8s.io": "pods.metrics.k8s.io cannot be journalled: it needs list and watch, the server offers get, list",
		} {
			_, err := r.Resolve(config.Resource{Name: name})
			var unwatchable *UnwatchableError
			if !errors.As(err, &unwatchable) || err.Error() != want {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
		for name, of := range map[string]string{
			"cs": "componentstatuses", "po": "pods", "Pod": "pods", "pods": "pods", "pods.v1.": "pods", "deploy": "deployments.apps",
			"deployments.v1.apps": "deployments.apps", "deployment.apps": "deployments.apps",
		} {
			if fits, known := r.Fits(name, schema.ParseGroupResource(of)); !fits || !known {
				t.Errorf("%s fits %s: %v, known: %v", name, of, fits, known)
			}
			if fits, known := r.Fits(name, schema.ParseGroupResource("services")); fits || !known {
				t.Errorf("%s fits services: %v, known: %v", name, fits, known)
			}
		}
		// Where kubectl would take one of several, each fits.
		for _, of := range []string{"pods", "pods.metrics.k8s.io"} {
			if fits, known := r.Fits("pods", schema.ParseGroupResource(of)); !fits || !known {
				t.Errorf("pods fits %s: %v, known: %v", of, fits, known)
			}
		}
		if fits, known := r.Fits("nothing", schema.ParseGroupResource("pods")); fits || known {
			t.Errorf("nothing: %v, %v", fits, known)
		}
	})
}

func TestStreams(t *testing.T) {
	bothForms(t, func(t *testing.T, _ *server, r *Resolver) {
		mustRefresh(t, r)
		entry := config.Resource{
			Name: "deploy", Namespaces: []string{"web", "db"}, LabelSelector: "b in (y, x), a==1", FieldSelector: "metadata.name==n", Initial: config.Skip,
		}
		got, err := r.Resolve(entry)
		if err != nil {
			t.Fatal(err)
		}
		stream := Stream{
			GVR:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Kind: "Deployment", Namespaced: true, Namespace: "web",
			LabelSelector: "a=1,b in (x,y)", FieldSelector: "metadata.name=n", Initial: config.Skip, Entry: entry,
		}
		second := stream
		second.Namespace = "db"
		if diff := cmp.Diff([]Stream{stream, second}, got); diff != "" {
			t.Errorf("streams (-want +got):\n%s", diff)
		}
		const name = "deployments.apps?namespace=db&labelSelector=a%3D1%2Cb+in+%28x%2Cy%29&fieldSelector=metadata.name%3Dn"
		if got[1].Name() != name {
			t.Errorf("name %s, want %s", got[1].Name(), name)
		}
	})
}

// -n names a namespace for what has some, and means nothing for what has none.
func TestNamespaceOption(t *testing.T) {
	_, r := newResolver(t, true)
	mustRefresh(t, r)
	for name, want := range map[string]string{"pods": "pods?namespace=web", "nodes": "nodes"} {
		streams, err := r.Resolve(config.Resource{Name: name, Namespace: "web"})
		if err != nil || len(streams) != 1 || streams[0].Name() != want {
			t.Errorf("%s: got %v, %v, want %s", name, streams, err, want)
		}
	}
}

func TestNamespacesOfClusterScoped(t *testing.T) {
	_, r := newResolver(t, true)
	mustRefresh(t, r)
	_, err := r.Resolve(config.Resource{Name: "nodes", Namespaces: []string{"web"}, File: "k.yaml", Line: 7, Entry: "resources[2]"})
	var scope *EntryError
	const want = "k.yaml:7: resources[2].namespaces: nodes have no namespaces; leave namespaces out"
	if !errors.As(err, &scope) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStreamName(t *testing.T) {
	for _, tc := range []struct {
		stream Stream
		want   string
	}{
		{Stream{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}, "pods"},
		{Stream{GVR: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}}, "deployments.apps"},
		{
			Stream{GVR: schema.GroupVersionResource{Resource: "pods"}, Namespace: "web", LabelSelector: "app=web"},
			"pods?namespace=web&labelSelector=app%3Dweb",
		},
		{Stream{GVR: schema.GroupVersionResource{Resource: "pods"}, FieldSelector: "a=b"}, "pods?fieldSelector=a%3Db"},
	} {
		if got := tc.stream.Name(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// A custom resource is found once its definition is there, and lost with it.
func TestLaterResource(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		mustRefresh(t, r)
		entry := config.Resource{Name: "gizmos.example.com"}
		if got := resolveOne(t, r, entry); !strings.HasPrefix(got, "error: the server has no resource") {
			t.Fatalf("before: %s", got)
		}
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"example.com", []version{{"v1alpha1", []metav1.APIResource{
				res("gizmos", "gizmo", "Gizmo", true, readOnly),
			}}}})
		})
		mustRefresh(t, r)
		if got := resolveOne(t, r, entry); got != "gizmos.v1alpha1.example.com" {
			t.Errorf("after: %s", got)
		}
		s.set(func(s *server) { s.groups = s.groups[:len(s.groups)-1] })
		mustRefresh(t, r)
		if got := resolveOne(t, r, entry); !strings.HasPrefix(got, "error: the server has no resource") {
			t.Errorf("definition gone: %s", got)
		}
	})
}

// What a group that does not answer had before stays known, at its place in the order; the others move on.
func TestPartialFailure(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		mustRefresh(t, r)
		s.set(func(s *server) {
			s.down["one.example.com/v1"], s.down["one.example.com/v2"] = true, true
			s.down["apps/v1"] = true
			s.groups = append(s.groups, group{"example.com", []version{{"v1", []metav1.APIResource{res("gizmos", "gizmo", "Gizmo", true, readOnly)}}}})
		})
		err := r.Refresh(t.Context())
		var partial *PartialError
		if !errors.As(err, &partial) || len(partial.Failed) != 3 {
			t.Fatalf("refresh: got %v, want a PartialError of 3 versions", err)
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "one.example.com/v2: ") {
			t.Errorf("error %q is not one line that names the group", err)
		}
		for name, want := range map[string]string{
			"wd": "widgets.v2.one.example.com", "widgets": "widgets.v2.one.example.com", "deploy": "deployments.v1.apps",
			"gizmos": "gizmos.v1.example.com", "pods": "pods.v1.",
		} {
			if got := resolveOne(t, r, config.Resource{Name: name}); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		s.set(func(s *server) { clear(s.down) })
		mustRefresh(t, r)
	})
}

// A group that never answered is named by those that are not found.
func TestPartialFailureFromTheStart(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		s.set(func(s *server) { s.down["metrics.k8s.io/v1beta1"] = true })
		var partial *PartialError
		if err := r.Refresh(t.Context()); !errors.As(err, &partial) {
			t.Fatalf("refresh: %v", err)
		}
		if got := resolveOne(t, r, config.Resource{Name: "pods"}); got != "pods.v1." {
			t.Errorf("pods: %s", got)
		}
		_, err := r.Resolve(config.Resource{Name: "nodes.metrics.k8s.io"})
		const want = `the server has no resource "nodes.metrics.k8s.io", but it could not tell about metrics.k8s.io/v1beta1`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// Aggregated discovery may leave a failed group out of its list altogether.
func TestKeepFailedGroupNotListed(t *testing.T) {
	list := func(gv string, names ...string) *metav1.APIResourceList {
		l := &metav1.APIResourceList{GroupVersion: gv}
		for _, n := range names {
			l.APIResources = append(l.APIResources, res(n, strings.TrimSuffix(n, "s"), "K"+n, true, readOnly))
		}
		return l
	}
	announce := func(name string, versions ...string) *metav1.APIGroup {
		g := &metav1.APIGroup{Name: name}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		return g
	}
	before := newSnapshot([]*metav1.APIGroup{announce("a", "v1", "v2"), announce("b", "v1")},
		[]*metav1.APIResourceList{list("a/v1", "things"), list("a/v2", "things", "others"), list("b/v1", "things")}, new(PartialError), new(snapshot))
	failed := map[schema.GroupVersion]error{{Group: "a", Version: "v1"}: errors.New("x"), {Group: "c", Version: "v1"}: errors.New("y")}
	for name, groups := range map[string][]*metav1.APIGroup{
		"no version listed":  {announce("b", "v1")},
		"one version listed": {announce("a", "v2"), announce("b", "v1")},
	} {
		t.Run(name, func(t *testing.T) {
			after := newSnapshot(groups, []*metav1.APIResourceList{list("a/v2", "things", "others"), list("b/v1", "things")}, &PartialError{Failed: failed}, before)
			found := after.find("things", nil, "v1")
			if len(found) != 1 || found[0].gvr.Group != "a" {
				t.Errorf("found %v, want it in group a", found)
			}
			if want := []schema.GroupVersion{{Group: "c", Version: "v1"}}; !slices.Equal(after.failed, want) {
				t.Errorf("never seen: %v, want %v", after.failed, want)
			}
		})
	}
}

// The core resources never go; a 404 for them is a proxy's or a half-started server's.
func TestCoreIsNeverLost(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		mustRefresh(t, r)
		s.set(func(s *server) { s.noCore = true })
		var partial *PartialError
		if err := r.Refresh(t.Context()); !errors.As(err, &partial) || partial.Failed[core] == nil {
			t.Errorf("refresh: got %v, want a PartialError of v1", err)
		}
		if got := resolveOne(t, r, config.Resource{Name: "events"}); got != "events.v1." {
			t.Errorf("events: %s", got)
		}
	})
}

func TestTotalFailureKeepsAll(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		if _, err := r.Resolve(config.Resource{Name: "pods"}); !errors.Is(err, ErrNothingKnown) {
			t.Errorf("before the first refresh: %v", err)
		}
		if fits, known := r.Fits("pods", schema.ParseGroupResource("pods")); fits || known {
			t.Errorf("before the first refresh: %v, %v", fits, known)
		}
		mustRefresh(t, r)
		s.set(func(s *server) { s.broken = true })
		err := r.Refresh(t.Context())
		var partial *PartialError
		if err == nil || errors.As(err, &partial) {
			t.Errorf("refresh: got %v, want a total failure", err)
		}
		if got := resolveOne(t, r, config.Resource{Name: "deploy"}); got != "deployments.v1.apps" {
			t.Errorf("deploy: %s", got)
		}
	})
}

func TestCancelledRefresh(t *testing.T) {
	bothForms(t, func(t *testing.T, _ *server, r *Resolver) {
		mustRefresh(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Refresh(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got := resolveOne(t, r, config.Resource{Name: "deploy"}); got != "deployments.v1.apps" {
			t.Errorf("deploy: %s", got)
		}
	})
}

// A context that ends between two requests of legacy discovery fails the groups that were not asked yet. That is no
// answer about them: nothing is taken over, and it does not read as a partial failure.
func TestRefreshCancelledHalfway(t *testing.T) {
	s, r := newResolver(t, false)
	mustRefresh(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	s.set(func(s *server) {
		s.groups = append(s.groups, group{"example.com", []version{{"v1", []metav1.APIResource{res("gizmos", "gizmo", "Gizmo", true, readOnly)}}}})
		s.onList = cancel
	})
	err := r.Refresh(ctx)
	var partial *PartialError
	if !errors.Is(err, context.Canceled) || errors.As(err, &partial) {
		t.Errorf("got %v, want the context's own error", err)
	}
	if got := resolveOne(t, r, config.Resource{Name: "deploy"}); got != "deployments.v1.apps" {
		t.Errorf("deploy: %s", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	_, r := newResolver(t, true)
	mustRefresh(t, r)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				if err := r.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := r.Resolve(config.Resource{Name: "wd"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Two resources of one version share a singular, and the server gives no order between them.
func TestAmbiguousName(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"example.com", []version{{"v1", []metav1.APIResource{
				res("aas", "a", "A", true, readOnly), res("abs", "a", "B", true, readOnly),
			}}}})
		})
		mustRefresh(t, r)
		_, err := r.Resolve(config.Resource{Name: "a"})
		if want := `"a" could be any of aas.example.com, abs.example.com; write one of them`; !errors.As(err, new(*AmbiguousError)) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestAmbiguousText(t *testing.T) {
	err := &AmbiguousError{Name: "x", Matches: []schema.GroupResource{
		{Group: "b", Resource: "x"}, {Group: "a", Resource: "x"},
	}}
	if got, want := fmt.Sprint(err), `"x" could be any of x.a, x.b; write one of them`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Streams of one namespace are marked where another one has their objects: the ids of their lines must differ.
func TestOverlaps(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"project.openshift.io", []version{{"v1", []metav1.APIResource{
				res("projects", "project", "Project", false, readOnly),
			}}}})
		})
		mustRefresh(t, r)
		in := func(namespaces ...string) []string { return namespaces }
		for name, c := range map[string]struct {
			entries []config.Resource
			want    []string // the names of those that are marked
		}{
			"plain": {[]config.Resource{{Name: "pods"}, {Name: "deploy"}, {Name: "nodes"}}, nil},
			"namespaces": {
				[]config.Resource{{Name: "pods", Namespaces: in("web", "db")}, {Name: "po", Namespaces: in("test")}}, nil,
			},
			"of another": {[]config.Resource{{Name: "pods", Namespaces: in("web", "db")}, {Name: "deploy"}}, nil},
			"and all": {
				[]config.Resource{{Name: "po", Namespaces: in("web", "db")}, {Name: "pods"}},
				in("pods?namespace=web", "pods?namespace=db"),
			},
			"two groups": {
				[]config.Resource{{Name: "events.events.k8s.io"}, {Name: "events.v1.", Namespaces: in("web")}},
				in("events?namespace=web"),
			},
			"a view": {[]config.Resource{{Name: "nodes"}, {Name: "projects"}}, in("projects.project.openshift.io")},
			"selectors": {
				[]config.Resource{
					{Name: "po", LabelSelector: "a=1"}, {Name: "pods", Namespaces: in("web")},
					{Name: "pods", Namespaces: in("web"), LabelSelector: "a=1"},
				}, nil,
			},
		} {
			t.Run(name, func(t *testing.T) {
				var got []string
				for _, one := range r.ResolveAll(c.entries) {
					if one.Err != nil {
						t.Fatal(one.Err)
					}
					for _, st := range one.Streams {
						if st.Overlaps {
							got = append(got, st.Name())
						}
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("marked are %q, want %q", got, c.want)
				}
			})
		}
	})
}
