package watcher_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// shardOf returns entries for config maps, of which the daemon has one shard.
func shardOf(index, count int) []config.Resource {
	e := entry("configmaps")
	e.Shard, e.Changes = config.Shard{Index: index, Count: count}, true
	return []config.Resource{e}
}

// otherShards is how many objects of other shards were received.
func (w *harness) otherShards() int {
	return int(testutil.ToFloat64(w.life.metrics.OtherShards.WithLabelValues("", "configmaps")))
}

// One of three shards: objects that come, change, go and come again under their names, into another shard or the same; with the
// daemon watching, down, and after a lost history.
func TestShard(t *testing.T) {
	const objects = 30
	for _, o := range []fake.Options{{}, {NoWatchList: true, MaxPage: 2}} {
		for _, o.Shards = range []bool{false, true} {
			t.Run(fmt.Sprintf("pages %t, server selects %t", o.NoWatchList, o.Shards), func(t *testing.T) {
				bubble(t, o, shardOf(1, 3), func(w *harness) {
					names := make([]string, objects)
					for i := range names {
						names[i] = fmt.Sprint("a", i)
					}
					change := func() {
						for i, name := range names {
							switch i % 3 {
							case 0:
								w.put(configMaps, name)
							case 1:
								w.remove(configMaps, name)
								w.put(configMaps, name)
							}
						}
					}
					for _, name := range names {
						w.put(configMaps, name)
					}
					w.writes = nil // the first list shows their result
					w.start()
					w.synced()
					before := w.otherShards()
					change()
					w.synced()
					if got := w.otherShards(); (before > 0) == o.Shards || (got > before) == o.Shards {
						t.Errorf("%d objects of other shards were received, then %d", before, got)
					}
					w.stop()
					change()
					w.start()
					w.synced()
					w.stop()
					w.srv.RestartAPIServer()
					w.srv.Compact(w.srv.Version())
					for _, name := range names[objects/2:] {
						w.remove(configMaps, name)
					}
					w.srv.RestartAPIServer()
					w.start()
					w.check()
					lines := w.lines()
					if err := invariant.Changes(lines); err != nil {
						t.Error(err)
					}
					if !slices.ContainsFunc(lines, func(l invariant.Line) bool { return l.Type == invariant.Deleted && l.Origin == invariant.FromRelist }) {
						t.Error("no object was found to be gone")
					}
					for _, l := range lines {
						if l.Stream != "configmaps?shard=1-of-3" || l.UID != "" && !(client.Shard{Index: 1, Count: 3}).Has([]byte(l.UID)) {
							t.Errorf("%s: %s of stream %s", l.Where, l.ID, l.Stream)
						}
					}
				})
			})
		}
	}
}

// A page that has nothing of the shard is a page like any other, however many of them there are; pages that are the same again
// and again are not.
func TestPagesOfOtherShards(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 1}, shardOf(0, 1000), func(w *harness) {
		for i := range 20 {
			w.put(configMaps, fmt.Sprintf("a%02d", i))
		}
		w.start()
		w.synced()
		if got := w.otherShards(); got < 10 {
			t.Errorf("%d objects of other shards were received", got)
		}
		w.check()
		const object = `{"metadata":{"name":"b","namespace":"default","uid":"x","resourceVersion":"5"}}`
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && r.Query.Get("continue") != "" {
				return &fake.Fault{Status: http.StatusOK, Body: `{"metadata":{"resourceVersion":"9","continue":"again"},"items":[` + object + `]}`}
			}
			return nil
		})
		w.srv.RestartAPIServer()
		w.srv.Compact(w.srv.Version())
		w.put(configMaps, "c")
		w.srv.RestartAPIServer()
		w.pass(time.Hour)
		if s := w.state("configmaps?shard=0-of-1000"); s.State != watcher.Retrying || s.Reason != "NoListEnd" {
			t.Errorf("%s: %s", s.State, s.Reason)
		}
		w.srv.SetFault(nil)
		w.interrupted = true
		w.check()
	})
}

// Where the server does not take the selector, it is left out, and the list is asked for in the same form as before.
func TestShardSelectorRefused(t *testing.T) {
	for _, f := range []*fake.Fault{
		{Status: 500, Message: "invalid shard selector: expected shardRange()"},
		{Status: 400, Message: `shardSelector: Invalid value: "shardRange(...)"`},
	} {
		t.Run(fmt.Sprint(f.Status), func(t *testing.T) {
			bubble(t, fake.Options{}, shardOf(0, 2), func(w *harness) {
				for i := range 9 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if r.Query.Get("shardSelector") != "" {
						return f
					}
					return nil
				})
				w.start()
				w.synced()
				w.put(configMaps, "a0")
				w.remove(configMaps, "a1")
				w.check()
				if n := w.streamed(0); n != 2 {
					t.Errorf("%d streamed lists were asked for", n)
				}
				if !strings.Contains(w.log.String(), "rejects the shard selector") {
					t.Error("the log does not say so")
				}
				if got := w.otherShards(); got == 0 {
					t.Error("no object of another shard was received")
				}
			})
		})
	}
}
