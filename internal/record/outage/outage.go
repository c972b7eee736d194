// Package outage finds the one cause that failing streams have in common: the API server cannot be reached, or refuses
// this daemon. It is logged and shown once, in the place of every stream's failures.
//
// A stream reports each session that failed without the API server. The report is held back for a moment, since streams
// that lose one server lose it together. If most of them have failed by then, an outage begins, with one line in the
// log. It ends when most reach the server. It has another line once all of them are watched again: a server that was
// restarted has lost its history, and they list again. Until then what they have to say is logged at debug level only.
// Otherwise what was held back is logged: a stream that fails alone shows as such, and several that say the same have
// one line.
//
// The daemon also asks the server for one thing every few seconds (streams.Manager.Pulse). Where that fails twice in a
// row, there is an outage too, although watches may be open: a server that hangs ends none, and one that refuses a
// token or its rights only those that are reopened.
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
	"go.uber.org/zap/zapcore"
)

const (
	// settle is how long a line is held back, longer than the first pause of most streams; and how long all streams
	// must have been watched for an outage to be over.
	settle = 2 * time.Second

	// Readiness does not flap: it ends once an outage has lasted for lasting, and comes back once the server has been
	// reachable for calm. An outage that begins before that continues the one before. The lines of streams that are not
	// watched are logged again after lasting.
	lasting = time.Minute
	calm    = 10 * time.Second

	enoughProbes = 2  // that fail in a row
	maxNamed     = 10 // streams that one line names
)

// Failure is a request that failed because the API server could not be reached, or refused this daemon.
type Failure struct {
	Stream, Reason string
	Answered       bool // something before the server has said so, such as a load balancer, or the server
	Refused        bool // the server does not accept the credentials, or gives them no rights
	Err            error
}

// Tracker knows which streams reach the server. Its methods are safe for concurrent use.
type Tracker struct {
	log *zap.Logger

	mu       sync.Mutex          // guards all below
	streams  map[string]*contact // that run, by name
	away     map[string]bool     // that will run again
	probe    contact             // of the probes
	held     []note              // not logged yet
	timer    *time.Timer         // runs while something is to be decided
	closed   bool                // nothing is logged any more
	answered time.Time           // when the server answered a stream again last
	outage   *outage             // nil while there is none
	recovery *outage             // one that is over, until all of its streams are watched again
	unready  time.Time           // until when an outage that is over keeps the daemon unready
	refused  bool                // in that outage
}

// note is a line about a stream.
type note struct {
	stream, message, reason string
	level                   zapcore.Level
	err                     error
	fields                  []zap.Field
	at                      time.Time
	failure                 *Failure // nil where it is about something else
}

func (n *note) all() []zap.Field {
	fields := []zap.Field{zap.String("stream", n.stream)}
	if n.reason != "" {
		fields = append(fields, zap.String("reason", n.reason))
	}
	if n.err != nil {
		fields = append(fields, zap.Error(n.err))
	}
	return append(fields, n.fields...)
}

// contact is how a stream, or the probes, get on with the server. The zero contact has not failed since the server
// answered last.
type contact struct {
	since    time.Time // of the first failure
	attempts int       // since then
	last     Failure
	watched  time.Time // since when it has a watch; zero without one
}

func (c *contact) failed(f Failure) {
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.attempts++
	c.last, c.watched = f, time.Time{}
}

// outage is a time in which most streams cannot reach the server.
type outage struct {
	since     time.Time       // of the first failure
	streams   map[string]bool // that have failed in it; false where they do not run any more
	attempts  int
	refused   bool      // the server answers, and refuses this daemon
	reached   time.Time // when the server answered again; zero after each failure
	continued bool      // it follows one that made the daemon unready

	// Once it is over.
	relisted map[string]string // why streams have lost their positions
	settled  *time.Timer       // runs while all are watched
	limit    *time.Timer
}

// Outage describes an outage. The zero value is none.
type Outage struct {
	Since    time.Time
	Streams  int    // that fail now
	Of       int    // streams that run
	Attempts int    // sessions that have failed
	Refused  bool   // the server answers, and refuses this daemon
	Reason   string // that most of the streams have
	Error    string // the same in full, without the request
}

// New returns a tracker without streams.
func New(log *zap.Logger) *Tracker {
	return &Tracker{log: log, streams: make(map[string]*contact), away: make(map[string]bool)}
}

// Join adds a stream.
func (t *Tracker) Join(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[stream] = new(contact)
	delete(t.away, stream)
	t.checkRecovery()
}

// Leave removes a stream, which says nothing about the server. again says that it will be tried again.
func (t *Tracker) Leave(stream string, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, stream)
	if t.away[stream] = true; !again {
		delete(t.away, stream)
	}
	for _, o := range []*outage{t.outage, t.recovery} {
		if o != nil && o.streams[stream] && !again {
			o.streams[stream] = false
		}
	}
	if failing, _ := t.failing(); failing == 0 && len(t.streams) > 0 && !t.most() {
		t.end()
	}
	t.checkRecovery()
}

// Close logs what is held back, and nothing later.
func (t *Tracker) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.logHeld()
	t.recovered()
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
	c.failed(f)
	if o := t.outage; o != nil {
		o.attempts++
		o.streams[f.Stream] = true
		o.reached = time.Time{}
		t.turn(o)
	}
	t.checkRecovery()
	t.add(note{
		stream: f.Stream, message: watchEnded, reason: f.Reason, level: zapcore.WarnLevel, err: f.Err, failure: &f,
	})
}

// Note logs a line about a stream: together with others of the same message and reason, or at debug level where an
// outage explains it.
func (t *Tracker) Note(stream string, level zapcore.Level, message, reason string, err error, fields ...zap.Field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(note{stream: stream, message: message, reason: reason, level: level, err: err, fields: fields})
}

// Lost takes note that a stream has lost its position: it is not watched until it has listed.
func (t *Tracker) Lost(stream, reason string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.streams[stream]; c != nil {
		c.watched = time.Time{}
	}
	for _, o := range []*outage{t.outage, t.recovery} {
		if o != nil && o.streams[stream] {
			o.relisted[stream] = reason
		}
	}
	t.checkRecovery()
	t.add(note{stream: stream, message: positionLost, reason: reason, level: zapcore.WarnLevel, err: err})
}

const (
	watchEnded   = "watch ended, trying again"
	positionLost = "position is no longer valid, listing again"
)

// add logs a line now or later, and sees to it that it is decided then whether there is an outage.
func (t *Tracker) add(n note) {
	if t.closed {
		return
	}
	explained := t.explains(n.stream)
	if explained {
		t.log.Debug(n.message, n.all()...)
	} else {
		n.at = time.Now()
		t.held = append(t.held, n)
	}
	if t.timer == nil && (!explained || t.outage == nil) {
		t.timer = time.AfterFunc(settle, t.decide)
	}
}

// explains reports whether an outage, or that one is just over, is why there is something to log about a stream.
func (t *Tracker) explains(stream string) bool {
	return t.outage != nil && t.outage.streams[stream] || t.recovery != nil && t.recovery.streams[stream]
}

// Reached takes note that the API server has answered a stream.
func (t *Tracker) Reached(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.streams[stream]
	if c == nil {
		return
	}
	*c, t.probe, t.answered = contact{watched: c.watched}, contact{}, time.Now()
	if o := t.outage; o != nil {
		if o.reached.IsZero() {
			o.reached = t.answered
		}
		if !t.most() {
			t.end()
		}
	}
}

// Watched takes note that a stream has a watch.
func (t *Tracker) Watched(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.streams[stream]; c != nil && c.watched.IsZero() {
		c.watched = time.Now()
		t.checkRecovery()
	}
}

// Probed records the result of a probe, nil if it succeeded. Its failure names no stream.
func (t *Tracker) Probed(f *Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
	case f == nil:
		t.probe = contact{}
		if t.outage != nil && !t.most() {
			t.end()
		}
	default:
		if t.probe.failed(*f); t.outage != nil {
			t.outage.attempts++
			t.turn(t.outage)
		} else if t.most() {
			t.begin()
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

// most reports whether the server is what fails.
func (t *Tracker) most() bool { return t.isMost(t.failing()) || t.probe.attempts >= enoughProbes }

// isMost reports whether so many streams are most of them. A 503 that only some streams get may be that of an
// aggregated API.
func (t *Tracker) isMost(all, silent int) bool {
	return all > 0 && all == len(t.streams) || 2*silent > len(t.streams)
}

// heldMost reports whether most streams have failed since the first line that is held back, and may have come back.
func (t *Tracker) heldMost() bool {
	all, silent := make(map[string]bool), make(map[string]bool)
	for _, n := range t.held {
		if n.failure == nil || t.streams[n.stream] == nil {
			continue
		}
		if all[n.stream] = true; !n.failure.Answered {
			silent[n.stream] = true
		}
	}
	return t.isMost(len(all), len(silent))
}

// decide begins an outage, which may be over already, and logs what it does not explain.
func (t *Tracker) decide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer = nil; t.closed {
		return
	}
	if t.outage == nil && (t.most() || t.heldMost()) {
		t.begin()
	}
	t.logHeld()
}

// begin begins an outage.
func (t *Tracker) begin() {
	t.recovered() // the one before
	o := &outage{streams: make(map[string]bool), relisted: make(map[string]string)}
	var failures []Failure // the last of each stream
	add := func(f Failure, since time.Time, attempts int) {
		failures = append(failures, f)
		if o.attempts += attempts; o.since.IsZero() || since.Before(o.since) {
			o.since = since
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.streams)) {
		if c := t.streams[name]; !c.since.IsZero() {
			o.streams[name] = true
			add(c.last, c.since, c.attempts)
		}
	}
	failing := len(failures)
	for _, n := range t.held { // streams that are back already were part of it
		if n.failure != nil && (failing == 0 || !o.streams[n.stream]) {
			o.streams[n.stream] = true
			add(*n.failure, n.at, 1)
		}
	}
	of := len(t.streams)
	if len(failures) == 0 { // only the probes fail: no stream can be followed
		add(t.probe.last, t.probe.since, t.probe.attempts)
		for name := range t.streams {
			o.streams[name] = true
		}
		for name := range t.away {
			o.streams[name] = true
		}
		of = len(o.streams)
	}
	for _, n := range t.held {
		if n.message == positionLost && o.streams[n.stream] {
			o.relisted[n.stream] = n.reason
		}
	}
	common := commonOf(failures)
	o.refused, o.continued = common.Refused, o.since.Before(t.unready)
	t.outage = o
	t.warn(o, of, common)
	if !t.most() {
		o.reached = t.answered
		t.end()
	}
}

// turn logs that the server, which could not be reached, is back and refuses this daemon, or the other way round, once
// all that fail say so.
func (t *Tracker) turn(o *outage) {
	for _, c := range t.streams {
		if !c.since.IsZero() && c.last.Refused == o.refused {
			return
		}
	}
	failures := t.failures()
	if failures[0].Refused == o.refused { // of the probes
		return
	}
	o.refused = !o.refused
	t.warn(o, len(t.streams), commonOf(failures))
}

// warn logs what an outage is now.
func (t *Tracker) warn(o *outage, of int, common Failure) {
	t.log.Warn(names[o.refused].is, zap.Int("streams", len(o.streams)), zap.Int("of", of),
		zap.String("reason", common.Reason), zap.NamedError("error", cause(common.Err)))
}

// failures are the last ones of all that fail: of the probes, where no stream does.
func (t *Tracker) failures() (all []Failure) {
	for _, name := range slices.Sorted(maps.Keys(t.streams)) {
		if c := t.streams[name]; !c.since.IsZero() {
			all = append(all, c.last)
		}
	}
	if len(all) == 0 {
		all = []Failure{t.probe.last}
	}
	return all
}

// names are what an outage is called, by whether the server refuses this daemon.
var names = map[bool]struct{ is, ended string }{
	false: {"API server unreachable", "API server reachable again"},
	true:  {"API server refuses this daemon", "API server accepts this daemon again"},
}

// commonOf is the failure with the reason that most of them have.
func commonOf(failures []Failure) (common Failure) {
	count := make(map[string]int)
	most := 0
	for _, f := range failures {
		if count[f.Reason]++; count[f.Reason] > most {
			most, common = count[f.Reason], f
		}
	}
	return common
}

// end ends the outage, if there is one. Its streams are still to be watched again.
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
		t.unready, t.refused = now.Add(calm), o.refused
	}
	t.recovery = o
	o.limit = time.AfterFunc(lasting, func() { t.giveUp(o) })
	t.checkRecovery()
}

// checkRecovery sees whether all streams of an outage that is over are watched again. A moment later it is known
// whether they stay so: a position that is not valid shows only then.
func (t *Tracker) checkRecovery() {
	o := t.recovery
	if o == nil {
		return
	}
	all := len(t.unwatched(o)) == 0
	switch {
	case all && o.settled == nil:
		o.settled = time.AfterFunc(settle, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if o.settled != nil && len(t.unwatched(o)) == 0 && t.recovery == o {
				t.recovered()
			}
		})
	case !all && o.settled != nil:
		o.settled.Stop()
		o.settled = nil
	}
}

// giveUp stops waiting for the streams of an outage that is over: those that are not watched fail for their own
// reasons.
func (t *Tracker) giveUp(o *outage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recovery == o {
		t.recovered()
	}
}

// unwatched returns the streams of an outage that are not watched.
func (t *Tracker) unwatched(o *outage) (streams []string) {
	for name, runs := range o.streams {
		if c := t.streams[name]; runs && (c == nil || c.watched.IsZero()) {
			streams = append(streams, name)
		}
	}
	slices.Sort(streams)
	return streams
}

// recovered logs that the outage before, if there is one, is over.
func (t *Tracker) recovered() {
	o := t.recovery
	if o == nil {
		return
	}
	t.recovery = nil
	o.limit.Stop()
	if o.settled != nil {
		o.settled.Stop()
	}
	var watched time.Time // all of them
	for name := range o.streams {
		if c := t.streams[name]; c != nil && c.watched.After(watched) {
			watched = c.watched
		}
	}
	fields := []zap.Field{
		zap.Duration("after", o.reached.Sub(o.since).Round(time.Millisecond)),
		zap.Int("streams", len(o.streams)), zap.Int("attempts", o.attempts), zap.Int("listedAgain", len(o.relisted)),
	}
	if len(o.relisted) > 0 {
		why := slices.Compact(slices.Sorted(maps.Values(o.relisted)))
		fields = append(fields, zap.Strings("gaps", why))
	}
	if not := t.unwatched(o); len(not) > 0 {
		fields = append(fields, zap.Int("notWatched", len(not)), zap.Strings("names", not[:min(len(not), maxNamed)]))
	} else if !watched.IsZero() {
		fields = append(fields, zap.Duration("watchedAfter", max(0, watched.Sub(o.since)).Round(time.Millisecond)))
	}
	t.log.Info(names[o.refused].ended, fields...)
}

// unready reports whether an outage lasts long enough to make the daemon unready.
func (o *outage) unready(now time.Time) bool { return o.continued || now.Sub(o.since) >= lasting }

// logHeld logs what is held back: one line for each, or for streams that have the same to say.
func (t *Tracker) logHeld() {
	type kind struct{ message, reason string }
	streams := make(map[kind][]string)
	for _, n := range t.held {
		k := kind{n.message, n.reason}
		if !t.explains(n.stream) && !slices.Contains(streams[k], n.stream) {
			streams[k] = append(streams[k], n.stream)
		}
	}
	for _, n := range t.held {
		k := kind{n.message, n.reason}
		switch all := streams[k]; {
		case t.explains(n.stream):
			t.log.Debug(n.message, n.all()...)
		case len(all) == 1:
			t.log.Log(n.level, n.message, n.all()...)
		case len(all) > 1:
			streams[k] = nil
			fields := []zap.Field{
				zap.Int("streams", len(all)), zap.Strings("names", all[:min(len(all), maxNamed)]),
			}
			if n.reason != "" {
				fields = append(fields, zap.String("reason", n.reason))
			}
			if n.err != nil {
				fields = append(fields, zap.NamedError("error", cause(n.err)))
			}
			t.log.Log(n.level, n.message, fields...)
			fallthrough
		default:
			t.log.Debug(n.message, n.all()...)
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
	if t.outage == nil {
		return Outage{}
	}
	// Of the reason that most streams have: the one before may have found its connection cut, the others find none.
	common := commonOf(t.failures())
	o := Outage{Since: t.outage.since, Of: len(t.streams), Attempts: t.outage.attempts}
	if o.Streams, _ = t.failing(); o.Streams == 0 { // only the probes fail
		o.Streams = o.Of
	}
	o.Refused, o.Reason = common.Refused, common.Reason
	if common.Err != nil {
		o.Error = cause(common.Err).Error()
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
		return fmt.Errorf("%s; ready when it has been so for %s", names[t.refused].ended, calm)
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
	return fmt.Sprintf("%s for %s: %d of %d streams", names[o.Refused].is, now.Sub(o.Since).Round(time.Second),
		o.Streams, o.Of)
}
