// Package outage finds the one cause that failing streams have in common: the API server cannot be reached. It is logged and
// shown once, in the place of every stream's failures.
//
// A stream reports each session that failed without the API server. The report is held back for a moment, since streams that
// lose one server lose it together. If most of them have failed by then, an outage begins, with one line in the log. Until it
// ends, with another line, failures are counted and logged at debug level only. Otherwise what was held back is logged: a
// stream that fails alone shows as such.
package outage

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	settle = 2 * time.Second // how long a failure is held back: longer than the first pause of most streams

	// Readiness does not flap: it ends once an outage has lasted for lasting, and comes back once the server has been
	// reachable for calm. An outage that begins before that continues the one before.
	lasting = time.Minute
	calm    = 10 * time.Second

	maxNamed = 10 // streams that one line names
)

// Failure is a session that failed because the API server could not be reached.
type Failure struct {
	Stream, Reason string
	Answered       bool // something before the server has said so, such as a load balancer
	Err            error
}

// Tracker knows which streams reach the server. Its methods are safe for concurrent use.
type Tracker struct {
	log *zap.Logger

	mu      sync.Mutex          // guards all below
	streams map[string]*contact // that run, by name
	held    []Failure           // not logged yet
	timer   *time.Timer         // runs while there is some
	closed  bool                // nothing is logged any more
	outage  *outage             // nil while there is none
	unready time.Time           // until when an outage that is over keeps the daemon unready
}

// contact is how a stream gets on with the server. The zero contact has not failed since the server answered last.
type contact struct {
	since    time.Time // of the first failure
	attempts int       // since then
	last     Failure
}

// outage is a time in which most streams cannot reach the server.
type outage struct {
	since     time.Time       // of the first failure
	streams   map[string]bool // that have failed in it
	attempts  int
	reached   time.Time // when the server answered again; zero after each failure
	continued bool      // it follows one that made the daemon unready
}

// Outage describes an outage. The zero value is none.
type Outage struct {
	Since    time.Time
	Streams  int    // that fail now
	Of       int    // streams that run
	Attempts int    // sessions that have failed
	Reason   string // that most of the streams have
	Error    string // the same in full, without the request
}

// New returns a tracker without streams.
func New(log *zap.Logger) *Tracker {
	return &Tracker{log: log, streams: make(map[string]*contact)}
}

// Join adds a stream.
func (t *Tracker) Join(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[stream] = new(contact)
}

// Leave removes a stream, which says nothing about the server.
func (t *Tracker) Leave(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, stream)
	if failing, _ := t.failing(); failing == 0 && len(t.streams) > 0 {
		t.end()
	}
}

// Close logs what is held back, and nothing later.
func (t *Tracker) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.logHeld()
	t.closed = true
}

// Failed takes note of a failure, which is logged now or later unless an outage explains it.
func (t *Tracker) Failed(f Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.streams[f.Stream]
	if c == nil || t.closed {
		return
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.attempts++
	c.last = f
	if o := t.outage; o != nil {
		o.attempts++
		o.streams[f.Stream] = true
		o.reached = time.Time{}
		t.log.Debug(watchEnded, f.fields()...)
		return
	}
	if t.held = append(t.held, f); len(t.held) == 1 {
		t.timer = time.AfterFunc(settle, t.decide)
	}
}

// Reached takes note that the API server has answered a stream.
func (t *Tracker) Reached(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.streams[stream]
	if c == nil {
		return
	}
	*c = contact{}
	if o := t.outage; o != nil {
		if o.reached.IsZero() {
			o.reached = time.Now()
		}
		if !t.most() {
			t.end()
		}
	}
}

// failing counts the streams that fail now, and those of them that got no answer at all.
func (t *Tracker) failing() (all, silent int) {
	for _, c := range t.streams {
		if !c.since.IsZero() {
			all++
			if !c.last.Answered {
				silent++
			}
		}
	}
	return all, silent
}

// most reports whether the server is what fails. A 503 that only some streams get may be that of an aggregated API.
func (t *Tracker) most() bool {
	all, silent := t.failing()
	return all > 0 && all == len(t.streams) || 2*silent > len(t.streams)
}

// decide begins an outage, or logs what is held back.
func (t *Tracker) decide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.outage != nil {
		return
	}
	if !t.most() {
		t.logHeld()
		return
	}
	o := &outage{streams: make(map[string]bool)}
	for _, f := range t.held { // streams that are back already were part of it
		o.streams[f.Stream] = true
	}
	t.held = nil
	for name, c := range t.streams {
		if c.since.IsZero() {
			continue
		}
		o.streams[name] = true
		o.attempts += c.attempts
		if o.since.IsZero() || c.since.Before(o.since) {
			o.since = c.since
		}
	}
	o.continued = o.since.Before(t.unready)
	t.outage = o
	now := t.now()
	t.log.Warn("API server unreachable", zap.Int("streams", now.Streams), zap.Int("of", now.Of),
		zap.String("reason", now.Reason), zap.String("error", now.Error))
}

// end ends the outage, if there is one.
func (t *Tracker) end() {
	o := t.outage
	if o == nil {
		return
	}
	t.outage = nil
	now := time.Now()
	if o.reached.IsZero() {
		o.reached = now
	}
	if o.unready(now) {
		t.unready = now.Add(calm)
	}
	t.log.Info("API server reachable again", zap.Duration("after", o.reached.Sub(o.since).Round(time.Millisecond)),
		zap.Int("streams", len(o.streams)), zap.Int("attempts", o.attempts))
}

// unready reports whether an outage lasts long enough to make the daemon unready.
func (o *outage) unready(now time.Time) bool { return o.continued || now.Sub(o.since) >= lasting }

const watchEnded = "watch ended, trying again"

func (f Failure) fields() []zap.Field {
	return []zap.Field{zap.String("stream", f.Stream), zap.String("reason", f.Reason), zap.Error(f.Err)}
}

// logHeld logs what is held back: one line for each failure, or for streams that have failed together for one reason.
func (t *Tracker) logHeld() {
	streams := make(map[string][]string) // by reason
	for _, f := range t.held {
		if !slices.Contains(streams[f.Reason], f.Stream) {
			streams[f.Reason] = append(streams[f.Reason], f.Stream)
		}
	}
	for _, f := range t.held {
		switch names := streams[f.Reason]; len(names) {
		case 0: // logged
		case 1:
			t.log.Warn(watchEnded, f.fields()...)
		default:
			delete(streams, f.Reason)
			t.log.Warn("watches ended, trying again", zap.Int("streams", len(names)), zap.Strings("names", names[:min(len(names), maxNamed)]),
				zap.String("reason", f.Reason), zap.NamedError("error", cause(f.Err)))
		}
	}
	t.held = nil
}

// cause is an error without the request that got it.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// Now describes the outage of now.
func (t *Tracker) Now() Outage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now()
}

func (t *Tracker) now() Outage {
	if t.outage == nil {
		return Outage{}
	}
	o := Outage{Since: t.outage.since, Of: len(t.streams), Attempts: t.outage.attempts}
	o.Streams, _ = t.failing()
	// Of the reason that most streams have: the one before may have found its connection cut, the others find none.
	count := make(map[string]int)
	most := 0
	for _, name := range slices.Sorted(maps.Keys(t.streams)) {
		c := t.streams[name]
		if c.since.IsZero() {
			continue
		}
		reason := c.last.Reason
		if count[reason]++; count[reason] > most {
			most, o.Reason, o.Error = count[reason], reason, cause(c.last.Err).Error()
		}
	}
	return o
}

// Explains reports whether an outage is why a stream fails.
func (t *Tracker) Explains(stream string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.streams[stream]
	return t.outage != nil && c != nil && !c.since.IsZero()
}

// Unready is why the daemon is not ready, of o, which Now has returned; nil where it is.
func (t *Tracker) Unready(o Outage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case t.outage != nil && t.outage.unready(now):
		return errors.New(o.Text(now))
	case now.Before(t.unready):
		return fmt.Errorf("API server reachable again; ready when it has been so for %s", calm)
	}
	return nil
}

// Text says it in one line, with the error; "" where there is no outage.
func (o Outage) Text(now time.Time) string {
	if o.Since.IsZero() {
		return ""
	}
	return o.Headline(now) + ": " + o.Error
}

// Headline says it without the error.
func (o Outage) Headline(now time.Time) string {
	return fmt.Sprintf("API server unreachable for %s: %d of %d streams", now.Sub(o.Since).Round(time.Second), o.Streams, o.Of)
}
