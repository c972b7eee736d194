package watcher

import (
	"context"
	"fmt"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/failure"
)

// A stream's position is checkpoint.Stream, whose methods are the only transitions: a resourceVersion, and what is to
// be written before a watch can start from there. Once it is loaded, this file and relist.go move it, and adopt.go
// takes a leader's, when a batch is made that takes a copy to the checkpoint. Where Submit fails, the stream ends or
// loads its position again.

// moved notes a watch's progress up to the version rv, after which nothing was sent yet if it is confirmed.
func (s *Stream) moved(rv string, confirmed bool) *checkpoint.Stream {
	s.state.Move(rv)
	if s.pace.reached(rv) || confirmed {
		s.confirm()
	}
	s.progress, s.reason, s.habit.reason = true, "", ""
	s.progressed(func(n *Status) { n.Position, n.Failing, n.Reason = rv, time.Time{}, "" })
	return s.state.Clone()
}

// upToDate notes that the server is at the position, so that there is nothing to read.
func (s *Stream) upToDate() *checkpoint.Stream {
	s.pace.reached(s.state.ResourceVersion)
	s.confirm()
	return s.state.Clone()
}

// lose notes that the position is not valid any more. Before the first sync there is none to lose, and in a list only
// restored does.
func (s *Stream) lose(ctx context.Context, o failure.Outcome) error {
	s.m.WatchRestarts.WithLabelValues(s.resource.Group, s.resource.Resource, o.Reason).Inc()
	switch {
	case s.state.Valid():
		s.state.Lose(o.Gap())
	case s.state.PendingGap != line.PositionAheadOfServer || s.state.From() == "":
		return nil
	}
	s.state.Confirmed = s.lastConfirmed(time.Now())
	b := s.producer.Batch()
	b.Changes.State = s.state.Clone()
	return s.rec.Submit(ctx, b)
}

// restored notes, in the middle of a list, that a version has revealed a restore of the server. This replaces any other
// reason for a GAP. It returns failure.ErrAhead, with a text.
func (s *Stream) restored(version, format string, args ...any) error {
	s.state.Lose(line.PositionAheadOfServer)
	s.restoredAt = version
	return fmt.Errorf("%w: "+format, append([]any{failure.ErrAhead}, args...)...)
}

// listCompleted notes a complete list at the version rv, asked for at began, with all its lines written but the SYNCED
// line that says count. Without a count there is none to write.
func (s *Stream) listCompleted(rv string, count *line.Count, began time.Time) *checkpoint.Stream {
	s.state.Complete(rv, count)
	s.pace.goal = ""
	s.behind = false // a list stores what is missing
	s.seen = false   // the position says that all was seen
	s.unreadable.Forget()
	s.reason = s.habit.reason
	now := time.Now()
	s.lists.at, s.lists.version, s.lists.took = now, rv, now.Sub(began)
	s.progressed(func(n *Status) {
		n.Position, n.Synced, n.Failing, n.Unreadable = rv, n.Synced || count == nil, time.Time{}, ""
	})
	return s.state.Clone()
}

// writeSynced writes the SYNCED line of a list whose other lines are written.
func (s *Stream) writeSynced(ctx context.Context) error {
	b, now := s.producer.Batch(), time.Now()
	b.Term = s.state.Term
	raw := s.render.AppendSynced(b.Lines(), now, s.state.ResourceVersion, *s.state.Closing)
	b.AddLine(raw, line.Synced, "", now, nil)
	s.state.Apply(&checkpoint.Transition{
		Type: line.Synced, ResourceVersion: []byte(s.state.ResourceVersion), Time: now.UnixNano(),
		Count: s.state.Closing,
	}, &b.Changes)
	// The list has what was before it was asked for. What came while it was read is for the watch.
	var began time.Time
	if !s.lists.at.IsZero() {
		began = s.lists.at.Add(-s.lists.took)
		s.state.Confirmed = began.UnixNano()
	}
	s.pace.synced(began)
	b.Changes.State = s.state.Clone()
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	s.note(func(n *Status) { n.Synced = true })
	return s.rec.Flush(ctx)
}
