package watcher_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

// upset stops the daemon after its first sync of a, b, c and k, and changes what
// it must find out by a relist: netResult tells it, in the journal's order.
func (w *harness) upset() (n int) {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c", "k"} {
		w.put(configMaps, name)
	}
	w.start()
	w.synced()
	w.stop()
	n = len(w.lines())
	w.put(configMaps, "a")
	w.remove(configMaps, "b")
	w.remove(configMaps, "c")
	w.put(configMaps, "c")
	w.put(configMaps, "d")
	w.put(configMaps, "e")
	w.remove(configMaps, "e") // came and went: nobody needs to know
	w.srv.DropHistory()
	return n
}

var netResult = []string{
	"GAP Expired", "MODIFIED relist a", "DELETED relist c", "ADDED relist c", "ADDED relist d", "DELETED relist b",
	"SYNCED +2 ~1 -2 =1",
}

// ways are the shapes of a 410 and of a list.
var ways = map[string]fake.Options{
	"410 in the stream, streamed": {},
	"410 as status, streamed":     {GoneAsStatus: true},
	"410 in the stream, pages":    {NoWatchList: true, MaxPage: 2},
	"410 as status, pages":        {GoneAsStatus: true, NoWatchList: true, MaxPage: 2},
}

func TestGapAtStart(t *testing.T) {
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				n := w.upset()
				w.start()
				w.synced()
				n = w.tell(n, netResult...)
				gap := w.lines()[n-len(netResult)]
				if to := w.lines()[n-1].ResourceVersion; gap.ResourceVersion != to || gap.FromResourceVersion == "" || gap.FromResourceVersion == to { // nothing has happened since
					t.Errorf("GAP from %s to %s, SYNCED at %s", gap.FromResourceVersion, gap.ResourceVersion, to)
				}
				w.put(configMaps, "a")
				w.check()
				w.tell(n, "MODIFIED watch a")
				w.stop()
				w.start()
				w.check()
				w.tell(n, "MODIFIED watch a")
			})
		})
	}
}

func TestGapWhileRunning(t *testing.T) {
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				for _, name := range []string{"a", "b", "c", "k"} {
					w.put(configMaps, name)
				}
				w.start()
				w.synced()
				n := len(w.lines())
				for range 3 {
					w.srv.StopAPIServer()
					w.remove(configMaps, "c")
					w.put(configMaps, "c")
					w.put(configMaps, "a")
					w.pass(10 * time.Second)
					w.tell(n)
					must(t, w.srv.StartAPIServer())
					w.synced()
					n = w.tell(n, "GAP Expired", "MODIFIED relist a", "DELETED relist c", "ADDED relist c", "SYNCED +1 ~1 -1 =2")
				}
				w.check()
			})
		})
	}
}

// The server says in mid-watch that the history is gone.
func TestGoneInMidWatch(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "k")
		w.start()
		w.synced()
		w.pass(10 * time.Second)
		n := len(w.lines())
		w.srv.SilenceWatches() // the watch with the fault finds all three
		w.put(configMaps, "a")
		w.put(configMaps, "b")
		w.put(configMaps, "c")
		w.srv.SetFault(first(1, on("configmaps", "watch", &fake.Fault{Stream: fake.Gone, AfterEvents: 2})))
		w.srv.EndWatches()
		w.synced()
		w.tell(n, "ADDED watch a", "ADDED watch b", "GAP Expired", "ADDED relist c", "SYNCED +1 ~0 -0 =3")
		w.check()
	})
}

func TestGapWithNothingChanged(t *testing.T) {
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				for i := range 5 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.start()
				w.synced()
				w.stop()
				n := len(w.lines())
				w.put(secrets, "noise")
				w.srv.DropHistory()
				w.start()
				w.synced()
				w.tell(n, "GAP Expired", "SYNCED +0 ~0 -0 =5")
				w.check()
			})
		})
	}
}

// trouble is what can happen to a list. While it lasts the journal says what the
// list has shown, after one GAP, and nothing of what it has not: no DELETED is
// concluded from a part.
var trouble = map[string]*fake.Fault{
	"forbidden":         statusFault(403),
	"not found":         statusFault(404),
	"not found in text": {Status: 404, Body: "404 page not found\n"},
	"method":            statusFault(405),
	"unauthorized":      statusFault(401),
	"server error":      statusFault(500),
	"unavailable":       {Status: 503, Body: "<html>503</html>", RetryAfter: 1},
	"too many requests": {Status: 429, RetryAfter: 2},
	"gone":              statusFault(410),
	"garbage":           {Status: 200, Body: "<html>welcome</html>"},
	"empty answer":      {Status: 200, Body: " "},
	"empty object":      {Status: 200, Body: "{}"},
	"a status":          {Status: 200, Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`},
	"cut at once":       {CutAfterBytes: 1},
	"cut in the middle": {CutAfterBytes: 700},
	"no answer":         {Hang: true},
}

// streamTrouble is for streamed lists only, after the first object.
var streamTrouble = map[string]*fake.Fault{
	"stream: gone":         {Stream: fake.Gone, AfterEvents: 1},
	"stream: 500":          {Stream: fake.Failed, Status: 500, AfterEvents: 1},
	"stream: 403":          {Stream: fake.Failed, Status: 403, AfterEvents: 1},
	"stream: cut":          {Stream: fake.Cut, AfterEvents: 1},
	"stream: cut an event": {Stream: fake.CutMidEvent, AfterEvents: 1},
	"stream: end":          {Stream: fake.End, AfterEvents: 1},
	"stream: end at once":  {Stream: fake.End},
	"stream: garbage":      {Stream: fake.Garbage, AfterEvents: 1},
}

func TestTroubleInARelist(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for listing, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		for name, fault := range trouble {
			t.Run(listing+"/"+name, func(t *testing.T) { testTrouble(t, o, fault) })
		}
	}
	// What ails streamed lists alone is helped by pages.
	for name, fault := range streamTrouble {
		t.Run("streamed/"+name, func(t *testing.T) {
			if fault.Status == 403 {
				testTrouble(t, fake.Options{}, fault)
				return
			}
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				n := w.upset()
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if r.Resource == "configmaps" && r.Query.Get("sendInitialEvents") != "" {
						return fault
					}
					return nil
				})
				w.start()
				w.synced()
				w.tell(n, netResult...)
				w.check()
			})
		})
	}
	t.Run("pages/second page", func(t *testing.T) {
		bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
			testTroubleIn(w, func(r fake.Request) *fake.Fault {
				if r.Query.Get("continue") != "" {
					return statusFault(403)
				}
				return nil
			})
		})
	})
}

func testTrouble(t *testing.T, o fake.Options, fault *fake.Fault) {
	bubble(t, o, entries("configmaps"), func(w *harness) {
		testTroubleIn(w, func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && lists(r) {
				return fault
			}
			return nil
		})
	})
}

func testTroubleIn(w *harness, fault func(fake.Request) *fake.Fault) {
	n := w.upset()
	w.srv.SetFault(fault)
	w.start()
	w.pass(5 * time.Minute)
	w.tellPart(n)
	w.kill()
	w.start()
	w.pass(5 * time.Minute)
	w.tellPart(n)
	w.srv.SetFault(nil)
	w.synced()
	w.interrupted = false
	w.tell(n, netResult...)
	w.check()
}

// tellPart checks that the lines after the first n are the GAP and what an
// incomplete list may tell after it.
func (w *harness) tellPart(n int) {
	w.t.Helper()
	part := netResult[:slices.Index(netResult, "DELETED relist b")]
	got := briefs(w.lines()[n:])
	if len(got) == 0 || len(got) > len(part) || !slices.Equal(got, part[:len(got)]) {
		w.t.Fatalf("lines after %d:\n  got  %q\n  want the first of %q", n, got, part)
	}
}

// Trouble in a first sync: what was told of it stays told, once.
func TestTroubleInAFirstSync(t *testing.T) {
	for listing, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		for name, fault := range trouble {
			t.Run(listing+"/"+name, func(t *testing.T) { testFirstTrouble(t, o, fault) })
		}
	}
	for name, fault := range streamTrouble {
		t.Run("streamed/"+name, func(t *testing.T) { testFirstTrouble(t, fake.Options{}, fault) })
	}
}

func testFirstTrouble(t *testing.T, o fake.Options, fault *fake.Fault) {
	bubble(t, o, entries("configmaps"), func(w *harness) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.put(configMaps, name)
		}
		w.srv.SetFault(first(3, func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && lists(r) {
				return fault
			}
			return nil
		}))
		w.start()
		w.pass(20 * time.Second)
		w.put(configMaps, "a")
		w.remove(configMaps, "b")
		w.put(configMaps, "b")
		w.synced()
		for _, l := range w.lines() {
			if l.Type == "GAP" {
				t.Error("a GAP before the first sync")
			}
		}
		w.interrupted = true
		w.check()
	})
}

// An ERROR event that looks like the refusal of a streamed list, long after
// that list was complete, is the end of a watch and no more.
func TestBadRequestInMidWatch(t *testing.T) {
	for _, code := range []int{400, 422} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.srv.SetFault(first(1, on("configmaps", "watch", &fake.Fault{Stream: fake.Failed, Status: code, AfterEvents: 4})))
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.start()
				w.synced()
				w.pass(10 * time.Second)
				n := w.tell(0, "ADDED snapshot a", "ADDED snapshot b", "SYNCED +2 ~0 -0 =0")
				w.put(configMaps, "c") // the fourth event
				w.remove(configMaps, "a")
				w.put(configMaps, "a")
				w.put(configMaps, "a")
				w.synced()
				w.tell(n, "ADDED watch c", "DELETED watch a", "ADDED watch a", "MODIFIED watch a")
				w.check()
			})
		})
	}
}

// The checkpoint is lost and the journal is there: a hole that is shown.
func TestCheckpointLost(t *testing.T) {
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				w.upset()
				n := len(w.lines())
				w.forget()
				w.start()
				w.synced()
				want := append([]string{"GAP CheckpointLost"}, netResult[1:]...)
				n = w.tell(n, want...)
				w.stop()
				w.start()
				w.synced()
				w.tell(n) // told once
				w.check()
			})
		})
	}
}

// A lost checkpoint is not lost for ever because one resource never comes to its first sync: what is added later is
// new.
func TestCheckpointLostBesideAResourceThatNeverSyncs(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "widgets.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.srv.SetHabit(widgets, &fake.Habit{ListVersion: fake.NoVersion})
		w.put(configMaps, "a")
		w.put(secrets, "s")
		w.start()
		w.await("the first sync", func() bool { return w.state("configmaps").Synced })
		w.stop()
		w.forget()
		n := len(w.lines())
		w.put(configMaps, "b")
		w.start()
		w.await("the list after the loss", func() bool { return w.state("configmaps").Synced })
		n = w.tell(n, "GAP CheckpointLost", "ADDED relist b", "SYNCED +1 ~0 -0 =1")
		w.mustApply(entries("configmaps", "widgets.example.com", "secrets"), nil)
		w.await("the first sync of what was added", func() bool { return w.state("secrets").Synced })
		n = w.tell(n, "ADDED snapshot s", "SYNCED +1 ~0 -0 =0")
		w.stop()
		w.put(widgets, "w")
		w.start() // what is owed is kept
		w.srv.SetHabit(widgets, nil)
		w.await("the resource syncs after all", func() bool { return w.state("widgets.example.com").Synced })
		w.tell(n, "GAP CheckpointLost", "ADDED relist w", "SYNCED +1 ~0 -0 =0")
	})
}

// A watch is not opened at a position that the server has not reached, and the
// question for it is part of every session.
func TestHungServer(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		for _, verb := range []string{"list", "watch"} {
			w.srv.SetFault(first(3, on("configmaps", verb, &fake.Fault{Hang: true})))
			w.srv.EndWatches()
			w.put(configMaps, "a")
			w.pass(10 * time.Minute)
			if s := w.state("configmaps").State; s != watcher.Watching {
				t.Errorf("after a %s without an answer: %s", verb, s)
			}
			w.srv.SetFault(nil)
		}
		// A watch that says nothing any more is given up some time after it should have ended.
		w.srv.SetFault(first(1, on("configmaps", "watch", &fake.Fault{Stream: fake.Silent, AfterEvents: 0})))
		w.srv.EndWatches()
		w.put(configMaps, "b")
		w.pass(15 * time.Minute)
		w.check()
	})
}

// breakRelist stops the daemon after an open GAP and the first page of its relist, in which a has changed. It returns
// how many lines the journal had before, and its size then. The server stands still from there on.
func (w *harness) breakRelist() (lines int, size int64) {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c", "d"} {
		w.put(configMaps, name)
	}
	w.start()
	w.synced()
	w.stop()
	info, err := os.Stat(w.journal())
	must(w.t, err)
	lines = len(w.lines())
	w.put(configMaps, "a")
	w.put(configMaps, "d")
	w.srv.DropHistory()
	w.srv.SetFault(func(r fake.Request) *fake.Fault {
		if r.Resource == "configmaps" && r.Query.Get("continue") != "" {
			return statusFault(500)
		}
		return nil
	})
	w.start()
	w.pass(10 * time.Second)
	w.stop()
	return lines, info.Size()
}

// Lines are lost with an open GAP among them, while the server stands still: that GAP holds for nothing.
func TestTruncatedInARelist(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
		n, size := w.breakRelist()
		must(t, os.Truncate(w.journal(), size))
		w.read, w.readBytes = w.read[:n], size
		w.srv.SetFault(nil)
		w.start()
		w.synced()
		w.tell(n, "GAP JournalTruncated", "MODIFIED relist a", "MODIFIED relist b", "MODIFIED relist c", "MODIFIED relist d", "SYNCED +0 ~4 -0 =0")
		if from := w.lines()[n].FromResourceVersion; from != "" {
			t.Errorf("the GAP is from %s, but what the reader has is not known", from)
		}
	})
}

// Lines are lost while the SYNCED line of a list is still to be written: that line comes, and then the GAP.
func TestTruncatedBeforeSynced(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		n := w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0")
		info, err := os.Stat(w.journal())
		must(t, err)
		w.put(configMaps, "b")
		w.synced()
		w.stop()
		store, err := checkpoint.Open(w.db())
		must(t, err)
		state, _, err := store.Stream("configmaps")
		must(t, err)
		state.Complete(state.ResourceVersion, &line.Count{})
		b := checkpoint.NewBatch()
		b.Add("configmaps", &checkpoint.Changes{State: &state})
		must(t, errors.Join(store.Commit(b), store.Close()))
		must(t, os.Truncate(w.journal(), info.Size()))
		w.read, w.readBytes = w.read[:n], info.Size()
		w.start()
		w.synced()
		w.tell(n, "SYNCED +0 ~0 -0 =0", "GAP JournalTruncated", "MODIFIED relist a", "MODIFIED relist b", "SYNCED +0 ~2 -0 =0")
	})
}

// Lines are lost of a resource that has no objects, while the server stands still: there is nothing to tell but the GAP.
func TestTruncatedWithoutObjects(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		n := w.tell(0, "SYNCED +0 ~0 -0 =0")
		info, err := os.Stat(w.journal())
		must(t, err)
		w.put(configMaps, "a")
		w.remove(configMaps, "a")
		w.synced()
		w.stop()
		must(t, os.Truncate(w.journal(), info.Size()))
		w.read, w.readBytes = w.read[:n], info.Size()
		w.start()
		w.synced()
		w.tell(n, "GAP JournalTruncated", "SYNCED +0 ~0 -0 =0")
	})
}

// The checkpoint is lost with a GAP open, while the server stands still: that is a reason of its own.
func TestCheckpointLostInARelist(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
		n, _ := w.breakRelist()
		w.forget()
		w.srv.SetFault(nil)
		w.start()
		w.synced()
		w.tell(n, "GAP Expired", "MODIFIED relist a", "GAP CheckpointLost", "MODIFIED relist d", "SYNCED +0 ~1 -0 =3")
		w.interrupted = true
		w.check()
	})
}

// A lost checkpoint costs the streams that it may have had a GAP, and not those
// that are added when all of them are known again.
func TestLostIsOver(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.put(secrets, "s")
		w.start()
		w.synced()
		w.stop()
		w.put(configMaps, "b")
		w.forget()
		w.start()
		w.synced()
		w.pass(10 * time.Second)
		w.stop()
		n := len(w.lines())
		w.entries = entries("configmaps", "secrets")
		w.start()
		w.synced()
		w.tell(n, "ADDED snapshot s", "SYNCED +1 ~0 -0 =0")
		w.check()
	})
}
