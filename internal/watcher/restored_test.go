package watcher_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// changeBackedUp has the daemon follow changes of a and b, and e being added, and returns the server's version before.
func (w *harness) changeBackedUp() (backup uint64) {
	w.t.Helper()
	backup = w.srv.Version()
	w.start()
	w.synced()
	w.put(configMaps, "a")
	w.remove(configMaps, "b")
	w.put(configMaps, "e")
	return backup
}

func TestAheadOfServer(t *testing.T) {
	for name, running := range map[string]bool{"at start": false, "while running": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.put(configMaps, "k")
				w.put(secrets, "s")
				backup := w.changeBackedUp()
				w.put(secrets, "s")
				w.pass(3 * time.Minute)
				w.synced()
				if !running {
					w.stop()
				}
				n := len(w.lines())
				w.srv.RestoreTo(backup)
				w.epoch++
				if !running {
					w.start()
				}
				w.synced()
				var got []string
				for _, l := range w.lines()[n:] {
					if l.Stream == "configmaps" {
						got = append(got, brief(l))
					}
				}
				want := []string{"GAP PositionAheadOfServer", "MODIFIED relist a", "ADDED relist b", "MODIFIED relist k", "DELETED relist e", "SYNCED +1 ~2 -1 =0"}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %q, want %q", got, want)
				}
				w.put(configMaps, "f")
				w.put(secrets, "t")
				w.check()
			})
		})
	}
}

// versionAhead answers all but lists as a server does that is far ahead, and has forgotten its history.
func versionAhead(r fake.Request) *fake.Fault {
	switch {
	case r.Resource != "configmaps" || lists(r):
		return nil
	case r.Verb == "watch":
		return statusFault(http.StatusGone)
	}
	return &fake.Fault{Status: http.StatusOK,
		Body: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"999"},"items":[]}`}
}

// One of several API servers has yet to go back to a backup and names its version, then a list comes from one that has
// gone back: that list does not end the gap, and there is a second GAP that says so.
func TestBackInARelist(t *testing.T) {
	for listing, c := range map[string]struct {
		server fake.Options
		stale  int // answers
	}{
		// Its version, the end of the position, and its version again, which in pages comes after the refusal of a stream.
		"streamed": {stale: 3},
		"pages":    {stale: 4, server: fake.Options{NoWatchList: true, MaxPage: 2}},
	} {
		t.Run(listing, func(t *testing.T) {
			bubble(t, c.server, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				backup := w.changeBackedUp()
				w.synced()
				w.stop()
				n := len(w.lines())
				w.srv.RestoreTo(backup)
				w.epoch++
				w.srv.SetFault(first(c.stale, versionAhead))
				w.start()
				w.synced()
				w.tell(n, "GAP Expired",
					"GAP PositionAheadOfServer", "MODIFIED relist a", "ADDED relist b", "DELETED relist e", "SYNCED +1 ~1 -1 =0")
				w.put(configMaps, "f")
				w.interrupted = true
				w.check()
			})
		})
	}
}

// So it is with one that goes back when its version is known and the list asked for. Pages say before the first object how old they are.
func TestBackBeforeTheFirstPage(t *testing.T) {
	for reason, lose := range map[string]func(*harness){"Expired": func(w *harness) { w.srv.Expire(w.srv.Version()) }, "CheckpointLost": (*harness).forget} {
		t.Run(reason, func(t *testing.T) {
			bubble(t, fake.Options{NoWatchList: true, MaxPage: 1}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "0")
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				backup := w.changeBackedUp()
				w.remove(configMaps, "0")
				w.synced()
				w.stop()
				w.put(configMaps, "f")
				n := len(w.lines())
				lose(w)
				restore := sync.OnceFunc(func() { w.srv.RestoreTo(backup) })
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if lists(r) && r.Verb == "list" {
						restore()
					}
					return nil
				})
				w.epoch++
				w.start()
				w.synced()
				w.tell(n, "GAP "+reason,
					"GAP PositionAheadOfServer", "ADDED relist 0", "MODIFIED relist a", "ADDED relist b", "DELETED relist e", "SYNCED +2 ~1 -1 =0")
				w.interrupted = true
				w.check()
			})
		})
	}
}

// A server whose lists always lag behind what it says of its version was not put back: nothing is written again and again.
func TestListsLagBehindTheVersion(t *testing.T) {
	for name, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.start()
				w.synced()
				w.stop()
				n := len(w.lines())
				w.srv.SetFault(versionAhead)
				w.start()
				w.pass(30 * time.Minute)
				w.tell(n, "GAP Expired")
				w.srv.SetFault(nil)
				w.synced()
			})
		})
	}
}

// A server that was restored, and has passed the position again, is found out by an object in a list that is at an earlier version
// than it was.
func TestBackUnnoticed(t *testing.T) {
	all := []string{"GAP PositionAheadOfServer", "MODIFIED relist a", "MODIFIED relist b", "MODIFIED relist c", "SYNCED +0 ~3 -0 =0"}
	for listing, c := range map[string]struct {
		server fake.Options
		forget bool // the checkpoint is lost too
		before []string
	}{
		"streamed":        {before: []string{"GAP Expired"}},
		"pages":           {server: fake.Options{NoWatchList: true, MaxPage: 2}, before: []string{"GAP Expired", "MODIFIED relist b"}},
		"checkpoint lost": {forget: true, before: []string{"GAP CheckpointLost"}},
	} {
		t.Run(listing, func(t *testing.T) {
			bubble(t, c.server, entries("configmaps"), func(w *harness) {
				for _, name := range []string{"a", "b", "c"} {
					w.put(configMaps, name)
				}
				w.start()
				w.synced()
				w.put(configMaps, "a")
				w.synced()
				backup := w.srv.Version()
				w.put(configMaps, "c")
				w.synced()
				if w.stop(); c.forget {
					w.forget()
				}
				n := w.putBack(backup, "b")
				w.tell(n, append(c.before, all...)...)
				w.checkSkipped() // and not that each write is there
				lines := w.lines()
				must(t, errors.Join(invariant.Objects(lines), invariant.Streams(lines, true)))
				expired, ahead := lines[n], lines[n+len(c.before)]
				if expired.ID == ahead.ID {
					t.Errorf("both GAPs have the id %s", ahead.ID)
				}
			})
		})
	}
}

// putBack restores the server of a daemon that is stopped, has it pass the daemon's position with writes to an object, and forget its
// history. It returns how many lines there were before.
func (w *harness) putBack(backup uint64, name string) (n int) {
	w.t.Helper()
	n = len(w.lines())
	w.srv.RestoreTo(backup)
	for range 5 {
		w.put(configMaps, name)
	}
	w.srv.DropHistory()
	w.start()
	w.synced()
	return n
}

// What an object has shown is kept across a crash, after which no object shows it any more.
func TestBackIsKept(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 1}, entries("configmaps"), func(w *harness) {
		for _, name := range []string{"a", "b", "c"} {
			w.put(configMaps, name)
		}
		w.start()
		w.synced()
		backup := w.srv.Version()
		w.put(configMaps, "c")
		w.synced()
		w.stop()
		n := len(w.lines())
		w.srv.RestoreTo(backup)
		for range 5 {
			w.put(configMaps, "b")
		}
		w.srv.DropHistory()
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" {
				return statusFault(http.StatusServiceUnavailable)
			}
			return nil
		})
		w.start()
		w.pass(time.Minute) // so that the next pause is long
		w.srv.SetFault(nil)
		w.await("c has shown it", func() bool { return w.restarts("PositionAheadOfServer") > 0 })
		w.pass(2 * time.Second)
		w.kill()
		w.put(configMaps, "c")
		w.start()
		w.synced()
		w.tell(n, "GAP Expired", "MODIFIED relist b",
			"GAP PositionAheadOfServer", "MODIFIED relist a", "MODIFIED relist b", "MODIFIED relist c", "SYNCED +0 ~3 -0 =0")
		w.checkSkipped()
	})
}

// A checkpoint that is lost after the GAP of a restore does not make the objects before it known at their versions.
func TestCheckpointLostBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		unlisted := w.failLists()
		w.put(configMaps, "a")
		w.put(configMaps, "b")
		w.start()
		w.synced()
		backup := w.srv.Version()
		w.put(configMaps, "b")
		w.synced()
		w.stop()
		n := len(w.lines())
		w.srv.RestoreTo(backup)
		w.epoch++
		unlisted.Store(true)
		w.start()
		w.await("the GAP is written", func() bool { return len(w.lines()) > n })
		w.pass(5 * time.Second)
		w.stop()
		w.put(configMaps, "b") // at the version that it had
		w.forget()
		unlisted.Store(false)
		w.start()
		w.synced()
		w.tell(n, "GAP PositionAheadOfServer", "GAP PositionAheadOfServer", "MODIFIED relist a", "MODIFIED relist b", "SYNCED +0 ~2 -0 =0")
		w.checkSkipped()
	})
}

// So it is by one that has the name of a later one.
func TestBackUnnoticedUnderAName(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.put(configMaps, "b")
		w.start()
		w.synced()
		backup := w.srv.Version()
		w.remove(configMaps, "b")
		w.put(configMaps, "b")
		w.synced()
		w.stop()
		n := w.putBack(backup, "a")
		w.tell(n, "GAP Expired", "GAP PositionAheadOfServer", "MODIFIED relist a", "DELETED relist b", "ADDED relist b", "SYNCED +1 ~1 -1 =0")
		w.checkSkipped()
		lines := w.lines()
		must(t, errors.Join(invariant.Objects(lines), invariant.Streams(lines, true), invariant.Unique(lines)))
	})
}

// What is written again at a version that was there before the restore is another change.
func TestSameVersionAlone(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "b")
		w.start()
		w.synced()
		backup := w.srv.Version()
		for _, name := range []string{"a", "b", "a", "a"} {
			w.put(configMaps, name)
		}
		w.synced()
		w.kill()
		n := len(w.lines())
		w.srv.RestoreTo(backup)
		w.epoch++
		w.put(configMaps, "b")
		w.put(configMaps, "b") // at the version that it had
		w.start()
		w.synced()
		w.tell(n, "GAP PositionAheadOfServer", "MODIFIED relist b", "DELETED relist a", "SYNCED +0 ~1 -1 =0")
		w.checkSkipped()
	})
}
