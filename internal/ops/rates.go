package ops

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"kubejournal/internal/manager"
)

const (
	// step is how finely the recent past is known, and steps how far back: ten minutes, in half a kilobyte for each
	// stream.
	step  = 5 * time.Second
	steps = 120
	// minute is what a rate is the mean of, in steps: less jumps about.
	minute = int(time.Minute / step)
)

// rates knows how many lines each stream has written in each of the last steps. The streams count by themselves; here
// their counters are read once a step.
type rates struct {
	streams func() []manager.StreamStatus

	mu  sync.Mutex
	of  map[string]*past // by stream; guarded by mu
	all series           // of all streams together; guarded by mu
}

// past is one stream's.
type past struct {
	counter uint64 // at the end of the last step
	series
}

// begin takes the counters as they are: what was before is not known.
func (r *rates) begin() {
	now := r.counters()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.of = nil, make(map[string]*past, len(now))
	for name, n := range now {
		r.of[name] = &past{counter: n}
	}
}

// sample ends a step. Streams that are gone are forgotten.
func (r *rates) sample() {
	now := r.counters()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(name string, _ *past) bool { _, is := now[name]; return !is })
	var all uint64
	for name, n := range now {
		p := r.of[name]
		if p == nil {
			p = new(past)
			r.of[name] = p
		}
		lines := n - p.counter
		if n < p.counter {
			lines = n // the stream was started again, and counts from the beginning
		}
		p.counter = n
		p.add(lines)
		all += lines
	}
	r.all.add(all)
}

// counters are the streams' own. An entry that waits may have the name of a stream that runs.
func (r *rates) counters() map[string]uint64 {
	all := make(map[string]uint64)
	for _, s := range r.streams() {
		all[s.Name] += s.Lines
	}
	return all
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
