package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kubejournal/test/invariant"
)

// The daemon dies again and again while it writes, sometimes before it was ready.
func TestKillNineDuringChurn(t *testing.T) {
	s := own.get(t)
	sc := play(t, s, every())
	writers := sc.churn(t, s.namespaces(t, 2)...)
	for round := range 6 {
		before := len(sc.daemon.tell())
		sc.daemon.launch()
		if round%2 == 0 {
			sc.daemon.ready()
			writers.more(10 + rand.N(50))
		} else {
			sc.grown(before + 1 + rand.N(20))
		}
		sc.daemon.kill()
		writers.more(10)
	}
	writers.Stop()
	sc.daemon.start()
	noGap(t, sc.verify(true))
}

// grown waits until the journal has that many lines.
func (s *scenario) grown(lines int) {
	s.t.Helper()
	eventually(s.t, later, "journal grows", func() error {
		if n := len(s.daemon.tell()); n < lines {
			return fmt.Errorf("%d lines of %d", n, lines)
		}
		return nil
	})
}

// The daemon dies in a first sync, and in a relist, of more objects than a page holds.
func TestKillNineDuringList(t *testing.T) {
	const many = 800
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	large := configMaps
	large.Content = func(_ string, n int) map[string]any {
		return map[string]any{"data": map[string]any{"n": fmt.Sprint(n), "large": strings.Repeat("0123456789abcdef", 256)}}
	}
	sc := play(t, s, []entry{{Kind: large, Namespaces: []string{ns}}})
	objects := make([]live, many)
	each := func(step int, write func(i int) error) {
		t.Helper()
		var group errgroup.Group
		group.SetLimit(16)
		for i := 0; i < many; i += step {
			group.Go(func() error { return write(i) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	each(1, func(i int) (err error) {
		objects[i], err = sc.create(t.Context(), large, ns, fmt.Sprintf("object-%d", i), "web", i)
		return err
	})

	sc.daemon.launch()
	sc.daemon.killWriting(0)
	t.Logf("killed after %d lines of the first sync", len(sc.daemon.tell()))
	sc.daemon.start()
	sc.caughtUp()

	const rounds = 10 // as a rule the first is enough: it hits what may last some milliseconds
	hit := 0
	for round := range rounds {
		sc.daemon.stop()
		each(2, func(i int) error { return sc.Update(t.Context(), &objects[i], "db", i+1+many*(round+1)) })
		if err := errors.Join(s.Compact(t.Context()), s.RestartAPIServer(t.Context())); err != nil {
			t.Fatal(err)
		}
		before := len(sc.daemon.tell())
		sc.daemon.launch()
		sc.daemon.killWriting(64<<10 + rand.N[int64](1<<20)) // behind the GAP, within some 2 MiB of net difference
		cut := sc.daemon.tell()[before:]
		t.Logf("killed after %d lines of the relist", len(cut))
		if len(cut) > 0 && cut[len(cut)-1].Type != invariant.Synced {
			hit++
		}
		sc.daemon.start()
		sc.caughtUp()
		if hit > 0 {
			break
		}
	}
	lines := sc.verify(true)
	for _, l := range gaps(lines) {
		if l.Reason != "Expired" {
			t.Errorf("%s: a GAP with %s, where a relist was interrupted", l.Where, l.Reason)
		}
	}
	if hit == 0 {
		t.Errorf("in %d rounds the relist was never hit", rounds)
	}
}

// killWriting kills the daemon as soon as the journal has grown by more than so many bytes. The file is looked at more often than for any other
// condition: all that a list has may be written within a few milliseconds.
func (d *daemon) killWriting(bytes int64) {
	d.t.Helper()
	size := func() int64 {
		info, err := os.Stat(d.journal())
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	deadline := time.NewTimer(later)
	defer deadline.Stop()
	for size() <= before+bytes {
		select {
		case <-tick.C:
		case <-d.process.Done():
			d.t.Fatalf("the daemon has ended: %s", d.process.State())
		case <-deadline.C:
			d.t.Fatalf("the journal does not grow within %s", later)
		}
	}
	d.kill()
}

// SIGTERM in the middle of a first sync and of a churn: nothing is repeated.
func TestTerminateDuringChurn(t *testing.T) {
	s := shared.get(t)
	sc := play(t, s, every(s.namespaces(t, 1)...))
	writers := sc.churn(t, sc.Ledger.Sources[0].Namespace)
	writers.more(100)
	for range 4 {
		before := len(sc.daemon.tell())
		sc.daemon.launch()
		sc.grown(before + 10)
		sc.daemon.stop()
		if log := sc.daemon.process.log(); strings.Contains(log, `"level":"error"`) {
			t.Errorf("errors in the log of a clean run:\n%s", log)
		}
	}
	sc.daemon.start()
	writers.Stop()
	noGap(t, sc.verify(true))
}
