package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubejournal/internal/index"
	"kubejournal/internal/line"
)

// removed returns a doubt for each namespace and stream of which lines were removed to make room for others, in some
// segments and between two moments, each of which may be zero. What is left of such a segment is as it was.
func (j *Journal) removed(ctx context.Context, s *Selection, first, last int, since, until Moment) (doubts []Doubt, err error) {
	for i := first; i <= last; i++ {
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
			lines := r.Lines
			if i == first && r.Before.Seq > 0 {
				// Of a segment before, perhaps one that is gone: what was there then has no line any more.
				doubts = append(doubts, removedDoubt(&r))
			}
			for _, at := range lines {
				l, err := x.Line(at)
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				next := index.Line{Seq: x.Next, Time: x.Newest}
				if at+1 < x.Lines {
					if next, err = x.Line(at + 1); err != nil {
						return nil, fmt.Errorf("read index: %w", err)
					}
				}
				if j.path != "" && (since.startsAfter(next) || until.endsBefore(l, x)) {
					continue
				}
				d := removedDoubt(&r)
				d.From, d.To = l.Time, next.Time
				if j.path == "" { // lines of other journals may stand between these
					if d.From, d.To, err = j.removedBetween(i, &l); err != nil {
						return nil, err
					}
				}
				doubts = mergeRemoved(doubts, d)
			}
		}
	}
	return doubts, nil
}

// removedBetween returns from when to when the lines were received, as a REMOVED line says, or made where that is earlier.
func (j *Journal) removedBetween(segment int, l *index.Line) (from, to time.Time, err error) {
	f, err := j.second.read(j.segments[segment], l.Seq, l.Offset)
	if err != nil {
		return from, to, err
	}
	is, _ := f.Removed()
	return is.FromTime, is.ToTime, nil
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
