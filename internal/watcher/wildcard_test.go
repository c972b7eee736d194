package watcher_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// everything is an entry for all that can be watched, but for what is excluded.
func everything(exclude ...string) []config.Resource {
	e := entry(config.Wildcard)
	all := config.Wildcard
	e.Group, e.Exclude = &all, append([]string{"customresourcedefinitions.apiextensions.k8s.io"}, exclude...)
	return []config.Resource{e}
}

func (w *harness) streams() []string {
	var names []string
	for _, s := range w.life.manager.Streams() {
		if s.State == watcher.Watching {
			names = append(names, s.Name)
		}
	}
	return names
}

func withWildcard(t *testing.T, defined bool, test func(*harness)) {
	t.Helper()
	bubble(t, fake.Options{}, everything(), func(w *harness) {
		if defined {
			w.srv.AddResource(fake.Resource{
				Group: crds.Group, Version: crds.Version, Resource: crds.Resource, Kind: "CustomResourceDefinition", Compiled: true,
			})
		}
		test(w)
	})
}

// What comes to be served is covered soon, and what goes is told of and dropped;
// nothing else is asked for meanwhile.
func TestWildcardCoversWhatComes(t *testing.T) {
	for name, defined := range map[string]bool{"definitions are watched": true, "definitions are not there": false} {
		t.Run(name, func(t *testing.T) {
			withWildcard(t, defined, func(w *harness) {
				limit := 4 * time.Second
				if !defined {
					limit = 20 * time.Second
				}
				w.start()
				w.await("all watch", w.watching)
				w.pass(20 * time.Second)
				before := w.streams()
				if !slices.Contains(before, "configmaps") || !slices.Contains(before, "deployments.apps") || len(before) < 6 {
					t.Fatalf("streams: %q", before)
				}
				n := len(w.srv.Requests())
				for range 2 {
					lines := len(w.only("widgets.example.com"))
					w.srv.AddResource(widget("v1"))
					if defined {
						w.define("widgets.example.com")
					}
					w.put(widgets, "w")
					w.awaitFor(limit, "widgets are told", func() bool { return len(w.only("widgets.example.com")) > lines })
					w.pass(time.Second)
					lines = len(w.only("widgets.example.com"))
					if defined {
						_, err := w.srv.Delete(crds, "", "widgets.example.com")
						must(t, err)
					}
					w.srv.RemoveResource(widgets.GroupResource())
					w.awaitFor(20*time.Second, "widgets are dropped", func() bool { return slices.Equal(w.series(), before) && w.state("widgets.example.com").State == "" })
					if got := w.only("widgets.example.com")[lines:]; !slices.Equal(got, []string{"DELETED watch w"}) {
						t.Errorf("told %q", got)
					}
				}
				for stream, count := range w.askedFor(n) {
					if !strings.HasPrefix(stream, "widgets.") && !strings.HasPrefix(stream, crds.Resource) {
						t.Errorf("%s was asked for %d times", stream, count)
					}
				}
			})
		})
	}
}

// An edit of what a wildcard leaves out, or an entry beside it that says the same
// of one resource, touches nothing else.
func TestApplyBesideAWildcard(t *testing.T) {
	withWildcard(t, false, func(w *harness) {
		w.start()
		w.await("all watch", w.watching)
		n, all := len(w.srv.Requests()), len(w.streams())
		if d := w.mustApply(everything("secrets"), nil); d != (streams.Difference{Removed: 1, Unchanged: all - 1}) {
			t.Errorf("one is excluded: %+v", d)
		}
		if d := w.mustApply(append(everything("secrets"), entry("pods")), nil); d != (streams.Difference{Unchanged: all - 1}) {
			t.Errorf("one has an entry of its own: %+v", d)
		}
		if got := w.askedFor(n); len(got) > 0 {
			t.Errorf("asked for %v", got)
		}
		own := entry("pods")
		own.Types = []string{"DELETED"}
		if d := w.mustApply(append(everything("secrets"), own), nil); d != (streams.Difference{Changed: 1, Unchanged: all - 2}) {
			t.Errorf("its entry says something else: %+v", d)
		}
		if d := w.mustApply(everything(), nil); d != (streams.Difference{Added: 1, Changed: 1, Unchanged: all - 2}) {
			t.Errorf("as before: %+v", d)
		}
		w.await("all watch", w.watching)
		got := w.askedFor(n)
		for stream := range got {
			if stream != "pods" && stream != "secrets" {
				t.Errorf("asked for %v", got)
			}
		}
	})
}

// An entry that is edited in beside a wildcard takes its resource over.
func TestEntryTakesOverFromWildcard(t *testing.T) {
	bubble(t, fake.Options{}, everything(), func(w *harness) {
		w.start()
		w.await("all watch", w.watching)
		n := len(w.streams())
		web := entry("secrets")
		web.Namespaces = []string{"web"}
		if d := w.mustApply(append(everything(), web), nil); d != (streams.Difference{Added: 1, Removed: 1, Unchanged: n - 1}) {
			t.Errorf("got %+v of %d", d, n)
		}
		w.await("all watch", w.watching)
		got := w.streams()
		if slices.Contains(got, "secrets") || !slices.Contains(got, "secrets?namespace=web") {
			t.Errorf("streams: %q", got)
		}
		if d := w.mustApply(everything(), nil); d != (streams.Difference{Added: 1, Removed: 1, Unchanged: n - 1}) {
			t.Errorf("back: got %+v of %d", d, n)
		}
		w.await("all watch", w.watching)
	})
}

// What cannot make a difference to a stream does not touch it: its objects are in no
// namespace.
func TestExcludedNamespacesLeaveOthersAlone(t *testing.T) {
	bubble(t, fake.Options{}, everything("nosuch"), func(w *harness) {
		w.start()
		w.await("all watch", w.watching)
		next := everything("nosuch")
		next[0].ExcludeNamespaces = []string{"kube-*"}
		n := len(w.srv.Requests())
		w.mustApply(next, nil)
		w.await("all watch", w.watching)
		if got := w.askedFor(n); got["namespaces"] != 0 || got["configmaps"] == 0 {
			t.Errorf("asked for %v", got)
		}
		if got := strings.Count(w.log.String(), `"resource": "nosuch"`); got != 1 {
			t.Errorf("warned %d times of a name that means nothing", got)
		}
	})
}
