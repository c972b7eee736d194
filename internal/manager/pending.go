package manager

import (
	"errors"
	"iter"
	"slices"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/discovery"
	"kubejournal/internal/watcher"
)

const (
	// pendingFirst is how soon what is pending is tried again; the pause
	// doubles up to pendingMax.
	pendingFirst = 2 * time.Second
	pendingMax   = 15 * time.Second
)

// waiting is why something is pending, and when it is tried again.
type waiting struct {
	wanted        // spec is empty where it comes to no stream
	name   string // for people
	reason string
	since  time.Time
	pause  time.Duration
	until  time.Time
	last   watcher.Status // of the stream, where one ran
}

// reasonOf is one word for why an entry comes to no stream.
func reasonOf(err error) string {
	switch {
	case discovery.IsConfigFault(err):
		return "ConfigFault"
	case errors.As(err, new(*discovery.NotFoundError)):
		return watcher.ReasonNotFound
	case errors.As(err, new(*discovery.UnwatchableError)):
		return "NotWatchable"
	case errors.As(err, new(*discovery.AmbiguousError)):
		return "Ambiguous"
	}
	return "Undiscovered"
}

// setUnresolved notes why entries come to no stream; nil: they come to some. An
// entry that has moved within the config waits for what it waited for.
func (m *Manager) setUnresolved(errs []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.unresolved
	m.unresolved = make(map[int]*waiting)
	for i, err := range errs {
		if err == nil {
			continue
		}
		entry := m.options.Resources[i]
		old := before[i]
		if old == nil || !sameEntry(old.entry, entry) {
			old = nil
			for _, w := range before {
				if sameEntry(w.entry, entry) {
					old = w
				}
			}
		}
		m.unresolved[i] = m.wait(old, entry.Name, reasonOf(err), err)
		m.unresolved[i].entry = entry
	}
	m.showUnresolved(before)
}

// showUnresolved has the metrics say that entries wait, as if each were a stream
// of its name, so that nobody waits for it unnoticed. before are those that waited
// until now. A stream that has the name speaks for itself. The caller holds mu.
func (m *Manager) showUnresolved(before map[int]*waiting) {
	waits := make(map[string]bool)
	for _, w := range m.unresolved {
		waits[w.name] = true
		if m.running[w.name] == nil {
			m.m.StreamState.WithLabelValues(w.name, string(watcher.Pending)).Set(1)
		}
	}
	for _, w := range before {
		if !waits[w.name] && m.running[w.name] == nil && m.refused[w.name] == nil {
			m.m.ForgetStream(w.name)
		}
	}
}

// wait says when something pending is tried again, at longer and longer
// intervals. before is what it waited for until now.
func (m *Manager) wait(before *waiting, name, reason string, err error) *waiting {
	w := &waiting{name: name, reason: reason, since: time.Now(), pause: pendingFirst}
	if before != nil {
		w.since, w.pause = before.since, min(2*before.pause, pendingMax)
	}
	w.until = time.Now().Add(w.pause)
	if before == nil || before.reason != reason {
		m.log.Warn("pending: cannot be journalled now, trying again",
			zap.String("resource", name), zap.String("reason", reason), zap.Error(err))
	}
	return w
}

// due reports whether anything pending is to be tried again, and whether some of
// it is so for the first few times.
func (m *Manager) due() (due, anew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for w := range m.pending() {
		if !now.Before(w.until) {
			due, anew = true, anew || w.pause < pendingMax
		}
	}
	return due, anew
}

// pending is what waits: streams that do not run meanwhile, and entries. The
// caller holds mu.
func (m *Manager) pending() iter.Seq[*waiting] {
	return func(yield func(*waiting) bool) {
		for name, w := range m.refused {
			if m.running[name] == nil && !yield(w) {
				return
			}
		}
		for _, w := range m.unresolved {
			if !yield(w) {
				return
			}
		}
	}
}

// dropRefused forgets the streams that wait and that nothing wants any more.
func (m *Manager) dropRefused(desired map[string]wanted) (dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.refused {
		if _, is := desired[name]; !is {
			delete(m.refused, name)
			if m.running[name] == nil {
				m.m.ForgetStream(name)
				dropped++
			}
		}
	}
	return dropped
}

// missing reports whether something is pending because the server does not have it.
func (m *Manager) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.pending() {
		if w.reason == watcher.ReasonNotFound {
			return true
		}
	}
	return false
}

// clearLost ends the time in which a stream without a position counts as one that
// a lost checkpoint had: once all that the config names are past their first sync,
// and so have a position that is committed. A resource that is added later is new.
func (m *Manager) clearLost() {
	m.mu.Lock()
	waiting := len(slices.Collect(m.pending())) > 0
	m.mu.Unlock()
	if m.nothingLost || waiting || m.Synced() != nil {
		return
	}
	lost, err := m.store.Lost()
	if err == nil && lost {
		err = m.store.ClearLost()
	}
	if err != nil {
		m.log.Error("checkpoint cannot be committed, trying again", zap.Error(err))
		return
	}
	m.nothingLost = true
}
