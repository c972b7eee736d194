package watcher

import (
	"context"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
)

// A stream's position is checkpoint.Stream: a resourceVersion, and what is to be
// written before a watch can start from there. Once it is loaded, only this file
// moves it; batches take copies to the checkpoint. It moves when a batch is made, before that is
// taken: Submit fails only when the stream ends.

// valid reports whether there is a position that a watch can start from.
func (s *Stream) valid() bool {
	return s.state.ResourceVersion != "" && s.state.Owed == "" && s.state.Open == nil
}

// owed is why the next list is a relist: the reason of a GAP line that is still
// to be written, or RelistInterrupted behind one that is; empty for a first sync.
func (s *Stream) owed() string {
	if s.state.Owed == "" && s.state.Open != nil {
		return reasonInterrupted
	}
	return s.state.Owed
}

// from is the version after which the reader has not been told everything.
func (s *Stream) from() string {
	if s.state.Open != nil {
		return s.state.Open.ResourceVersion
	}
	return s.state.ResourceVersion
}

// moved notes a watch's progress up to the version rv.
func (s *Stream) moved(rv string) checkpoint.Stream {
	s.state = checkpoint.Stream{ResourceVersion: rv}
	s.progress, s.reason = true, ""
	s.progressed(func(n *Status) { n.Position, n.Failing, n.Reason = rv, time.Time{}, "" })
	return s.state
}

// lose notes that the position is not valid any more. Before the first sync
// there is none to lose.
func (s *Stream) lose(ctx context.Context, reason string) error {
	s.restarted(reason)
	if !s.valid() {
		return nil
	}
	s.state.Owed = reason
	b := s.lane.Batch()
	state := s.state
	b.Changes.State = &state
	return s.rec.Submit(ctx, b)
}

// opened notes that the GAP line is written: from here to synced the
// stream's reader knows a part.
func (s *Stream) opened(rv string) checkpoint.Stream {
	s.state.Open = &checkpoint.Gap{FromResourceVersion: s.from(), ResourceVersion: rv}
	s.state.Owed = ""
	s.note(func(n *Status) { n.LastGap, n.Missed = time.Now(), 0 })
	return s.state
}

// told notes how many lines stand behind the open GAP, and of the
// highest version in them, for an attempt that goes on behind the same one.
func (s *Stream) told(c event.Count, reached string) checkpoint.Stream {
	open := *s.state.Open // a batch may hold the other one
	open.Added, open.Modified, open.Deleted = c.Added, c.Modified, c.Deleted
	if ahead(reached, open.ResourceVersion) {
		open.ResourceVersion = reached
	}
	s.state.Open = &open
	return s.state
}

// complete notes a complete list at the version rv, asked for at began,
// with all its lines written but the SYNCED line that says count. Without a count
// there is none to write.
func (s *Stream) complete(rv string, count *event.Count, began time.Time) *checkpoint.Stream {
	s.state = checkpoint.Stream{ResourceVersion: rv}
	if count != nil {
		closing := checkpoint.Count(*count)
		s.state.Closing = &closing
	}
	s.behind = false // a list keeps what is missing
	s.reason = ""
	now := time.Now()
	s.lists.at, s.lists.version, s.lists.took = now, rv, now.Sub(began)
	s.progressed(func(n *Status) { n.Position, n.Synced, n.Failing = rv, n.Synced || count == nil, time.Time{} })
	state := s.state
	return &state
}

// close writes the SYNCED line of a list whose other lines are written.
func (s *Stream) close(ctx context.Context) error {
	b, now := s.lane.Batch(), time.Now()
	line := s.render.AppendSynced(b.Lines(), now, s.state.ResourceVersion, event.Count(*s.state.Closing))
	b.AddLine(line, event.Synced, "", now)
	s.state.Closing = nil
	state := s.state
	b.Changes.State = &state
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	s.note(func(n *Status) { n.Synced = true })
	return s.rec.Flush(ctx)
}
