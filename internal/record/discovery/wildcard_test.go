package discovery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

// wild is an entry for name in group; "" in the place of a group says none.
func wild(name, group string, exclude ...string) config.Resource {
	r := config.Resource{Name: name, Exclude: exclude}
	if group != "" {
		r.Group = &group
	}
	return r
}

// outcome is what each entry comes to, as text: its streams, then its fault.
func outcome(r *Resolver, entries []config.Resource) []string {
	var all []string
	for _, resolved := range r.ResolveAll(entries) {
		var parts []string
		for _, s := range resolved.Streams {
			parts = append(parts, s.Name())
		}
		if resolved.Err != nil {
			parts = append(parts, kindOf(resolved.Err))
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

// kindOf is the type of an error; of an EntryError what is wrong with the entry.
func kindOf(err error) string {
	for part, kind := range map[string]string{"have no namespaces": "no namespaces", "the same stream": "same stream", "the same objects": "same objects"} {
		if errors.As(err, new(*EntryError)) && strings.Contains(err.Error(), part) {
			return kind
		}
	}
	return fmt.Sprintf("%T", err)
}

const (
	coreStreams = "pods nodes configmaps events"
	appsStreams = "deployments.apps oldthings.apps"
	restStreams = "widgets.one.example.com gadgetry.one.example.com widgets.two.example.com"
)

func TestWildcards(t *testing.T) {
	bothForms(t, func(t *testing.T, _ *server, r *Resolver) {
		mustRefresh(t, r)
		in := func(r config.Resource, namespaces ...string) config.Resource {
			r.Namespaces = namespaces
			return r
		}
		for _, tc := range []struct {
			name    string
			entries []config.Resource
			want    []string
		}{
			{"all", []config.Resource{wild("*", "*")}, []string{coreStreams + " " + appsStreams + " " + restStreams}},
			{"all, no group said", []config.Resource{wild("*", "")}, []string{coreStreams + " " + appsStreams + " " + restStreams}},
			{"one group", []config.Resource{wild("*", "apps")}, []string{appsStreams}},
			{"core", []config.Resource{{Name: "*", Group: ptr("")}}, []string{coreStreams}},
			{"a name in each group", []config.Resource{wild("widgets", "*")}, []string{"widgets.one.example.com widgets.two.example.com"}},
			{"a short name in each group", []config.Resource{wild("wd", "*")}, []string{"widgets.one.example.com widgets.two.example.com"}},
			{"what only one group can watch", []config.Resource{wild("pods", "*")}, []string{"pods"}},
			{"the same objects once", []config.Resource{wild("events", "*")}, []string{"events"}},
			{"one of the two groups of events", []config.Resource{wild("*", "events.k8s.io")}, []string{"events.events.k8s.io"}},
			{"a version", []config.Resource{{Name: "*", Group: ptr("*"), Version: "v2"}}, []string{"widgets.one.example.com gadgetry.one.example.com"}},
			{
				"excludes", []config.Resource{wild("*", "*", "po", "events", "deploy.apps", "widgets.two.example.com", "gizmos", "gizmos.example.com", "cs")},
				[]string{"nodes configmaps oldthings.apps widgets.one.example.com gadgetry.one.example.com"},
			},
			{"an excluded bare name is kubectl's", []config.Resource{wild("wd", "*", "widgets")}, []string{"widgets.two.example.com"}},
			{"one of the two groups excluded", []config.Resource{wild("events", "*", "events.v1.")}, []string{"events.events.k8s.io"}},
			{"the other excluded", []config.Resource{wild("events", "*", "events.events.k8s.io")}, []string{"events"}},
			{
				"others decide alone", []config.Resource{
					wild("*", "*", "gadgetry"), wild("Pod", ""), in(wild("configmap", ""), "web"), {Name: "no", LabelSelector: "a=b"}, wild("deployments.v7.apps", ""),
				},
				[]string{"events oldthings.apps widgets.one.example.com widgets.two.example.com", "pods", "configmaps?namespace=web", "nodes?labelSelector=a%3Db", "*discovery.NotFoundError"},
			},
			{"another entry's group of events", []config.Resource{{Name: "*", Group: ptr("")}, wild("events.events.k8s.io", "")}, []string{"pods nodes configmaps", "events.events.k8s.io"}},
			{"an entry in a fault decides too", []config.Resource{wild("no", "*"), in(wild("nodes", ""), "web")}, []string{"*discovery.NotFoundError", "no namespaces"}},
			{"the narrower has it", []config.Resource{wild("*", "*"), wild("*", "apps", "oldthings"), wild("widgets", "*")}, []string{coreStreams + " oldthings.apps gadgetry.one.example.com", "deployments.apps", "widgets.one.example.com widgets.two.example.com"}},
			{"equally narrow", []config.Resource{wild("*", "one.example.com"), wild("wd", "*")}, []string{"widgets.one.example.com gadgetry.one.example.com", "widgets.two.example.com same stream"}},
			{"equally narrow, other objects", []config.Resource{in(wild("*", "apps"), "a"), in(wild("deploy", "*"), "b")}, []string{"deployments.apps?namespace=a oldthings.apps?namespace=a", "deployments.apps?namespace=b"}},
			{"both groups of events", []config.Resource{wild("*", "events.k8s.io"), {Name: "*", Group: ptr("")}}, []string{"*discovery.NotFoundError", coreStreams}},
			{"namespaces", []config.Resource{in(wild("*", "one.example.com"), "a", "b")}, []string{"widgets.one.example.com?namespace=a widgets.one.example.com?namespace=b"}},
			{"what has no namespaces is left to others", []config.Resource{wild("*", "*", "pods", "cm", "events"), in(wild("*", "one.example.com"), "a")}, []string{"nodes " + appsStreams + " gadgetry.one.example.com widgets.two.example.com", "widgets.one.example.com?namespace=a"}},
			{"-n", []config.Resource{{Name: "*", Group: ptr("one.example.com"), Namespace: "web"}}, []string{"widgets.one.example.com?namespace=web gadgetry.one.example.com"}},
			{"nothing", []config.Resource{wild("*", "example.com"), wild("gizmos", "*"), wild("*", "metrics.k8s.io"), wild("*", "apps", "deploy", "oldthings")}, []string{"*discovery.NotFoundError", "*discovery.NotFoundError", "*discovery.NotFoundError", "*discovery.NotFoundError"}},
			{"the same objects twice", []config.Resource{wild("events", ""), wild("events.events.k8s.io", "")}, []string{"events", "same objects"}},
			{"in other namespaces", []config.Resource{in(wild("events", ""), "a"), in(wild("events.events.k8s.io", ""), "b")}, []string{"events?namespace=a", "events.events.k8s.io?namespace=b"}},
			{"the same stream twice", []config.Resource{wild("po", ""), wild("pods", "")}, []string{"pods", "same stream"}},
		} {
			if diff := cmp.Diff(tc.want, outcome(r, tc.entries)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	})
}

func TestWildcardTexts(t *testing.T) {
	_, r := newResolver(t, true)
	mustRefresh(t, r)
	entries := []config.Resource{wild("events", ""), wild("events.events.k8s.io", ""), wild("ev", ""), wild("*", "example.com"), wild("gizmos", "*")}
	for i := range entries {
		entries[i].File, entries[i].Line, entries[i].Entry = "k.yaml", i+2, fmt.Sprintf("resources[%d]", i)
	}
	var got []string
	for _, resolved := range r.ResolveAll(entries)[1:] {
		got = append(got, fmt.Sprint(resolved.Err))
	}
	want := []string{
		"k.yaml:3: resources[0] (events) and resources[1] (events.events.k8s.io) name the same objects, which the server has both as events and as events.events.k8s.io; remove one of them",
		"k.yaml:4: resources[0] (events) and resources[2] (ev) name the same stream events; remove one of them",
		`the server has nothing to watch for "*.example.com" that no other entry names`,
		`the server has nothing to watch for "gizmos.*" that no other entry names`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

// The hash that only the legacy form of discovery gives tells that other groups serve the same objects too.
func TestSameHash(t *testing.T) {
	s, r := newResolver(t, false)
	hashed := func(kind, hash string) []version {
		d := res("widgets", "widget", kind, true, readOnly)
		d.StorageVersionHash = hash
		return []version{{"v1", []metav1.APIResource{d}}}
	}
	s.set(func(s *server) {
		s.groups = []group{
			s.groups[0], {"a", hashed("Widget", "x")}, {"b", hashed("Widget", "x")}, {"c", hashed("Widget", "y")},
			{"d", hashed("Other", "x")}, {"e", hashed("Widget", "")}, {"f", hashed("Widget", "")},
		}
	})
	mustRefresh(t, r)
	want := []string{"widgets.a widgets.c widgets.d widgets.e widgets.f"}
	if diff := cmp.Diff(want, outcome(r, []config.Resource{wild("widgets", "*")})); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
	want = []string{"widgets.c widgets.d widgets.e widgets.f", "widgets.b"}
	if diff := cmp.Diff(want, outcome(r, []config.Resource{wild("widgets", "*"), wild("widgets.b", "")})); diff != "" {
		t.Errorf("beside an entry for one (-want +got):\n%s", diff)
	}
}

// Whatever group of Events does not answer, and when: nothing is ever journalled as events.events.k8s.io that would be
// events otherwise, or the other way round.
func TestCohabitantsStay(t *testing.T) {
	for _, tc := range []struct {
		entries []config.Resource
		stays   string
	}{
		{[]config.Resource{wild("*", "*")}, "events"},
		{[]config.Resource{wild("*", "*", "pods")}, "events"},
		{[]config.Resource{wild("events", "*")}, "events"},
		{[]config.Resource{wild("events", "")}, "events"},
		{[]config.Resource{wild("ev", "")}, "events"},
		{[]config.Resource{wild("*", "*"), wild("events", "")}, "events"},
		{[]config.Resource{wild("*", "*"), wild("events.events.k8s.io", "")}, "events.events.k8s.io"},
		{[]config.Resource{wild("*", "*"), {Name: "events", Group: ptr("events.k8s.io"), Version: "v1"}}, "events.events.k8s.io"},
	} {
		for _, down := range []string{"/v1", "events.k8s.io/v1"} {
			bothForms(t, func(t *testing.T, s *server, r *Resolver) {
				check := func(when string) {
					t.Helper()
					for _, streams := range outcome(r, tc.entries) {
						for name := range strings.FieldsSeq(streams) {
							if strings.HasPrefix(name, "events") && name != tc.stays {
								t.Errorf("%s down, %s: %s in place of %s", down, when, name, tc.stays)
							}
						}
					}
				}
				refresh := func(broken bool) {
					t.Helper()
					s.set(func(s *server) { s.down[down] = broken })
					if err := r.Refresh(t.Context()); err != nil && !errors.As(err, new(*PartialError)) {
						t.Fatal(err)
					}
				}
				refresh(true)
				check("from the start")
				refresh(false)
				check("at last")
				if got := strings.Join(outcome(r, tc.entries), " "); !slices.Contains(strings.Fields(got), tc.stays) {
					t.Errorf("%s never comes: %s", tc.stays, got)
				}
				refresh(true)
				check("again")
				if got := strings.Join(outcome(r, tc.entries), " "); !slices.Contains(strings.Fields(got), tc.stays) {
					t.Errorf("%s has gone: %s", tc.stays, got)
				}
			})
		}
	}
}

// knowing returns a Resolver that knows s.
func knowing(s *snapshot) *Resolver {
	r := new(Resolver)
	r.known.Store(s)
	return r
}

// randomSnapshot is a server with some groups, in several versions, some of whose resources share names, objects or both.
func randomSnapshot(rng *rand.Rand) *snapshot {
	var groups []*metav1.APIGroup
	var lists []*metav1.APIResourceList
	for _, name := range []string{"", "apps", "events.k8s.io", "a.example.com", "b.example.com"} {
		g := &metav1.APIGroup{Name: name}
		for _, v := range []string{"v2", "v1", "v1beta1"}[rng.IntN(3):] {
			gv := schema.GroupVersion{Group: name, Version: v}
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
			l := &metav1.APIResourceList{GroupVersion: gv.String()}
			for i, resource := range []string{"pods", "events", "things", "widgets", "nodes", "bits"} {
				verbs := [...]metav1.Verbs{readOnly, readOnly, readOnly, {"get", "list"}, {"create"}}[rng.IntN(5)]
				d := res(resource, strings.TrimSuffix(resource, "s"), strings.ToUpper(resource[:1])+resource[1:len(resource)-1], i%2 == 0, verbs)
				if resource == "things" && name != "" && name != "apps" {
					d.StorageVersionHash = "same"
				}
				if rng.IntN(3) > 0 {
					l.APIResources = append(l.APIResources, d, res(resource+"/status", "", d.Kind, true, readOnly))
				}
			}
			lists = append(lists, l)
		}
		g.PreferredVersion = g.Versions[rng.IntN(len(g.Versions))]
		groups = append(groups, g)
	}
	rng.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return newSnapshot(groups, lists, new(PartialError), new(snapshot))
}

// A config with a wildcard over all tells of each object exactly once, whatever else it names: each class of objects
// that can be watched comes to one stream, in a version where it can be watched, and what is excluded to none.
func TestEachObjectOnce(t *testing.T) {
	const seed = 20261121
	rng := rand.New(rand.NewPCG(seed, 1))
	names := []string{"pods", "Event", "events", "things.b.example.com", "widgets", "nodes", "bits", "gizmos", "events.events.k8s.io"}
	groups := []string{"apps", "events.k8s.io", "a.example.com", "nowhere"}
	for round := range 300 {
		s := randomSnapshot(rng)
		all := wild("*", "*")
		for range rng.IntN(3) {
			all.Exclude = append(all.Exclude, names[rng.IntN(len(names))])
		}
		entries := []config.Resource{all}
		for range rng.IntN(4) {
			switch rng.IntN(3) {
			case 0:
				entries = append(entries, wild(names[rng.IntN(len(names))], ""))
			case 1:
				entries = append(entries, wild(names[rng.IntN(len(names))], "*"))
			case 2:
				entries = append(entries, wild("*", groups[rng.IntN(len(groups))]))
			}
		}
		rng.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })

		told := map[string]int{}
		for _, resolved := range knowing(s).ResolveAll(entries) {
			for _, st := range resolved.Streams {
				r := s.served(st.GVR)
				if !r.watchable() {
					t.Fatalf("round %d: %s cannot be watched as %s", round, st.Name(), st.GVR.Version)
				}
				told[r.class()]++
			}
		}
		left := claims{} // what no stream need be for: excluded, or named by an entry that cannot run
		for _, name := range all.Exclude {
			for _, r := range s.named(name, nil, "") {
				left.add(r, true)
			}
		}
		for i, resolved := range knowing(s).ResolveAll(entries) {
			if resolved.Err != nil && !entries[i].IsWildcard() {
				for _, r := range s.named(entries[i].Name, nil, "") {
					left.add(r, true)
				}
			}
		}
		for _, g := range s.groups {
			for _, r := range s.watchables(g.Group.Name, "") {
				if n := told[r.class()]; n > 1 || n == 0 && !left.has(r) {
					t.Fatalf("seed %d, round %d: %s is told by %d streams\nentries %+v\ngot %q", seed, round, r.gvr, n, entries, outcome(knowing(s), entries))
				}
			}
		}
		if len(entries) > 1 {
			continue
		}
		excluded := s.excluded(all)
		for _, st := range knowing(s).ResolveAll(entries)[0].Streams {
			if excluded.has(s.served(st.GVR)) {
				t.Fatalf("round %d: %s is excluded", round, st.Name())
			}
			if preferred := versionsOf(s.groups[s.index(st.GVR.Group)])[0]; st.GVR.Version != preferred && s.served(st.GVR.GroupResource().WithVersion(preferred)).watchable() {
				t.Fatalf("round %d: %s as %s, which is not the preferred version", round, st.Name(), st.GVR.Version)
			}
		}
	}
}

// An entry whose resource comes later takes it from a wildcard, which gives it back when it has gone.
func TestLaterResourceUnderWildcard(t *testing.T) {
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		entries := []config.Resource{wild("*", "example.com", "gadgets"), {Name: "gizmos", LabelSelector: "a=b"}}
		expect := func(want ...string) {
			t.Helper()
			mustRefresh(t, r)
			if diff := cmp.Diff(want, outcome(r, entries)); diff != "" {
				t.Errorf("streams (-want +got):\n%s", diff)
			}
		}
		expect("*discovery.NotFoundError", "*discovery.NotFoundError")
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"example.com", []version{{"v1", []metav1.APIResource{
				res("gizmos", "gizmo", "Gizmo", true, readOnly), res("gadgets", "gadget", "Gadget", true, readOnly), res("bolts", "bolt", "Bolt", true, readOnly),
			}}}})
		})
		expect("bolts.example.com", "gizmos.example.com?labelSelector=a%3Db")
		entries = entries[:1]
		expect("gizmos.example.com bolts.example.com")
	})
}

// What a wildcard covers is followed as a whole while it is within the limit.
func TestWildcardAtTheLimit(t *testing.T) {
	all := []Resolution{{Streams: make([]Stream, MaxOfWildcard)}}
	(&Resolver{}).limit([]config.Resource{wild("*", "*")}, all)
	if len(all[0].Streams) != MaxOfWildcard || all[0].Err != nil {
		t.Errorf("%d streams, %v", len(all[0].Streams), all[0].Err)
	}
}

// An API with thousands of resources, or thousands of groups with one each, takes no room from what is named, from
// Kubernetes' own, from what was followed before, nor from the groups that have few.
func TestWildcardLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	var groups []*metav1.APIGroup
	var lists []*metav1.APIResourceList
	add := func(group string, names ...string) {
		gv := schema.GroupVersion{Group: group, Version: "v1"}
		list := &metav1.APIResourceList{GroupVersion: gv.String()}
		for _, n := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: n, Kind: n, Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}})
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: "v1"}
		groups = append(groups, &metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		lists = append(lists, list)
	}
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("r%04d", i))
		}
		return names
	}
	add("aaa.example.com", many(6000)...)
	for i := range 1500 {
		add(fmt.Sprintf("g%04d.example.com", i), "things")
	}
	add("mine.example.com", "gadgets", "widgets")
	add("old.example.com", "one", "two", "three")
	add("", "pods", "secrets")
	r := &Resolver{}
	r.known.Store(newSnapshot(groups, lists, &PartialError{}, r.snapshot()))
	r.Prefer(func(stream string) bool { return strings.HasSuffix(stream, ".old.example.com") })

	named := config.Resource{Name: "r5999.aaa.example.com"}
	all := r.ResolveAll([]config.Resource{wild("*", "*"), named, wild("*", "mine.example.com"), wild("*", "aaa.example.com")})
	names := func(i int) (names []string) {
		for _, s := range all[i].Streams {
			names = append(names, s.Name())
		}
		return names
	}
	for i, want := range []int{MaxStreams - 1 - 2 - MaxOfWildcard, 1, 2, MaxOfWildcard} {
		tooMany := i == 0 || i == 3
		if got := names(i); len(got) != want || errors.As(all[i].Err, new(*TooManyError)) != tooMany {
			t.Errorf("entry %d: %d streams, %v; want %d", i, len(got), all[i].Err, want)
		}
	}
	for _, want := range []string{"pods", "secrets", "one.old.example.com", "two.old.example.com", "three.old.example.com", "things.g0000.example.com"} {
		if !slices.Contains(names(0), want) {
			t.Errorf("%s is left out", want)
		}
	}
	if msg := all[3].Err.Error(); !strings.Contains(msg, `"*.aaa.example.com" covers 5999 streams, and 1000 are followed: r1000.aaa.example.com`) {
		t.Error(msg)
	}
}
