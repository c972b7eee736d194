// Package watcher is one Stream: it lists and watches one resource and hands its lines to a recorder.
//
// Replayed in order, a stream's lines give the server's live objects. docs/design.md has the guarantee, the states of a
// stream, relists, pauses, and what a crash leaves behind.
//
// A position is a resourceVersion up to which everything is in the journal. It moves with each event and bookmark of a
// watch, also with an event that a filter keeps out of the journal, and at the end of a complete list; never within a
// list, whose objects do not come in the order of versions.
package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/decode"
	"kubejournal/internal/record/encode"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/previous"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/takeover"
)

// Recorder takes a stream's lines, with what they make known.
type Recorder interface {
	// Submit takes a batch; after an error it was not taken: ctx has ended, or takeover.ErrStandby.
	Submit(context.Context, *recorder.Batch) error
	// Pulse notes after what was submitted what a stream has confirmed that has nothing to write. It never waits.
	Pulse(*recorder.Producer, checkpoint.Coverage)
	// Flush waits until all that was submitted is committed, but for what a standby holds.
	Flush(context.Context) error
	// Restart is Flush for a stream that takes its position from the checkpoint, where what is held is dropped.
	Restart(context.Context, *recorder.Producer) error
	// Replica is this one of several, of which one writes; nil where there is one. See adopt.go.
	Replica() *takeover.Replica
}

// Store reads what was committed.
type Store interface {
	Stream(name string) (checkpoint.Stream, bool, error)
	Get(stream, namespace, name string) (object.Known, bool, error)
	Empty(stream string) (bool, error)
	Range(stream string, fn func(object.Known) error) error
	Count(stream string) (int, error)
	previous.Checkpoint
}

// Spec says what a stream reads and how it writes.
type Spec struct {
	Name    string // identity in lines and checkpoint: resource, group and scope, no version
	IDScope string // in the ids of objects, see object.Renderer.Distinguish
	Target  client.Target
	Kind    string

	Namespaced  bool   // each object is in a namespace
	Owed        bool   // without a position, the stream is one that a lost checkpoint had
	SkipInitial bool   // what exists at first sight is taken as known, without lines
	Cluster     string // stamped on every line
	ClusterUID  string // stamped on GAP and SYNCED lines
	encode.Options
	Silence time.Duration // how long a watch may bring nothing where the server sends bookmarks; 0: watchSilence
}

// PendingError is why a stream cannot run for now.
type PendingError struct {
	Reason string
	Err    error
}

func (e *PendingError) Error() string { return e.Err.Error() }

func (e *PendingError) Unwrap() error { return e.Err }

// Stream is one resumable watch. Run is its goroutine and owns all fields but report, which has a lock. While it waits
// for a watch, Pulse may use them.
type Stream struct {
	report
	spec     Spec
	client   *client.Client
	store    Store
	rec      Recorder
	outages  *outage.Tracker
	producer *recorder.Producer
	render   *object.Renderer
	previous *previous.Store // nil: nothing is compared
	decoder  *decode.Decoder
	encoder  *encode.Encoder
	log      *zap.Logger

	state      checkpoint.Stream // the position, see position.go
	adoption   adoption
	habit      habit
	restoredAt string // the server version that revealed a restore; goes into the GAP line
	pace       pace
	lists      lists
	blind      blind
	attempts

	seen       bool // everything readable was listed once: from then on nothing is a first sight
	unreadable detour.Unreadable

	order order // what the events of the current watch must come after

	idleMu sync.Mutex
	idle   time.Time // since when it waits for a watch; zero while it does not; guarded by idleMu

	object  object.Object // scratch: the object being looked at
	listed  []byte        // scratch: namespace and name of the last object of a page
	version []byte        // scratch: the version that a batch moves the position to
}

// attempts is how the sessions of a stream have gone until now.
type attempts struct {
	loaded    bool   // the position was taken from the checkpoint
	progress  bool   // the session has brought an event or a bookmark
	reason    string // why the last session failed, "" once one has made progress
	unreached bool   // no API server has answered since the start, or since a session failed
	refused   int    // how often in a row the server has refused the position, or sent nothing usable from there
	bookmarks bool   // the server sends them: set by one, taken back by a watch that was silent for too long
	behind    bool   // there may be known objects of which nothing is stored
	catchUps  int    // how often in a row the stream has tried to store that
	backoff   client.Backoff
}

// Distinguish changes IDScope while the stream runs.
func (s *Stream) Distinguish(scope string) { s.render.Distinguish(scope) }

// NewStream returns a stream that has not started.
func NewStream(
	spec Spec, client *client.Client, store Store, rec Recorder, outages *outage.Tracker, m *metrics.Metrics,
	log *zap.Logger,
) (*Stream, error) {
	gvr := spec.Target.Resource
	if spec.Silence == 0 {
		spec.Silence = watchSilence
	}
	s := &Stream{
		report: report{m: m, stream: spec.Name, resource: gvr.GroupResource()},
		spec:   spec, client: client, store: store, rec: rec, outages: outages,
		producer: recorder.NewProducer(spec.Name,
			m.Events.MustCurryWith(prometheus.Labels{"group": gvr.Group, "resource": gvr.Resource})),
		log: log.With(zap.String("stream", spec.Name)),
	}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("stream %s: %w", spec.Name, err)
	}
	m.Events.WithLabelValues(gvr.Group, gvr.Resource, string(line.Gap), "") // at 0, so that a query sees the first one
	s.setState(Starting, "")
	return s, nil
}

// prepare makes what reads and writes the stream's objects.
func (s *Stream) prepare() (err error) {
	spec, gvr := &s.spec, s.spec.Target.Resource
	s.render, err = object.NewRenderer(object.Source{
		Stream: spec.Name, Cluster: spec.Cluster, ClusterUID: spec.ClusterUID,
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: spec.Kind,
	}, spec.Shape)
	if err != nil {
		return err
	}
	s.render.Distinguish(spec.IDScope)
	if s.decoder, err = decode.New(spec.Target, spec.Kind, spec.Namespaced, s.render, s.m, s.log); err != nil {
		return err
	}
	s.previous, err = previous.New(previous.Config{
		Stream: spec.Name, Changes: spec.Changes, IgnoreFields: spec.IgnoreFields, Shape: spec.Shape,
		Payload: spec.Payload, ExcludeNamespaces: spec.Selection.ExcludeNamespaces,
		APIVersion:   gvr.GroupVersion().String(),
		EveryVersion: spec.Selection.Filter == "" && spec.Selection.Types == nil,
	}, s.store, s.producer.Committed, s.log)
	if err != nil {
		return err
	}
	s.encoder, err = encode.New(spec.Target, &spec.Options, s.render, s.previous, s.m, s.log)
	return err
}

// Run reads until ctx ends (nil) or the stream cannot run for now (*PendingError). Any other error is the end of the
// daemon: the checkpoint could not be read, or another cluster answers (*client.ClusterError).
func (s *Stream) Run(ctx context.Context) error {
	defer func() { s.encoder.SetTracked(0) }()
	s.outages.Join(s.spec.Name)
	pending := false
	defer func() { s.outages.Leave(s.spec.Name, pending) }()
	s.unreached = true
	for {
		began := time.Now()
		s.progress = false
		err := s.session(ctx)
		switch {
		case isFatal(err):
			return err
		case failure.RefusesShards(s.spec.Target, err):
			s.log.Info("the server rejects the shard selector, selecting in the daemon", zap.Error(err))
			s.spec.Target.Shard = client.Shard{}
			continue
		case errors.Is(err, takeover.ErrStandby):
			s.loaded = false // what was read since the checkpoint is gone
		}
		o := failure.Classify(ctx, err)
		healthy := s.noteEnd(&o, err, time.Since(began))
		atOnce := false
		switch o.Action {
		case failure.Stop:
			return nil
		case failure.Wait:
			s.setState(Pending, o.Reason)
			pending = true
			return &PendingError{Reason: o.Reason, Err: err}
		case failure.Relist:
			atOnce = s.losePosition(ctx, &o, err)
		case failure.Retry:
			atOnce = s.endWatch(&o, err, healthy)
		}
		if atOnce {
			continue
		}
		s.reason = o.Reason
		s.setState(Retrying, o.Reason)
		pause := client.Sleep
		if errors.Is(err, takeover.ErrStandby) {
			pause = s.sleepOnStandby
		}
		if !pause(ctx, s.backoff.Pause(o.After)) {
			return nil
		}
	}
}

// session lists if it must, and watches until that ends. It always returns an error: the reason.
func (s *Stream) session(ctx context.Context) error {
	if !s.loaded {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := s.producer.WithRefusal(ctx)
	defer cancel(nil)
	err := s.read(ctx)
	if errors.Is(context.Cause(ctx), takeover.ErrStandby) && !isFatal(err) {
		return takeover.ErrStandby
	}
	return err
}

// load takes the position from the checkpoint, once that has all that an earlier run of the same stream has submitted.
func (s *Stream) load(ctx context.Context) error {
	if err := s.rec.Restart(ctx, s.producer); err != nil {
		return err
	}
	s.encoder.Reset()
	st, _, err := s.store.Stream(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	if s.spec.Owed && st == (checkpoint.Stream{}) {
		st.Lose(line.CheckpointLost)
	}
	s.state = st
	if err := s.loadPrevious(ctx); err != nil {
		return err
	}
	if err := s.recount(); err != nil {
		return err
	}
	if s.state.Valid() {
		s.outages.Note(s.spec.Name, zapcore.InfoLevel, "resuming", "", nil,
			zap.String("resourceVersion", st.ResourceVersion))
	}
	s.note(func(n *Status) {
		n.Position, n.Synced = st.ResourceVersion, s.state.Valid() && st.Closing == nil
	})
	s.loaded = true
	return nil
}

// recount takes the number of known objects from the checkpoint, which has all that was submitted.
func (s *Stream) recount() error {
	n, err := s.store.Count(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	s.encoder.SetTracked(n)
	return nil
}

// known returns what the checkpoint knows of an object.
func (s *Stream) known(namespace, name string) (object.Known, bool, error) {
	k, ok, err := s.store.Get(s.spec.Name, namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	return k, ok, err
}

// eachKnown calls fn with each object that the checkpoint knows, until it fails.
func (s *Stream) eachKnown(fn func(object.Known) error) (err error) {
	var failed error
	err = s.store.Range(s.spec.Name, func(k object.Known) error {
		failed = fn(k)
		return failed
	})
	if err != nil && failed == nil {
		err = fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	return err
}

// read is a session of a stream whose position is loaded.
func (s *Stream) read(ctx context.Context) error {
	if !s.state.Valid() || s.state.Closing != nil {
		if done, err := s.begin(ctx); done || err != nil {
			return err
		}
	}
	if s.behind {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
	}
	current, err := s.checkAhead(ctx)
	if err != nil {
		s.refused = 0
		return err
	}
	began := time.Now()
	return s.checkBlind(ctx, s.checkRefused(ctx, current, began, s.watch(ctx)))
}

// isFatal reports whether a session's error ends the daemon.
func isFatal(err error) bool {
	return errors.Is(err, failure.ErrStore) || errors.As(err, new(*client.ClusterError))
}

// noteEnd notes how a session that lasted so long ended: in the backoff, in the server's habits, which may put off the
// next session, and in the status. It reports whether the session lasted long enough to count as healthy.
func (s *Stream) noteEnd(o *failure.Outcome, err error, lasted time.Duration) (healthy bool) {
	if f, serverFails := failure.Of(s.spec.Name, err); f.Answered && !f.Refused && !serverFails {
		s.reached()
	}
	healthy = lasted >= client.HealthyAfter
	if healthy && s.progress {
		s.backoff.Reset()
		s.habit.times = 0
	}
	if o.Clean && lasted >= habitShown {
		s.habit = habit{}
	}
	if o.Habit {
		o.After = max(o.After, s.habit.seen(o.Reason))
	}
	s.note(func(n *Status) {
		if healthy && n.State == Watching {
			n.Failing = time.Time{} // it did work, even if there was nothing to see
			return
		}
		if n.Failing.IsZero() {
			n.Failing, n.Failures = time.Now(), 0
		}
		n.Failures++
		n.Ours = failure.IsOurs(o.Reason, s.spec.Target)
	})
	return healthy
}

// losePosition gives up the position, and reports whether the stream lists at once: unless it was a list that failed,
// or the last one was just now.
func (s *Stream) losePosition(ctx context.Context, o *failure.Outcome, err error) (atOnce bool) {
	rest := s.lists.rest()
	atOnce = s.state.Valid() && rest <= 0 && o.After <= 0
	if lost := s.lose(ctx, *o); lost != nil {
		s.loaded = false
		return true // the next session loads the position again, or ctx has ended
	}
	s.outages.Lost(s.spec.Name, o.Reason, err)
	o.After = max(o.After, rest)
	return atOnce
}

// endWatch notes that a session ended whose position stays valid, and reports whether the next one begins at once:
// after a healthy watch that the server ended.
func (s *Stream) endWatch(o *failure.Outcome, err error, healthy bool) (atOnce bool) {
	if failure.IsUnreadable(err) {
		o.After = max(o.After, s.lists.around)
	}
	s.m.WatchRestarts.WithLabelValues(s.resource.Group, s.resource.Resource, o.Reason).Inc()
	if errors.Is(err, client.ErrSilent) || errors.Is(err, client.ErrNoAnswer) {
		s.client.CloseIdleConnections()
	}
	if o.Clean && healthy {
		if !s.bookmarks {
			s.progressed(nil)
		}
		return true
	}
	if failure, serverFails := failure.Of(s.spec.Name, err); serverFails {
		s.unreached = true
		s.outages.Failed(failure)
	} else {
		s.outages.Note(s.spec.Name, zapcore.WarnLevel, "watch ended, trying again", o.Reason, err)
	}
	return false
}

// reached notes that the API server has answered.
func (s *Stream) reached() {
	if s.unreached {
		s.unreached = false
		s.outages.Reached(s.spec.Name)
	}
}

// checkAhead returns the server's version, or failure.ErrAhead when that has not yet reached the position. Versions
// that are not numbers cannot be compared and pass.
func (s *Stream) checkAhead(ctx context.Context) (current string, err error) {
	asked, term := time.Now(), s.rec.Replica().Term()
	s.restoredAt = ""
	current, err = s.currentVersion(ctx, s.state.ResourceVersion)
	if err != nil {
		return "", err
	}
	s.pace.goal, s.pace.asked = current, asked
	if line.Later(s.state.ResourceVersion, current) {
		err = fmt.Errorf("%w: %s, the server is at %s", failure.ErrAhead, s.state.ResourceVersion, current)
		s.restoredAt = current
		return "", s.attest(ctx, err)
	}
	published := term.Position(s.spec.Name)
	if !term.Follows() || published.At != "" { // a position that the server has passed is not looked at again
		s.state.Restored = max(s.state.Restored, published.Restored)
	}
	if current != s.state.ResourceVersion {
		return current, nil
	}
	s.progressed(nil)
	b := s.producer.Batch()
	b.Changes.State = s.upToDate()
	return current, s.rec.Submit(ctx, b)
}

const (
	// maxRefused is how often in a row the position must be refused, each time but the first with the current version
	// accepted right after it, before it is given up: an accident, or one bad server behind a balancer, refuses either.
	maxRefused  = 6
	refusalTime = 10 * time.Second // how soon after its request a watch ends that is refused
)

// checkRefused returns failure.ErrRefused in the place of a watch's error, where the server refuses to watch from the
// position again and again and would from its current version: a position that it calls malformed (the resource has
// moved to another server, say), or one with an event after it that cannot be read. Where it refuses any watch, the
// position is not at fault, and the history after it may be there.
func (s *Stream) checkRefused(ctx context.Context, current string, began time.Time, err error) error {
	suspect := !s.progress && failure.BlamesPosition(err) && time.Since(began) <= refusalTime &&
		current != s.state.ResourceVersion
	if !suspect || s.refused > 0 && !s.canWatch(ctx, current) {
		s.refused = 0
		return err
	}
	if s.refused++; s.refused < maxRefused {
		return err
	}
	s.refused = 0
	if s.state.ResourceVersion == s.lists.version { // it is what the last list has given
		s.lists.failed(true)
	}
	return fmt.Errorf("%w: %w", failure.ErrRefused, err)
}
