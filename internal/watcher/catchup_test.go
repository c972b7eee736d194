package watcher_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// pageFault fails pages of lists from the n-th on, for as long as it is on.
func (w *harness) pageFault(from int, status int) (off func()) {
	var pages atomic.Int64
	w.srv.SetFault(func(r fake.Request) *fake.Fault {
		if r.Verb != "list" || r.Resource != "configmaps" || r.Query.Get("limit") == "1" {
			return nil
		}
		if pages.Add(1) < int64(from) {
			return nil
		}
		return &fake.Fault{Status: status}
	})
	return func() { w.srv.SetFault(nil) }
}

// Reading what there is to compare with breaks off: nothing waits for it, and what
// was read until then is of use.
func TestCatchUpBreaksOff(t *testing.T) {
	for name, c := range map[string]struct{ from, status int }{
		"never begins": {1, 504}, "after a page": {2, 429}, "later": {4, 500},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{MaxPage: 10, NoWatchList: true}, entries("configmaps"), func(w *harness) {
				for i := range 60 {
					w.set("default", fmt.Sprintf("a%02d", i), "Pending", "0")
				}
				w.start()
				w.settled()
				w.stop()
				off := w.pageFault(c.from, c.status)
				w.entries = demanding("configmaps", func(e *config.Resource) { e.Changes = true })
				for life := range 3 {
					w.start()
					w.settled()
					n := len(w.lines())
					for i := range 60 {
						w.set("default", fmt.Sprintf("a%02d", i), "Running", fmt.Sprint(n))
					}
					w.settled()
					if got := len(w.lines()) - n; got != 60 {
						t.Fatalf("%d lines of 60", got)
					}
					for _, l := range w.lines()[n:] {
						if life > 0 && l.Raw("changes") == nil {
							t.Fatalf("life %d: no changes of %s, whose last event was kept", life, l.Name)
						}
					}
					w.stop()
				}
				off()
				w.start()
				w.settled()
				w.set("default", "a07", "Failed", "0")
				w.settled()
				lines := w.lines()
				if got := string(lines[len(lines)-1].Raw("changes")); !strings.Contains(got, `"old":"Running","value":"Failed"`) {
					t.Errorf("changes %s", got)
				}
				if strings.Contains(w.log.String(), "cannot be read") {
					t.Error("something that was kept could not be read")
				}
			})
		})
	}
}

// What is held back since the reader was told is in the next list of changes, also
// where the watch was opened again meanwhile, or the digests of an earlier life are
// worth nothing.
func TestIgnoredChangesAddUp(t *testing.T) {
	for name, redacts := range map[string]bool{"plain": false, "redacting": true} {
		t.Run(name, func(t *testing.T) {
			set := func(e *config.Resource) { e.IgnoreFields, e.Changes = []string{"data.note"}, true }
			bubble(t, fake.Options{}, demanding("configmaps", set), func(w *harness) {
				if redacts {
					redacting("configmaps", "data.secret")(&w.options)
				}
				w.set("default", "a", "Running", "1")
				w.start()
				w.settled()
				n := w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0")
				w.set("default", "a", "Running", "2")
				w.settled()
				w.srv.EndWatches()
				w.settled()
				w.set("default", "a", "Running", "3")
				w.settled()
				w.stop()
				w.start()
				w.settled()
				w.set("default", "a", "Running", "4")
				w.settled()
				n = w.tell(n)
				w.set("default", "a", "Failed", "5")
				w.settled()
				w.tell(n, "MODIFIED watch a")
				if got := string(w.lines()[n].Raw("changes")); !strings.Contains(got, `"path":"/data/note","old":"1","value":"5"`) {
					t.Errorf("changes %s", got)
				}
				lists := 0
				for _, r := range w.srv.Requests() {
					if r.Verb == "list" && r.Query.Get("limit") != "1" && r.Resource == "configmaps" {
						lists++
					}
				}
				if want := map[bool]int{true: 1}[redacts]; lists != want {
					t.Errorf("%d lists, want %d", lists, want)
				}
			})
		})
	}
}

// A filter decides about a deletion that nobody watched by what it made of the
// object before, whatever the lines hide of it.
func TestFilterOfGone(t *testing.T) {
	for name, set := range map[string]func(*streams.Options){
		"redacted": redacting("configmaps", "data.phase"),
		"dropped":  func(o *streams.Options) { o.DropFields = []string{"data.phase"} },
	} {
		for _, initial := range []string{config.Snapshot, config.Skip} {
			for _, changes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, initial, changes), func(t *testing.T) {
					entry := demanding("configmaps", func(e *config.Resource) {
						e.Filter, e.Changes, e.Initial = `object.data.phase == "Failed"`, changes, initial
					})
					bubble(t, fake.Options{}, entry, func(w *harness) {
						set(&w.options)
						w.set("default", "told", "Failed", "1")
						w.set("default", "withheld", "Running", "1")
						w.start()
						w.settled()
						n := len(w.lines())
						w.stop()
						for _, name := range []string{"told", "withheld"} {
							_, err := w.srv.Delete(configMaps, "default", name)
							must(t, err)
						}
						w.srv.DropHistory()
						w.start()
						w.settled()
						w.tell(n, "GAP Expired", "DELETED relist told", "SYNCED +0 ~0 -1 =0")
					})
				})
			}
		}
	}
}

// An object that the filter has kept from the reader gets no line when it is gone,
// also after a GAP that puts every object in doubt.
func TestFilterOfGoneInDoubt(t *testing.T) {
	// Without the check of seq, whose hole shows the line that is cut off.
	await := func(w *harness) {
		w.await("every stream watches", w.watching)
		w.pass(2 * time.Second)
	}
	for _, changes := range []bool{false, true} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			entry := demanding("configmaps", func(e *config.Resource) {
				e.Filter, e.Changes = `object.data.phase == "Failed"`, changes
			})
			bubble(t, fake.Options{}, entry, func(w *harness) {
				for _, name := range []string{"gone", "told"} {
					w.set("default", name, "Failed", "1")
				}
				for _, name := range []string{"withheld", "withheld-gone"} {
					w.set("default", name, "Running", "1")
				}
				w.start()
				w.settled()
				w.stop()
				content, err := os.ReadFile(w.journal())
				must(t, err)
				end := bytes.LastIndexByte(content[:len(content)-1], '\n') + 1
				must(t, os.Truncate(w.journal(), int64(end)))
				w.read, w.readBytes = nil, 0
				n := len(w.lines())
				for _, name := range []string{"gone", "withheld-gone"} {
					_, err := w.srv.Delete(configMaps, "default", name)
					must(t, err)
				}
				w.start()
				await(w)
				n = w.tell(n, "GAP JournalTruncated", "MODIFIED relist told", "DELETED relist gone", "SYNCED +0 ~1 -1 =1")
				w.set("default", "withheld", "Failed", "1")
				await(w)
				w.tell(n, "MODIFIED watch withheld")
			})
		})
	}
}

// Lines that carry less than the object are not taken for it when they are read
// back, however soon the daemon dies after the payload was changed.
func TestPayloadChangesBeforeAKill(t *testing.T) {
	bubble(t, fake.Options{}, demanding("configmaps", func(e *config.Resource) { e.Changes = true }), func(w *harness) {
		w.set("default", "a", "Pending", "1")
		w.start()
		w.settled()
		w.mustApply(demanding("configmaps", func(e *config.Resource) { e.Changes, e.Payload = true, config.PayloadMetadata }), nil)
		w.await("every stream watches", w.watching)
		w.set("default", "a", "Running", "1")
		w.pass(50 * time.Millisecond)
		w.kill()
		w.entries[0].Payload = config.PayloadMetadata
		w.start()
		w.settled()
		w.set("default", "a", "Failed", "1")
		w.settled()
		lines := w.lines()
		if got := lines[len(lines)-1]; got.Type != invariant.Modified || strings.Contains(string(got.Raw("changes")), `"add"`) {
			t.Errorf("%s, changes %s", brief(got), got.Raw("changes"))
		}
	})
}

// Changes are turned on where digests were kept: the first of each object shows.
func TestChangesJoinIgnoreFields(t *testing.T) {
	ask := func(changes bool) []config.Resource {
		return demanding("configmaps", func(e *config.Resource) { e.IgnoreFields, e.Changes = []string{"data.note"}, changes })
	}
	bubble(t, fake.Options{}, ask(false), func(w *harness) {
		w.set("default", "a", "Pending", "1")
		w.set("default", "b", "Pending", "1")
		w.start()
		w.settled()
		w.mustApply(ask(true), nil)
		w.settled()
		n := len(w.lines())
		w.set("default", "b", "Pending", "2")
		w.set("default", "a", "Running", "1")
		w.settled()
		w.tell(n, "MODIFIED watch a")
		if got := string(w.lines()[n].Raw("changes")); !strings.Contains(got, `"old":"Pending","value":"Running"`) {
			t.Errorf("changes %s", got)
		}
	})
}

// What was excluded until now is kept before its first event.
func TestChangesOfWhatWasExcluded(t *testing.T) {
	ask := func(globs ...string) []config.Resource {
		return demanding("configmaps", func(e *config.Resource) { e.ExcludeNamespaces, e.Changes = globs, true })
	}
	bubble(t, fake.Options{}, ask("kube-*"), func(w *harness) {
		w.set("default", "a", "Pending", "1")
		w.set("kube-x", "b", "Pending", "1")
		w.start()
		w.settled()
		n := w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =1")
		w.mustApply(ask(), nil)
		w.settled()
		w.set("kube-x", "b", "Running", "1")
		w.settled()
		w.tell(n, "MODIFIED watch kube-x/b")
		if got := string(w.lines()[n].Raw("changes")); !strings.Contains(got, `"old":"Pending","value":"Running"`) {
			t.Errorf("changes %s", got)
		}
	})
}

// Changes are turned on while the server does not let the stream run: what there is
// to compare with is read once it does.
func TestChangesTurnedOnWhileForbidden(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.set("default", "a", "Pending", "1")
		w.start()
		w.settled()
		w.srv.Forbid(configMaps)
		w.srv.EndWatches()
		w.mustApply(demanding("configmaps", func(e *config.Resource) { e.Changes = true }), nil)
		w.await("it waits", func() bool { return w.state("configmaps").State == watcher.Pending })
		w.pass(time.Minute)
		w.srv.Allow(configMaps)
		w.settled()
		n := len(w.lines())
		w.set("default", "a", "Running", "1")
		w.settled()
		w.tell(n, "MODIFIED watch a")
		if got := string(w.lines()[n].Raw("changes")); !strings.Contains(got, `"old":"Pending","value":"Running"`) {
			t.Errorf("changes %s", got)
		}
	})
}

// The checkpoint cannot be written while a stream that compares nothing any more drops its previous versions: the
// stream retries, others continue, and the daemon stays.
func TestDropPreviousFails(t *testing.T) {
	bubble(t, fake.Options{}, demanding("configmaps", func(e *config.Resource) { e.Changes = true }), func(w *harness) {
		w.set("default", "a", "Running", "1")
		w.start()
		w.settled()
		kept := func() bool {
			_, ok, err := w.life.gate.store.KeptHeader("configmaps")
			must(t, err)
			return ok
		}
		if !kept() {
			t.Fatal("no previous versions")
		}
		owner := disk.OwnerPath(w.db())
		must(t, os.Remove(owner))
		must(t, os.Mkdir(owner, 0o700)) // what cannot be read lets no commit pass
		w.entries = entries("configmaps")
		w.mustApply(w.entries, nil)
		for range 3 {
			w.pass(10 * time.Second)
			if s := w.state("configmaps").State; s != watcher.Retrying || !kept() {
				t.Fatalf("%v, previous versions: %v", s, kept())
			}
		}
		select {
		case err := <-w.life.ended:
			t.Fatalf("the daemon has ended: %v", err)
		default:
		}
		must(t, os.Remove(owner))
		w.settled()
		if kept() {
			t.Error("the previous versions are still there")
		}
		n := w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0")
		w.set("default", "a", "Failed", "1")
		w.settled()
		w.tell(n, "MODIFIED watch a")
	})
}
