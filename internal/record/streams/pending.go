package streams

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/config"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/watcher"
)

// What is pending is tried again after pendingFirst; the pause doubles up to pendingMax.
const (
	pendingFirst = 2 * time.Second
	pendingMax   = 15 * time.Second
	mistakenPoll = time.Minute // how often the server is asked what it serves while a stream meets something else
)

// waiting is why something is pending, and when it is tried again.
type waiting struct {
	wanted        // spec is empty if the entry has no stream
	name   string // for people
	reason string
	near   string // what the name may be a misspelling of
	since  time.Time
	pause  time.Duration
	until  time.Time
	last   watcher.Status // of the stream, where one ran
}

// ours reports whether the reason is for this daemon's user to mend, by other rights, credentials or another config.
func (w *waiting) ours() bool { return w.reason == reasonConfigFault || w.last.Ours }

const reasonConfigFault = "ConfigFault"

// reasonOf is one word for why an entry has no stream.
func reasonOf(err error) string {
	switch {
	case discovery.IsConfigFault(err):
		return reasonConfigFault
	case errors.As(err, new(*discovery.NotFoundError)):
		return failure.ReasonNotFound
	case errors.As(err, new(*discovery.UnwatchableError)):
		return "NotWatchable"
	case errors.As(err, new(*discovery.AmbiguousError)):
		return "Ambiguous"
	case errors.As(err, new(*discovery.TooManyError)):
		return "TooMany"
	}
	return "Undiscovered"
}

// setUnresolved notes why entries have no stream; nil: they have some. An entry that has moved within the config goes
// on waiting. The metrics show each like a stream of its name, unless one runs.
func (m *Manager) setUnresolved(errs []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.unresolved
	m.unresolved = nil
	waits := make(map[string]bool)
	for i, err := range errs {
		if err == nil {
			continue
		}
		entry := m.options.Resources[i]
		var old *waiting
		if at := slices.IndexFunc(before, func(w *waiting) bool { return sameEntry(w.entry, entry) }); at >= 0 {
			old = before[at]
		}
		w := m.postpone(old, entry.Name, reasonOf(err), err)
		w.entry = entry
		if missing, ok := errors.AsType[*discovery.NotFoundError](err); ok {
			w.near = missing.Near
		}
		m.unresolved = append(m.unresolved, w)
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

// postpone says when something pending is tried again, at longer and longer intervals. before is what it waited for
// until now.
func (m *Manager) postpone(before *waiting, name, reason string, err error) *waiting {
	w := &waiting{name: name, reason: reason, since: time.Now(), pause: pendingFirst}
	if before != nil {
		w.since, w.pause = before.since, min(2*before.pause, pendingMax)
	}
	w.until = time.Now().Add(w.pause)
	if before == nil || before.reason != reason {
		m.outages.Note(name, zapcore.WarnLevel, "pending: cannot be journalled now, trying again", reason, err)
	}
	return w
}

// pending is what waits: streams that do not run meanwhile, and entries. For Run's goroutine, or with mu held.
func (m *Manager) pending() []*waiting {
	all := slices.Clone(m.unresolved)
	for name, w := range m.refused {
		if m.running[name] == nil {
			all = append(all, w)
		}
	}
	return all
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

// loadOwed finds out what has to begin with the GAP of a lost checkpoint: the streams, and the entries without one,
// that the config had at the first start since the loss. What is added later is new.
func (m *Manager) loadOwed(desired map[string]wanted, errs []error) error {
	lost, err := m.store.Lost()
	if err != nil {
		return err
	}
	var names []string
	if lost {
		names, err = m.store.LostNames()
	}
	if err == nil && lost && names == nil {
		names = slices.Sorted(maps.Keys(desired))
		for i, err := range errs {
			if err != nil {
				names = append(names, entryKey(m.options.Resources[i]))
			}
		}
		err = m.store.SetLostNames(names)
	}
	if err != nil {
		return err
	}
	m.owed = make(map[string]bool)
	for _, name := range names {
		m.owed[name] = true
	}
	return nil
}

// entryKey identifies an entry by all that distinguishes its streams from others. No stream has such a name.
func entryKey(r config.Resource) string {
	return fmt.Sprintf("entry %s %q %q %q", r.Name, r.Namespaces, r.LabelSelector, r.FieldSelector)
}

// clearLost ends the time in which a stream without a position counts as one that a lost checkpoint had: once all that
// the config names are past their first sync, and so have a position that is committed.
func (m *Manager) clearLost() {
	if len(m.owed) == 0 || len(m.pending()) > 0 || m.Synced() != nil {
		return
	}
	if err := m.store.ClearLost(); err != nil {
		m.log.Error("checkpoint cannot be committed, trying again", zap.Error(err))
		return
	}
	clear(m.owed)
}
