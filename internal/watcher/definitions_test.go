package watcher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// withDefinitions has a server that tells of its definitions.
func withDefinitions(t *testing.T, names []string, test func(*harness)) {
	t.Helper()
	bubble(t, fake.Options{}, entries(names...), func(w *harness) {
		w.srv.AddResource(fake.Resource{
			Group: crds.Group, Version: crds.Version, Resource: crds.Resource, Kind: "CustomResourceDefinition", Compiled: true,
		})
		test(w)
	})
}

func (w *harness) define(name string) {
	w.t.Helper()
	_, err := w.srv.Create(crds, map[string]any{"metadata": map[string]any{"name": name}})
	must(w.t, err)
}

// What waits for a definition starts soon after it has come, also where it is
// served some time later; with one watch, which asks for metadata and is closed
// once nobody waits.
func TestDefinitionComes(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "served later": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			withDefinitions(t, []string{"configmaps", "widgets.example.com"}, func(w *harness) {
				w.start()
				w.await("definitions are watched", func() bool { return w.srv.OpenWatches(crds.Resource) == 1 })
				w.pass(10 * time.Minute) // the pauses have become long
				for _, r := range w.srv.Requests() {
					if r.Resource == crds.Resource && r.Verb == "watch" && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata;") {
						t.Errorf("watched as %s", r.Header.Get("Accept"))
					}
				}
				if got := w.srv.OpenWatches(crds.Resource); got != 1 {
					t.Errorf("%d watches", got)
				}
				w.define("widgets.example.com")
				w.pass(late)
				w.srv.AddResource(widget("v1"))
				w.put(widgets, "w")
				w.awaitFor(4*time.Second, "widgets are told", func() bool { return len(w.only("widgets.example.com")) == 2 })
				w.awaitFor(time.Second, "definitions are not watched", func() bool { return w.srv.OpenWatches(crds.Resource) == 0 })
				for _, s := range w.life.manager.Streams() {
					if strings.Contains(s.Name, "definition") {
						t.Errorf("a stream: %s", s.Name)
					}
				}
				w.check()
			})
		})
	}
}

// A definition goes and comes back: its objects' deletions are told once, and the
// new ones soon.
func TestDefinitionGoesAndComesBack(t *testing.T) {
	withDefinitions(t, []string{"widgets.example.com"}, func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.define("widgets.example.com")
		w.put(widgets, "w")
		w.start()
		w.synced()
		for range 3 {
			n := len(w.only("widgets.example.com"))
			_, err := w.srv.Delete(crds, "", "widgets.example.com")
			must(t, err)
			w.srv.RemoveResource(widgets.GroupResource())
			w.await("it is pending", func() bool { return w.state("widgets.example.com").State == watcher.Pending })
			w.pass(10 * time.Minute)
			if got := w.only("widgets.example.com")[n:]; !slices.Equal(got, []string{"DELETED watch w"}) {
				t.Fatalf("told %q", got)
			}
			w.srv.AddResource(widget("v1"))
			w.define("widgets.example.com")
			w.put(widgets, "w")
			w.awaitFor(4*time.Second, "widgets are told", func() bool { return len(w.only("widgets.example.com")) > n+1 })
		}
		w.check()
	})
}

// Where definitions may not be watched, the daemon says so once and asks now and
// then, and not all the time.
func TestDefinitionsAreForbidden(t *testing.T) {
	withDefinitions(t, []string{"widgets.example.com"}, func(w *harness) {
		w.srv.Forbid(crds)
		w.start()
		w.pass(4 * time.Minute)
		if n := strings.Count(w.log.String(), "cannot be watched"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if got := w.askedFor(0)["customresourcedefinitions.apiextensions.k8s.io"]; got != 1 {
			t.Errorf("asked for %d times", got)
		}
		w.srv.AddResource(widget("v1"))
		w.put(widgets, "w")
		w.awaitFor(20*time.Second, "widgets are told", func() bool { return len(w.only("widgets.example.com")) == 2 })
		w.check()
	})
}

// A server in trouble is not asked for definitions in a hot loop.
func TestDefinitionsInTrouble(t *testing.T) {
	for name, fault := range map[string]func(fake.Request) *fake.Fault{
		"refused":    on(crds.Resource, "", statusFault(500)),
		"watch ends": on(crds.Resource, "watch", &fake.Fault{Stream: fake.End}),
		"gone":       on(crds.Resource, "watch", &fake.Fault{Stream: fake.Gone}),
		"garbage":    on(crds.Resource, "watch", &fake.Fault{Stream: fake.Garbage}),
	} {
		t.Run(name, func(t *testing.T) {
			withDefinitions(t, []string{"widgets.example.com"}, func(w *harness) {
				w.srv.SetFault(fault)
				w.start()
				w.pass(10 * time.Minute)
				if got := w.askedFor(0)["customresourcedefinitions.apiextensions.k8s.io"]; got < 10 || got > 80 {
					t.Errorf("asked for %d times in ten minutes", got)
				}
				discovery := len(w.srv.Requests()) - w.askedFor(0)["customresourcedefinitions.apiextensions.k8s.io"]
				if discovery > 600 {
					t.Errorf("%d requests for discovery in ten minutes", discovery)
				}
				w.srv.SetFault(nil)
				w.stop()
			})
		})
	}
}

// Definitions that change all the time do not make the server tell all the time what
// it serves.
func TestRestlessDefinitions(t *testing.T) {
	withWildcard(t, true, func(w *harness) {
		w.start()
		w.await("all watch", w.watching)
		w.pass(2 * time.Minute)
		n := len(w.srv.Requests())
		const seconds = 180
		for i := range seconds {
			w.define(fmt.Sprintf("widgets%d.example.com", i))
			w.pass(time.Second)
		}
		asked := 0
		for _, r := range w.srv.Requests()[n:] {
			if r.Path == "/apis" {
				asked++
			}
		}
		// Rounds of three looks, 1, 2, 4, 8 and then 15 seconds apart, and a poll a minute.
		if most := 3*(5+seconds/15) + seconds/60; asked == 0 || asked > most {
			t.Errorf("asked %d times in %d s, want at most %d", asked, seconds, most)
		}
	})
}
