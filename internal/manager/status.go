package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/discovery"
	"kubejournal/internal/outage"
	"kubejournal/internal/watcher"
)

// Synced returns nil once every stream that is not pending is past its first sync. Safe for concurrent use.
func (m *Manager) Synced() error {
	return m.all(func(s watcher.Status) bool { return s.Synced })
}

// Follows is Synced for a standby, whose streams may wait for another replica to write their first lists.
func (m *Manager) Follows() error {
	return m.all(func(s watcher.Status) bool { return s.Synced || s.Waits() })
}

// all returns nil once every stream that is not pending is ready.
func (m *Manager) all(ready func(watcher.Status) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return errors.New("not started yet")
	}
	var behind []string
	for name, r := range m.running {
		if s := r.stream.Status(); s.State != watcher.Pending && !ready(s) {
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
	Unreachable bool // it fails because the API server is unreachable, as all streams do
}

// Streams returns the status of every stream and pending entry, by name. Safe for concurrent use.
func (m *Manager) Streams() []StreamStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []StreamStatus
	for name, r := range m.running {
		all = append(all, StreamStatus{Name: name, Status: r.stream.Status(), Unreachable: m.outages.Explains(name)})
	}
	for _, w := range m.pending() {
		s := w.last // of when it ran
		s.State, s.Reason, s.Near, s.Since, s.Failing = watcher.Pending, w.reason, w.near, w.since, time.Time{}
		all = append(all, StreamStatus{Name: w.name, Status: s})
	}
	slices.SortFunc(all, func(a, b StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// AwaitsCRD reports whether it is pending until somebody creates its CustomResourceDefinition.
func (s StreamStatus) AwaitsCRD() bool { return AwaitsCRD(s.Name, string(s.State), s.Reason) }

// AwaitsCRD is StreamStatus.AwaitsCRD of what a status says.
func AwaitsCRD(name, state, reason string) bool {
	resource, _, _ := strings.Cut(name, "?")
	return state == string(watcher.Pending) && reason == watcher.ReasonNotFound && discovery.IsCustom(resource)
}

// Outage describes the outage of the API server, the zero value where there is none. Safe for concurrent use.
func (m *Manager) Outage() outage.Outage {
	o := m.outages.Now()
	if !o.Since.IsZero() {
		m.mu.Lock()
		defer m.mu.Unlock()
		o.Of = len(m.running) + len(m.pending())
	}
	return o
}

// Reachable returns nil, or an error where the API server has been unreachable for so long that the daemon is not ready.
// Safe for concurrent use.
func (m *Manager) Reachable() error { return m.outages.Unready(m.Outage()) }

// maxNamed bounds how many streams a text names.
const maxNamed = 10

// Stalled says which streams make no progress, and why, but for those that Outage explains; empty when there are none. It is
// for people and does not change readiness. Safe for concurrent use.
func (m *Manager) Stalled() string {
	var stalled []string
	now := time.Now()
	for _, s := range m.Streams() {
		if why := s.Status.Stalled(now); why != "" && !s.Unreachable {
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
