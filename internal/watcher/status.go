package watcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
		if s := r.stream.Status(); s.State != Pending && !s.Synced {
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
	Status
}

// Streams tells how everything stands, by name. Safe for concurrent use.
func (m *Manager) Streams() []StreamStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []StreamStatus
	for name, r := range m.running {
		all = append(all, StreamStatus{name, r.stream.Status()})
	}
	for name, w := range m.refused {
		if m.running[name] == nil {
			all = append(all, StreamStatus{w.name, w.status()})
		}
	}
	for _, w := range m.unresolved {
		all = append(all, StreamStatus{w.name, w.status()})
	}
	slices.SortFunc(all, func(a, b StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// status is that of a stream that waits, with what it had when it ran.
func (w *waiting) status() Status {
	s := w.last
	s.State, s.Reason, s.Since, s.Failing = Pending, w.reason, w.since, time.Time{}
	return s
}

const (
	// stalledAfter is how long a stream may fail before that is worth a word.
	stalledAfter = time.Minute
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

// Stalled is why a stream makes no progress; empty while it does.
func (s Status) Stalled(now time.Time) string {
	switch s.State {
	case Pending:
		return fmt.Sprintf("Pending for %s: %s", now.Sub(s.Since).Round(time.Second), s.Reason)
	case Watching:
		// A server without bookmarks is silent where nothing happens. Of such a
		// watch its end tells, and the first one is given up before it has one.
		if idle := s.Idle(now); idle > 2*watchEnd {
			return fmt.Sprintf("neither event nor bookmark for %s", idle.Round(time.Second))
		}
	case Starting, Listing, Retrying:
		if !s.Failing.IsZero() && now.Sub(s.Failing) >= stalledAfter {
			return strings.TrimSpace(fmt.Sprintf("failing for %s: %s %s", now.Sub(s.Failing).Round(time.Second), s.State, s.Reason))
		}
	}
	return ""
}

// Idle is how long ago the last event or bookmark was, or where none has come
// yet, how long the stream has been in its state.
func (s Status) Idle(now time.Time) time.Duration {
	if s.LastProgress.IsZero() {
		return now.Sub(s.Since)
	}
	return now.Sub(s.LastProgress)
}
