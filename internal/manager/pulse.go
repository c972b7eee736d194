package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/kubeclient"
	"kubejournal/internal/watcher"
)

const (
	// PulseEvery is how long it is from one pulse to the next. With what a pulse takes it is less than five seconds.
	PulseEvery = 4 * time.Second
	// pulseWait is how long the streams are given to read what the server had sent before it answered: more than shows that a
	// watch has nothing to read.
	pulseWait = 300 * time.Millisecond
)

// Pulse notes again and again, after so long, in the coverage which streams are known to follow the server, until ctx ends: those whose
// watches are open and quiet, while the server answers and accepts the daemon's credentials. A daemon that was killed, cut
// off or refused is not believed any more for longer than that.
func (m *Manager) Pulse(ctx context.Context, every time.Duration) {
	for kubeclient.Sleep(ctx, every) {
		open := m.open()
		if len(open) == 0 {
			continue
		}
		well := time.Now()
		err := m.client.Probe(ctx, open[0].spec.Target)
		if m.probed(err); err != nil {
			continue
		}
		if !kubeclient.Sleep(ctx, pulseWait) {
			return
		}
		for _, r := range open {
			r.stream.Pulse(well)
		}
	}
}

// probes is how the server answers the pulses.
type probes struct {
	mu     sync.Mutex
	since  time.Time // of the first failure; zero while it answers
	failed int       // since then
	err    error     // the last
}

// probed records the result of a pulse. A pulse that keeps failing is logged once, unless the streams fail as well.
func (m *Manager) probed(err error) {
	p := &m.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil && p.failed > 1:
		m.log.Info("streams are confirmed again", zap.Duration("after", time.Since(p.since).Round(time.Second)))
	case err != nil && p.failed == 1 && m.Outage().Since.IsZero():
		m.log.Warn("streams are unconfirmed: the probe of the server fails",
			zap.String("reason", watcher.ReasonOf(err)), zap.Error(err))
	}
	switch {
	case err == nil:
		p.since, p.failed, p.err = time.Time{}, 0, nil
	case p.failed == 0:
		p.since = time.Now()
		fallthrough
	default:
		p.failed, p.err = p.failed+1, err
	}
}

// Unconfirmed describes for how long, and why, pulses have failed although watches are open; empty if they have not. Safe for
// concurrent use.
func (m *Manager) Unconfirmed(now time.Time) string {
	p := &m.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed < 2 {
		return ""
	}
	return fmt.Sprintf("unconfirmed for %s: %s", now.Sub(p.since).Round(time.Second), watcher.ReasonOf(p.err))
}

// open returns the streams that follow a watch.
func (m *Manager) open() (all []*running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.running {
		if r.stream.Status().State == watcher.Watching {
			all = append(all, r)
		}
	}
	return all
}
