package streams

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/watcher"
)

// Synced returns nil once every stream that is not pending is past its first sync. Safe for concurrent use.
func (m *Manager) Synced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var behind []string
	for name, r := range m.running {
		if s := r.stream.Status(); s.State != watcher.Pending && !s.Synced {
			behind = append(behind, name)
		}
	}
	switch {
	case !m.started:
		return errNotStarted
	case len(behind) > 0:
		return errors.New("not synced yet: " + list(behind))
	}
	return nil
}

var errNotStarted = errors.New("not started yet")

// Ready returns nil once the streams have started as far as this daemon can make them; docs/operations.md has the
// table. What another's API keeps from its first sync does not count, what is for this daemon's user to mend does.
// standby says that streams may wait for another replica to write their first lists. Once it has returned nil, it does
// so always. Safe for concurrent use.
func (m *Manager) Ready(standby bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return errNotStarted
	}
	if m.ready {
		return nil
	}
	var behind, ours, heldUp []string
	synced := 0
	now := time.Now()
	for name, r := range m.running {
		s, before := r.stream.Status(), m.refused[name]
		if s.Failures == 0 && before != nil {
			s.Ours, s.Reason = before.ours(), before.reason // it is tried again at this moment
		}
		switch {
		case s.Synced:
			synced++
		case s.Ours:
			ours = append(ours, because(name, s.Reason))
		case standby && s.Waits(now):
			synced++
		case s.State == watcher.Pending, s.Failures == 0 && before != nil:
		case s.HeldUp(now) && !m.outages.Explains(name):
			heldUp = append(heldUp, because(name, s.Reason))
		default:
			behind = append(behind, name)
		}
	}
	for _, w := range m.pending() {
		if w.ours() {
			ours = append(ours, because(w.name, w.reason))
		}
	}
	var why []string
	if len(ours) > 0 {
		why = append(why, "refused by rights, credentials or config of this daemon: "+list(ours))
	}
	if len(behind) > 0 {
		why = append(why, "not synced yet: "+list(behind))
	}
	if len(heldUp) > 0 && synced == 0 {
		why = append(why, "no stream has synced, failing: "+list(heldUp))
	}
	if m.ready = len(why) == 0; !m.ready {
		return errors.New(strings.Join(why, "; "))
	}
	return nil
}

// because is a name with the reason for its state, where there is one.
func because(name, reason string) string {
	return strings.TrimSuffix(fmt.Sprintf("%s (%s)", name, reason), " ()")
}

// list is names as a text has them.
func list(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Status is the status of one stream or pending entry.
type Status struct {
	Name string
	watcher.Status
	Unreachable bool // it fails because the API server is unreachable, as all streams do
}

// Streams returns the status of every stream and pending entry, by name. Safe for concurrent use.
func (m *Manager) Streams() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for name, r := range m.running {
		all = append(all, Status{Name: name, Status: r.stream.Status(), Unreachable: m.outages.Explains(name)})
	}
	for _, w := range m.pending() {
		s := w.last // of when it ran
		s.State, s.Reason, s.Near, s.Since, s.Failing = watcher.Pending, w.reason, w.near, w.since, time.Time{}
		all = append(all, Status{Name: w.name, Status: s})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// AwaitsCRD reports whether it is pending until somebody creates its CustomResourceDefinition.
func (s Status) AwaitsCRD() bool { return AwaitsCRD(s.Name, string(s.State), s.Reason) }

// AwaitsCRD is Status.AwaitsCRD of what a status says.
func AwaitsCRD(name, state, reason string) bool {
	return state == string(watcher.Pending) && reason == failure.ReasonNotFound &&
		builtin.IsCustom(line.ParseStreamName(name).Resource)
}

// Outage describes the outage of the API server, the zero value where there is none. Safe for concurrent use.
func (m *Manager) Outage() outage.Outage {
	o := m.outages.Now()
	if !o.Since.IsZero() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if o.Of = len(m.running) + len(m.pending()); o.Streams == 0 { // all are pending
			o.Streams = o.Of
		}
	}
	return o
}

// Reachable returns nil, or an error where the API server has been unreachable for so long that the daemon is not
// ready. Safe for concurrent use.
func (m *Manager) Reachable() error { return m.outages.Unready(m.Outage()) }

// maxNamed bounds how many streams a text names.
const maxNamed = 10

// Stalled says which streams make no progress, and why, but for those that Outage explains; empty when there are none.
// It is for people and does not change readiness. Safe for concurrent use.
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
	return "no progress: " + list(stalled)
}
