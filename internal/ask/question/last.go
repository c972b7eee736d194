package question

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Last yields the last n lines of those that a history has which pass a filter, or all of them if n is negative, in the
// order of seq. Where neither objects nor times are asked for, lines that cannot be read are among them: their Seq is
// 0, and nothing but Raw is there. A line is valid until the next one. The journal's notice names files that cannot be
// read to their end or were removed meanwhile, and lines that are missing between two files.
func (j *Journal) Last(ctx context.Context, f *argument.Filter, n int) iter.Seq2[*line.Fields, error] {
	return func(yield func(*line.Fields, error) bool) {
		w, err := archive.Again(
			j.Journal, func() (*window, error) { return j.window(ctx, &f.Selection, f.Since, f.Until) },
		)
		if err != nil {
			yield(nil, err)
			return
		}
		parts, first := make([]part, len(j.Segments)), 0
		if n >= 0 {
			first = len(parts)
		}
		for more := n; more > 0 && first > 0; more -= parts[first].count {
			first--
			if parts[first], err = j.part(ctx, first, f, w, more); err != nil {
				yield(nil, err)
				return
			}
		}
		r := &reading{j: j, f: f}
		defer r.in.Close()
		for i := first; i < len(parts); i++ {
			if n < 0 {
				if parts[i], err = j.part(ctx, i, f, w, n); err != nil {
					yield(nil, err)
					return
				}
			}
			if !r.read(ctx, i, &parts[i], yield) {
				return
			}
			parts[i].steps = nil // there may be many
		}
	}
}

// part is what of a segment is wanted.
type part struct {
	outside bool           // nothing is, as its bounds say
	whole   bool           // every line from an offset on, but for types: no index is needed
	from    int64          // that offset
	steps   []archive.Step // else
	count   int            // how many lines that is, unless all are wanted
}

// part finds the last n lines of a segment that a filter has, or all of them if n is negative.
func (j *Journal) part(ctx context.Context, i int, f *argument.Filter, w *window, n int) (part, error) {
	if f.All() && f.Since.IsZero() && f.Until.IsZero() {
		if n < 0 {
			return part{whole: true}, nil
		}
		if s := j.Segments[i]; !s.Indexed() {
			if p, ok, err := backward(ctx, s, f, n); err != nil || ok {
				return p, err
			}
		}
	}
	return archive.Again(j.Journal, func() (part, error) {
		if outside, err := w.outside(ctx, j, i); err != nil || outside {
			return part{outside: true}, err
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return part{}, err
		}
		steps, err := archive.Steps(x, &f.Selection, w.has)
		if err != nil {
			return part{}, fmt.Errorf("read index: %w", err)
		}
		if len(f.Types) > 0 {
			steps = slices.DeleteFunc(steps, func(st archive.Step) bool {
				return st.Type == 0 || !slices.Contains(f.Types, index.Types[st.Type-1])
			})
		}
		if n >= 0 {
			steps = steps[max(len(steps)-n, 0):]
		}
		return part{steps: steps, count: len(steps)}, nil
	})
}

// backward finds the last n lines of a plain segment of some types; ok is false for a compressed one.
func backward(ctx context.Context, s *archive.Segment, f *argument.Filter, n int) (p part, ok bool, err error) {
	b, ok, err := s.Backward()
	if err != nil || !ok {
		return part{}, false, err
	}
	defer b.Close()
	p.whole, p.from = true, b.Offset()
	for p.count < n {
		if err := ctx.Err(); err != nil {
			return part{}, false, err
		}
		raw, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return part{}, false, fmt.Errorf("read journal %s: %w", s.Path, err)
		}
		if len(f.Types) > 0 {
			var l line.Fields
			if l.Parse(raw.Bytes) == nil && !f.HasType(l.Text(line.FieldType)) {
				continue
			}
		}
		p.from = b.Offset()
		p.count++
	}
	return p, true, nil
}

// reading is one pass over the parts of a journal.
type reading struct {
	j       *Journal
	f       *argument.Filter
	in      archive.Reader
	repeats archive.Repeats
	next    uint64 // seq that is to come; 0 where that is not known
}

// read yields the lines of a part. It reports whether to go on.
func (r *reading) read(ctx context.Context, i int, p *part, yield func(*line.Fields, error) bool) bool {
	s := r.j.Segments[i]
	r.repeats.Begin()
	stopped := false
	var err error
	switch {
	case p.outside:
		r.next = 0
		return true
	case p.whole:
		stopped, err = r.forward(ctx, i, p.from, yield)
	default:
		var x *index.Index
		if x, err = r.j.Index(ctx, i); err != nil {
			break
		}
		r.begins(s, x.FirstSeq)
		r.next = x.Next
		r.j.Walk(ctx, i, p.steps, func(v *archive.Version, e error) bool {
			switch err = e; {
			case err != nil:
				return false
			case !r.repeats.Has(v.Seq, v.Time):
				stopped = !yield(v.Fields, nil)
			}
			return !stopped
		})
	}
	switch {
	case err == nil || stopped:
		return !stopped
	case ctx.Err() != nil, !p.whole && !errors.Is(err, fs.ErrNotExist):
		yield(nil, err)
		return false
	}
	if s.Unread == nil {
		s.Unread = err
		r.j.Notice(archive.CutOff(&s.Segment))
	}
	return true
}

// forward yields the lines of a segment from an offset on.
func (r *reading) forward(
	ctx context.Context, i int, from int64, yield func(*line.Fields, error) bool,
) (stopped bool, err error) {
	var l line.Fields
	if err := r.in.Open(r.j.Segments[i], from); err != nil {
		return false, err
	}
	first := from == 0
	for ctx.Err() == nil {
		raw, err := r.in.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if l.Parse(raw.Bytes) != nil {
			l = line.Fields{Raw: raw.Bytes}
		} else {
			if first {
				r.begins(r.j.Segments[i], l.Seq)
			}
			first = false
			r.next = max(r.next, l.Next())
			if r.repeats.Has(l.Seq, l.Time) || !r.f.HasType(l.Text(line.FieldType)) {
				continue
			}
		}
		if !yield(&l, nil) {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// begins says which lines are missing before a segment, by the seq of its first one.
func (r *reading) begins(s *archive.Segment, seq uint64) {
	if s.Hole != "" {
		r.j.Notice(s.Hole)
	} else if r.next > 0 && seq > r.next {
		r.j.Notice(archive.MissingLines(r.next, seq, s.Path))
	}
}
