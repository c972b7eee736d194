package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/watcher"
)

// Synced returns nil once every stream that is not pending is past its first sync. Safe for concurrent use.
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

// StreamStatus is the status of one stream or pending entry.
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
	for _, w := range m.pending() {
		s := w.last // of when it ran
		s.State, s.Reason, s.Near, s.Since, s.Failing = watcher.Pending, w.reason, w.near, w.since, time.Time{}
		all = append(all, StreamStatus{w.name, s})
	}
	slices.SortFunc(all, func(a, b StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// maxNamed bounds how many streams a text names.
const maxNamed = 10

// Stalled says which streams make no progress, and why; empty when all do. It is for people: a server that is away is no
// fault of this daemon, whose readiness it does not change. Safe for concurrent use.
func (m *Manager) Stalled() string {
	var stalled []string
	now := time.Now()
	for _, s := range m.Streams() {
		if why := s.Status.Stalled(now); why != "" {
			stalled = append(stalled, s.Name+" ("+why+")")
		}
	}
	if len(stalled) == 0 {
		return ""
	}
	if more := len(stalled) - maxNamed; more > 0 {
		stalled = append(stalled[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return "no progress: " + strings.Join(stalled, ", ")
}
