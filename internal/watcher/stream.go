package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/changes"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/metrics"
	"kubejournal/internal/recorder"
)

// Recorder takes a stream's lines, with what they make known.
type Recorder interface {
	// Submit takes a batch; after an error it was not taken.
	Submit(context.Context, *recorder.Batch) error
	// Flush waits until all that was submitted is committed.
	Flush(context.Context) error
}

// Store tells what was committed.
type Store interface {
	Lost() (bool, error)
	ClearLost() error
	Stream(name string) (checkpoint.Stream, bool, error)
	Get(stream, namespace, name string) (event.Known, bool, error)
	Empty(stream string) (bool, error)
	Range(stream string, fn func(event.Known) error) error
	Count(stream string) (int, error)
	changes.Checkpoint
}

// Spec says what a stream reads and how it writes.
type Spec struct {
	Name   string // identity in lines and checkpoint: resource, group and scope, no version
	Target kubeclient.Target
	Kind   string
	// SkipInitial takes what exists at first sight as known, without lines.
	SkipInitial bool
	Cluster     string // stamped on every line
	ClusterUID  string // stamped on GAP and SYNCED lines
	Shape       event.Shape
	Selection   Selection
	Payload     event.Payload
	Changes     bool // MODIFIED lines say which fields changed
	// IgnoreFields are paths; a MODIFIED in which nothing else changed is not written.
	IgnoreFields []string
	MaxLineBytes int // as in event.Line
	// Silence is how long a watch may bring nothing where the server sends
	// bookmarks; 0 is three times their usual interval.
	Silence time.Duration
}

// PendingError is why a stream cannot run for now.
type PendingError struct {
	Reason string
	Err    error
}

func (e *PendingError) Error() string { return e.Err.Error() }
func (e *PendingError) Unwrap() error { return e.Err }

// Stream is one resumable watch. Run is its goroutine and owns all fields but
// report, which has a lock.
type Stream struct {
	report
	spec     Spec
	client   *kubeclient.Client
	store    Store
	rec      Recorder
	producer *recorder.Producer
	render   *event.Renderer
	encoder  *encoder
	log      *zap.Logger

	state checkpoint.Stream // the position, see position.go
	lists lists
	attempts

	object  event.Object // scratch: the object being looked at
	version []byte       // scratch: the version that a batch moves the position to
}

// attempts is how the sessions of a stream have gone until now.
type attempts struct {
	loaded   bool   // the position was taken from the checkpoint
	progress bool   // the session has brought an event or a bookmark
	reason   string // why the last session failed, "" once one has made progress
	// refused is how often in a row the server has refused to watch from the
	// position, or sent nothing usable from there.
	refused int
	// bookmarks is set by one: the server sends them. A watch that was silent
	// for too long takes it back.
	bookmarks bool
	backoff   kubeclient.Backoff
	behind    bool // there may be known objects of which nothing is kept
	tried     int  // how often to catch up with that
}

// lists is the form of the next list, and when the last one was complete.
type lists struct {
	form    listForm
	at      time.Time
	version string        // that it gave
	took    time.Duration // from its request to its last line being written
}

// NewStream returns a stream that has not started.
func NewStream(spec Spec, client *kubeclient.Client, store Store, rec Recorder, m *metrics.Metrics, log *zap.Logger) (*Stream, error) {
	gvr := spec.Target.Resource
	render, err := event.NewRenderer(event.Source{
		Stream: spec.Name, Cluster: spec.Cluster, ClusterUID: spec.ClusterUID,
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: spec.Kind,
	}, spec.Shape)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", spec.Name, err)
	}
	s := &Stream{
		report: report{m: m, stream: spec.Name, resource: gvr.GroupResource()},
		spec:   spec, client: client, store: store, rec: rec, render: render,
		producer: recorder.NewProducer(spec.Name, m.Events.MustCurryWith(prometheus.Labels{"group": gvr.Group, "resource": gvr.Resource})),
		log:      log.With(zap.String("stream", spec.Name)),
	}
	if s.spec.Silence == 0 {
		s.spec.Silence = watchSilence
	}
	if s.encoder, err = s.newEncoder(); err != nil {
		return nil, fmt.Errorf("stream %s: %w", spec.Name, err)
	}
	s.setState(Starting, "")
	return s, nil
}

// newEncoder returns what makes the stream's lines.
func (s *Stream) newEncoder() (e *encoder, err error) {
	spec, gvr := &s.spec, s.spec.Target.Resource
	e = &encoder{
		render: s.render, tracked: tracked{gauge: s.m.Tracked.WithLabelValues(gvr.Group, gvr.Resource)}, filtered: s.m.Filtered.WithLabelValues(gvr.Group, gvr.Resource),
		form: event.Line{Payload: spec.Payload, MaxBytes: spec.MaxLineBytes},
	}
	if only := spec.Selection; only.Types != nil || only.ExcludeNamespaces != nil || only.Filter != "" {
		if e.sel, err = newSelector(only, s.m.FilterErrors.WithLabelValues(gvr.Group, gvr.Resource), s.log); err != nil {
			return nil, err
		}
	}
	e.previous, err = changes.New(changes.Config{
		Stream: spec.Name, Changes: spec.Changes, IgnoreFields: spec.IgnoreFields, Shape: spec.Shape, Payload: spec.Payload,
		ExcludeNamespaces: spec.Selection.ExcludeNamespaces,
	}, s.store, s.producer.Committed, s.log)
	return e, err
}

// load takes the position from the checkpoint, once that has all that an
// earlier run of the same stream has submitted.
func (s *Stream) load(ctx context.Context) error {
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	st, _, err := s.store.Stream(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	lost, err := s.store.Lost()
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if lost && st == (checkpoint.Stream{}) {
		st.Lose(event.CheckpointLost)
	}
	s.state = st
	if err := s.loadPrevious(ctx); err != nil {
		return err
	}
	if err := s.recount(); err != nil {
		return err
	}
	if s.state.Valid() {
		s.log.Info("resuming", zap.String("resourceVersion", st.ResourceVersion))
	}
	s.note(func(n *Status) {
		n.Position, n.Synced = st.ResourceVersion, s.state.Valid() && st.Closing == nil
	})
	return nil
}

// recount takes the number of known objects from the checkpoint, which has all
// that was submitted.
func (s *Stream) recount() error {
	n, err := s.store.Count(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	s.encoder.tracked.set(n)
	return nil
}

// Status reports the stream's state. Safe for concurrent use.
func (s *Stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Lines = s.producer.Lines()
	return status
}

// Run reads until ctx ends (nil) or the stream cannot run for now
// (*PendingError). Any other error is the end of the daemon: the checkpoint
// could not be read, or another cluster answers (*kubeclient.ClusterError).
func (s *Stream) Run(ctx context.Context) error {
	defer s.encoder.tracked.set(0)
	for {
		began := time.Now()
		s.progress = false
		err := s.session(ctx)
		if errors.Is(err, errStore) || errors.As(err, new(*kubeclient.ClusterError)) {
			return err
		}
		o := classify(ctx, err)
		healthy := time.Since(began) >= kubeclient.HealthyAfter
		if healthy && s.progress {
			s.backoff.Reset()
		}
		s.worked(healthy && s.Status().State == Watching)
		switch o.action {
		case actionStop:
			return nil
		case actionWait:
			s.setState(Pending, o.reason)
			return &PendingError{Reason: o.reason, Err: err}
		case actionRelist:
			// At once, unless it was a list that failed, or the last one was
			// just now.
			rest := s.listRest()
			atOnce := s.state.Valid() && rest <= 0
			if err := s.lose(ctx, o.reason); err != nil {
				return nil // ctx has ended
			}
			s.log.Warn("position is no longer valid, listing again", zap.String("reason", o.reason), zap.Error(err))
			if atOnce {
				continue
			}
			o.after = max(o.after, rest)
		case actionRetry:
			s.restarted(o.reason)
			if errors.Is(err, kubeclient.ErrSilent) || errors.Is(err, kubeclient.ErrNoAnswer) {
				s.client.CloseIdleConnections()
			}
			if o.clean && healthy {
				if !s.bookmarks {
					s.caughtUp()
				}
				continue
			}
			s.log.Warn("watch ended, trying again", zap.String("reason", o.reason), zap.Error(err))
		}
		s.reason = o.reason
		s.setState(Retrying, o.reason)
		if !kubeclient.Sleep(ctx, s.backoff.Pause(o.after)) {
			return nil
		}
	}
}

// maxListRest bounds the pause that a long list makes before the next.
const maxListRest = 5 * time.Minute

// listRest is how long from now the next list has to wait, so that a server
// that forgets its history again and again is not asked for lists all the time:
// at most a third of it goes into them.
func (s *Stream) listRest() time.Duration {
	if s.lists.at.IsZero() {
		return 0
	}
	return max(kubeclient.HealthyAfter, min(2*s.lists.took, maxListRest)) - time.Since(s.lists.at)
}

// session lists if it must, and watches until that ends. It always returns an
// error: the reason.
func (s *Stream) session(ctx context.Context) error {
	if !s.loaded {
		if err := s.load(ctx); err != nil {
			return err
		}
		s.loaded = true
	}
	if s.state.Closing != nil {
		if err := s.writeSynced(ctx); err != nil {
			return err
		}
	}
	if !s.state.Valid() {
		return s.list(ctx)
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
	return s.checkRefused(ctx, current, began, s.watch(ctx))
}

// checkAhead returns the server's version, or errAhead when that has not yet
// reached the position. Versions that are not numbers cannot be compared and pass.
func (s *Stream) checkAhead(ctx context.Context) (current string, err error) {
	current, err = s.client.Version(ctx, s.spec.Target)
	if err != nil {
		return "", err
	}
	if event.Later(s.state.ResourceVersion, current) {
		err = fmt.Errorf("%w: %s, the server is at %s", errAhead, s.state.ResourceVersion, current)
		return "", s.attest(ctx, err)
	}
	if current == s.state.ResourceVersion {
		s.caughtUp()
	}
	return current, nil
}

const (
	// maxRefused is how often in a row the position must be refused, each time
	// but the first with the current version accepted right after it, before it
	// is given up: an accident, or one bad server behind a balancer, refuses
	// either.
	maxRefused = 6
	// refusalTime is how soon after its request a watch ends that is refused.
	refusalTime = 10 * time.Second
)

// checkRefused returns errRefused in the place of a watch's error, where the
// server refuses to watch from the position again and again and would from its
// current version: a position that it calls malformed (the resource has moved
// to another server, say), or one with an event behind it that cannot be read.
// Where it refuses any watch, the position is not at fault, and the history behind
// it may be there.
func (s *Stream) checkRefused(ctx context.Context, current string, began time.Time, err error) error {
	if s.progress || !blamesPosition(err) || time.Since(began) > refusalTime || current == s.state.ResourceVersion {
		s.refused = 0
		return err
	}
	if s.refused++; s.refused == 1 {
		return err
	}
	if s.tryWatch(ctx, current) != nil {
		s.refused = 0
		return err
	}
	if s.refused < maxRefused {
		return err
	}
	s.refused = 0
	if s.state.ResourceVersion == s.lists.version {
		// It is what the last list has given.
		s.lists.form.failed(time.Now(), true)
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}
