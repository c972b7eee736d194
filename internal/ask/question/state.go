package question

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Item is an object at a moment.
type Item struct {
	Stream               *index.Stream
	Namespace, Name, UID string
	// Last is the line that says what it was: the last one about it up to the moment. A segment that is gone has no
	// such line any more: then Gone is true.
	Last index.Place
	Gone bool
	// Deleted says that it was deleted, where the question is for that: Last is its deletion, or the line before if the
	// deletion does not have the object; or its stream started over since without the object. Journal.Deleted sets when
	// that was: at Ended or, if it was found after a gap, between EndedAfter and Ended.
	Deleted           bool
	EndedAfter, Ended time.Time
	Created           time.Time // in whole seconds; zero where it is not known
	// What Describe sets: when that version was made, and the field manager that wrote it, with "/" and its subresource
	// where it has one; empty where the line names none.
	Made   time.Time
	Writer string
	Size   int64 // of its line, in bytes
}

// State is the selected objects at a moment, in the order of resource, namespace and name.
type State struct {
	At     argument.Moment
	Items  []Item
	Doubts []Doubt // why it may not be all
}

// span returns the segments in which a cut lies: all lines of those before are included, none of those after. A cut
// between two of them lies in the first, since a file may be gone after it.
func (j *Journal) span(ctx context.Context, c *cut) (first, last int, err error) {
	if c.Version > 0 {
		first, last = j.spanVersion(c)
		return first, last, nil
	}
	last = len(j.Segments) - 1
	if c.Seq > 0 || c.IsLatest() {
		if c.Seq > 0 {
			last = j.SegmentWith(c.Seq)
		}
		return last, last, nil
	}
	first, end := last, 0
	for i := range j.Segments {
		b, err := j.Bounds(ctx, i)
		if err != nil {
			return 0, 0, err
		}
		if b.Newest.After(c.Time) {
			first = min(first, i)
		}
		if !b.BeginAfter(c.Time) {
			end = i
		}
	}
	return min(first, end), end, nil
}

// spanVersion is span for a version of the server.
func (j *Journal) spanVersion(c *cut) (first, last int) {
	first = len(j.Segments) - 1
	for i := range j.Segments {
		for _, seq := range c.seqs {
			if i+1 == len(j.Segments) || j.Segments[i+1].FirstSeq > seq {
				first = min(first, i)
				break
			}
		}
		for _, seq := range c.seqs {
			if j.Segments[i].FirstSeq <= seq {
				last = i
				break
			}
		}
	}
	return first, max(first, last)
}

// itemOf returns what names an object.
func itemOf(m *argument.Match) Item {
	return Item{Stream: m.Stream, Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// key is an object of a resource, whichever stream it is in.
type key struct{ group, resource, namespace, name, uid string }

func (i *Item) key() key {
	return key{i.Stream.Group, i.Stream.Resource, i.Namespace, i.Name, i.UID}
}

// name returns the key without the uid.
func (i *Item) name() key {
	k := i.key()
	k.uid = ""
	return k
}

func (i *Item) compare(o *Item) int {
	return cmp.Or(strings.Compare(i.Stream.Group, o.Stream.Group), strings.Compare(
		i.Stream.Resource, o.Stream.Resource,
	),
		strings.Compare(i.Namespace, o.Namespace), strings.Compare(i.Name, o.Name), cmp.Compare(i.Last.Seq, o.Last.Seq))
}

// State returns the selected objects that were there at a moment.
func (j *Journal) State(ctx context.Context, s *argument.Selection, at argument.Moment) (*State, error) {
	return archive.Again(j.Journal, func() (*State, error) { return j.state(ctx, s, at, false) })
}

// state returns those that were deleted too, if deleted is true.
func (j *Journal) state(ctx context.Context, s *argument.Selection, at argument.Moment, deleted bool) (*State, error) {
	if len(j.Segments) == 0 {
		return &State{At: at}, nil
	}
	c, err := j.cut(ctx, s, at)
	if err != nil {
		return nil, err
	}
	st, err := j.stateAt(ctx, s, c, deleted)
	if err != nil {
		return nil, err
	}
	doubts, err := j.doubtsAt(ctx, s, c)
	st.Doubts = slices.Concat(doubts, st.Doubts)
	return st, err
}

// stateAt returns the state at a cut, with those doubts alone that are about lines that are lost.
func (j *Journal) stateAt(ctx context.Context, s *argument.Selection, c *cut, deleted bool) (*State, error) {
	first, last, err := j.span(ctx, c)
	if err != nil {
		return nil, err
	}
	if first, err = j.Base(ctx, first); err != nil {
		return nil, err
	}
	found, err := j.found(ctx, s, c, first, last)
	if err != nil {
		return nil, err
	}
	if err := j.forget(ctx, found, c, first, last); err != nil {
		return nil, err
	}
	settle(found)
	doubts, err := j.lostLines(ctx, c, first, last)
	if err != nil {
		return nil, err
	}
	removed, err := j.removed(ctx, s, first, last, argument.Moment{}, c.Moment)
	if err != nil {
		return nil, err
	}
	st := &State{At: c.Moment, Doubts: slices.Concat(doubts, removed)}
	for _, of := range found {
		item, there := newest(of)
		if !there && !deleted {
			continue
		}
		there, err := j.Locate(ctx, &item.Last)
		if err != nil {
			return nil, err
		}
		item.Gone = !there
		st.Items = append(st.Items, item)
	}
	slices.SortFunc(st.Items, func(a, b Item) int { return a.compare(&b) })
	return st, nil
}

// found returns what some segments say of the selected objects up to a cut: of each object an item for each stream that
// has it.
func (j *Journal) found(ctx context.Context, s *argument.Selection, c *cut, first, last int) (map[key][]Item, error) {
	found := make(map[key][]Item)
	for i := first; i <= last; i++ {
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		for m, err := range s.Matches(x) {
			if err != nil {
				return nil, err
			}
			if c.gone[m.Stream.Name] {
				continue
			}
			item := itemOf(&m)
			k := item.key()
			n := slices.IndexFunc(found[k], func(was Item) bool { return was.Stream.Name == m.Stream.Name })
			if n >= 0 {
				item = found[k][n]
				item.Stream = m.Stream
			}
			if !m.Created.IsZero() {
				item.Created = m.Created
			}
			if i == first {
				item.Last = m.Before
			}
			if err := c.follow(&item, x, m.Lines); err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			switch {
			case item.Last.Seq == 0:
			case n >= 0:
				found[k][n] = item
			default:
				found[k] = append(found[k], item)
			}
		}
	}
	return found, nil
}

// lostLines returns a doubt for each reason why lines are missing that a cut needs, from one segment to another one.
func (j *Journal) lostLines(ctx context.Context, c *cut, first, last int) ([]Doubt, error) {
	begin, err := j.begins(ctx, first)
	if err != nil {
		return nil, err
	}
	end, err := j.Index(ctx, last)
	if err != nil {
		return nil, err
	}
	if c.Seq >= end.Next && last+1 < len(j.Segments) { // the line itself is in a file that is gone
		last++
	}
	lost, err := j.lost(ctx, first, last, argument.Moment{}, c.Moment)
	return slices.Concat(begin, lost), err
}

// follow takes the lines of a segment about an object, by their indexes.
func (c *cut) follow(item *Item, x *index.Index, lines []int) error {
	for _, at := range slices.Backward(lines) {
		l, err := x.Line(at)
		if err != nil {
			return err
		}
		if c.includes(item.Stream.Name, &l) {
			item.Last = archive.PlaceOf(x, &l)
			item.Deleted = l.Type == index.Deleted
			return nil
		}
	}
	return nil
}

// forget marks as deleted what was not there any more when its stream started over in some segments.
func (j *Journal) forget(ctx context.Context, found map[key][]Item, c *cut, first, last int) error {
	var segments []*index.Index
	for i := first; i <= last; i++ {
		x, err := j.Index(ctx, i)
		if err != nil {
			return err
		}
		segments = append(segments, x)
	}
	since := make(map[string]uint64)
	for _, of := range found {
		for i := range of {
			stream := of[i].Stream.Name
			begun, known := since[stream]
			if !known {
				var err error
				begun, err = index.Begun(segments, stream, func(l *index.Line) bool { return c.includes(stream, l) })
				if err != nil {
					return fmt.Errorf("read index: %w", err)
				}
				since[stream] = begun
			}
			of[i].Deleted = of[i].Deleted || of[i].Last.Seq < begun
		}
	}
	return nil
}

// settle leaves of those objects of a stream that have the same name the last one: the others were deleted before it
// was made.
func settle(found map[key][]Item) {
	type name struct{ stream, namespace, name string }
	last := make(map[name]uint64)
	for _, of := range found {
		for _, item := range of {
			n := name{item.Stream.Name, item.Namespace, item.Name}
			last[n] = max(last[n], item.Last.Seq)
		}
	}
	for _, of := range found {
		for i := range of {
			of[i].Deleted = of[i].Deleted || of[i].Last.Seq < last[name{of[i].Stream.Name, of[i].Namespace, of[i].Name}]
		}
	}
}

// begins returns a doubt if what was there in a segment is known by lines after the journal's first one alone.
func (j *Journal) begins(ctx context.Context, i int) ([]Doubt, error) {
	x, err := j.Index(ctx, i)
	if err != nil {
		return nil, err
	}
	since := x.Since
	if since == 0 {
		since = x.FirstSeq
	}
	if since <= 1 {
		return nil, nil
	}
	if hole := j.Segments[i].Hole; hole != "" {
		return []Doubt{{Reason: hole + ": objects that have not changed since are missing"}}, nil
	}
	lines := "are not in the journal's files any more"
	if len(j.Unread) > 0 {
		lines = "are not in files that can be read"
	}
	return []Doubt{
		{Reason: fmt.Sprintf("lines before line %d %s: objects that have not changed since are missing", since, lines)},
	}, nil
}

// newest returns what is said last of an object that several streams may have. Where one has it, it is there: a
// selector that it does not match any more has it deleted.
func newest(of []Item) (is Item, there bool) {
	for _, item := range of {
		if alive := !item.Deleted; alive && !there || alive == there && item.Last.Seq > is.Last.Seq {
			is, there = item, alive
		}
	}
	return is, there
}

// One returns the one object that is selected at a moment: the one that was there, else the one that was deleted last.
// There is none where nothing of the name was there up to then.
func (j *Journal) One(ctx context.Context, s *argument.Selection, at argument.Moment) (*Item, []Doubt, error) {
	st, err := archive.Again(j.Journal, func() (*State, error) { return j.state(ctx, s, at, true) })
	if err != nil {
		return nil, nil, err
	}
	var one *Item
	places := make(map[string]bool)
	for i := range st.Items {
		item := &st.Items[i]
		places[strings.Join([]string{item.Stream.Resource, item.Namespace, item.Name}, " ")] = true
		if one == nil || one.Deleted && !item.Deleted || one.Deleted == item.Deleted && one.Last.Seq < item.Last.Seq {
			one = item
		}
	}
	if len(places) > 1 {
		var names []string
		for _, item := range st.Items {
			names = append(names, item.Namespace+"/"+item.Name)
		}
		return nil, nil, argument.Unknownf(
			"several objects have that name: %s; name its namespace with -n", argument.Some(names),
		)
	}
	return one, st.Doubts, nil
}

// Describe sets when the items' versions were made and by whom, without a look at the lines. It passes over items that
// are gone.
func (j *Journal) Describe(ctx context.Context, items []Item) error {
	_, err := archive.Again(j.Journal, func() (struct{}, error) { return struct{}{}, j.describe(ctx, items) })
	return err
}

func (j *Journal) describe(ctx context.Context, items []Item) error {
	order := make([]*Item, 0, len(items))
	for i := range items {
		if !items[i].Gone {
			order = append(order, &items[i])
		}
	}
	slices.SortFunc(order, func(a, b *Item) int { return cmp.Compare(a.Last.Seq, b.Last.Seq) })
	for _, item := range order {
		x, err := j.Index(ctx, j.SegmentOf(item.Last.Segment))
		if err != nil {
			return err
		}
		l, err := x.LineOf(item.Last.Seq)
		if err != nil {
			return fmt.Errorf("read index: %w", err)
		}
		item.Writer, item.Size = l.Writer, l.Size
		if item.Made = l.Written; item.Made.IsZero() {
			item.Made = l.Time
		}
	}
	return nil
}

// Read calls fn with the lines that say what the items were, from several goroutines at once. A line is valid until fn
// returns.
func (j *Journal) Read(ctx context.Context, items []Item, fn func(i int, l *line.Fields) error) error {
	order := make([]int, 0, len(items))
	for i := range items {
		if !items[i].Gone {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(items[a].Last.Seq, items[b].Last.Seq) })
	var parts []sameSegment
	for len(order) > 0 {
		n := 1
		for n < min(len(order), itemsPerPart) && items[order[n]].Last.Segment == items[order[0]].Last.Segment {
			n++
		}
		segment := j.SegmentOf(items[order[0]].Last.Segment)
		x, err := j.Index(ctx, segment) // it is read by all
		if err != nil {
			return err
		}
		parts, order = append(parts, sameSegment{j.Segments[segment], x, order[:n]}), order[n:]
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan sameSegment)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		workers.Go(func() {
			var r archive.Reader // with buffers that all parts use
			defer r.Close()
			for part := range next {
				if err := part.read(ctx, &r, items, fn); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, part := range parts {
		next <- part
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// itemsPerPart bounds what one goroutine reads of a segment at once.
const itemsPerPart = 1000

// sameSegment are items whose lines are in one segment, by their indexes, in the order of their lines.
type sameSegment struct {
	segment *archive.Segment
	x       *index.Index
	items   []int
}

func (p *sameSegment) read(
	ctx context.Context, r *archive.Reader, items []Item, fn func(i int, l *line.Fields) error,
) error {
	for _, i := range p.items {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l, err := r.Read(p.segment, p.x, items[i].Last.Seq, items[i].Last.Offset)
		if err == nil {
			err = fn(i, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
