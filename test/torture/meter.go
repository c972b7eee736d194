package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	meterWindow = 10 * time.Second
	// perStream is how many requests a run of the daemon may make in the window, for each of its streams. It is the
	// bound of the watcher's own test of a server in trouble.
	perStream = 20
	// perRun is how many pulses a run of the daemon sends in the window: one every four seconds.
	perRun = 3
	// launchCounts is for how long a start counts: what it asks for may come seconds later, on a busy machine.
	launchCounts = 2 * meterWindow
)

// meter counts the daemon's requests and holds them against a bound: a daemon that repeats a request without a pause is
// above it within a window.
type meter struct {
	streams int

	mu       sync.Mutex
	requests []time.Time // of the last window; guarded by mu, as the rest
	launches []time.Time // of the daemon, in the last launchCounts
	total    int
	worst    int   // requests in a window
	fault    error // the first time that the bound was broken
}

// launch counts a run of the daemon.
func (m *meter) launch(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launches = append(recent(m.launches, now, launchCounts), now)
}

func (m *meter) request(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total++
	m.requests = append(recent(m.requests, now, meterWindow), now)
	m.launches = recent(m.launches, now, launchCounts)
	m.worst = max(m.worst, len(m.requests))
	runs := 1 + len(m.launches) // the one from before, and those that began
	if bound := runs * (perStream*m.streams + perRun); len(m.requests) > bound && m.fault == nil {
		m.fault = fmt.Errorf("%d requests in %s, more than %d for each of %d streams and %d pulses of %d runs of "+
			"the daemon",
			len(m.requests), meterWindow, perStream, m.streams, perRun, runs)
	}
}

// recent drops what is longer ago.
func recent(times []time.Time, now time.Time, ago time.Duration) []time.Time {
	return slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > ago })
}

// result returns all requests, the most in a window, and an error where the bound was broken.
func (m *meter) result() (total, worst int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, m.worst, m.fault
}
