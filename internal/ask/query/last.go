package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"time"

	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// End is where a journal ends, as far as it is read: who follows it begins there.
type End struct {
	Path     string    // of the active file
	FirstSeq uint64    // of its first line; 0 where it has none, or none that can be read
	Offset   int64     // in it, of the end of its last whole line
	Seq      uint64    // of the journal's last line; 0 for none
	Time     time.Time // the newest one of the last lines
	Begin    Moment    // of the journal's first line, with both seq and time
}

// end returns where a journal ends.
func (j *Journal) end(ctx context.Context) (End, error) {
	e := End{Path: j.path}
	if len(j.segments) == 0 {
		return e, nil
	}
	first, n := j.segments[0], len(j.segments)-1
	e.Begin = Moment{Seq: first.FirstSeq, Time: first.FirstTime}
	s := j.segments[n]
	if !s.Active {
		x, err := j.index(ctx, n)
		if err != nil {
			return e, err
		}
		e.Seq, e.Time = x.Next-1, x.Newest
		return e, nil
	}
	b, _, err := s.Backward()
	if err != nil {
		return e, fmt.Errorf("read journal %s: %w", s.Path, err)
	}
	defer b.Close()
	e.FirstSeq, e.Offset = s.FirstSeq, b.Offset()
	var l line.Fields
	for {
		raw, err := b.Next()
		switch {
		case errors.Is(err, io.EOF):
			return e, nil
		case err != nil:
			return e, fmt.Errorf("read journal %s: %w", s.Path, err)
		case l.Parse(raw.Bytes) == nil:
			e.Seq, e.Time = l.Seq, l.Time
			return e, nil
		}
	}
}

// Order returns the order in which several journals were merged, for those of Ends.
func (j *Journal) Order() *merge.Order { return j.order }

// Ends returns where the journal ends, or each of several journals that were merged.
func (j *Journal) Ends(ctx context.Context) ([]End, error) {
	if j.path == "" {
		return j.ends, nil
	}
	e, err := j.end(ctx)
	return []End{e}, err
}

// Last yields the last n lines of those that a history has which pass a filter, or all of them if n is negative, in the
// order of seq. Where neither objects nor times are asked for, lines that cannot be read are among them: their Seq is
// 0, and nothing but Raw is there. A line is valid until the next one. The journal's notice names files that cannot be
// read to their end or were removed meanwhile, and lines that are missing between two files.
func (j *Journal) Last(ctx context.Context, f *Filter, n int) iter.Seq2[*line.Fields, error] {
	return func(yield func(*line.Fields, error) bool) {
		w, err := again(j, func() (*window, error) { return j.window(ctx, &f.Selection, f.Since, f.Until) })
		if err != nil {
			yield(nil, err)
			return
		}
		parts, first := make([]part, len(j.segments)), 0
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
	outside bool   // nothing is, as its bounds say
	whole   bool   // every line from an offset on, but for types: no index is needed
	from    int64  // that offset
	steps   []step // else
	count   int    // how many lines that is, unless all are wanted
}

// part finds the last n lines of a segment that a filter has, or all of them if n is negative.
func (j *Journal) part(ctx context.Context, i int, f *Filter, w *window, n int) (part, error) {
	if f.all() && f.Since.IsZero() && f.Until.IsZero() {
		if n < 0 {
			return part{whole: true}, nil
		}
		if s := j.segments[i]; s.x == nil && !s.indexed() {
			if p, ok, err := backward(ctx, s, f, n); err != nil || ok {
				return p, err
			}
		}
	}
	return again(j, func() (part, error) {
		if outside, err := w.outside(ctx, j, i); err != nil || outside {
			return part{outside: true}, err
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return part{}, err
		}
		steps, err := f.steps(x, w)
		if err != nil {
			return part{}, fmt.Errorf("read index: %w", err)
		}
		if len(f.Types) > 0 {
			steps = slices.DeleteFunc(steps, func(st step) bool {
				return st.typ == 0 || !slices.Contains(f.Types, index.Types[st.typ-1])
			})
		}
		if n >= 0 {
			steps = steps[max(len(steps)-n, 0):]
		}
		return part{steps: steps, count: len(steps)}, nil
	})
}

// backward finds the last n lines of a plain segment of some types; ok is false for a compressed one.
func backward(ctx context.Context, s *segment, f *Filter, n int) (p part, ok bool, err error) {
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
			if l.Parse(raw.Bytes) == nil && !f.hasType(l.Text(line.FieldType)) {
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
	f       *Filter
	repeats repeats
	next    uint64 // seq that is to come; 0 where that is not known
}

// read yields the lines of a part. It reports whether to go on.
func (r *reading) read(ctx context.Context, i int, p *part, yield func(*line.Fields, error) bool) bool {
	s := r.j.segments[i]
	r.repeats.begins = true
	stopped := false
	var err error
	switch {
	case p.outside:
		r.next = 0
		return true
	case p.whole:
		stopped, err = r.forward(ctx, i, p.from, yield)
	default:
		r.begins(s, s.x.FirstSeq)
		r.next = s.x.Next
		r.j.walk(ctx, i, p.steps, func(v *Version, e error) bool {
			switch err = e; {
			case err != nil:
				return false
			case !r.repeats.has(v.Fields):
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
		r.j.notice(cutOff(&s.Segment))
	}
	return true
}

// forward yields the lines of a segment from an offset on.
func (r *reading) forward(
	ctx context.Context, i int, from int64, yield func(*line.Fields, error) bool,
) (stopped bool, err error) {
	in, l := &r.j.reader, line.Fields{}
	in.of = nil
	if err := in.lines.Open(r.j.segments[i].Segment, from); err != nil {
		return false, err
	}
	first := from == 0
	for ctx.Err() == nil {
		raw, err := in.lines.Next()
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
				r.begins(r.j.segments[i], l.Seq)
			}
			first = false
			r.next = max(r.next, l.Next())
			if r.repeats.has(&l) || !r.f.hasType(l.Text(line.FieldType)) {
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
func (r *reading) begins(s *segment, seq uint64) {
	if s.hole != "" {
		r.j.notice(s.hole)
	} else if r.next > 0 && seq > r.next {
		r.j.notice(missing(r.next, seq, s.Path))
	}
}

// repeats finds lines that an earlier file has too: what others have rotated may be copies. A journal that was begun
// again has newer lines with a lower seq.
type repeats struct {
	last   uint64 // seq of the line before
	newest time.Time
	begins bool // a file does
}

// has reports whether a line is a repeat.
func (r *repeats) has(l *line.Fields) bool {
	if r.begins && l.Seq <= r.last && !l.Time.After(r.newest) {
		return true
	}
	r.begins, r.last = false, l.Seq
	if l.Time.After(r.newest) {
		r.newest = l.Time
	}
	return false
}
