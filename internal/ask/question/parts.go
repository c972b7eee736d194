package question

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
)

// Part is a segment that may have lines between two moments, by its index alone.
type Part struct {
	*index.Index
	Segment int

	w    *window
	from int // the lines before it are repeats of another file's
}

// Has reports whether a line of a stream, which has an index in the segment, is between the moments, and is not in
// another file before.
func (p *Part) Has(stream string, at int, l *index.Line) bool {
	return at >= p.from && p.w.has(stream, l)
}

// Steps returns so many lines of the selected objects that the part has, from one of them on, or thereabouts.
func (p *Part) Steps(ctx context.Context, j *Journal, s *argument.Selection, first, many int) ([]archive.Step, error) {
	return archive.Again(j.Journal, func() ([]archive.Step, error) {
		x, err := j.Index(ctx, p.Segment)
		if err != nil {
			return nil, err
		}
		if s.All() && p.w.isOpen() {
			return archive.StepsBetween(x, s, first, first+many, p.w.has)
		}
		steps, err := archive.Steps(x, s, p.w.has)
		steps = steps[min(first, len(steps)):]
		return steps[:min(many, len(steps))], err
	})
}

// Parts yields what count makes of each segment that may have lines about the selected objects between two moments,
// each of which may be zero, in order. count is called in several goroutines, and again for a segment whose index turns
// out to be damaged.
func Parts[T any](
	ctx context.Context, j *Journal, s *argument.Selection, since, until argument.Moment, count func(*Part) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		parts, err := archive.Again(j.Journal, func() ([]Part, error) { return j.parts(ctx, s, since, until) })
		if err != nil {
			yield(none, err)
			return
		}
		for some := range slices.Chunk(parts, 8*runtime.GOMAXPROCS(0)) {
			all, err := archive.Again(j.Journal, func() ([]T, error) { return countEach(ctx, j, some, count) })
			if err != nil {
				yield(none, err)
				return
			}
			for i := range all {
				if !yield(all[i], nil) {
					return
				}
			}
		}
	}
}

// countEach calls count for each of some parts at once.
func countEach[T any](ctx context.Context, j *Journal, parts []Part, count func(*Part) (T, error)) ([]T, error) {
	for i := range parts {
		var err error
		if parts[i].Index, err = j.Index(ctx, parts[i].Segment); err != nil {
			return nil, err
		}
	}
	all, errs := make([]T, len(parts)), make([]error, len(parts))
	var counting sync.WaitGroup
	var next atomic.Int64
	for range min(len(parts), runtime.GOMAXPROCS(0)) {
		counting.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)); i = next.Add(1) - 1 {
				all[i], errs[i] = count(&parts[i])
			}
		})
	}
	counting.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
	}
	return all, ctx.Err()
}

// parts returns the segments that may have lines between two moments.
func (j *Journal) parts(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Part, error) {
	w, err := j.window(ctx, s, since, until)
	if err != nil {
		return nil, err
	}
	var all []Part
	last, newest := uint64(0), time.Time{} // as in repeats
	for i := range j.Segments {
		if outside, err := w.outside(ctx, j, i); err != nil {
			return nil, err
		} else if outside {
			continue
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		p := Part{Index: x, Segment: i, w: w}
		for x.FirstSeq <= last && p.from < x.Lines {
			l, err := x.Line(p.from)
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			if l.Seq > last || l.Time.After(newest) {
				break
			}
			p.from++
		}
		if p.from == x.Lines {
			continue
		}
		all, last, newest = append(all, p), x.Next-1, latest(newest, x.Newest)
	}
	return all, nil
}

// Gone returns why lines between two moments, each of which may be zero, are not in the journal's files any more, or
// cannot be read. Uncovered has that too.
func (j *Journal) Gone(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Doubt, error) {
	return archive.Again(j.Journal, func() ([]Doubt, error) { return j.gone(ctx, s, since, until) })
}

func (j *Journal) gone(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Doubt, error) {
	first, last, err := j.Inside(ctx, since, until)
	if err != nil {
		return nil, err
	}
	lost, err := j.lost(ctx, first, last, since, until)
	if err != nil {
		return nil, err
	}
	removed, err := j.removed(ctx, s, first, last, since, until)
	return slices.Concat(lost, removed), err
}
