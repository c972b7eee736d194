package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Version is a line of a history.
type Version struct {
	*line.Fields

	journal *Journal
	segment int
	before  int // the index of the line before about the same object in the segment; -1 for none there
}

// ErrRemoved says that a version may not be in the journal any more: see index.Removal.
var ErrRemoved = errors.New("the line before may have been removed")

// Previous returns the line before about the same object of the same stream, nil where there is none, where it was
// deleted or the stream was begun anew since, or where its segment is gone. It is valid until the next call. The
// error is ErrRemoved where lines were removed in between that it may have been one of.
func (v *Version) Previous(ctx context.Context) (*line.Fields, error) {
	at, err := v.previous(ctx)
	if err != nil {
		return nil, err
	}
	namespace := text(v.Text(line.FieldNamespace))
	_, removed, err := v.journal.removedSince(ctx, text(v.Text(line.FieldStream)), &namespace, at.Seq, v.Seq)
	switch {
	case err != nil:
		return nil, err
	case removed:
		return nil, ErrRemoved
	case at.Seq == 0:
		return nil, nil
	}
	var since []*index.Index // all are read
	for _, s := range v.journal.segments[:v.segment] {
		if s.FirstSeq >= at.Segment && s.x != nil {
			since = append(since, s.x)
		}
	}
	begun, err := index.Begun(since, text(v.Text(line.FieldStream)), func(*index.Line) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if at.Seq < begun {
		return nil, nil
	}
	return v.journal.earlier(ctx, at)
}

func (v *Version) previous(ctx context.Context) (index.Place, error) {
	if v.before >= 0 {
		return v.journal.segments[v.segment].place(v.before)
	}
	return v.journal.before(ctx, v.segment, text(v.Text(line.FieldStream)), text(v.Text(line.FieldNamespace)), text(v.Text(line.FieldName)), text(v.Text(line.FieldUID)))
}

// before returns the last line about an object of a stream before a segment; none where that is its deletion.
func (j *Journal) before(ctx context.Context, segment int, stream, namespace, name, uid string) (index.Place, error) {
	for i := segment; i >= 0; i-- {
		x, err := j.index(ctx, i)
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
				return j.segments[i].place(last)
			}
		}
		if x.Since > 0 && x.Since <= j.segments[0].FirstSeq {
			break
		}
	}
	return index.Place{}, nil
}

// step is a line of a segment that a history has.
type step struct {
	stream string
	at     int // its index
	before int // as in Version
	typ    index.Type
}

// History yields the lines about the selected objects between two moments, each of which may be zero, in the order of seq;
// with GAP and SYNCED of the streams that may have such objects. A version is valid until the next one.
func (j *Journal) History(ctx context.Context, s *Selection, since, until Moment) iter.Seq2[*Version, error] {
	return func(yield func(*Version, error) bool) {
		w, err := again(j, func() (*window, error) { return j.window(ctx, s, since, until) })
		if err != nil {
			yield(nil, err)
			return
		}
		var r repeats
		each := func(v *Version, err error) bool { return err == nil && r.has(v.Fields) || yield(v, err) }
		for i := range j.segments {
			steps, err := again(j, func() ([]step, error) {
				if outside, err := w.outside(ctx, j, i); err != nil || outside {
					return nil, err
				}
				x, err := j.index(ctx, i)
				if err != nil {
					return nil, err
				}
				return s.steps(x, w)
			})
			if err != nil {
				yield(nil, fmt.Errorf("read index: %w", err))
				return
			}
			if r.begins = true; !j.walk(ctx, i, steps, each) {
				return
			}
		}
	}
}

// Span is an object, and from which line between two moments to which it has lines.
type Span struct {
	Item
	Begin, End uint64
}

// Objects returns the selected objects that lines between two moments are about, in the order of their first lines.
func (j *Journal) Objects(ctx context.Context, s *Selection, since, until Moment) ([]Span, error) {
	return again(j, func() ([]Span, error) { return j.objects(ctx, s, since, until) })
}

func (j *Journal) objects(ctx context.Context, s *Selection, since, until Moment) (all []Span, err error) {
	known := make(map[key]int)
	w, err := j.window(ctx, s, since, until)
	if err != nil {
		return nil, err
	}
	for i := range j.segments {
		if outside, err := w.outside(ctx, j, i); err != nil {
			return nil, err
		} else if outside {
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		for m, err := range s.matches(x) {
			if err != nil {
				return nil, err
			}
			item := m.item()
			for l, err := range linesOf(x, m.Object) {
				if err != nil {
					return nil, err
				}
				if !w.has(m.stream.Name, &l) {
					continue
				}
				n, there := known[item.key()]
				if !there {
					n, known[item.key()] = len(all), len(all)
					all = append(all, Span{item, l.Seq, l.Seq})
				}
				all[n].Begin, all[n].End = min(all[n].Begin, l.Seq), max(all[n].End, l.Seq)
			}
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.Begin, b.Begin) })
	return all, nil
}

// steps returns the lines of a segment that are selected, in order.
func (s *Selection) steps(x *index.Index, w *window) ([]step, error) {
	var all []step
	for _, p := range s.picks(x) {
		stream := x.Streams[p.stream].Name
		for _, at := range x.Streams[p.stream].Marks {
			if s.mayHave(stream) {
				all = append(all, step{stream: stream, at: at, before: -1})
			}
		}
		for o, err := range s.objects(x, p) {
			if err != nil {
				return nil, err
			}
			for n, at := range o.Lines {
				st := step{stream: stream, at: at, before: -1}
				if n > 0 {
					st.before = o.Lines[n-1]
				}
				all = append(all, st)
			}
		}
	}
	slices.SortFunc(all, func(a, b step) int { return a.at - b.at })
	kept := all[:0]
	for _, st := range all {
		l, err := x.Line(st.at)
		if err != nil {
			return nil, err
		}
		if st.typ = l.Type; w.has(st.stream, &l) {
			kept = append(kept, st)
		}
	}
	return kept, nil
}

// walk yields lines of a segment. It reports whether to go on.
func (j *Journal) walk(ctx context.Context, i int, steps []step, yield func(*Version, error) bool) bool {
	s := j.segments[i]
	v := &Version{journal: j, segment: i}
	for _, st := range steps {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		l, err := s.x.Line(st.at)
		if err == nil {
			v.Fields, err = j.reader.read(s, l.Seq, l.Offset)
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

// place returns where a line of the segment is, by its index.
func (s *segment) place(at int) (index.Place, error) {
	l, err := s.x.Line(at)
	return placeOf(s.x, &l), err
}

// earlier reads a line with a reader of its own, so that a history goes on where it is. What was read last is remembered.
func (j *Journal) earlier(ctx context.Context, at index.Place) (*line.Fields, error) {
	if there, err := j.locate(ctx, &at); err != nil || !there {
		return nil, err
	}
	i := j.segmentOf(at.Segment)
	if _, err := j.index(ctx, i); err != nil {
		return nil, err
	}
	return j.second.read(j.segments[i], at.Seq, at.Offset)
}

// Deleted returns the selected objects that were deleted between two moments, each of which may be zero, with their last
// states; and why that may not be all. One that only left the selection of a stream, and is there in another, was not.
func (j *Journal) Deleted(ctx context.Context, s *Selection, since, until Moment) ([]Item, []Doubt, error) {
	items, err := again(j, func() ([]Item, error) { return j.deleted(ctx, s, since, until) })
	if err != nil {
		return nil, nil, err
	}
	doubts, err := again(j, func() ([]Doubt, error) { return j.uncoveredBetween(ctx, s, since, until, index.Deleted) })
	return items, doubts, err
}

func (j *Journal) deleted(ctx context.Context, s *Selection, since, until Moment) ([]Item, error) {
	end := until
	if until.IsZero() {
		end.Seq = math.MaxUint64
	}
	after, err := j.state(ctx, s, end, true)
	if err != nil {
		return nil, err
	}
	known, at, e := make(map[key]*Item), make(map[key]int), &ends{gaps: make(map[uint64]time.Time)}
	ends := make(map[key]uint64) // the seq of the DELETED line
	for i := range after.Items {
		known[after.Items[i].key()] = &after.Items[i]
	}
	var items []Item
	w, err := j.window(ctx, s, since, until)
	if err != nil {
		return nil, err
	}
	for i := range j.segments {
		if outside, err := w.outside(ctx, j, i); err != nil {
			return nil, err
		} else if outside {
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		for m, err := range s.matches(x) {
			if err != nil {
				return nil, err
			}
			item := m.item()
			item.Created, item.Deleted = m.Created, true
			k, before, made := item.key(), -1, m.Created
			is := known[k]
			gone := is == nil || is.Deleted
			if is != nil && item.Created.IsZero() {
				item.Created = is.Created
			}
			for _, line := range m.Lines {
				l, err := x.Line(line)
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				if l.Type == index.Deleted && w.has(m.stream.Name, &l) && gone {
					item.Last, item.Ended, item.EndedAfter = placeOf(x, &l), l.Made(), made
					if err := j.lastState(ctx, &item, i, before, e); err != nil {
						return nil, err
					}
					n, there := at[k]
					switch {
					case !there:
						at[k], ends[k] = len(items), l.Seq
						items = append(items, item)
					case l.Seq > ends[k]: // in another stream, whose selection the object has left before
						items[n], ends[k] = item, l.Seq
					}
				}
				before = line
				// One that came late and does not say so may have been made earlier.
				if gone && (!l.Written.IsZero() || j.lateInterval(m.stream.Name, l.Time) == nil) {
					made = l.Made()
				}
			}
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return a.compare(&b) })
	return items, nil
}

// ends is what was read to find out when changes were made that do not say so.
type ends struct {
	gaps    map[uint64]time.Time // when they began, by seq
	segment int
	lines   map[string][]index.Line // of that segment, by stream
}

// lastState finds out about a deletion whether it was received late or found after a gap. After a gap the object is where it was
// last seen, unless its DELETED line has it. before is the index of the line before in the segment; item.EndedAfter is when the
// version before was made.
func (j *Journal) lastState(ctx context.Context, item *Item, segment, before int, e *ends) error {
	mark, seq, err := j.markBefore(ctx, item.Stream.Name, item.Last.Seq)
	if err != nil {
		return err
	}
	if mark != index.Gap {
		since, err := j.notBefore(ctx, e, segment, item.Stream.Name, item.Last.Seq, item.Ended)
		if item.EndedAfter = latest(since, item.EndedAfter); since.IsZero() || item.EndedAfter.After(item.Ended) {
			item.EndedAfter = since
		}
		return err
	}
	if _, known := e.gaps[seq]; !known {
		gap, err := j.lineOf(ctx, seq)
		if err != nil {
			return err
		}
		var from time.Time
		_ = from.UnmarshalText(gap.Text(line.FieldFromTime)) // zero where it is not known
		e.gaps[seq] = from
	}
	item.EndedAfter = e.gaps[seq]
	l, err := j.earlier(ctx, item.Last)
	if err != nil || l == nil || rawjson.At(l.Object, []byte("/metadata/creationTimestamp")) != nil {
		return err
	}
	v := Version{Fields: l, journal: j, segment: segment, before: before}
	at, err := v.previous(ctx)
	if err != nil || at.Seq == 0 {
		return err
	}
	namespace := item.Namespace
	_, removed, err := j.removedSince(ctx, item.Stream.Name, &namespace, at.Seq, item.Last.Seq)
	if err != nil || removed {
		return err // its last state may be a removed line's
	}
	there, err := j.locate(ctx, &at)
	if there {
		item.Last = at
	}
	return err
}

// lineOf reads the line with a seq. It is valid until the next call.
func (j *Journal) lineOf(ctx context.Context, seq uint64) (*line.Fields, error) {
	x, err := j.index(ctx, j.segmentWith(seq))
	if err != nil {
		return nil, err
	}
	l, err := x.LineOf(seq)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return j.earlier(ctx, placeOf(x, &l))
}

// Replaced reports of each of some deleted objects whether another one took its name: a later one of them, or one that is
// there as far as the journal says.
func (j *Journal) Replaced(ctx context.Context, s *Selection, items []Item) ([]bool, error) {
	st, err := j.State(ctx, s, Moment{Seq: math.MaxUint64})
	if err != nil {
		return nil, err
	}
	last := make(map[key]uint64, len(items)) // by name: the seq of the last deletion
	for i := range items {
		k := items[i].name()
		last[k] = max(last[k], items[i].Last.Seq)
	}
	for i := range st.Items {
		last[st.Items[i].name()] = math.MaxUint64
	}
	replaced := make([]bool, len(items))
	for i := range items {
		replaced[i] = last[items[i].name()] > items[i].Last.Seq
	}
	return replaced, nil
}
