package question

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// History yields the lines about the selected objects between two moments, each of which may be zero, in the order of
// seq; with GAP and SYNCED of the streams that may have such objects. A version is valid until the next one.
func (j *Journal) History(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) iter.Seq2[*archive.Version, error] {
	return func(yield func(*archive.Version, error) bool) {
		for p, err := range j.Parts(ctx, s, since, until) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !j.Walk(ctx, p.Segment, p.Steps, yield) {
				return
			}
		}
	}
}

// Parts yields where the lines of a History are, segment by segment.
func (j *Journal) Parts(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) iter.Seq2[archive.Part, error] {
	return func(yield func(archive.Part, error) bool) {
		w, err := archive.Again(j.Journal, func() (*window, error) { return j.window(ctx, s, since, until) })
		if err != nil {
			yield(archive.Part{}, err)
			return
		}
		var before, r archive.Repeats
		for i := range j.Segments {
			steps, err := archive.Again(j.Journal, func() ([]archive.Step, error) {
				if outside, err := w.outside(ctx, j, i); err != nil || outside {
					return nil, err
				}
				x, err := j.Index(ctx, i)
				if err != nil {
					return nil, err
				}
				r = before
				r.Begin()
				return archive.Steps(x, s, func(stream string, l *index.Line) bool {
					return w.has(stream, l) && !r.Has(l.Seq, l.Time)
				})
			})
			if before = r; err != nil {
				err = fmt.Errorf("read index: %w", err)
			}
			if !yield(archive.Part{Segment: i, Steps: steps}, err) || err != nil {
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
func (j *Journal) Objects(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Span, error) {
	return archive.Again(j.Journal, func() ([]Span, error) { return j.objects(ctx, s, since, until) })
}

func (j *Journal) objects(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (all []Span, err error) {
	known := make(map[key]int)
	w, err := j.window(ctx, s, since, until)
	if err != nil {
		return nil, err
	}
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
		for m, err := range s.Matches(x) {
			if err != nil {
				return nil, err
			}
			item := itemOf(&m)
			for l, err := range archive.LinesOf(x, m.Object) {
				if err != nil {
					return nil, err
				}
				if !w.has(m.Stream.Name, &l) {
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

// Deleted returns the selected objects that were deleted between two moments, each of which may be zero, with their
// last states; and why that may not be all. One that only left the selection of a stream, and is there in another, was
// not.
func (j *Journal) Deleted(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) ([]Item, []Doubt, error) {
	items, err := archive.Again(j.Journal, func() ([]Item, error) { return j.deleted(ctx, s, since, until) })
	if err != nil {
		return nil, nil, err
	}
	doubts, err := archive.Again(
		j.Journal, func() ([]Doubt, error) { return j.uncoveredBetween(ctx, s, since, until, index.Deleted) },
	)
	return items, doubts, err
}

func (j *Journal) deleted(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Item, error) {
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
		for m, err := range s.Matches(x) {
			if err != nil {
				return nil, err
			}
			item := itemOf(&m)
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
				if l.Type == index.Deleted && w.has(m.Stream.Name, &l) && gone {
					item.Last, item.Ended, item.EndedAfter = archive.PlaceOf(x, &l), l.Made(), made
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
				if gone && (!l.Written.IsZero() || j.lateInterval(m.Stream.Name, l.Time) == nil) {
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

// lastState finds out about a deletion whether it was received late or found after a gap. After a gap the object is
// where it was last seen, unless its DELETED line has it. before is the index of the line before in the segment;
// item.EndedAfter is when the version before was made.
func (j *Journal) lastState(ctx context.Context, item *Item, segment, before int, e *ends) error {
	mark, seq, err := j.MarkBefore(ctx, item.Stream.Name, item.Last.Seq)
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
		gap, err := j.LineOf(ctx, seq)
		if err != nil {
			return err
		}
		var from time.Time
		if gap != nil {
			_ = from.UnmarshalText(gap.Text(line.FieldFromTime)) // zero where it is not known
		}
		e.gaps[seq] = from
	}
	item.EndedAfter = e.gaps[seq]
	l, err := j.Line(ctx, item.Last)
	if err != nil || l == nil || rawjson.At(l.Object, []byte("/metadata/creationTimestamp")) != nil {
		return err
	}
	at, err := j.Before(ctx, segment, before, l)
	if err != nil || at.Seq == 0 {
		return err
	}
	namespace := item.Namespace
	_, removed, err := j.RemovedSince(ctx, item.Stream.Name, &namespace, at.Seq, item.Last.Seq)
	if err != nil || removed {
		return err // its last state may be a removed line's
	}
	there, err := j.Locate(ctx, &at)
	if there {
		item.Last = at
	}
	return err
}

// Replaced reports of each of some deleted objects whether another one took its name: a later one of them, or one that
// is there as far as the journal says.
func (j *Journal) Replaced(ctx context.Context, s *argument.Selection, items []Item) ([]bool, error) {
	st, err := j.State(ctx, s, argument.Moment{Seq: math.MaxUint64})
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
