package watcher_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// never as a harness's pulse leaves pulses out: what else confirms a stream can be seen.
const never = 1000 * time.Hour

// covered shows the coverage of a stream: the seconds of each interval since began, rounded.
func (w *harness) covered(stream string, began time.Time) string {
	w.t.Helper()
	all, err := coverage.Read(w.journal())
	must(w.t, err)
	var parts []string
	for _, s := range all {
		for _, i := range s.Intervals {
			if s.Name != stream {
				continue
			}
			part := fmt.Sprintf("%.0f-%.0f", i.From.Sub(began).Seconds(), i.To.Sub(began).Seconds())
			if i.Late {
				part += " late"
			}
			if i.Differences != nil {
				i.End += fmt.Sprintf("(%d)", *i.Differences)
			}
			parts = append(parts, strings.TrimSpace(part+" "+i.End))
		}
	}
	return strings.Join(parts, ", ")
}

// at lets time pass up to that many seconds since began.
func (w *harness) at(began time.Time, second int) {
	w.t.Helper()
	w.pass(time.Until(began.Add(time.Duration(second) * time.Second)))
}

func (w *harness) wantCovered(began time.Time, want string) {
	w.t.Helper()
	if got := w.covered("configmaps", began); got != want {
		w.t.Fatalf("\n got %s\nwant %s", got, want)
	}
}

// What happens to a stream, and what of it is covered. An event at a second confirms the position then.
func TestCoverage(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps", "secrets"), func(w *harness) {
		w.pulse = never
		began := time.Now()
		put := func(second int) {
			w.at(began, second)
			w.put(configMaps, "a")
			w.pass(2 * time.Second) // a commit
		}
		w.start()
		w.synced()
		put(10)
		put(20)
		w.wantCovered(began, "0-20")

		// The server is away for two seconds, then for fourteen: what is written meanwhile comes late.
		w.at(began, 30)
		w.srv.EndWatches()
		put(40)
		w.wantCovered(began, "0-40")
		w.at(began, 50)
		w.srv.BreakWatches()
		w.srv.SetFault(func(fake.Request) *fake.Fault { return statusFault(503) })
		w.put(configMaps, "b")
		w.at(began, 64)
		w.srv.SetFault(nil)
		w.synced()
		put(150)
		got := w.covered("configmaps", began)
		if !strings.HasPrefix(got, "0-40 Interrupted, 40-") || !strings.HasSuffix(got, "-150") || !strings.Contains(got, " late CaughtUp, ") {
			t.Fatalf("behind an outage: %s", got)
		}
		for _, l := range w.lines() {
			if l.Type == invariant.Gap {
				t.Error("a GAP")
			}
		}

		// A stop, after which the watch continues.
		w.at(began, 200)
		w.stop()
		before := got
		if got := w.covered("configmaps", began); got != before+" Stopped" {
			t.Fatalf("stopped: %s", got)
		}
		w.at(began, 300)
		w.put(configMaps, "b")
		w.start()
		w.synced()
		put(400)
		put(500)
		w.wantCovered(began, before+" Stopped, 150-300 late CaughtUp, 300-500")

		// Entries come and go. A stream that comes back continues from its position.
		before = w.covered("configmaps", began)
		w.mustApply(entries("secrets"), nil)
		w.pass(2 * time.Second)
		w.wantCovered(began, before+" Removed")
		w.at(began, 600)
		w.put(configMaps, "c")
		w.mustApply(entries("configmaps", "secrets"), nil)
		w.synced()
		put(700)
		put(710)
		if got := w.covered("configmaps", began); !strings.HasPrefix(got, before+" Removed, 500-") || !strings.HasSuffix(got, "-710") {
			t.Fatalf("back: %s", got)
		}

		// History is lost. The GAP says from when on, as the file does.
		before = w.covered("configmaps", began)
		n := len(w.lines())
		w.at(began, 800)
		w.srv.StopAPIServer()
		w.put(configMaps, "a")
		w.put(configMaps, "d")
		w.at(began, 810)
		must(t, w.srv.StartAPIServer())
		w.synced()
		for ; w.lines()[n].Type != invariant.Gap || w.lines()[n].Stream != "configmaps"; n++ {
			continue
		}
		put(900)
		var from int // a try some seconds after 810
		got = w.covered("configmaps", began)
		if _, err := fmt.Sscanf(got, before+" Expired(2), %d-900", &from); err != nil || from < 810 || from >= 900 {
			t.Fatalf("behind a GAP: %s", got)
		}
		if got, want := w.fromTime(n), began.Add(710*time.Second); !got.Equal(want) {
			t.Errorf("GAP from %v, want %v", got, want)
		}
		w.kill()
		w.start()
		w.synced()
		w.check()
	})
}

// A stream whose events come too fast for a read to wait is confirmed all the same: from its first list on, and after a stop.
func TestCoverageOfABusyStream(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
		w.pulse = never
		began := time.Now()
		busy := func(seconds int) {
			for range seconds * 20 {
				w.put(configMaps, "a")
				w.pass(50 * time.Millisecond)
			}
		}
		w.put(configMaps, "a")
		w.start()
		w.synced()
		asked := len(w.srv.Requests())
		busy(30)
		var to int
		if _, err := fmt.Sscanf(w.covered("configmaps", began), "0-%d", &to); err != nil || to < 25 || to > 30 {
			t.Errorf("behind a first list: %s", w.covered("configmaps", began))
		}
		if n := len(w.askedSince(asked)); n > 8 {
			t.Errorf("%d requests in 30 s", n)
		}
		w.stop()
		w.start()
		w.synced()
		busy(30)
		if got := w.covered("configmaps", began); !regexp.MustCompile(`^0-(29|30) Stopped, (29|30)-30 late CaughtUp, 30-(59|60)$`).MatchString(got) {
			t.Errorf("after a stop: %s", got)
		}
	})
}

// Until what had waited has come, the journal lacks it, also where the server answers the watch slowly.
func TestCoverageBehindASlowAnswer(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
		w.pulse = never
		began := time.Now()
		w.start()
		w.synced()
		w.at(began, 10)
		w.put(configMaps, "a")
		w.pass(2 * time.Second)
		w.stop()
		w.at(began, 30)
		w.put(configMaps, "b")
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Verb != "watch" {
				return nil
			}
			return &fake.Fault{Delay: 4 * time.Second}
		})
		w.at(began, 100)
		w.start()
		w.at(began, 110)
		w.put(configMaps, "c")
		w.at(began, 120)
		w.wantCovered(began, "0-10 Stopped, 10-104 late CaughtUp, 104-110")
		w.srv.SetFault(nil)
		w.synced()
		w.check()
	})
}

// fromTime is what the line at an index says of it; zero is nothing.
func (w *harness) fromTime(n int) (t time.Time) {
	w.t.Helper()
	line := w.lines()[n]
	if raw := line.Raw("fromTime"); raw != nil {
		must(w.t, t.UnmarshalJSON(raw))
	}
	return t
}

// fromTime is known after a restart, after a stop and after a kill, and for a GAP within another one it is not: its position
// is one that a list has raised.
func TestGapFromTime(t *testing.T) {
	for _, killed := range []bool{false, true} {
		bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
			w.pulse = never
			for _, name := range []string{"a", "b", "c"} {
				w.put(configMaps, name)
			}
			w.start()
			w.synced()
			w.pass(20 * time.Second)
			w.put(configMaps, "a")
			w.pass(2 * time.Second)
			want := time.Now().Add(-2 * time.Second)
			w.pass(time.Minute)
			n := len(w.lines())
			if killed {
				w.kill()
			} else {
				w.stop()
			}
			back := w.srv.Version()
			w.put(configMaps, "a")
			w.put(configMaps, "b")
			w.srv.DropHistory()
			w.srv.SetFault(func(r fake.Request) *fake.Fault {
				if r.Resource == "configmaps" && lists(r) {
					return &fake.Fault{Stream: fake.Cut, AfterEvents: 1, CutAfterBytes: 700}
				}
				return nil
			})
			w.start()
			w.pass(time.Minute)
			if got := w.fromTime(n); !got.Equal(want) {
				t.Errorf("killed %v: GAP from %v, want %v", killed, got, want)
			}
			w.srv.RestoreTo(back)
			w.srv.SetFault(nil)
			w.synced()
			nested := 0
			for i, l := range w.lines()[n+1:] {
				if l.Type == invariant.Gap {
					nested++
					if got := w.fromTime(n + 1 + i); !got.IsZero() {
						t.Errorf("killed %v: a GAP within another one from %v", killed, got)
					}
				}
			}
			if nested != 1 {
				t.Errorf("%d GAPs within another one: %q", nested, briefs(w.lines()[n:]))
			}
		})
	}
}

// What is written while a list is read is for the watch after it. If that finds the history lost, the GAP is from when the
// list was asked for.
func TestGapBehindSlowList(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
		w.pulse = never
		for i := range 600 { // two pages
			w.put(configMaps, fmt.Sprint("object-", i))
		}
		var asked atomic.Int64
		var wrote atomic.Bool
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			switch {
			case r.Resource != "configmaps":
			case r.Verb == "watch" && r.Query.Get("sendInitialEvents") != "":
				return statusFault(400)
			case r.Query.Get("continue") != "":
				return &fake.Fault{Delay: 20 * time.Second}
			case r.Verb == "list" && lists(r) && asked.Load() == 0:
				asked.Store(time.Now().UnixNano())
			case r.Verb == "watch" && wrote.CompareAndSwap(true, false):
				w.srv.DropHistory()
			}
			return nil
		})
		w.start()
		w.await("the list", func() bool { return asked.Load() > 0 })
		w.pass(10 * time.Second)
		w.put(configMaps, "object-0")
		wrote.Store(true)
		isGap := func(l invariant.Line) bool { return l.Type == invariant.Gap }
		w.await("a GAP", func() bool { return slices.ContainsFunc(w.lines(), isGap) })
		if got, asked := w.fromTime(slices.IndexFunc(w.lines(), isGap)), time.Unix(0, asked.Load()); got.IsZero() || got.After(asked) {
			t.Errorf("GAP from %v; the list was asked for at %v, and what came later is lost", got, asked)
		}
		w.synced()
		w.check()
	})
}
