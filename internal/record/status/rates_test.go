package status

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// counters are streams that do nothing but count, by name.
type counters map[string]uint64

func (c counters) streams() (all []streams.Status) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, streams.Status{Name: name, Status: watcher.Status{State: watcher.Watching, Lines: c[name]}})
	}
	return all
}

// What the streams write is found again, step by step, whenever they come, go and
// start anew, and for all of them together.
func TestRates(t *testing.T) {
	c := counters{"pods": 1000, "secrets": 7} // what was before is not known
	r := rates{streams: c.streams}
	r.begin()
	want, all := map[string]series{"pods": {}, "secrets": {}}, series{}
	for n := range 3 * steps {
		if n == 10 {
			c["configmaps"], want["configmaps"] = 0, series{}
		}
		if n == 20 {
			delete(c, "secrets")
			delete(want, "secrets")
		}
		var sum uint32
		for name := range c {
			lines := rand.Uint32N(100)
			if n%50 == 49 {
				c[name] = 0 // started again, and it wrote more before than after
			}
			c[name] += uint64(lines)
			want[name] = append(want[name], lines)
			sum += lines
		}
		all = append(all, sum)
		r.sample()
	}
	got, of := r.read()
	for name, w := range want {
		if w = w[max(0, len(w)-steps):]; !slices.Equal(of[name], w) {
			t.Errorf("%s: %v, want %v", name, of[name], w)
		}
	}
	if len(of) != len(want) {
		t.Errorf("%d streams, want %d", len(of), len(want))
	}
	if !slices.Equal(got, all[len(all)-steps:]) {
		t.Errorf("all: %v, want %v", got, all[len(all)-steps:])
	}
}

// A rate is the mean of the last minute, or of as much as is known.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		s    series
		rate float64
		ok   bool
		peak uint32
	}{
		{nil, 0, false, 0},
		{series{10}, 2, true, 10},
		{series{10, 0}, 1, true, 10},
		{append(series{1000}, make(series, minute)...), 0, true, 1000},
		{append(make(series, minute), 6), 0.1, true, 6},
	} {
		if rate, ok := c.s.rate(); ok && rate != c.rate || ok != c.ok || c.s.peak() != c.peak {
			t.Errorf("%v: rate %v %v, peak %v; want %v %v, %v", c.s, rate, ok, c.s.peak(), c.rate, c.ok, c.peak)
		}
	}
}

// Who stops sampling and begins again knows of nothing before.
func TestSampleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines atomic.Uint64
		all := func() []streams.Status {
			return []streams.Status{{Name: "pods", Status: watcher.Status{Lines: lines.Load()}}}
		}
		site := NewSite(metrics.New("", "").Registry, nil, all, func() About { return About{} })
		if all, of := site.rates.read(); all != nil || len(of) > 0 {
			t.Errorf("%v %v before the first sample", all, of)
		}
		for range 2 {
			stop := site.Sample()
			lines.Add(5)
			<-time.After(step + time.Millisecond)
			synctest.Wait()
			if all, of := site.rates.read(); !slices.Equal(all, series{5}) || !slices.Equal(of["pods"], series{5}) {
				t.Errorf("%v %v, want one step of 5", all, of)
			}
			stop()
			lines.Add(100)
		}
	})
}
