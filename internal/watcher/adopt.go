package watcher

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/takeover"
)

// Where several replicas journal the same streams, one of them writes (see package takeover). The others watch too, and
// list nothing by themselves: a replica without a position that it can watch from adopts the one that the leader has
// published. What the server had then are its known objects, and the next event is the first that it may have to write.
// So a replica that is new, or was down for long, takes over without a gap, as long as the server has that version.

// adoption is how a stream has come by published positions.
type adoption struct {
	position string    // the last one that it adopted
	failures int       // in a row
	refused  time.Time // when it last could not be adopted
	others   string    // of a leader that lists for the first time in its term: what was published before
}

// adoptionRest is how long a standby waits before it tries to adopt a position again, where one could not be.
const adoptionRest = time.Minute

// maxAdoptFailures is how often in a row, with pauses that double, adopting a position may fail in a way that may pass.
const maxAdoptFailures = 5

func (a *adoption) rests() bool { return time.Since(a.refused) < adoptionRest }

// failed records a failure, and reports whether the stream is to continue without: the server does not have this
// version, or does not list at an exact version, or has failed repeatedly in a way that another form of list may not.
func (a *adoption) failed(err error) bool {
	if isFatal(err) || !failure.BlamesForm(err) || errors.Is(err, takeover.ErrStandby) ||
		errors.As(err, new(*client.UnconfirmedError)) {
		return false
	}
	a.failures++
	if !client.IsExpired(err) && !errors.Is(err, failure.ErrNotExact) && !client.IsBadRequest(err) &&
		a.failures < maxAdoptFailures {
		return false
	}
	a.refused = time.Now()
	return true
}

// begin brings a stream without a valid position to one, or ends its list: what it does is for package takeover to
// decide. done says that a list has begun a watch, which has ended with the error.
func (s *Stream) begin(ctx context.Context) (done bool, err error) {
	own := takeover.Own{Stream: s.spec.Name}
	for {
		own.State, own.Adopted, own.Rests = &s.state, s.adoption.position, s.adoption.rests()
		next := s.rec.Replica().Next(own)
		switch next.Step {
		case takeover.Wait:
			s.setState(Starting, failure.ReasonStandby)
			select {
			case <-next.Term.Over():
			case <-ctx.Done():
				return false, ctx.Err()
			}
		case takeover.Adopt:
			err = s.adopt(ctx, next.Position)
			if err == nil || ctx.Err() != nil || failure.RefusesShards(s.spec.Target, err) || !s.adoption.failed(err) {
				return false, err
			}
			own.Failed = next.Term
			s.log.Info("cannot continue from the leader's position",
				zap.String("resourceVersion", next.Position.At), zap.Error(err))
		case takeover.Finish, takeover.List, takeover.Rewrite:
			return s.beginList(ctx, &next)
		}
	}
}

// sleepOnStandby is client.Sleep, and ends as soon as this replica is the leader.
func (s *Stream) sleepOnStandby(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		term := s.rec.Replica().Term()
		if !term.Follows() {
			return true
		}
		select {
		case <-term.Over():
		case <-ctx.Done():
			return errors.Is(ctx.Err(), context.DeadlineExceeded)
		}
	}
}

// beginList does what only the replica may do that writes.
func (s *Stream) beginList(ctx context.Context, next *takeover.Next) (done bool, err error) {
	if next.Restored {
		s.state.Lose(line.PositionAheadOfServer)
	}
	s.state.Restored = max(s.state.Restored, next.Position.Restored)
	if next.Step == takeover.Rewrite {
		if err := s.redeliver(ctx, next.Others); err != nil {
			return false, err
		}
	}
	s.state.Term = next.Number
	if next.Step == takeover.Finish {
		if err := s.writeSynced(ctx); err != nil || s.state.Valid() {
			return false, err
		}
		s.state.Term = next.Number
	}
	s.adoption.others = next.Position.At
	if err := s.rec.Replica().Declare(
		ctx, s.spec.Name, s.state.Term, s.state.PendingGap == line.PositionAheadOfServer, s.state.Restored,
	); err != nil {
		return false, err
	}
	return true, s.list(ctx)
}

// listsBack reports whether the list after the GAP of a restored server is not complete.
func (s *Stream) listsBack() bool {
	return s.state.Open != nil && s.state.Open.Reason == line.PositionAheadOfServer
}

// redeliver has the next list write a GAP and all objects, and a DELETED for each known one that it does not show.
// Where others have written, the journal has what this replica does not know.
func (s *Stream) redeliver(ctx context.Context, others bool) error {
	if err := s.rec.Flush(ctx); err != nil { // what was held up to this term is known too
		return err
	}
	next, back := *s.state.Clone(), s.state.PendingGap == line.PositionAheadOfServer || s.listsBack()
	if !back || others {
		next = checkpoint.Stream{PendingGap: line.CheckpointLost, Restored: s.state.Restored}
		if len(s.spec.IgnoreFields) > 0 { // else what others have changed, and changed back, would be held back
			if err := s.store.DropKept(s.spec.Name); err != nil {
				return err
			}
			if err := s.loadPrevious(ctx); err != nil {
				return err
			}
		}
	}
	if back { // of which the reader may not have heard yet
		next.Lose(line.PositionAheadOfServer)
	}
	b := s.producer.Batch()
	err := s.store.Range(s.spec.Name, func(k object.Known) error {
		if k.Doubtful {
			return nil
		}
		b.Changes.Redeliver(k)
		if b.Bytes() < batchBytes {
			return nil
		}
		full := b
		b = s.producer.Batch()
		return s.rec.Submit(ctx, full)
	})
	if err != nil {
		return err
	}
	s.state = next
	b.Changes.State = s.state.Clone()
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	return s.rec.Flush(ctx)
}

// adopt makes a published position the stream's own. It writes no line. A failure or a crash in the middle of it leaves
// known objects at one version or the other, and no position: if it is this replica that lists next, it writes all
// objects.
func (s *Stream) adopt(ctx context.Context, published takeover.Position) error {
	position, restored := published.At, published.Restored
	if s.adoption.refused.IsZero() { // else it still waits for the leader
		s.setState(Listing, s.reason)
	}
	r, err := s.openRelist(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if known := r.diff.Known; known != nil &&
		(restored > s.state.Restored || s.state.PendingGap == line.CheckpointLost) {
		r.diff.Known = func(namespace, name string) (object.Known, bool, error) {
			k, ok, err := known(namespace, name)
			k.Doubtful = true // versions have started over, perhaps before an attempt that failed
			return k, ok, err
		}
	}
	r.origin, r.skip, r.adopts, r.state = line.FromRelist, true, true, checkpoint.Stream{
		PendingGap: line.CheckpointLost, Restored: restored,
	}
	o := v1.ListOptions{Limit: pageSize, ResourceVersion: position, ResourceVersionMatch: v1.ResourceVersionMatchExact}
	if _, err := r.readPages(ctx, o); err != nil {
		return err
	}
	if err := r.conclude(ctx, position); err != nil {
		return err
	}
	s.state, s.adoption = checkpoint.Stream{Restored: restored}, adoption{position: position}
	r.batch.Changes.State = s.listCompleted(position, nil, r.began)
	s.encoder.Complete(r.batch)
	s.pace = pace{}
	if err := r.submit(ctx); err != nil {
		return err
	}
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.log.Info("continuing from the leader's position", zap.String("resourceVersion", position))
	return s.recount()
}
