package watcher_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// apply hands other entries to the daemon as it runs. It takes no time but the
// server's.
func (w *harness) apply(entries []config.Resource, change func(*streams.Options)) (streams.Difference, error) {
	w.t.Helper()
	o := w.options
	o.Resources = entries
	if change != nil {
		change(&o)
	}
	d, err := w.life.manager.Apply(w.t.Context(), o)
	synctest.Wait()
	return d, err
}

func (w *harness) mustApply(entries []config.Resource, change func(*streams.Options)) streams.Difference {
	w.t.Helper()
	d, err := w.apply(entries, change)
	must(w.t, err)
	return d
}

// askedFor counts the requests after the nth, by stream.
func (w *harness) askedFor(n int) map[string]int {
	count := make(map[string]int)
	for _, r := range w.srv.Requests()[n:] {
		if r.Resource == "" || isCheck(r) {
			continue // discovery, and of no stream
		}
		name := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
		separator := "?"
		for _, scope := range [][2]string{{"namespace", r.Namespace}, {"labelSelector", r.Query.Get("labelSelector")}} {
			if scope[1] != "" {
				name += separator + scope[0] + "=" + strings.ReplaceAll(scope[1], "=", "%3D")
				separator = "&"
			}
		}
		count[name]++
	}
	return count
}

// series are the streams that metrics speak of.
func (w *harness) series() []string {
	w.t.Helper()
	families, err := w.life.metrics.Registry.Gather()
	must(w.t, err)
	streams := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "stream" {
					streams[l.GetValue()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(streams))
}

func redacting(resource, field string) func(*streams.Options) {
	return func(o *streams.Options) {
		o.Redact = []config.Redact{{Resource: resource, Fields: []string{field}, Entry: "redact[0]"}}
	}
}

// One stream is removed, one added, one changed; the one that stays is not asked
// for. What was removed resumes when it is added back, and what happened to it
// meanwhile is told as if it had never been away.
func TestApplyTouchesOnlyWhatChanges(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets", "deployments.apps"), func(w *harness) {
		w.put(configMaps, "c")
		w.put(secrets, "s")
		w.put(deployments, "d")
		w.start()
		w.synced()
		n, lines := len(w.srv.Requests()), len(w.lines())
		d := w.mustApply(entries("pods", "deployments.apps", "configmaps"), redacting("deployments.apps", "spec.none"))
		if want := (streams.Difference{Added: 1, Removed: 1, Changed: 1, Unchanged: 1}); d != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
		w.await("all watch", w.watching)
		got := w.askedFor(n)
		if got["configmaps"] != 0 || got["secrets"] != 0 || got["pods"] == 0 || got["deployments.apps"] != 2 {
			t.Errorf("asked for %v", got)
		}
		if open := w.srv.OpenWatches("secrets"); open != 0 {
			t.Errorf("%d watches of what was removed", open)
		}
		if got, want := w.series(), []string{"configmaps", "deployments.apps", "pods"}; !slices.Equal(got, want) {
			t.Errorf("metrics of %q, want of %q", got, want)
		}
		lines = w.tell(lines, "SYNCED +0 ~0 -0 =0") // of pods
		w.put(secrets, "s")
		w.put(secrets, "t")
		w.remove(secrets, "s")
		w.put(configMaps, "c")
		w.put(deployments, "d")
		w.pass(time.Minute)
		lines += 2
		if got := len(w.lines()); got != lines {
			t.Errorf("%d lines, want %d: %q", got, lines, briefs(w.lines()))
		}
		n = len(w.srv.Requests())
		d = w.mustApply(entries("configmaps", "secrets", "deployments.apps"), redacting("deployments.apps", "spec.none"))
		if want := (streams.Difference{Added: 1, Removed: 1, Unchanged: 2}); d != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
		w.await("all watch", w.watching)
		if got := w.askedFor(n); got["configmaps"]+got["deployments.apps"]+got["pods"] != 0 {
			t.Errorf("asked for %v", got)
		}
		w.tell(lines, "MODIFIED watch s", "ADDED watch t", "DELETED watch s")
		w.check()
	})
}

// The same config again, with its entries at other places, is no change.
func TestApplyTheSame(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets", "nothing.example.com"), func(w *harness) {
		w.start()
		w.await("two watch", func() bool { return w.srv.OpenWatches("") == 2 })
		n := len(w.srv.Requests())
		moved := entries("nothing.example.com", "secrets", "configmaps")
		for i := range moved {
			moved[i].Line, moved[i].Entry = 100+i, fmt.Sprintf("resources[%d]", i)
		}
		since := w.state("nothing.example.com").Since
		if d := w.mustApply(moved, nil); d != (streams.Difference{Unchanged: 2}) {
			t.Errorf("got %+v", d)
		}
		if got := len(w.srv.Requests()) - n; got != 0 {
			t.Errorf("%d requests", got)
		}
		if got := w.state("nothing.example.com").Since; got != since {
			t.Errorf("it waits since %v, and waited since %v", got, since)
		}
		w.stop()
	})
}

// What only the server can tell to be wrong changes nothing.
func TestApplyFaults(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		n := len(w.srv.Requests())
		scoped := entry("namespaces")
		scoped.Namespaces = []string{"x"}
		for name, bad := range map[string][]config.Resource{
			"two entries for one stream": entries("secrets", "secret", "configmaps"),
			"namespaces of namespaces":   {scoped},
		} {
			if _, err := w.apply(bad, nil); err == nil {
				t.Errorf("%s: no fault", name)
			}
		}
		if _, err := w.apply(entries("configmaps"), func(o *streams.Options) { o.DropFields = []string{"a..b"} }); err == nil {
			t.Error("a path that cannot be followed: no fault")
		}
		if got := w.askedFor(n); len(got) > 0 {
			t.Errorf("asked for %v", got)
		}
		if got := w.series(); !slices.Equal(got, []string{"configmaps"}) {
			t.Errorf("metrics of %q", got)
		}
		w.put(configMaps, "b")
		w.check()
	})
}

// Another version of an entry is the same stream, from the same position.
func TestApplyAnotherVersion(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v2", "v1"))
		w.put(widgets, "w")
		w.start()
		w.synced()
		position := w.state("widgets.example.com").Position
		n := len(w.srv.Requests())
		old := entry("widgets.example.com")
		old.Version = "v1"
		if d := w.mustApply([]config.Resource{old}, nil); d != (streams.Difference{Changed: 1}) {
			t.Errorf("got %+v", d)
		}
		w.await("it watches", w.watching)
		asked := slices.DeleteFunc(w.srv.Requests()[n:], isCheck)
		if r := asked[len(asked)-1]; r.Version != "v1" || r.Verb != "watch" || r.Query.Get("resourceVersion") != position {
			t.Errorf("asked for %s at %s, the position was %s", r.Path, r.Query.Get("resourceVersion"), position)
		}
		w.put(widgets, "w")
		w.check()
		if l := w.lines()[2]; l.Version != "v1" {
			t.Errorf("told as version %q", l.Version)
		}
	})
}

// A version that the server comes to prefer changes nothing while it serves the
// one before, whatever else is asked of the daemon; then the stream continues with
// it by itself.
func TestPreferredVersionChanges(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.example.com", "nothing.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.put(widgets, "w")
		w.start()
		w.await("it watches", func() bool { return w.srv.OpenWatches("widgets") == 1 })
		n := len(w.srv.Requests())
		w.srv.SetVersions(widgets.GroupResource(), "v2", "v1")
		w.pass(time.Minute) // discovery was asked, for what is pending
		if d := w.mustApply(entries("widgets.example.com", "nothing.example.com", "secrets"), nil); d.Unchanged != 1 || d.Changed != 0 {
			t.Errorf("got %+v", d)
		}
		if got := w.askedFor(n); got["widgets.example.com"] != 0 {
			t.Errorf("asked for %v", got)
		}
		w.srv.SetVersions(widgets.GroupResource(), "v2")
		v2 := func(r fake.Request) bool {
			return r.Resource == "widgets" && r.Version == "v2" && r.Verb == "watch"
		}
		w.awaitFor(time.Minute, "v2 is watched", func() bool { return slices.ContainsFunc(w.srv.Requests()[n:], v2) })
		w.pass(time.Second)
		w.mustApply(entries("widgets.example.com"), nil)
		widgets := widgets
		widgets.Version = "v2"
		w.entries = []config.Resource{{Name: "widgets.example.com", Version: "v2"}}
		w.put(widgets, "w")
		w.check()
		w.wantOnly("widgets.example.com", "ADDED snapshot w", "SYNCED +1 ~0 -0 =0", "MODIFIED watch w")
	})
}

// An entry that stays is left alone when its resource goes away while another is
// edited: the deletions are told, and it waits for the resource to come back.
func TestApplyBesideADefinitionThatGoes(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.put(widgets, "w")
		w.start()
		w.synced()
		w.srv.SetStale(widgets.GroupVersion(), false)
		w.srv.RemoveResource(widgets.GroupResource())
		// Another entry that the server does not have: discovery is asked, and
		// does not know widgets any more.
		w.mustApply(entries("widgets.example.com", "gadgets.example.com"), nil)
		w.await("it is pending", func() bool { return w.state("widgets.example.com").State == watcher.Pending })
		w.wantOnly("widgets.example.com", "ADDED snapshot w", "SYNCED +1 ~0 -0 =0", "DELETED watch w")
		w.pass(time.Minute)
		// That both wait, and nothing of the stream that was.
		if got := w.series(); !slices.Equal(got, []string{"gadgets.example.com", "widgets.example.com"}) || testutil.CollectAndCount(w.life.metrics.StreamState) != 2 ||
			testutil.CollectAndCount(w.life.metrics.LastProgress) != 0 {
			t.Errorf("metrics of %q", got)
		}
		w.srv.AddResource(widget("v1"))
		w.put(widgets, "x")
		w.await("it is told", func() bool { return len(w.only("widgets.example.com")) > 3 })
		w.mustApply(entries("widgets.example.com"), nil)
		w.check()
	})
}

// A redact rule for a resource that the server does not know yet holds from its
// first line on.
func TestApplyRedactRuleForWhatIsToCome(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		w.mustApply(entries("configmaps", "widgets.example.com"), redacting("wd", "spec.serial"))
		r := widget("v1")
		r.ShortNames = []string{"wd"}
		w.srv.AddResource(r)
		w.put(widgets, "w")
		w.await("it is told", func() bool { return len(w.only("widgets.example.com")) == 2 })
		for _, l := range w.lines() {
			if l.Name == "w" && !strings.Contains(string(l.Object), `"serial":"REDACTED"`) {
				t.Errorf("told: %s", l.Object)
			}
		}
		w.stop()
	})
}

// An entry that waits is edited: it is tried at once. And one that is not wanted
// any more leaves nothing behind.
func TestApplyToPending(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
		w.srv.Forbid(secrets)
		w.start()
		w.await("it is pending", func() bool { return w.state("secrets").State == watcher.Pending })
		w.pass(10 * time.Minute)
		n := len(w.srv.Requests())
		if d := w.mustApply(entries("configmaps", "secrets"), redacting("secrets", "spec.none")); d != (streams.Difference{Changed: 1, Unchanged: 1}) {
			t.Errorf("got %+v", d)
		}
		if got := w.askedFor(n); got["secrets"] == 0 || got["configmaps"] != 0 {
			t.Errorf("asked for %v", got)
		}
		w.await("it is pending", func() bool { return w.state("secrets").State == watcher.Pending })
		if d := w.mustApply(entries("configmaps"), nil); d != (streams.Difference{Removed: 1, Unchanged: 1}) {
			t.Errorf("got %+v", d)
		}
		if got := w.series(); !slices.Equal(got, []string{"configmaps"}) {
			t.Errorf("metrics of %q", got)
		}
		n = len(w.srv.Requests())
		w.pass(2 * time.Minute)
		if got := w.askedFor(n); got["secrets"] != 0 {
			t.Errorf("asked for %v", got)
		}
		w.stop()
	})
}

// Nobody waits for a manager that has ended.
func TestApplyAfterTheEnd(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		ended := w.life.manager
		w.stop()
		if _, err := ended.Apply(context.Background(), streams.Options{}); err == nil {
			t.Error("no error")
		}
	})
}

// Configs come one after the other while objects change: nothing is lost, nothing
// repeated, and who stays the same is never asked for. Some have a fault, and
// change nothing.
func TestApplyManyTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { applyManyTimes(t, seed) })
		})
	}
}

func applyManyTimes(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	some := entry("configmaps")
	some.LabelSelector = "app=web"
	one := entry("secrets")
	one.Namespaces = []string{"web"}
	all := append(entries("configmaps", "secrets", "deployments.apps", "widgets.example.com"), some, one)
	w := newWorld(t, fake.Options{}, all)
	defer w.end()
	w.srv.AddResource(widget("v1"))
	w.start()
	w.await("all watch", w.watching)
	churn := func() {
		for range r.IntN(5) {
			gvr := []schema.GroupVersionResource{configMaps, secrets, deployments, widgets}[r.IntN(4)]
			name := fmt.Sprint("o", r.IntN(5))
			if _, err := w.srv.Get(gvr, "default", name); err == nil && r.IntN(3) == 0 {
				w.remove(gvr, name)
				continue
			}
			w.putIn(gvr, []string{"default", "web"}[r.IntN(2)], name, map[string]any{"app": []string{"web", "db"}[r.IntN(2)]})
		}
	}
	specs := func(chosen []config.Resource, redacted string) map[string]string {
		out := make(map[string]string)
		for _, e := range chosen {
			for _, s := range streamsOf(e) {
				out[s.name] = fmt.Sprint(s.gvr.Resource == redacted)
			}
		}
		return out
	}
	running := specs(all, "")
	for range 30 {
		churn()
		chosen := slices.DeleteFunc(slices.Clone(all), func(config.Resource) bool { return r.IntN(3) == 0 })
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		redacted := []string{"", "configmaps", "secrets", "deployments"}[r.IntN(4)]
		var change func(*streams.Options)
		if redacted != "" {
			change = redacting(redacted, "spec.none")
		}
		next := specs(chosen, redacted)
		faulty := len(chosen) > 0 && r.IntN(4) == 0
		if faulty {
			chosen, next = append(chosen, chosen[0]), running
		}
		n := len(w.srv.Requests())
		if _, err := w.apply(chosen, change); (err != nil) != faulty {
			t.Fatalf("a fault: %v, error: %v", faulty, err)
		}
		churn()
		synctest.Wait()
		for name, count := range w.askedFor(n) {
			if spec, was := running[name]; was && spec == next[name] && count > 0 {
				t.Errorf("%s has stayed the same and was asked for %d times", name, count)
			}
		}
		if got, want := w.series(), slices.Sorted(maps.Keys(next)); !slices.Equal(got, want) {
			t.Errorf("metrics of %q, want of %q", got, want)
		}
		running = next
		w.pass(time.Duration(r.IntN(3)) * time.Second)
	}
	w.mustApply(all, nil)
	w.await("all watch", w.watching)
	w.pass(time.Minute)
	lines := w.lines()
	if err := invariant.Writes(lines, w.writes); err != nil {
		t.Error(err)
	}
	must(t, invariant.Sequence(lines, 1))
	must(t, invariant.Shape(lines))
	must(t, invariant.Objects(lines))
	must(t, invariant.Streams(lines, false))
	for name, of := range perStream(lines) {
		must(t, invariant.Unique(of))
		for _, l := range of {
			if l.Type == invariant.Gap {
				t.Errorf("%s: %s, and the history was there", name, brief(l))
			}
		}
	}
}

// A rule whose name is misspelt holds for what it may mean, and for nothing else.
func TestMisspeltRedactRule(t *testing.T) {
	for _, name := range []string{"widgts.example.com", "widgetz.example.com", "WIDGTS.example.com", "widgts"} {
		bubble(t, fake.Options{}, entries("widgets.example.com", "configmaps"), func(w *harness) {
			w.options.Redact = []config.Redact{{Resource: name, Fields: []string{"spec.serial", "data.serial"}, Entry: "redact[0]"}}
			w.srv.AddResource(widget("v1"))
			w.put(widgets, "w")
			w.put(configMaps, "c")
			w.start()
			w.await("all is told", func() bool { return len(w.lines()) == 4 })
			for _, l := range w.lines() {
				if redacted := strings.Contains(string(l.Object), "REDACTED"); l.Name != "" && redacted != (l.Name == "w") {
					t.Errorf("%s: %s", name, l.Object)
				}
			}
			if !strings.Contains(w.log.String(), `"didYouMean": "widgets`) {
				t.Errorf("%s: %s", name, w.log.String())
			}
			w.stop()
		})
	}
}

// A rule by a short name continues to hold where another resource takes that name,
// or the resource gives it up.
func TestRedactRuleOutlivesItsName(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.example.com", "aardvarks.animals.example.com"), func(w *harness) {
		redacting("wd", "spec.serial")(&w.options)
		r := widget("v1")
		r.ShortNames = []string{"wd"}
		w.srv.AddResource(r)
		w.start()
		w.await("it is watched", func() bool { return w.state("widgets.example.com").State == watcher.Watching })
		tell := func(lines int) {
			t.Helper()
			w.put(widgets, "w")
			w.await("it is told", func() bool { return len(w.only("widgets.example.com")) == lines })
		}
		tell(2)
		w.srv.AddResource(fake.Resource{
			Group: "animals.example.com", Version: "v1", Resource: "aardvarks", Kind: "Aardvark", ShortNames: []string{"wd"}, Namespaced: true,
		})
		w.await("the other one is watched", func() bool { return w.state("aardvarks.animals.example.com").State == watcher.Watching })
		tell(3)
		w.srv.SetShortNames(widgets.GroupResource())
		w.srv.RemoveResource(schema.GroupResource{Group: "animals.example.com", Resource: "aardvarks"})
		w.pass(time.Minute)
		tell(4)
		for _, l := range w.lines() {
			if l.Name == "w" && !strings.Contains(string(l.Object), `"serial":"REDACTED"`) {
				t.Errorf("told: %s", l.Object)
			}
		}
		w.stop()
	})
}

// Another order of paths is no change.
func TestApplyTheSameInAnotherOrder(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		shape := func(drop, redact []string) func(*streams.Options) {
			return func(o *streams.Options) {
				o.DropFields = drop
				o.Redact = []config.Redact{{Resource: "configmaps", Fields: redact}}
			}
		}
		w.mustApply(w.entries, shape([]string{"metadata.managedFields", "a"}, []string{"b", "c"}))
		w.synced()
		if d := w.mustApply(w.entries, shape([]string{"a", "metadata.managedFields", "a"}, []string{"c", "b"})); d != (streams.Difference{Unchanged: 1}) {
			t.Errorf("got %+v", d)
		}
		w.stop()
	})
}
