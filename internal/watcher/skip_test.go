package watcher_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

func skipping() []config.Resource {
	e := entry("configmaps")
	e.Initial = config.Skip
	return []config.Resource{e}
}

// checkSkipped is check without what holds only where a reader knows all.
func (w *harness) checkSkipped() {
	w.t.Helper()
	w.await("every stream watches", w.watching)
	w.pass(time.Second)
	lines := w.lines()
	for _, err := range []error{invariant.Sequence(lines, 1), invariant.Shape(lines), invariant.Unique(lines)} {
		if err != nil {
			w.t.Error(err)
		}
	}
}

// What exists at first sight is not told; what becomes of it is.
func TestSkip(t *testing.T) {
	for name, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, skipping(), func(w *harness) {
				for i := range 5 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.start()
				w.checkSkipped()
				n := w.tell(0, "SYNCED +0 ~0 -0 =5")
				w.put(configMaps, "a0")
				w.remove(configMaps, "a1")
				w.put(configMaps, "b")
				w.checkSkipped()
				n = w.tell(n, "MODIFIED watch a0", "DELETED watch a1", "ADDED watch b")
				w.kill()
				w.put(configMaps, "a2")
				w.remove(configMaps, "a3")
				w.remove(configMaps, "a4")
				w.put(configMaps, "a4")
				w.srv.DropHistory()
				w.start()
				w.checkSkipped()
				w.tell(n, "GAP Expired", "MODIFIED relist a2", "DELETED relist a4", "ADDED relist a4", "DELETED relist a3", "SYNCED +1 ~1 -2 =2")
			})
		})
	}
}

// killings are the ways to die around the end of a first sync that writes one
// line, by what the gate still lets through.
func killings() map[string]func(*gate) {
	all := map[string]func(*gate){"not at all": func(*gate) {}}
	for _, n := range []int{0, 1, 2, 3} {
		all[fmt.Sprintf("before commit %d", n)] = func(g *gate) { g.dieAtCommit(n, false) }
		all[fmt.Sprintf("after commit %d", n)] = func(g *gate) { g.dieAtCommit(n, true) }
	}
	for _, n := range []int{0, 1, 40, 150, 10_000} {
		all[fmt.Sprintf("after %d bytes", n)] = func(g *gate) { g.dieAfterBytes(n) }
	}
	return all
}

// Once SYNCED stands in the journal, or the position is committed that it is
// about to tell of, what exists is known, wherever the daemon was killed: later
// changes and deletions are told though no line told of the objects. Before
// that, the next start begins from its own now.
func TestSkipKilledAroundSynced(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, arm := range killings() {
		for _, late := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				bubble(t, fake.Options{}, skipping(), func(w *harness) {
					for i := range 5 {
						w.put(configMaps, fmt.Sprint("a", i))
					}
					w.start()
					arm(w.life.gate)
					w.pass(late)
					w.kill()
					w.put(configMaps, "a0")
					w.remove(configMaps, "a1")
					w.remove(configMaps, "a2")
					w.put(configMaps, "a2")
					w.srv.DropHistory()
					store, err := checkpoint.Open(w.db())
					must(t, err)
					committed, _, err := store.Stream("configmaps")
					must(t, errors.Join(err, store.Close()))
					complete := len(w.lines()) > 0 || committed.ResourceVersion != ""
					w.start()
					w.checkSkipped()
					if complete {
						w.tell(0, "SYNCED +0 ~0 -0 =5",
							"GAP Expired", "MODIFIED relist a0", "DELETED relist a2", "ADDED relist a2", "DELETED relist a1", "SYNCED +1 ~1 -2 =2")
					} else {
						lines := w.lines()
						if last := brief(lines[len(lines)-1]); last[:6] != "SYNCED" {
							t.Errorf("got %q", briefs(lines))
						}
						if slices.ContainsFunc(lines, func(l invariant.Line) bool {
							return l.Type == invariant.Added || l.Type == invariant.Modified || l.Type == invariant.Gap
						}) {
							t.Errorf("what is to be skipped was told: %q", briefs(lines))
						}
					}
					// From here on all that exists is known, too.
					n := len(w.lines())
					w.stop()
					w.put(configMaps, "a0")
					w.remove(configMaps, "a2")
					w.put(secrets, "noise")
					w.srv.DropHistory()
					w.start()
					w.checkSkipped()
					w.tell(n, "GAP Expired", "MODIFIED relist a0", "DELETED relist a2", "SYNCED +0 ~1 -1 =2")
				})
			})
		}
	}
}

// A first sync that is trouble: what was taken silently before it broke off is
// taken again, and nothing of it is told.
func TestSkipInterrupted(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, skipping(), func(w *harness) {
		for i := range 7 {
			w.put(configMaps, fmt.Sprint("a", i))
		}
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Query.Get("continue") != "" {
				return statusFault(500)
			}
			return nil
		})
		w.start()
		w.pass(5 * time.Minute)
		w.tell(0)
		w.kill()
		w.put(configMaps, "a0")
		w.remove(configMaps, "a1")
		w.put(configMaps, "a1")
		w.start()
		w.pass(5 * time.Minute)
		w.srv.SetFault(nil)
		w.checkSkipped()
		lines := w.lines()
		for _, l := range lines {
			if l.Type == invariant.Added || l.Type == invariant.Modified || l.Type == invariant.Gap {
				t.Errorf("what is to be skipped was told: %q", briefs(lines))
			}
		}
		w.stop()
		w.remove(configMaps, "a1") // the second of that name
		w.put(secrets, "noise")
		w.srv.DropHistory()
		w.start()
		w.checkSkipped()
		w.tell(len(lines), "GAP Expired", "DELETED relist a1", "SYNCED +0 ~0 -1 =6")
	})
}
