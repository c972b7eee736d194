package archive

import (
	"context"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
)

// Bounds are the oldest and the newest time of a segment's lines. That of its first line says neither: clocks are
// set, forwards and back.
type Bounds struct {
	Oldest, Newest time.Time
	earliest       time.Time // when the first of the lines that are late was written; zero where there is none
}

func boundsOf(x *index.Index) *Bounds { return &Bounds{x.Oldest, x.Newest, x.Earliest} }

// Bounds returns the times of a segment: of the header of the index beside it, or of an index that is made now.
func (j *Journal) Bounds(ctx context.Context, i int) (*Bounds, error) {
	s := j.Segments[i]
	if s.bounds == nil && s.x == nil && s.Indexed() {
		if x, err := s.IndexHeader(); err == nil {
			s.bounds = boundsOf(x)
		}
	}
	if s.bounds == nil {
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		s.bounds = boundsOf(x)
	}
	return s.bounds, nil
}

// endBefore reports whether all lines were made before a time, by its clock.
func (b *Bounds) endBefore(t time.Time) bool { return b.Newest.Before(t) }

// BeginAfter reports whether no line was made up to a time, by its clock.
func (b *Bounds) BeginAfter(t time.Time) bool {
	return b.Oldest.After(t) && (b.earliest.IsZero() || b.earliest.After(t))
}

// Outside reports whether no line of a segment is between two moments.
func (j *Journal) Outside(ctx context.Context, i int, since, until argument.Moment) (bool, error) {
	switch {
	case until.Seq > 0 && j.Segments[i].FirstSeq > until.Seq:
		return true, nil
	case since.Seq > 0 && i+1 < len(j.Segments) && j.Segments[i+1].FirstSeq <= since.Seq:
		return true, nil
	case (since.Seq > 0 || since.Time.IsZero()) && (until.Seq > 0 || until.Time.IsZero()):
		return false, nil
	}
	b, err := j.Bounds(ctx, i)
	if err != nil {
		return false, err
	}
	return since.Seq == 0 && !since.Time.IsZero() && b.endBefore(since.Time) ||
		until.Seq == 0 && !until.Time.IsZero() && b.BeginAfter(until.Time), nil
}

// Inside returns the first and the last segment with lines between two moments; the last one of all where none has any.
func (j *Journal) Inside(ctx context.Context, since, until argument.Moment) (first, last int, err error) {
	last = len(j.Segments) - 1
	for first < last {
		if outside, err := j.Outside(ctx, first, since, until); err != nil {
			return 0, 0, err
		} else if !outside {
			break
		}
		first++
	}
	for last > first {
		if outside, err := j.Outside(ctx, last, since, until); err != nil {
			return 0, 0, err
		} else if !outside {
			break
		}
		last--
	}
	return first, last, nil
}
