package manager

import (
	"context"
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
		if err := m.client.Probe(ctx, open[0].spec.Target); err != nil {
			m.log.Debug("the server does not answer as it should, streams are not confirmed", zap.Error(err))
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
