package watcher_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

var (
	habitHistories = flag.Int("habits.histories", 200,
		"how many histories TestHabitHistories makes up; an eighth of them under the race detector")
	habitsFrom = flag.Uint64("habits.from", 0, "the first history's seed")
)

// TestHabitHistories makes up histories of a server that takes up one habit after another of one resource, and breaks
// them off, while it is restarted, its watches are cut, its history is lost, and the daemon is killed. The judge of
// TestHabits reads all lines of all streams. Habits that no reader can find out are left to TestHabits.
func TestHabitHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	n := *habitHistories
	if raced {
		n /= 8
	}
	var rows []habitRow
	for _, r := range habitRows {
		if r.undetectable == "" {
			rows = append(rows, r)
		}
	}
	var next, done, failed, lines atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for range *modelWorkers {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(n) && failed.Load() < maxFailed; i = next.Add(1) - 1 {
					seed := *habitsFrom + uint64(i)
					if !t.Run(fmt.Sprint(seed), func(t *testing.T) { lines.Add(runHabitHistory(t, rows, seed)) }) {
						failed.Add(1)
					}
					done.Add(1)
				}
			})
		}
	})
	fmt.Printf("%d histories with habits from seed %d on, %d failed, %d lines judged\n",
		done.Load(), *habitsFrom, failed.Load(), lines.Load())
}

func runHabitHistory(t *testing.T, rows []habitRow, seed uint64) (lines int64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		row := rows[r.IntN(len(rows))]
		form := habitForms[r.IntN(len(habitForms))]
		c := &habitCell{harness: newWorld(t, form.server, nil), row: row, phase: everywhere}
		defer c.close()
		// What a server says of its objects stays as it is: of several lies about one, none is the truth.
		others := []habitRow{row}
		for _, other := range rows {
			if other.scope == row.scope && other.lies == row.lies && !row.lies {
				others = append(others, other)
			}
		}
		c.setUp()
		if r.IntN(2) == 0 {
			c.srv.SetHabit(widgets, c.habit)
		}
		c.start()
		var past []string
		for n := range 6 + r.IntN(10) {
			past = append(past, c.happens(r, n, others))
			if !c.alive() {
				break
			}
		}
		c.recover()
		if faults := c.verdictOfLines(); len(faults) > 0 {
			t.Errorf("%s, %s, %s: %s", row.name, form.name, strings.Join(past, ", "), strings.Join(faults, "; "))
			if *habitsShow {
				c.dump()
			}
		}
		lines = int64(c.judged)
	})
	return lines
}

// happens lets one thing happen, and some time pass. It returns what it was.
func (c *habitCell) happens(r *rand.Rand, n int, rows []habitRow) (what string) {
	switch r.IntN(9) {
	case 0, 1, 2:
		what = "changes"
		c.act(n)
	case 3:
		what = "killed"
		c.restart(func() {})
	case 4:
		what = "410"
		c.expire()
	case 5:
		what = "watches cut"
		c.srv.BreakWatches()
		c.act(n)
	case 6:
		what = "server restarted"
		c.srv.RestartAPIServer()
		c.act(n)
	case 7:
		what = "habit ends"
		c.srv.SetHabit(widgets, nil)
	default:
		row := rows[r.IntN(len(rows))]
		what = row.name
		c.look()
		habit := row.habit
		c.habit, c.said = &habit, 0
		c.srv.SetHabit(widgets, c.habit)
	}
	for end := time.Now().Add(time.Duration(r.Int64N(int64(3 * time.Minute)))); time.Now().Before(end) && c.alive(); {
		c.pass(habitLook)
		c.look()
	}
	return what
}

// verdictOfLines is verdict without what is said of a single habit: how long it was not exact, and requests.
func (c *habitCell) verdictOfLines() (faults []string) {
	for _, f := range c.judge.faults {
		if f.check != othersGoOn || !strings.Contains(f.text, "GAP") { // restarts of the server bring those
			faults = append(faults, f.check+": "+f.text)
		}
	}
	return faults[:min(len(faults), 3)]
}

// neighbours is how many resources TestNeighbours has, and five of them misbehave.
const neighbours = 40

// badNeighbours are five ways to misbehave.
var badNeighbours = []fake.Habit{
	{ListVersion: fake.NoVersion},
	{Start: fake.StartOver},
	{Initial: fake.InitialEndOnly, Pages: fake.PagesRepeat},
	{OtherKind: true},
	{EventVersion: fake.Alternating, Twice: true},
}

// startNeighbours starts a daemon with as many resources, of which the first ones have habits, and returns their names.
func (w *harness) startNeighbours(n int, habits []fake.Habit) (names []string) {
	for i := range n {
		r := fake.Resource{
			Group: "example.com", Version: "v1", Namespaced: true,
			Resource: fmt.Sprintf("kind%02ds", i), Kind: fmt.Sprintf("Kind%02d", i),
		}
		w.srv.AddResource(r)
		name := r.Resource + ".example.com"
		names = append(names, name)
		w.putIn(resourceOf(entry(name)), "default", "a", nil)
		if i < len(habits) {
			habit := habits[i]
			w.srv.SetHabit(resourceOf(entry(name)), &habit)
		}
	}
	w.entries = entries(names...)
	w.start()
	return names
}

// goOn has every resource changed in each of so many rounds.
func (w *harness) goOn(names []string, rounds int, pause time.Duration) {
	for n := range rounds {
		for _, name := range names {
			gvr := resourceOf(entry(name))
			w.putIn(gvr, "default", "a", nil)
			if n%5 == 0 {
				w.putIn(gvr, "default", fmt.Sprint("b", n), nil)
			}
		}
		w.pass(pause)
	}
}

// Five of forty resources misbehave in different ways, for an hour: the others are exact, without a GAP, and the daemon
// is ready.
func TestNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	bubble(t, fake.Options{}, nil, func(w *harness) {
		names := w.startNeighbours(neighbours, badNeighbours)
		w.await("the daemon is ready", func() bool { return w.life.manager.Ready(false) == nil })
		w.goOn(names, 120, 30*time.Second)
		good := newJudge()
		for _, name := range names[len(badNeighbours):] {
			good.watch(name).wrote(w.srv.History(resourceOf(entry(name)), 0))
			if s := w.state(name); s.State != "Watching" || s.Reason != "" {
				t.Errorf("%s is %s %s", name, s.State, s.Reason)
			}
		}
		for _, l := range w.lines() {
			if good.streams[l.Stream] != nil {
				good.read([]invariant.Line{l})
			}
		}
		for name, s := range good.streams {
			if differs := s.replay(); differs != "" || len(s.gaps) > 0 {
				t.Errorf("%s: %s; GAPs %v", name, differs, s.gaps)
			}
		}
		for _, f := range good.faults {
			t.Errorf("%s: %s", f.check, f.text)
		}
		for _, name := range names[:len(badNeighbours)] {
			n := 0
			for _, r := range w.srv.Requests() {
				if r.Resource+"."+r.Group == name {
					n++
				}
			}
			t.Logf("%s is %s %s, with %d requests", name, w.state(name).State, w.state(name).Reason, n)
		}
		w.interrupted = true
	})
}

// BenchmarkNeighbours is an hour of 35 well-behaved resources, each written to once in so long: alone, beside five more
// that behave well and rest, and beside five that misbehave, in turn there and back. cpu-s/hour is that of the whole
// process, the server in it included; the ratios say what the five cost.
func BenchmarkNeighbours(b *testing.B) {
	const busy = neighbours - 5
	all := func(string, string) (bool, error) { return true, nil }
	for _, every := range []time.Duration{5 * time.Second, time.Second} {
		b.Run(fmt.Sprintf("every=%s", every), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // the server keeps its whole history
			kinds := []struct {
				n      int
				habits []fake.Habit
			}{{busy, nil}, {neighbours, nil}, {neighbours, badNeighbours}}
			var took [3]float64 // s
			hours := 0.0
			hour := func(i int) {
				hours += 1.0 / 3
				k := kinds[i]
				runtime.GC()
				// testing/synctest needs a *testing.T.
				ok := testing.RunTests(all, []testing.InternalTest{{Name: "hour", F: func(t *testing.T) {
					bubble(t, fake.Options{}, nil, func(w *harness) {
						w.plain = true
						names := w.startNeighbours(k.n, k.habits)
						w.pass(10 * time.Second)
						began := cpuTime(t)
						w.goOn(names[k.n-busy:], int(time.Hour/every), every)
						took[i] += (cpuTime(t) - began).Seconds()
					})
				}}})
				if !ok {
					b.Fatal("the hour failed")
				}
			}
			for b.Loop() {
				for _, i := range []int{0, 1, 2, 2, 1, 0} {
					hour(i)
				}
			}
			b.ReportMetric(took[0]/hours, "cpu-s/hour-alone")
			b.ReportMetric(took[1]/took[0], "5-rest/alone")
			b.ReportMetric(took[2]/took[0], "5-misbehave/alone")
			b.ReportMetric(took[2]/took[1], "misbehave/rest")
		})
	}
}

// A known object that pages leave out, without a count that would say so, is asked for by name before it counts as
// deleted.
func TestLeftOutOfPages(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.put(configMaps, name)
		}
		w.start()
		w.synced()
		w.stop()
		n := len(w.lines())
		w.put(configMaps, "a")
		w.srv.Expire(w.srv.Version())
		w.srv.SetHabit(configMaps, &fake.Habit{Pages: fake.PagesSkip, Remaining: fake.NoRemaining})
		w.start()
		w.await("the reason is shown", func() bool { return w.state("configmaps").Reason == "ListIncomplete" })
		w.tell(n, "GAP Expired", "MODIFIED relist a")
		w.srv.SetHabit(configMaps, nil)
		w.interrupted = true
		w.check()
	})
}
