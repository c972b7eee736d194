package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// removed returns a doubt for each namespace and stream of which lines were removed to make room for others, in some
// segments and between two moments, each of which may be zero. What is left of such a segment is as it was. Segments
// behind the last one count as far as they may have lines that were made by the second moment.
func (j *Journal) removed(
	ctx context.Context, s *Selection, first, last int, since, until Moment,
) (doubts []Doubt, err error) {
	waits, longest := j.waits(s, until), time.Time{}
	for _, end := range waits {
		longest = latest(longest, end)
	}
	for i := first; i < len(j.segments); i++ {
		if i > last {
			if outside, err := j.outside(ctx, i, Moment{}, Moment{Time: longest}); err != nil {
				return nil, err
			} else if outside || longest.IsZero() {
				continue
			}
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		for r, err := range x.Removals() {
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			if r.Stream == line.Journal || !s.mayHave(r.Stream) || !s.mayHaveIn(r.Namespace) {
				continue // of whole files the journal's beginning says more
			}
			if i == first && r.Before.Seq > 0 {
				// Of a segment before, perhaps one that is gone: what was there then has no line any more.
				doubts = append(doubts, removedDoubt(&r))
			}
			for _, at := range r.Lines {
				d := removedDoubt(&r)
				var within bool
				if within, d.From, d.To, err = j.removedWithin(i, at, since, until, waits[r.Stream]); err != nil {
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
func (j *Journal) RemovedBefore(ctx context.Context, s *Selection, at Moment) ([]Doubt, error) {
	return again(j, func() ([]Doubt, error) {
		if len(j.segments) == 0 {
			return nil, nil
		}
		if at.IsZero() {
			at = Latest()
		}
		c, err := j.cut(ctx, s, at)
		if err != nil {
			return nil, err
		}
		first, last, err := j.span(ctx, c)
		if err == nil {
			first, err = j.base(ctx, first)
		}
		if err != nil {
			return nil, err
		}
		return j.removed(ctx, s, first, last, Moment{}, c.Moment)
	})
}

// removedWithin reports whether some of the lines in whose place a line stands may have been between two moments,
// each of which may be zero, and from when to when they were. waits is until when lines were received that may
// have been made by the second moment, though they need not say so. Of several journals others stand between them,
// and any may be.
func (j *Journal) removedWithin(
	segment, at int, since, until Moment, waits time.Time,
) (is bool, from, to time.Time, err error) {
	x := j.segments[segment].x
	l, err := x.Line(at)
	next := index.Line{Seq: x.Next, Time: x.Newest}
	if err == nil && at+1 < x.Lines {
		next, err = x.Line(at + 1)
	}
	if err != nil {
		return false, from, to, fmt.Errorf("read index: %w", err)
	}
	if j.path != "" && (since.Seq > 0 && since.Seq >= next.Seq || until.Seq > 0 && until.Seq <= l.Seq) {
		return false, from, to, nil
	}
	until = until.ofTime()
	begins := !l.Time.Before(since.Time) && (until.IsZero() || !l.Time.After(until.Time))
	if j.path != "" && begins && !next.Time.Before(l.Time) {
		return true, l.Time, next.Time, nil
	}
	// The clock may have been set, or lines came late: the line says when that was.
	f, err := j.second.read(j.segments[segment], l.Seq, l.Offset)
	if err != nil {
		return false, from, to, err
	}
	span, _ := f.Removed()
	outside := span.ToTime.Before(since.Time) || !until.IsZero() && span.FromTime.After(latest(until.Time, waits))
	return j.path == "" || !outside, span.FromTime, span.ToTime, nil
}

// ofTime returns the moment if it is a time that not all lines are by, else the zero Moment.
func (m Moment) ofTime() Moment {
	if m.Seq+m.Version > 0 || m.latest {
		return Moment{}
	}
	return m
}

// waits returns until when lines of streams were received that may have been made by a moment.
func (j *Journal) waits(s *Selection, m Moment) map[string]time.Time {
	ends := make(map[string]time.Time)
	if m = m.ofTime(); m.IsZero() {
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

// removedSince reports whether lines of a stream were removed between two lines: in a namespace or, where that is
// nil, in any. seq is that of the first of the REMOVED lines that say so.
func (j *Journal) removedSince(
	ctx context.Context, stream string, namespace *string, after, before uint64,
) (seq uint64, is bool, err error) {
	for i := j.segmentWith(after); i < len(j.segments) && j.segments[i].FirstSeq < before; i++ {
		x, err := j.index(ctx, i)
		if err != nil {
			return 0, false, err
		}
		for r, err := range x.Removals() {
			if err != nil {
				return 0, false, fmt.Errorf("read index: %w", err)
			}
			if r.Stream != stream || namespace != nil && r.Namespace != *namespace {
				continue
			}
			for _, at := range r.Lines {
				l, err := x.Line(at)
				if err != nil {
					return 0, false, fmt.Errorf("read index: %w", err)
				}
				if after < l.Seq && l.Seq < before && (!is || l.Seq < seq) {
					seq, is = l.Seq, true
				}
			}
		}
		if is {
			break
		}
	}
	return seq, is, nil
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

// withRemoved adds to lines of a segment those that stand in the place of removed ones that may have been selected.
func (s *Selection) withRemoved(x *index.Index, steps []step) ([]step, error) {
	n := len(steps)
	for r, err := range x.Removals() {
		if err != nil {
			return nil, err
		}
		if r.Stream == line.Journal || s.mayHave(r.Stream) && s.mayHaveIn(r.Namespace) {
			for _, at := range r.Lines {
				steps = append(steps, step{stream: r.Stream, at: at, before: -1, typ: index.Removed})
			}
		}
	}
	if len(steps) > n {
		slices.SortFunc(steps, func(a, b step) int { return a.at - b.at })
	}
	return steps, nil
}

// mayHaveIn reports whether objects of a namespace may be selected.
func (s *Selection) mayHaveIn(namespace string) bool {
	return len(s.Namespaces) == 0 || namespace == "" || slices.Contains(s.Namespaces, namespace)
}

// locate sets where a line is now, which may be in a compacted segment by now, and reports whether it is there.
func (j *Journal) locate(ctx context.Context, p *index.Place) (there bool, err error) {
	i := j.segmentOf(p.Segment)
	if i >= 0 && j.segments[i].UpTo == 0 {
		return true, nil
	}
	if i < 0 {
		if i = j.segmentWith(p.Seq); p.Seq < j.segments[i].FirstSeq || p.Seq > j.segments[i].UpTo {
			return false, nil
		}
	}
	x, err := j.index(ctx, i)
	if err != nil {
		return false, err
	}
	l, err := x.LineOf(p.Seq)
	if errors.Is(err, index.ErrDamaged) && x.Check() == nil || err == nil && l.Type == index.Removed {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read index: %w", err)
	}
	*p = placeOf(x, &l)
	return true, nil
}

// holding returns the REMOVED lines of an index that stand in the place of others, by their indexes.
func holding(x *index.Index) (map[int]bool, error) {
	all := make(map[int]bool)
	for r, err := range x.Removals() {
		if err != nil {
			return nil, err
		}
		for _, at := range r.Lines {
			all[at] = r.Stream != line.Journal
		}
	}
	return all, nil
}
