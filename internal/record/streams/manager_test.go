package streams_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// patience is how long a condition may take to come true, in a bubble's time: longer than pending things wait.
const patience = time.Minute

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	widget  = fake.Resource{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
	}
)

// harness is a manager on a server and a checkpoint, in a bubble. What its streams write goes nowhere.
type harness struct {
	*streams.Manager
	t       *testing.T
	srv     *fake.Server
	store   *checkpoint.Store
	metrics *metrics.Metrics
	stop    func() // ends the manager, and waits for it
}

// bubble runs test with a manager that has been started with these entries.
func bubble(t *testing.T, entries []config.Resource, test func(*testing.T, *harness)) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	synctest.Test(t, func(t *testing.T) {
		srv := fake.New(fake.Options{InMemory: true, BookmarkInterval: time.Minute})
		defer srv.Close()
		srv.Forbid(secrets) // for streams that have to wait
		h := &harness{t: t, srv: srv, metrics: metrics.New("", "")}
		c, err := client.New(srv.Config())
		must(t, err)
		defer c.CloseIdleConnections()
		api, err := clientdiscovery.NewDiscoveryClientForConfig(srv.Config())
		must(t, err)
		resolver := discovery.New(api)
		must(t, resolver.Refresh(t.Context()))
		h.store, err = checkpoint.OpenTemp()
		must(t, err)
		defer h.store.Close()
		rec := recorder.New(journal.NewStdout(io.Discard), h.store,
			recorder.Config{Metrics: h.metrics, Log: zap.NewNop()})
		h.Manager = streams.New(c, resolver, h.store, rec, options(entries...), h.metrics, zap.NewNop())
		if err := h.Ready(false); err == nil || err.Error() != "not started yet" {
			t.Errorf("before the start: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended, written := make(chan error, 1), make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		go func() { written <- rec.Run(t.Context()) }()
		h.stop = func() {
			cancel()
			must(t, <-ended)
			h.stop = func() {}
		}
		defer func() {
			h.stop()
			rec.Close()
			must(t, <-written)
		}()
		test(t, h)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func entry(name string) config.Resource {
	return config.Resource{
		Name: name, Entry: "resources." + name, Initial: config.Snapshot, Payload: config.PayloadObject,
	}
}

func entries(names ...string) (all []config.Resource) {
	for _, name := range names {
		all = append(all, entry(name))
	}
	return all
}

func options(entries ...config.Resource) streams.Options { return streams.Options{Resources: entries} }

// await waits until streams and entries are in these states, written as "name State Reason".
func (h *harness) await(want ...string) {
	h.t.Helper()
	var got []string
	for range int(patience / time.Second) {
		synctest.Wait()
		got = nil
		for _, s := range h.Streams() {
			got = append(got, strings.TrimSpace(s.Name+" "+string(s.State)+" "+s.Reason))
		}
		if slices.Equal(got, want) {
			return
		}
		<-time.After(time.Second)
	}
	h.t.Fatalf("streams are %q, want %q", got, want)
}

func (h *harness) apply(o streams.Options, want streams.Difference) {
	h.t.Helper()
	if got, err := h.Apply(h.t.Context(), o); err != nil || got != want {
		h.t.Errorf("apply: %+v, %v, want %+v", got, err, want)
	}
}

// asked returns the lists and watches of a resource since the last n requests; a list that is streamed is a list.
func (h *harness) asked(resource string, n int) (lists, watches int) {
	for _, r := range h.srv.Requests()[n:] {
		switch {
		case r.Resource != resource || r.Query.Get("limit") == "1": // that finds out the server's version
		case r.Verb == "list", r.Query.Get("sendInitialEvents") == "true":
			lists++
		case r.Verb == "watch":
			watches++
		}
	}
	return lists, watches
}

// Streams of a new config that are the same go on undisturbed, others are replaced and resume; those that are removed
// keep their position, and resume when they come back.
func TestApply(t *testing.T) {
	bubble(t, entries("configmaps", "pods", "deployments.apps"), func(t *testing.T, h *harness) {
		h.await("configmaps Watching", "deployments.apps Watching", "pods Watching")
		before := len(h.srv.Requests())
		moved, changed := entry("cm"), entry("pods")
		moved.Name, moved.Entry, moved.Line = "configmaps", "resources[7]", 70
		changed.Payload = config.PayloadMetadata
		next := options(changed, entry("leases.coordination.k8s.io"), moved)
		h.apply(next, streams.Difference{Added: 1, Removed: 1, Changed: 1, Unchanged: 1})
		h.await("configmaps Watching", "leases.coordination.k8s.io Watching", "pods Watching")
		for resource, want := range map[string][2]int{
			"configmaps": {0, 0}, "pods": {0, 1}, "deployments": {0, 0}, "leases": {1, 0},
		} {
			lists, watches := h.asked(resource, before)
			if resource == "leases" {
				watches = 0 // as the list is streamed, or not
			}
			if lists != want[0] || watches != want[1] {
				t.Errorf("%s: %d lists and %d watches, want %v", resource, lists, watches, want)
			}
		}
		if n := h.srv.OpenWatches("deployments"); n != 0 {
			t.Errorf("%d watches of a stream that was removed", n)
		}
		if s, known, err := h.store.Stream("deployments.apps"); err != nil || !known || s.ResourceVersion == "" {
			t.Errorf("the position of a stream that was removed: %+v, %v, %v", s, known, err)
		}
		if removed, changed := h.states("deployments.apps"), h.states("pods"); removed != 0 || changed == 0 {
			t.Errorf("%d metrics of the stream that was removed, %d of one that runs", removed, changed)
		}

		h.apply(next, streams.Difference{Unchanged: 3})
		before = len(h.srv.Requests())
		next.Resources = append(next.Resources, entry("deployments.apps"))
		h.apply(next, streams.Difference{Added: 1, Unchanged: 3})
		h.await("configmaps Watching", "deployments.apps Watching", "leases.coordination.k8s.io Watching",
			"pods Watching")
		if lists, watches := h.asked("deployments", before); lists != 0 || watches != 1 {
			t.Errorf("added back: %d lists and %d watches, want it to resume", lists, watches)
		}
	})
}

// states removes the metrics of a stream's state, and returns how many there were.
func (h *harness) states(stream string) int {
	return h.metrics.StreamState.DeletePartialMatch(prometheus.Labels{"stream": stream})
}

// What all streams share changes all of them.
func TestApplyToAll(t *testing.T) {
	bubble(t, entries("configmaps", "pods"), func(t *testing.T, h *harness) {
		h.await("configmaps Watching", "pods Watching")
		o := options(entries("configmaps", "pods")...)
		o.DropFields = []string{"status", "metadata.managedFields"}
		h.apply(o, streams.Difference{Changed: 2})
		o.DropFields = []string{"metadata.managedFields", "status"} // another order is the same
		h.apply(o, streams.Difference{Unchanged: 2})
		o.Redact = []config.Redact{{Resource: "po", Fields: []string{"spec"}}}
		h.apply(o, streams.Difference{Changed: 1, Unchanged: 1})
	})
}

// A config with a fault changes nothing, whatever else it has.
func TestApplyFaults(t *testing.T) {
	bubble(t, entries("configmaps", "pods"), func(t *testing.T, h *harness) {
		h.await("configmaps Watching", "pods Watching")
		before := len(h.srv.Requests())
		filtered := entry("deployments.apps")
		filtered.Filter = "object.nothing("
		for what, o := range map[string]streams.Options{
			"a filter":             options(filtered),
			"the same stream":      options(entries("configmaps", "cm")...),
			"a namespace for none": options(config.Resource{Name: "namespaces", Namespaces: []string{"web"}}),
		} {
			if d, err := h.Apply(t.Context(), o); err == nil || d != (streams.Difference{}) {
				t.Errorf("%s: %+v, %v", what, d, err)
			}
			if faults := h.CheckOptions(o); len(faults) == 0 {
				t.Errorf("%s: no faults", what)
			}
		}
		h.await("configmaps Watching", "pods Watching")
		if after := len(h.srv.Requests()); after != before {
			t.Errorf("%d requests", after-before)
		}
		h.apply(options(entries("configmaps", "pods")...), streams.Difference{Unchanged: 2})
	})
}

// What cannot run is pending, with its reason, and retried at longer and longer intervals until it can.
func TestPending(t *testing.T) {
	bubble(t, entries("configmaps", "secrets", "widgets.example.com"), func(t *testing.T, h *harness) {
		h.await("configmaps Watching", "secrets Pending Forbidden", "widgets.example.com Pending NotFound")
		for _, s := range h.Streams() {
			if awaits := s.Name == "widgets.example.com"; s.AwaitsCRD() != awaits {
				t.Errorf("%s: AwaitsCRD is %v", s.Name, !awaits)
			}
		}
		const refused = "refused by rights, credentials or config of this daemon: secrets (Forbidden)"
		if err := h.Ready(false); err == nil || err.Error() != refused {
			t.Errorf("ready: %v, want %s", err, refused)
		}
		must(t, h.Synced())
		since := h.Streams()[1].Since
		at, n := time.Now(), len(h.srv.Requests())
		<-time.After(5 * time.Minute)
		tries := 0
		for _, r := range h.srv.Requests()[n:] {
			if r.Resource == "secrets" {
				tries++
			}
		}
		if most := int(time.Since(at)/(15*time.Second)) + 5; tries < 10 || tries > most {
			t.Errorf("%d requests for what is forbidden, want 10 to %d", tries, most)
		}
		if now := h.Streams()[1].Since; !now.Equal(since) {
			t.Errorf("pending since %s, want %s", now, since)
		}

		h.srv.Allow(secrets)
		h.srv.AddResource(widget)
		h.await("configmaps Watching", "secrets Watching", "widgets.example.com Watching")
		must(t, h.Ready(false))
		h.srv.Forbid(secrets)
		h.srv.BreakWatches()
		h.await("configmaps Watching", "secrets Pending Forbidden", "widgets.example.com Watching")
		must(t, h.Ready(false)) // it stays so
	})
}

// What is pending counts in the difference like what runs. A change of it is tried at once.
func TestApplyPending(t *testing.T) {
	waiting := entries("configmaps", "secrets")
	bubble(t, waiting, func(t *testing.T, h *harness) {
		h.await("configmaps Watching", "secrets Pending Forbidden")
		<-time.After(5 * time.Minute) // until the pauses are long
		h.await("configmaps Watching", "secrets Pending Forbidden")
		h.apply(options(waiting...), streams.Difference{Unchanged: 2})
		h.srv.Allow(secrets)
		changed := entry("secrets")
		changed.Payload = config.PayloadMetadata
		h.apply(options(entry("configmaps"), changed), streams.Difference{Changed: 1, Unchanged: 1})
		synctest.Wait()
		if s := h.Streams()[1]; s.State == watcher.Pending {
			t.Errorf("it still waits: %+v", s)
		}
		h.srv.Forbid(secrets)
		h.srv.BreakWatches()
		h.await("configmaps Watching", "secrets Pending Forbidden")
		h.apply(options(entries("configmaps")...), streams.Difference{Removed: 1, Unchanged: 1})
		h.await("configmaps Watching")
		h.stop()
		if _, err := h.Apply(t.Context(), options(waiting...)); err == nil ||
			err.Error() != "apply config: the streams are stopped" {
			t.Errorf("apply after the end: %v", err)
		}
	})
}

// A wildcard gets a stream for what the server serves later. What the server does not have any more ends with it, while
// other streams go on.
func TestWildcard(t *testing.T) {
	wildcard := entry("*")
	wildcard.Group = &widget.Group
	bubble(t, []config.Resource{entry("configmaps"), wildcard}, func(t *testing.T, h *harness) {
		h.await("* Pending NotFound", "configmaps Watching")
		h.srv.AddResource(widget)
		h.await("configmaps Watching", "widgets.example.com Watching")
		before := len(h.srv.Requests())
		h.srv.RemoveResource(schema.GroupResource{Group: "example.com", Resource: "widgets"})
		h.await("* Pending NotFound", "configmaps Watching")
		if lists, watches := h.asked("configmaps", before); lists+watches != 0 {
			t.Errorf("%d lists and %d watches of another stream", lists, watches)
		}
	})
}
