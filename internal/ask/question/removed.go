package question

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// removed returns a doubt for each namespace and stream whose lines were removed to make room for others, in some
// segments and between two moments, each of which may be zero. What is left of such a segment is as it was. Segments
// after the last one count if they may have lines of changes that were made by the second moment.
func (j *Journal) removed(
	ctx context.Context, s *argument.Selection, first, last int, since, until argument.Moment,
) (doubts []Doubt, err error) {
	waits, longest := j.waits(s, until), time.Time{}
	for _, end := range waits {
		longest = latest(longest, end)
	}
	for i := first; i < len(j.Segments); i++ {
		if i > last {
			if outside, err := j.Outside(ctx, i, argument.Moment{}, argument.Moment{Time: longest}); err != nil {
				return nil, err
			} else if outside || longest.IsZero() {
				continue
			}
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		for r, err := range x.Removals() {
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			if r.Stream == line.Journal || !s.MayHave(r.Stream) || !s.MayHaveIn(r.Namespace) {
				continue // of whole files the journal's beginning says more
			}
			if i == first && r.Before.Seq > 0 {
				// Of a segment before, perhaps one that is gone: what was there then has no line any more.
				doubts = append(doubts, removedDoubt(&r))
			}
			for _, at := range r.Lines {
				d := removedDoubt(&r)
				var within bool
				if within, d.From, d.To, err = j.removedWithin(ctx, i, at, since, until, waits[r.Stream]); err != nil {
					return nil, err
				} else if within {
					doubts = mergeRemoved(doubts, d)
				}
			}
		}
	}
	return doubts, nil
}

// RemovedBefore returns a doubt for each namespace and stream of which lines were removed before a moment that may
// have said what was there; the zero Moment is the end.
func (j *Journal) RemovedBefore(ctx context.Context, s *argument.Selection, at argument.Moment) ([]Doubt, error) {
	return archive.Again(j.Journal, func() ([]Doubt, error) {
		if len(j.Segments) == 0 {
			return nil, nil
		}
		if at.IsZero() {
			at = argument.Latest()
		}
		c, err := j.cut(ctx, s, at)
		if err != nil {
			return nil, err
		}
		first, last, err := j.span(ctx, c)
		if err == nil {
			first, err = j.Base(ctx, first)
		}
		if err != nil {
			return nil, err
		}
		return j.removed(ctx, s, first, last, argument.Moment{}, c.Moment)
	})
}

// removedWithin reports whether some of the lines in whose place a line stands may have been between two moments,
// each of which may be zero, and from when to when they were. waits is until when lines were received that may
// have been made by the second moment, though they need not say so. Of several journals others stand between them,
// and any may be.
func (j *Journal) removedWithin(
	ctx context.Context, segment, at int, since, until argument.Moment, waits time.Time,
) (is bool, from, to time.Time, err error) {
	x, err := j.Index(ctx, segment)
	if err != nil {
		return false, from, to, err
	}
	l, err := x.Line(at)
	next := index.Line{Seq: x.Next, Time: x.Newest}
	if err == nil && at+1 < x.Lines {
		next, err = x.Line(at + 1)
	}
	if err != nil {
		return false, from, to, fmt.Errorf("read index: %w", err)
	}
	if !j.Merged() && (since.Seq > 0 && since.Seq >= next.Seq || until.Seq > 0 && until.Seq <= l.Seq) {
		return false, from, to, nil
	}
	until = until.OfTime()
	begins := !l.Time.Before(since.Time) && (until.IsZero() || !l.Time.After(until.Time))
	if !j.Merged() && begins && !next.Time.Before(l.Time) {
		return true, l.Time, next.Time, nil
	}
	// The clock may have been set, or lines came late: the line says when that was.
	f, err := j.LineIn(ctx, segment, &l)
	if err != nil {
		return false, from, to, err
	}
	span, _ := f.Removed()
	outside := span.ToTime.Before(since.Time) || !until.IsZero() && span.FromTime.After(latest(until.Time, waits))
	return j.Merged() || !outside, span.FromTime, span.ToTime, nil
}

// waits returns until when lines of streams were received that may have been made by a moment.
func (j *Journal) waits(s *argument.Selection, m argument.Moment) map[string]time.Time {
	ends := make(map[string]time.Time)
	if m = m.OfTime(); m.IsZero() {
		return ends
	}
	streams, _ := j.Coverage(s) // what is not known is in doubt
	for i := range streams {
		if in, end, _ := waitsAt(&streams[i], m); in != nil {
			ends[streams[i].Name] = end
		}
	}
	return ends
}

func removedDoubt(r *index.Removal) Doubt {
	what := fmt.Sprintf("lines of namespace %s were removed, since it took most room", r.Namespace)
	if r.Namespace == "" {
		what = "lines were removed, since they took most room"
	}
	return Doubt{Stream: r.Stream, Reason: what}
}

// mergeRemoved adds a doubt to one that says the same of another time.
func mergeRemoved(doubts []Doubt, d Doubt) []Doubt {
	n := slices.IndexFunc(doubts, func(o Doubt) bool { return o.Stream == d.Stream && o.Reason == d.Reason })
	if n < 0 {
		return append(doubts, d)
	}
	o := &doubts[n]
	if o.To.IsZero() {
		return doubts // of any time
	}
	if d.From.Before(o.From) {
		o.From = d.From
	}
	if d.To.After(o.To) {
		o.To = d.To
	}
	return doubts
}
