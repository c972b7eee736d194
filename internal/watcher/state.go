package watcher

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/metrics"
)

// Status is what a stream reports about itself.
type Status struct {
	State        State
	Reason       string    // why it is pending or retrying, or why the session before this one failed
	passing      bool      // the reason is what the server did before this watch: it is shown for habitShown
	Near         string    // pending: what the name of the resource may be a misspelling of
	Unreadable   string    // the objects, by name or as ranges, that the last list could not read; "" for none
	Since        time.Time // when it came into this state
	Failing      time.Time // when it began that no session has worked; zero while one does
	Failures     int       // sessions that have failed since then
	Ours         bool      // the last failure is for this daemon's user to mend: rights, credentials or config
	Position     string
	Synced       bool      // past its first sync
	LastProgress time.Time // of the last event or bookmark; see progressed
	LastGap      time.Time
	Missed       int64  // objects that differed after that; 0 until its list is complete
	Lines        uint64 // in the journal since the stream was started
}

// State is what a stream does now; docs/design.md has the transitions.
type State string

// The states of a stream.
const (
	Starting State = "Starting"
	Listing  State = "Listing"
	Watching State = "Watching"
	Retrying State = "Retrying"
	Pending  State = "Pending"
)

// stalledAfter is how long a stream may fail before it is reported as stalled.
const stalledAfter = time.Minute

// Readiness waits for a stream's first sync until it has failed heldUpFailures times in heldUpAfter, or has been
// listing for heldUpListing without a failure: less than the five minutes that Helm waits for a release by default.
const (
	heldUpFailures = 2
	heldUpAfter    = 10 * time.Second
	heldUpListing  = 4 * time.Minute
)

// HeldUp reports whether the server keeps the stream from its first sync: it fails, for a reason that is not this
// daemon's, or sends a list that does not end.
func (s *Status) HeldUp(now time.Time) bool {
	switch {
	case s.Synced || s.Ours:
		return false
	case !s.Failing.IsZero():
		return s.Failures >= heldUpFailures && now.Sub(s.Failing) >= heldUpAfter
	}
	return s.State == Listing && now.Sub(s.Since) >= heldUpListing
}

// Waits reports whether the stream waits for another replica to write its first list: that one has published no
// position, or none that can be adopted. At first, its position may only not have been seen yet.
func (s *Status) Waits(now time.Time) bool {
	return s.State == Starting && s.Reason == failure.ReasonStandby &&
		(s.Failures > 0 || now.Sub(s.Since) >= heldUpAfter)
}

// Stalled is why a stream makes no progress; empty while it does.
func (s Status) Stalled(now time.Time) string {
	switch s.State {
	case Pending:
		why := fmt.Sprintf("Pending for %s: %s", now.Sub(s.Since).Round(time.Second), s.Reason)
		if s.Near != "" {
			why += ", did you mean " + s.Near + "?"
		}
		return why
	case Watching:
		// A server without bookmarks is silent where nothing happens. The end of such a watch shows that it works, and
		// the first one is given up before it has one.
		if idle := s.Idle(now); idle > 2*watchEnd {
			return fmt.Sprintf("neither event nor bookmark for %s", idle.Round(time.Second))
		}
	case Starting, Listing, Retrying:
		switch heldUp := s.HeldUp(now); {
		case !s.Failing.IsZero() && (heldUp || now.Sub(s.Failing) >= stalledAfter):
			return strings.TrimSpace(fmt.Sprintf("failing for %s: %s %s %s", now.Sub(s.Failing).Round(time.Second),
				s.State, s.Reason, s.Unreadable))
		case heldUp:
			return fmt.Sprintf("first list not complete after %s", now.Sub(s.Since).Round(time.Second))
		}
	}
	return ""
}

// Idle is how long ago the last event or bookmark was, or where none has come yet, how long the stream has been in its
// state.
func (s Status) Idle(now time.Time) time.Duration {
	if s.LastProgress.IsZero() {
		return now.Sub(s.Since)
	}
	return now.Sub(s.LastProgress)
}

// report is how a stream shows its state: its Status and the metrics with its name.
type report struct {
	m        *metrics.Metrics
	stream   string
	resource schema.GroupResource
	last     prometheus.Gauge // nil until there was progress: the metric is not there before

	mu     sync.Mutex
	status Status // guarded by mu
}

func (r *report) note(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// Status reports the stream's state. Safe for concurrent use.
func (s *Stream) Status() (status Status) {
	s.note(func(n *Status) { status = *n })
	if status.passing && status.State == Watching && time.Since(status.Since) >= habitShown {
		status.Reason = ""
	}
	status.Lines = s.producer.Lines()
	return status
}

// setState shows a state, and the reason for it.
func (r *report) setState(state State, reason string) {
	r.note(func(n *Status) {
		if n.State != state {
			n.Since = time.Now()
		}
		n.State, n.Reason, n.passing = state, reason, false
	})
	for _, each := range []State{Starting, Listing, Watching, Retrying, Pending} {
		v := 0.0
		if each == state {
			v = 1
		}
		r.m.StreamState.WithLabelValues(r.stream, string(each)).Set(v)
	}
}

// progressed shows that nothing before now was missed, with what else changes, which is nil where neither event nor
// bookmark says so: the server is at the stream's position, since nothing happens in the cluster, or it has ended a
// watch in good order of a resource that it sends no bookmarks for.
func (r *report) progressed(change func(*Status)) {
	now := time.Now()
	if r.last == nil {
		r.last = r.m.LastProgress.WithLabelValues(r.stream)
	}
	r.last.Set(float64(now.UnixNano()) / 1e9)
	r.note(func(n *Status) {
		n.LastProgress = now
		if change != nil {
			change(n)
		}
	})
}
