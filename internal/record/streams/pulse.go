package streams

import (
	"context"
	"time"

	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/watcher"
)

const (
	// PulseEvery is how long it is from one pulse to the next. With what a pulse takes it is less than five seconds.
	PulseEvery = 4 * time.Second
	// pulseWait is how long the streams are given to read what the server had sent before it answered: more than shows
	// that a watch has nothing to read.
	pulseWait = 300 * time.Millisecond
)

// Pulse notes again and again, after so long, in the coverage which streams are known to follow the server, until ctx
// ends: those whose watches are open and quiet, while the server answers and accepts the daemon's credentials. A daemon
// that was killed, cut off or refused is not believed any more for longer than that, and shows an outage.
func (m *Manager) Pulse(ctx context.Context, every time.Duration) {
	for client.Sleep(ctx, every) {
		open := m.open()
		target, ok := m.probeTarget(open)
		if !ok {
			continue
		}
		well := time.Now()
		err := m.client.Probe(ctx, target)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failure, _ := failure.Of("", err)
			m.outages.Probed(&failure)
			continue
		}
		m.outages.Probed(nil)
		if !client.Sleep(ctx, pulseWait) {
			return
		}
		for _, r := range open {
			r.stream.Pulse(well)
		}
	}
}

// probeTarget is what a probe asks for where it cannot read the namespace kube-system: what a stream watches, or what
// the server does not let this daemon watch. While streams list, or try to reach the server, there is none.
func (m *Manager) probeTarget(open []*running) (target client.Target, ok bool) {
	if len(open) > 0 {
		return open[0].spec.Target, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, w := range m.refused {
		if w.last.Ours && m.running[name] == nil {
			return w.spec.Target, true
		}
	}
	return target, false
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
