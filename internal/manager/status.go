package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/watcher"
)

// Synced returns nil once every stream that is not pending is past its first
// sync. Safe for concurrent use.
func (m *Manager) Synced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return errors.New("not started yet")
	}
	var behind []string
	for name, r := range m.running {
		if s := r.stream.Status(); s.State != watcher.Pending && !s.Synced {
			behind = append(behind, name)
		}
	}
	if len(behind) > 0 {
		slices.Sort(behind)
		return fmt.Errorf("not synced yet: %s", strings.Join(behind, ", "))
	}
	return nil
}

// StreamStatus is how one stream or pending entry stands.
type StreamStatus struct {
	Name string
	watcher.Status
}

// Streams returns the status of every stream and pending entry, by name. Safe for concurrent use.
func (m *Manager) Streams() []StreamStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []StreamStatus
	for name, r := range m.running {
		all = append(all, StreamStatus{name, r.stream.Status()})
	}
	for w := range m.pending() {
		all = append(all, StreamStatus{w.name, w.status()})
	}
	slices.SortFunc(all, func(a, b StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// status is that of a stream that waits, with what it had when it ran.
func (w *waiting) status() watcher.Status {
	s := w.last
	s.State, s.Reason, s.Since, s.Failing = watcher.Pending, w.reason, w.since, time.Time{}
	return s
}

const (
	// maxNamed bounds how many streams a text names.
	maxNamed = 10
)

// Stalled says which streams make no progress, and why; empty when all do. It is
// for people: a server that is away is no fault of this daemon, whose readiness
// it does not change. Safe for concurrent use.
func (m *Manager) Stalled() string {
	var stalled []string
	now := time.Now()
	for _, s := range m.Streams() {
		if why := s.Status.Stalled(now); why != "" {
			stalled = append(stalled, s.Name+" ("+why+")")
		}
	}
	count := len(stalled)
	if count == 0 {
		return ""
	}
	if count > maxNamed {
		stalled = append(stalled[:maxNamed], fmt.Sprintf("and %d more", count-maxNamed))
	}
	return "no progress: " + strings.Join(stalled, ", ")
}
