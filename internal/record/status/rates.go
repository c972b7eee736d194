package status

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"kubejournal/internal/record/streams"
)

// The recent past is known in steps, for ten minutes, in half a kilobyte for each stream.
const (
	step   = 5 * time.Second
	steps  = 120
	minute = int(time.Minute / step) // steps that a rate is the mean of: less jumps about
)

// rates knows how many lines each stream has written in each of the last steps. The streams count by themselves; here
// their counters are read once a step.
type rates struct {
	streams func() []streams.Status

	mu  sync.Mutex
	of  map[string]*past // by stream; guarded by mu
	all series           // of all streams together; guarded by mu
}

type past struct {
	counter uint64 // at the end of the last step
	series
}

// begin takes the counters as they are: what was before is not known.
func (r *rates) begin() {
	r.sample()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
	for _, p := range r.of {
		p.series = nil
	}
}

// sample ends a step. Streams that are gone are forgotten.
func (r *rates) sample() {
	now := make(map[string]uint64)
	for _, s := range r.streams() {
		now[s.Name] += s.Lines // an entry that waits may have the name of a stream that runs
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all uint64
	of := make(map[string]*past, len(now))
	for name, n := range now {
		p := cmp.Or(r.of[name], new(past))
		if n < p.counter {
			p.counter = 0 // the stream was started again
		}
		p.add(n - p.counter)
		all += n - p.counter
		p.counter, of[name] = n, p
	}
	r.of = of
	r.all.add(all)
}

// read returns the recent past of all streams together and of each.
func (r *rates) read() (all series, of map[string]series) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of = make(map[string]series, len(r.of))
	for name, p := range r.of {
		of[name] = slices.Clone(p.series)
	}
	return slices.Clone(r.all), of
}

// series is how many lines were written in each of the last steps, the newest last. It is shorter than steps where more
// is not known.
type series []uint32

// add appends a step.
func (s *series) add(lines uint64) {
	if len(*s) == steps {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, uint32(min(lines, math.MaxUint32))) //nolint:gosec // bounded
}

// rate is the mean of the last minute, in lines per second; ok is false before the first step has ended.
func (s series) rate() (perSecond float64, ok bool) {
	last := s[max(0, len(s)-minute):]
	var sum float64
	for _, n := range last {
		sum += float64(n)
	}
	return sum / (float64(len(last)) * step.Seconds()), len(last) > 0
}

// peak is the busiest step.
func (s series) peak() (most uint32) {
	for _, n := range s {
		most = max(most, n)
	}
	return most
}
