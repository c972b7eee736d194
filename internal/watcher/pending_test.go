package watcher_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widget(version string, extra ...string) fake.Resource {
	return fake.Resource{
		Group: "example.com", Version: version, Resource: "widgets", Kind: "Widget", Namespaced: true, ExtraVersions: extra,
	}
}

// only are the lines of one stream.
func (w *harness) only(stream string) []string {
	w.t.Helper()
	var some []string
	for _, l := range w.lines() {
		if l.Stream == stream {
			some = append(some, brief(l))
		}
	}
	return some
}

func (w *harness) wantOnly(stream string, want ...string) {
	w.t.Helper()
	if got := w.only(stream); !slices.Equal(got, want) {
		w.t.Fatalf("lines of %s:\n  got  %q\n  want %q", stream, got, want)
	}
}

// A custom resource whose definition comes later is waited for, in nobody's
// way, and without asking all the time.
func TestPendingUntilServed(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "widgets.example.com"), func(w *harness) {
		w.pulse = never
		w.put(configMaps, "a")
		w.start()
		w.await("configmaps watches", func() bool { return w.state("configmaps").State == watcher.Watching })
		if s := w.state("widgets.example.com"); s.State != watcher.Pending || s.Reason != "NotFound" {
			t.Errorf("got %+v", s)
		}
		counted := func(state watcher.State) float64 {
			return testutil.ToFloat64(w.life.metrics.StreamState.WithLabelValues("widgets.example.com", string(state)))
		}
		if counted(watcher.Pending) != 1 {
			t.Error("the metrics do not say that it is pending")
		}
		n := len(w.srv.Requests())
		w.pass(10 * time.Minute)
		if asked := len(w.srv.Requests()) - n; asked < 20 || asked > 200 {
			t.Errorf("%d requests in ten minutes of waiting", asked)
		}
		w.put(configMaps, "b")
		w.srv.AddResource(widget("v1"))
		w.put(widgets, "w")
		w.awaitFor(time.Minute, "widgets are told", func() bool { return len(w.only("widgets.example.com")) == 2 })
		w.wantOnly("widgets.example.com", "ADDED snapshot w", "SYNCED +1 ~0 -0 =0")
		w.put(widgets, "w")
		w.check()
		w.wantOnly("configmaps", "ADDED snapshot a", "SYNCED +1 ~0 -0 =0", "ADDED watch b")
		if counted(watcher.Pending) != 0 || counted(watcher.Watching) != 1 {
			t.Error("the metrics still say that it is pending")
		}
	})
}

// An entry for what the server does not have leaves nothing behind in the metrics
// when the config has it no longer.
func TestPendingUntilUnwanted(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "widgets.example.com"), func(w *harness) {
		w.start()
		w.await("configmaps watches", func() bool { return w.state("configmaps").State == watcher.Watching })
		if got := w.series(); !slices.Equal(got, []string{"configmaps", "widgets.example.com"}) {
			t.Errorf("metrics of %q", got)
		}
		w.mustApply(entries("configmaps"), nil)
		if got := w.series(); !slices.Equal(got, []string{"configmaps"}) {
			t.Errorf("metrics of %q", got)
		}
		w.stop()
	})
}

func TestPendingUntilAllowed(t *testing.T) {
	for name, verbs := range map[string][]string{"all": nil, "list": {"list"}, "watch": {"watch"}} {
		for _, noWatchList := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, fake.Options{NoWatchList: noWatchList}, entries("configmaps", "secrets"), func(w *harness) {
					w.put(configMaps, "a")
					w.put(secrets, "s")
					w.srv.Forbid(secrets, verbs...)
					w.start()
					w.await("configmaps watches", func() bool { return w.state("configmaps").State == watcher.Watching })
					w.pass(time.Minute)
					if s := w.state("secrets"); name != "list" && (s.State != watcher.Pending || s.Reason != "Forbidden") {
						t.Errorf("got %+v", s)
					}
					w.put(configMaps, "b")
					w.put(secrets, "t")
					w.srv.Allow(secrets, verbs...)
					w.interrupted = true // with pages, the list is complete before the watch is refused
					w.check()
					w.wantOnly("configmaps", "ADDED snapshot a", "SYNCED +1 ~0 -0 =0", "ADDED watch b")
				})
			})
		}
	}
}

// What was allowed and is no more keeps its position: nothing reads as deleted,
// and once it is allowed again the stream continues without a gap.
func TestForbiddenForAWhile(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		n := len(w.lines())
		w.srv.Forbid(configMaps)
		w.srv.EndWatches()
		w.await("it is pending", func() bool { return w.state("configmaps").State == watcher.Pending })
		w.put(configMaps, "b")
		w.remove(configMaps, "a")
		w.pass(10 * time.Minute)
		w.tell(n)
		w.srv.Allow(configMaps)
		w.synced()
		n = w.tell(n, "ADDED watch b", "DELETED watch a")
		// The same, with the history gone in the meantime.
		w.srv.Forbid(configMaps)
		w.srv.EndWatches()
		w.await("it is pending", func() bool { return w.state("configmaps").State == watcher.Pending })
		w.put(configMaps, "c")
		w.remove(configMaps, "b")
		w.srv.DropHistory()
		w.pass(10 * time.Minute)
		w.tell(n)
		w.srv.Allow(configMaps)
		w.synced()
		w.tell(n, "GAP Expired", "ADDED relist c", "DELETED relist b", "SYNCED +1 ~0 -1 =0")
		w.check()
	})
}

// The reason of a GAP outlasts a time in which the stream cannot run.
func TestGapOutlastsPending(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.put(configMaps, "b")
		w.start()
		w.synced()
		w.stop()
		n := len(w.lines())
		w.remove(configMaps, "a")
		w.forget()
		w.srv.Forbid(configMaps)
		w.start()
		w.pass(5 * time.Minute)
		w.tell(n)
		w.srv.Allow(configMaps)
		w.synced()
		w.tell(n, "GAP CheckpointLost", "DELETED relist a", "SYNCED +0 ~0 -1 =1")
		w.check()
	})
}

// A definition is removed, and added again with another version: the stream is
// the same and resumes.
func TestDefinitionComesBackWithAnotherVersion(t *testing.T) {
	for name, noise := range map[string]bool{"resumes": false, "history gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("widgets.example.com", "configmaps"), func(w *harness) {
				w.srv.AddResource(widget("v1"))
				w.put(widgets, "w")
				w.start()
				w.synced()
				w.srv.RemoveResource(widgets.GroupResource())
				w.await("it is pending", func() bool { return w.state("widgets.example.com").State == watcher.Pending })
				w.wantOnly("widgets.example.com", "ADDED snapshot w", "SYNCED +1 ~0 -0 =0", "DELETED watch w")
				position := strconv.FormatUint(w.srv.Version(), 10)
				w.pass(5 * time.Minute)
				if noise {
					w.put(configMaps, "noise")
				}
				n := len(w.srv.Requests())
				w.srv.AddResource(widget("v2", "v1"))
				w.put(widgets, "w")
				w.synced()
				from := slices.IndexFunc(w.srv.Requests()[n:], func(r fake.Request) bool { return r.Resource == "widgets" && r.Verb == "watch" })
				r := w.srv.Requests()[n:][from]
				if r.Query.Get("resourceVersion") != position || r.Version != "v2" {
					t.Errorf("resumed with %s at %s, the position was %s", r.Path, r.Query.Get("resourceVersion"), position)
				}
				lines := w.lines()
				if l := lines[len(lines)-1]; l.Version != "v2" {
					t.Errorf("told as version %q", l.Version)
				}
				want := []string{"ADDED snapshot w", "SYNCED +1 ~0 -0 =0", "DELETED watch w", "ADDED watch w"}
				if noise {
					want = append(want[:3], "GAP Expired", "ADDED relist w", "SYNCED +1 ~0 -0 =0")
				}
				w.wantOnly("widgets.example.com", want...)
				w.check()
			})
		})
	}
}

// One stream that cannot continue is in nobody's way.
func TestOneFaultStopsNoOther(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets", "deployments.apps", "nothing.example.com"), func(w *harness) {
		w.srv.SetFault(on("secrets", "", statusFault(500)))
		w.srv.Forbid(deployments)
		w.put(configMaps, "a")
		w.start()
		w.pass(time.Minute)
		w.put(configMaps, "b")
		w.pass(0)
		w.wantOnly("configmaps", "ADDED snapshot a", "SYNCED +1 ~0 -0 =0", "ADDED watch b")
		var got []string
		for _, s := range w.life.manager.Streams() {
			got = append(got, s.Name+" "+string(s.State)+" "+s.Reason)
		}
		want := []string{
			"configmaps Watching ", "deployments.apps Pending Forbidden", "nothing.example.com Pending NotFound", "secrets Retrying ServerError",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		w.stop()
	})
}

// Two entries for one stream are a fault that names both.
func TestTwoEntriesForOneStream(t *testing.T) {
	both := entries("configmaps", "cm")
	both[0].File, both[0].Line = "kubejournal.yaml", 3
	both[1].File, both[1].Line = "kubejournal.yaml", 4
	bubble(t, fake.Options{}, both, func(w *harness) {
		err := w.tryStart()
		if err == nil {
			t.Fatal("no fault")
		}
		for _, part := range []string{"kubejournal.yaml:4", both[0].Entry, both[1].Entry, "(configmaps)", "(cm)"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
		if n := len(w.lines()); n > 0 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestTwoEntriesForTwoStreams(t *testing.T) {
	one, other := entry("configmaps"), entry("configmaps")
	one.Namespaces, other.Namespaces = []string{"x"}, []string{"y"}
	bubble(t, fake.Options{}, []config.Resource{one, other}, func(w *harness) {
		w.putIn(configMaps, "x", "a", nil)
		w.putIn(configMaps, "y", "a", nil)
		w.start()
		w.check()
	})
}

// A namespace for a resource that has none is a fault, told before anything runs.
func TestScopeFault(t *testing.T) {
	e := entry("namespaces")
	e.Namespaces = []string{"x"}
	bubble(t, fake.Options{}, []config.Resource{e}, func(w *harness) {
		if err := w.tryStart(); err == nil {
			t.Error("no fault")
		}
	})
}
