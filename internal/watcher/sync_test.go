package watcher_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// A first sync tells the same whether the server streams its list or gives it
// in pages.
func TestFirstSync(t *testing.T) {
	journals := make(map[string][]string)
	for name, o := range map[string]fake.Options{
		"streamed":        {},
		"one page":        {NoWatchList: true},
		"pages":           {NoWatchList: true, MaxPage: 2},
		"old discovery":   {NoAggregatedDiscovery: true},
		"short bookmarks": {BookmarkInterval: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps", "deployments.apps"), func(w *harness) {
				for i := range 7 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.start()
				w.synced()
				w.put(configMaps, "a1")
				w.remove(configMaps, "a2")
				w.put(configMaps, "b")
				w.put(deployments, "web")
				w.check()
				var journal []string
				for _, l := range w.lines() {
					if l.Stream == "configmaps" {
						journal = append(journal, brief(l)+" "+l.ID)
					}
				}
				if len(journal) != 7+1+3 {
					t.Errorf("%d lines: %q", len(journal), briefs(w.lines()))
				}
				journals[name] = journal
				w.stop()
			})
		})
	}
	for name, journal := range journals {
		if !slices.Equal(journal, journals["streamed"]) {
			t.Errorf("%s tells\n%q\nstreamed tells\n%q", name, journal, journals["streamed"])
		}
	}
}

func TestFirstSyncOfNothing(t *testing.T) {
	for _, noWatchList := range []bool{false, true} {
		bubble(t, fake.Options{NoWatchList: noWatchList}, entries("configmaps"), func(w *harness) {
			w.start()
			w.synced()
			n := w.tell(0, "SYNCED +0 ~0 -0 =0")
			w.put(configMaps, "a")
			w.synced()
			n = w.tell(n, "ADDED watch a")
			w.stop()
			w.start()
			w.synced()
			w.tell(n)
			w.check()
		})
	}
}

// Bookmarks move the position of a stream in which nothing happens, so that a
// restart resumes where the server was, not where the last event was.
func TestQuietStreamIsMovedByBookmarks(t *testing.T) {
	for name, end := range map[string]func(*harness){"stopped": (*harness).stop, "killed": (*harness).kill} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.start()
				w.synced()
				for range 50 {
					w.put(secrets, "noise")
				}
				want := strconv.FormatUint(w.srv.Version(), 10)
				w.pass(3 * time.Minute)
				if got := w.state("configmaps").Position; got != want {
					t.Errorf("position %s, the server is at %s", got, want)
				}
				end(w)
				w.srv.Expire(w.srv.Version()) // all before the bookmark is forgotten
				n := len(w.srv.Requests())
				w.start()
				w.synced()
				if got := w.firstWatch(n, "configmaps"); got != want {
					t.Errorf("resumed from %s, the bookmark was %s", got, want)
				}
				w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0")
				w.check()
			})
		})
	}
}

// A restart with the history there resumes: nothing is missing, nothing twice,
// and there is no GAP.
func TestRestartWithHistory(t *testing.T) {
	for name, end := range map[string]func(*harness){"stopped": (*harness).stop, "killed": (*harness).kill} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.start()
				w.synced()
				end(w)
				n := w.tell(0, "ADDED snapshot a", "ADDED snapshot b", "SYNCED +2 ~0 -0 =0")
				w.put(configMaps, "a")
				w.remove(configMaps, "b")
				w.put(configMaps, "b")
				w.put(configMaps, "a")
				w.start()
				w.synced()
				w.tell(n, "MODIFIED watch a", "DELETED watch b", "ADDED watch b", "MODIFIED watch a")
				w.check()
			})
		})
	}
}

func TestWatchEndsInGoodOrder(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		w.pass(10 * time.Second)
		n := len(w.srv.Requests())
		w.srv.EndWatches()
		w.put(configMaps, "a")
		w.synced()
		w.srv.BreakWatches()
		w.put(configMaps, "b")
		w.synced()
		w.tell(0, "SYNCED +0 ~0 -0 =0", "ADDED watch a", "ADDED watch b")
		if lists := w.requests(n, "configmaps", "list"); slices.ContainsFunc(lists, isWholeList) {
			t.Errorf("listed again: %v", lists)
		}
		w.check()
	})
}

// Streamed lists are refused from some day on: the next relist reads pages.
func TestStreamedListRefusedLater(t *testing.T) {
	for _, fault := range []*fake.Fault{nil, statusFault(400), statusFault(422)} {
		bubble(t, fake.Options{MaxPage: 2}, entries("configmaps"), func(w *harness) {
			for _, name := range []string{"a", "b", "c"} {
				w.put(configMaps, name)
			}
			w.start()
			w.synced()
			n := len(w.lines())
			if fault == nil {
				w.srv.SetWatchList(false)
			} else {
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if r.Query.Get("sendInitialEvents") != "" {
						return fault
					}
					return nil
				})
			}
			w.srv.StopAPIServer()
			w.remove(configMaps, "b")
			w.put(configMaps, "c")
			must(t, w.srv.StartAPIServer())
			w.synced()
			n = w.tell(n, "GAP Expired", "MODIFIED relist c", "DELETED relist b", "SYNCED +0 ~1 -1 =1")
			w.put(configMaps, "d")
			w.synced()
			w.tell(n, "ADDED watch d")
			w.check()
		})
	}
}

// A server that ignores sendInitialEvents shows its objects and never says that
// these were all.
func TestServerIgnoresSendInitialEvents(t *testing.T) {
	for name, busy := range map[string]time.Duration{"quiet": 0, "busy": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.srv.SetFault(on("configmaps", "watch", &fake.Fault{OmitInitialEventsEnd: true}))
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				// A busy resource has an event before the idle time is over, again and again.
				watching := func() bool {
					if busy > 0 {
						w.pass(busy)
						w.put(configMaps, "busy")
					}
					return w.watching()
				}
				w.start()
				w.awaitFor(10*time.Minute, "first sync", watching)
				w.synced()
				if busy == 0 {
					w.tell(0, "ADDED snapshot a", "ADDED snapshot b", "SYNCED +0 ~0 -0 =2")
				}
				n := len(w.lines())
				w.stop()
				w.remove(configMaps, "a")
				w.put(configMaps, "b")
				w.srv.RestartAPIServer()
				w.start()
				w.awaitFor(10*time.Minute, "relist", watching)
				w.synced()
				if busy == 0 {
					w.tell(n, "GAP Expired", "MODIFIED relist b", "DELETED relist a", "SYNCED +0 ~1 -1 =0")
				}
				w.interrupted = true // the first sync began again
				w.check()
			})
		})
	}
}

// Continue tokens expire in mid-list, again and again.
func TestContinueTokensExpire(t *testing.T) {
	for _, times := range []int{1, 2, 3, 9} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
				for i := range 7 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				expire := func() {
					var mu sync.Mutex
					left := times
					w.srv.SetFault(func(r fake.Request) *fake.Fault {
						mu.Lock()
						defer mu.Unlock()
						if left > 0 && r.Query.Get("continue") != "" {
							left--
							if _, err := w.srv.Create(secrets, map[string]any{"metadata": map[string]any{"generateName": "s", "namespace": "default"}}); err != nil {
								t.Error(err)
							}
							w.srv.Compact(w.srv.Version())
						}
						return nil
					})
				}
				expire()
				w.start()
				w.synced()
				lines := w.lines()
				if len(lines) != 8 {
					t.Errorf("%d lines of a first sync of 7: %q", len(lines), briefs(lines))
				}
				w.stop()
				w.remove(configMaps, "a3")
				w.put(configMaps, "a5")
				w.srv.DropHistory()
				expire()
				w.start()
				w.synced()
				w.tell(8, "GAP Expired", "MODIFIED relist a5", "DELETED relist a3", "SYNCED +0 ~1 -1 =5")
				w.interrupted = true
				w.check()
			})
		})
	}
}

// Nothing in the API says in which order the initial events come.
func TestInitialEventsInDisorder(t *testing.T) {
	for name, f := range map[string]*fake.Fault{
		"twice":              {DuplicateInitialEvents: true},
		"reversed":           {ReverseInitialEvents: true},
		"twice and reversed": {DuplicateInitialEvents: true, ReverseInitialEvents: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.srv.SetFault(on("configmaps", "watch", f))
				for _, name := range []string{"a", "b", "c"} {
					w.put(configMaps, name)
				}
				w.start()
				w.synced()
				lines := w.lines()
				if got := brief(lines[len(lines)-1]); len(lines) != 4 || got != "SYNCED +3 ~0 -0 =0" {
					t.Errorf("got %q", briefs(lines))
				}
				w.stop()
				w.put(configMaps, "a")
				w.remove(configMaps, "b")
				w.put(configMaps, "b")
				w.srv.DropHistory()
				w.start()
				w.synced()
				got := briefs(w.lines()[4:])
				slices.Sort(got[1:4])
				if want := []string{"GAP Expired", "ADDED relist b", "DELETED relist b", "MODIFIED relist a", "SYNCED +1 ~1 -1 =1"}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
				w.check()
			})
		})
	}
}

// One watch per namespace, each with a selector. An object that leaves the
// selection is gone for the reader, also across a gap.
func TestNamespacesAndSelectors(t *testing.T) {
	web, db := map[string]any{"app": "web"}, map[string]any{"app": "db"}
	e := entry("configmaps")
	e.Namespaces, e.LabelSelector = []string{"x", "y"}, "app=web"
	for _, noWatchList := range []bool{false, true} {
		bubble(t, fake.Options{NoWatchList: noWatchList}, []config.Resource{e}, func(w *harness) {
			w.putIn(configMaps, "x", "a", web)
			w.putIn(configMaps, "x", "b", db)
			w.putIn(configMaps, "z", "c", web)
			w.start()
			w.synced()
			inX := "configmaps?namespace=x&labelSelector=app%3Dweb"
			told := func() []string {
				var some []invariant.Line
				for _, l := range w.lines() {
					if l.Stream == inX {
						some = append(some, l)
					}
				}
				return briefs(some)
			}
			want := []string{"ADDED snapshot x/a", "SYNCED +1 ~0 -0 =0"}
			expect := func(more ...string) {
				t.Helper()
				w.synced()
				want = append(want, more...)
				if got := told(); !slices.Equal(got, want) {
					t.Fatalf("got  %q\nwant %q", got, want)
				}
			}
			expect()
			w.putIn(configMaps, "x", "b", web)
			w.putIn(configMaps, "y", "d", web)
			w.putIn(configMaps, "z", "c", web)
			expect("ADDED watch x/b")
			w.putIn(configMaps, "x", "a", db)
			expect("DELETED watch x/a")
			w.putIn(configMaps, "x", "a", web)
			expect("ADDED watch x/a")
			w.stop()
			w.putIn(configMaps, "x", "a", db)
			w.putIn(configMaps, "x", "b", web)
			w.srv.DropHistory()
			w.start()
			expect("GAP Expired", "MODIFIED relist x/b", "DELETED relist x/a", "SYNCED +0 ~1 -1 =0")
			w.check()
			if n := w.srv.OpenWatches("configmaps"); n != 2 {
				t.Errorf("%d watches are open", n)
			}
		})
	}
}

func TestStreamStatus(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.srv.SetFault(on("configmaps", "", statusFault(500)))
		w.start()
		w.await("it is retrying", func() bool { return w.state("configmaps").State == watcher.Retrying })
		if s := w.state("configmaps"); s.Synced || s.Reason != "ServerError" || s.Position != "" {
			t.Errorf("before the first sync: %+v", s)
		}
		w.srv.SetFault(nil)
		w.synced()
		if s := w.state("configmaps"); !s.Synced || s.Reason != "" || s.Position == "" || s.LastProgress.IsZero() || !s.LastGap.IsZero() {
			t.Errorf("after it: %+v", s)
		}
		before := 0
		counted := func() bool {
			lines := w.state("configmaps").Lines
			return lines > 0 && lines == uint64(len(w.lines())-before)
		}
		w.await("the line is counted", counted)
		before = len(w.lines())
		w.stop()
		w.put(configMaps, "a")
		w.srv.DropHistory()
		w.start()
		w.synced()
		if s := w.state("configmaps"); s.LastGap.IsZero() || s.Missed != 1 {
			t.Errorf("after a gap: %+v", s)
		}
		w.await("its lines are counted from its start on", counted)
		w.check()
	})
}

func isWholeList(r fake.Request) bool { return r.Query.Get("limit") != "1" }
