package archive

import (
	"cmp"
	"context"
	"fmt"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
)

// LostLines returns a sentence for each hole in seq from one segment to another one, and for each segment with holes
// between two moments: a file that is gone, or lines that are. It has one too where a file repeats lines of the one
// before.
func (j *Journal) LostLines(
	ctx context.Context, first, last int, since, until argument.Moment,
) (lost []string, err error) {
	next := uint64(0) // the seq that is to come
	for i := first; i <= last; i++ {
		s := j.Segments[i]
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		begin := x.FirstSeq // that of the segment can be a damaged line's
		if j.Merged() {
			begin = s.FirstSeq
		}
		// What others have rotated may be stdout, which repeats lines.
		if i > first && (begin > next || begin < next && j.Segments[i-1].Ours) {
			lost = append(lost, cmp.Or(s.Hole, MissingLines(next, begin, s.Path)))
		}
		within, err := j.lostWithin(x, s, since, until)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if lost, next = append(lost, within...), x.Next; s.Unread != nil {
			lost = append(lost, CutOff(&s.Segment))
		}
	}
	if n := len(j.Unread) - 1; last == len(j.Segments)-1 && n >= 0 && j.Unread[n].Active {
		lost = append(lost, CannotRead(&j.Unread[n]))
	}
	return lost, nil
}

// lostWithin returns a sentence if lines of a segment are missing between two moments, each of which may be zero. Of
// several journals each segment ends where lines are missing.
func (j *Journal) lostWithin(x *index.Index, s *Segment, since, until argument.Moment) ([]string, error) {
	if j.Merged() || x.Next-x.FirstSeq <= uint64(x.Lines) {
		return nil, nil
	}
	stand, err := Holding(x)
	if err != nil {
		return nil, err
	}
	var count, first uint64
	last, err := x.Line(0)
	for at := 1; at < x.Lines && err == nil; at++ {
		var l index.Line
		if l, err = x.Line(at); err != nil {
			break
		}
		if l.Seq > last.Seq+1 && !stand[at-1] && !startsAfter(since, l) && !endsBefore(until, last, x) {
			count += l.Seq - last.Seq - 1
			first = cmp.Or(first, last.Seq+1)
		}
		last = l
	}
	switch {
	case err != nil || count == 0:
		return nil, err
	case count == 1:
		return []string{fmt.Sprintf("line %d is missing in %s", first, s.Path)}, nil
	}
	what := fmt.Sprintf("%d lines are missing in %s, the first of them is line %d", count, s.Path, first)
	return []string{what}, nil
}

// startsAfter reports whether a moment is after all that comes before a line.
func startsAfter(m argument.Moment, l index.Line) bool {
	if m.Seq > 0 {
		return m.Seq >= l.Seq
	}
	return !m.Time.IsZero() && l.Time.Before(m.Time)
}

// endsBefore reports whether a moment is before all that comes after a line of an index.
func endsBefore(m argument.Moment, l index.Line, x *index.Index) bool {
	if m.Seq > 0 {
		return m.Seq <= l.Seq
	}
	return !m.Time.IsZero() && l.Time.After(m.Time) && (x.Earliest.IsZero() || x.Earliest.After(m.Time))
}
