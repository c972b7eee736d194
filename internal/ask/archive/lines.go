package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Version is a line, and what is needed to find the one before it.
type Version struct {
	*line.Fields

	journal *Journal
	segment int
	before  int // the index of the line before about the same object in the segment; -1 for none there
}

// ErrRemoved says that a version may not be in the journal any more: see index.Removal.
var ErrRemoved = errors.New("the line before may have been removed")

// Previous returns the line before about the same object of the same stream, nil where there is none, where it was
// deleted or the stream started over since, or where its segment is gone. It is valid until the next call. The error is
// ErrRemoved where lines in between were removed, and the previous version may be among them.
func (v *Version) Previous(ctx context.Context) (*line.Fields, error) {
	at, err := v.journal.Before(ctx, v.segment, v.before, v.Fields)
	if err != nil {
		return nil, err
	}
	namespace := v.Unquoted(line.FieldNamespace)
	_, removed, err := v.journal.RemovedSince(ctx, v.Unquoted(line.FieldStream), &namespace, at.Seq, v.Seq)
	switch {
	case err != nil:
		return nil, err
	case removed:
		return nil, ErrRemoved
	case at.Seq == 0:
		return nil, nil
	}
	var since []*index.Index // all are read
	for _, s := range v.journal.Segments[:v.segment] {
		if s.FirstSeq >= at.Segment && s.x != nil {
			since = append(since, s.x)
		}
	}
	begun, err := index.Begun(since, v.Unquoted(line.FieldStream), func(*index.Line) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if at.Seq < begun {
		return nil, nil
	}
	return v.journal.Line(ctx, at)
}

// Before returns where the line before one of a segment is, about the same object of the same stream; none where that
// is its deletion. before is the index of that line in the segment, -1 for none there.
func (j *Journal) Before(ctx context.Context, segment, before int, l *line.Fields) (index.Place, error) {
	if before >= 0 {
		x, err := j.Index(ctx, segment)
		if err != nil {
			return index.Place{}, err
		}
		return placeAt(x, before)
	}
	return j.before(
		ctx, segment, l.Unquoted(line.FieldStream), l.Unquoted(line.FieldNamespace), l.Unquoted(line.FieldName),
		l.Unquoted(line.FieldUID),
	)
}

// before returns the last line about an object of a stream before a segment; none where that is its deletion.
func (j *Journal) before(ctx context.Context, segment int, stream, namespace, name, uid string) (index.Place, error) {
	for i := segment; i >= 0; i-- {
		x, err := j.Index(ctx, i)
		if err != nil {
			return index.Place{}, err
		}
		n, there := x.Stream(stream)
		if !there {
			continue
		}
		for o, err := range x.Objects(n, &namespace, &name) {
			switch {
			case err != nil:
				return index.Place{}, fmt.Errorf("read index: %w", err)
			case o.UID != uid:
				continue
			case i == segment || len(o.Lines) == 0:
				if o.Before.Seq > 0 {
					return o.Before, nil
				}
			default:
				last := o.Lines[len(o.Lines)-1]
				l, err := x.Line(last)
				if err != nil || l.Type == index.Deleted {
					return index.Place{}, err
				}
				return placeAt(x, last)
			}
		}
		if x.Since > 0 && x.Since <= j.Segments[0].FirstSeq {
			break
		}
	}
	return index.Place{}, nil
}

// placeAt returns the place of the line with an index.
func placeAt(x *index.Index, at int) (index.Place, error) {
	l, err := x.Line(at)
	return PlaceOf(x, &l), err
}

// PlaceOf returns the place of a line in the segment of an index.
func PlaceOf(x *index.Index, l *index.Line) index.Place {
	return index.Place{Segment: x.FirstSeq, Seq: l.Seq, Offset: l.Offset}
}

// LinesOf yields where the lines about an object are in the segment of an index.
func LinesOf(x *index.Index, o *index.Object) iter.Seq2[index.Line, error] {
	return func(yield func(index.Line, error) bool) {
		for _, at := range o.Lines {
			l, err := x.Line(at)
			if err != nil {
				err = fmt.Errorf("read index: %w", err)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// LinesOfStream returns the lines of a stream in a segment, in order.
func (j *Journal) LinesOfStream(ctx context.Context, i int, stream string) (all []index.Line, err error) {
	x, err := j.Index(ctx, i)
	if err != nil {
		return nil, err
	}
	n, there := x.Stream(stream)
	if !there {
		return nil, nil
	}
	at := slices.Clone(x.Streams[n].Marks)
	for o, err := range x.Objects(n, nil, nil) {
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		at = append(at, o.Lines...)
	}
	slices.Sort(at)
	for _, n := range at {
		l, err := x.Line(n)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// TimeOf returns when the line with that seq was received; where it is missing, the one after it.
func (j *Journal) TimeOf(ctx context.Context, seq uint64) (time.Time, error) {
	_, l, err := j.lineFrom(ctx, seq)
	return l.Time, err
}

// lineFrom returns where the line with that seq is; where it is missing, the one after it or the last one of a segment.
func (j *Journal) lineFrom(ctx context.Context, seq uint64) (*index.Index, index.Line, error) {
	x, err := j.Index(ctx, j.SegmentWith(seq))
	if err != nil || x.Lines == 0 {
		return nil, index.Line{}, err
	}
	n := sort.Search(x.Lines-1, func(n int) bool {
		l, lineErr := x.Line(n)
		err = errors.Join(err, lineErr)
		return l.Seq >= seq
	})
	l, lineErr := x.Line(n)
	return x, l, errors.Join(err, lineErr)
}

// MarkBefore returns the last GAP or SYNCED line of a stream up to seq; 0 for none, or where a first list has begun
// since.
func (j *Journal) MarkBefore(ctx context.Context, stream string, seq uint64) (index.Type, uint64, error) {
	for i := len(j.Segments) - 1; i >= 0; i-- {
		if j.Segments[i].FirstSeq > seq {
			continue
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return 0, 0, err
		}
		n, there := x.Stream(stream)
		if !there {
			continue
		}
		for _, at := range slices.Backward(x.Streams[n].Starts()) {
			l, err := x.Line(at)
			switch {
			case err != nil:
				return 0, 0, fmt.Errorf("read index: %w", err)
			case l.Seq > seq:
			case l.Type != index.Gap && l.Type != index.Synced:
				return 0, 0, nil
			default:
				return l.Type, l.Seq, nil
			}
		}
	}
	return 0, 0, nil
}

// Step is a line of a segment that a history has.
type Step struct {
	stream string
	at     int // its index
	before int // as in Version
	Type   index.Type
}

// Steps returns the lines of a segment that are selected and for which inWindow is true, in order.
func Steps(x *index.Index, s *argument.Selection, inWindow func(stream string, l *index.Line) bool) ([]Step, error) {
	return StepsBetween(x, s, 0, x.Lines, inWindow)
}

// StepsBetween is Steps for the lines from one on, by their indexes, and before another.
func StepsBetween(
	x *index.Index, s *argument.Selection, from, to int, inWindow func(stream string, l *index.Line) bool,
) ([]Step, error) {
	var all []Step
	for _, p := range s.Picks(x) {
		stream := x.Streams[p.Stream].Name
		for _, at := range x.Streams[p.Stream].Marks {
			if from <= at && at < to && s.MayHave(stream) {
				all = append(all, Step{stream: stream, at: at, before: -1})
			}
		}
		for o, err := range s.Spots(x, p) {
			if err != nil {
				return nil, err
			}
			for n, at := range o.Lines {
				if at < from || at >= to {
					continue
				}
				st := Step{stream: stream, at: at, before: -1}
				if n > 0 {
					st.before = o.Lines[n-1]
				}
				all = append(all, st)
			}
		}
	}
	slices.SortFunc(all, func(a, b Step) int { return a.at - b.at })
	kept := all[:0]
	for _, st := range all {
		l, err := x.Line(st.at)
		if err != nil {
			return nil, err
		}
		if st.Type = l.Type; inWindow(st.stream, &l) {
			kept = append(kept, st)
		}
	}
	return kept, nil
}

// withRemoved adds to lines of a segment those that stand in the place of removed ones that may have been selected.
func withRemoved(x *index.Index, s *argument.Selection, steps []Step) ([]Step, error) {
	n := len(steps)
	for r, err := range x.Removals() {
		if err != nil {
			return nil, err
		}
		if r.Stream == line.Journal || s.MayHave(r.Stream) && s.MayHaveIn(r.Namespace) {
			for _, at := range r.Lines {
				steps = append(steps, Step{stream: r.Stream, at: at, before: -1, Type: index.Removed})
			}
		}
	}
	if len(steps) > n {
		slices.SortFunc(steps, func(a, b Step) int { return a.at - b.at })
	}
	return steps, nil
}

// Walk yields lines of a segment. It reports whether to go on.
func (j *Journal) Walk(ctx context.Context, i int, steps []Step, yield func(*Version, error) bool) bool {
	s := j.Segments[i]
	x, err := j.Index(ctx, i)
	if err != nil {
		yield(nil, err)
		return false
	}
	v := &Version{journal: j, segment: i}
	for _, st := range steps {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		l, err := x.Line(st.at)
		if err == nil {
			v.Fields, err = j.reader.Read(s, x, l.Seq, l.Offset)
		}
		v.before = st.before
		if err != nil {
			yield(nil, err)
			return false
		}
		if !yield(v, nil) {
			return false
		}
	}
	return true
}

// Line reads the line at a place, nil where its segment is gone. It is valid until the next call. It has a reader of
// its own, so that Walk goes on where it is. What was read last is remembered.
func (j *Journal) Line(ctx context.Context, at index.Place) (*line.Fields, error) {
	if there, err := j.Locate(ctx, &at); err != nil || !there {
		return nil, err
	}
	i := j.SegmentOf(at.Segment)
	x, err := j.Index(ctx, i)
	if err != nil {
		return nil, err
	}
	return j.second.Read(j.Segments[i], x, at.Seq, at.Offset)
}

// LineIn reads a line of a segment. It is valid until the next call, also of Line.
func (j *Journal) LineIn(ctx context.Context, i int, l *index.Line) (*line.Fields, error) {
	x, err := j.Index(ctx, i)
	if err != nil {
		return nil, err
	}
	return j.second.Read(j.Segments[i], x, l.Seq, l.Offset)
}

// LineOf reads the line with a seq, nil where it is missing. It is valid until the next call.
func (j *Journal) LineOf(ctx context.Context, seq uint64) (*line.Fields, error) {
	x, l, err := j.lineFrom(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if l.Seq != seq {
		return nil, nil
	}
	return j.Line(ctx, PlaceOf(x, &l))
}

// Locate sets where a line is now, which may be in a compacted segment by now, and reports whether it is there.
func (j *Journal) Locate(ctx context.Context, p *index.Place) (there bool, err error) {
	i := j.SegmentOf(p.Segment)
	if i >= 0 && j.Segments[i].UpTo == 0 {
		return true, nil
	}
	if i < 0 {
		if i = j.SegmentWith(p.Seq); p.Seq < j.Segments[i].FirstSeq || p.Seq > j.Segments[i].UpTo {
			return false, nil
		}
	}
	x, err := j.Index(ctx, i)
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
	*p = PlaceOf(x, &l)
	return true, nil
}

// RemovedSince reports whether lines of a stream were removed between two lines: in a namespace or, where that is
// nil, in any. seq is that of the first of the REMOVED lines that say so.
func (j *Journal) RemovedSince(
	ctx context.Context, stream string, namespace *string, after, before uint64,
) (seq uint64, is bool, err error) {
	for i := j.SegmentWith(after); i < len(j.Segments) && j.Segments[i].FirstSeq < before; i++ {
		x, err := j.Index(ctx, i)
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

// Holding returns the REMOVED lines of an index that stand in the place of others, by their indexes.
func Holding(x *index.Index) (map[int]bool, error) {
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

// MissingLines names lines that are not there.
func MissingLines(next, seq uint64, path string) string {
	switch {
	case seq < next:
		return fmt.Sprintf("%s repeats lines from %d on", path, seq)
	case seq == next+1:
		return fmt.Sprintf("line %d is missing before %s", next, path)
	}
	return fmt.Sprintf("lines %d to %d are missing before %s", next, seq-1, path)
}
