package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/index"
	"kubejournal/internal/line"
)

// Item is an object at a moment.
type Item struct {
	Stream               *index.Stream
	Namespace, Name, UID string
	// Last is the line that says what it was: the last one about it up to the moment. A segment that is gone has no such
	// line any more: then Gone is true.
	Last index.Place
	Gone bool
	// Deleted says that this line is its deletion, where the question is for those; or that its stream was begun anew since,
	// and the object was not there any more.
	Deleted bool

	followed bool // there is a line behind it
	unknown  bool // which may have been written by the moment too
}

// State is the selected objects at a moment, in the order of resource, namespace and name.
type State struct {
	At     Moment
	Items  []Item
	Doubts []Doubt // why it may not be all
}

// span returns the segments in which a cut lies: all lines of those before are included, none of those behind.
func (j *Journal) span(ctx context.Context, c *cut) (first, last int, err error) {
	end := len(j.segments) - 1
	first, last = end, 0
	if c.Version > 0 {
		return j.spanVersion(c)
	}
	for i, s := range j.segments {
		next := time.Time{}
		if i < end {
			next = j.segments[i+1].FirstTime
		}
		switch {
		case c.Seq > 0:
			if i == end || j.segments[i+1].FirstSeq > c.Seq {
				return i, i, nil
			}
			continue
		case !c.late() && s.FirstTime.After(c.Time.Add(clockSlack)) && i > 0:
			first = min(first, i-1)
			return first, max(first, last), nil
		case !c.late() && !next.IsZero() && next.Before(c.Time.Add(-clockSlack)):
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return 0, 0, err
		}
		if x.Newest.After(c.Time) {
			first = min(first, i)
		}
		if !x.Oldest.After(c.Time) || c.late() && !x.Earliest.IsZero() && !x.Earliest.After(c.Time) || !x.Oldest.After(c.received()) {
			last = i
		}
	}
	return first, max(first, last), nil
}

// spanVersion is span for a version of the server.
func (j *Journal) spanVersion(c *cut) (first, last int, err error) {
	first = len(j.segments) - 1
	for i := range j.segments {
		for _, seq := range c.seqs {
			if i+1 == len(j.segments) || j.segments[i+1].FirstSeq > seq {
				first = min(first, i)
				break
			}
		}
		for _, seq := range c.seqs {
			if j.segments[i].FirstSeq <= seq {
				last = i
				break
			}
		}
	}
	return first, max(first, last), nil
}

// clockSlack is how far the times of lines are supposed to go back from one to the next, at most: more is found by seq only.
const clockSlack = time.Hour

// key is an object of a resource, whichever stream it is in.
type key struct{ group, resource, namespace, name, uid string }

func (i *Item) key() key {
	return key{i.Stream.Group, i.Stream.Resource, i.Namespace, i.Name, i.UID}
}

func (i *Item) compare(o *Item) int {
	return cmp.Or(strings.Compare(i.Stream.Group, o.Stream.Group), strings.Compare(i.Stream.Resource, o.Stream.Resource),
		strings.Compare(i.Namespace, o.Namespace), strings.Compare(i.Name, o.Name), cmp.Compare(i.Last.Seq, o.Last.Seq))
}

// State returns the selected objects that were there at a moment.
func (j *Journal) State(ctx context.Context, s *Selection, at Moment) (*State, error) {
	return again(j, func() (*State, error) { return j.state(ctx, s, at, false) })
}

// state returns those that were deleted too, if deleted is true.
func (j *Journal) state(ctx context.Context, s *Selection, at Moment, deleted bool) (*State, error) {
	if j.Empty() {
		return &State{At: at}, nil
	}
	c, err := j.cut(ctx, s, at)
	if err != nil {
		return nil, err
	}
	first, last, err := j.span(ctx, c)
	if err != nil {
		return nil, err
	}
	if first, err = j.base(ctx, first); err != nil {
		return nil, err
	}
	found := make(map[key]map[string]Item) // by stream
	for i := first; i <= last; i++ {
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, p := range s.picks(x) {
			stream := &x.Streams[p.stream]
			if c.gone[stream.Name] {
				continue
			}
			for o, err := range s.objects(x, p) {
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				k := key{stream.Group, stream.Resource, o.Namespace, o.Name, o.UID}
				item, there := found[k][stream.Name]
				if !there {
					item = Item{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
				}
				if item.Stream = stream; i == first {
					item.Last = o.Before
				}
				if err := c.follow(&item, x, o.Lines); err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				if item.Last.Seq == 0 && !item.unknown {
					continue
				}
				if found[k] == nil {
					found[k] = make(map[string]Item)
				}
				found[k][stream.Name] = item
			}
		}
	}
	if err := j.forget(found, c, first, last); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	for _, name := range c.settle(found) {
		c.doubts = append(c.doubts, c.doubt(name))
	}
	lost, err := j.lost(ctx, first, last)
	if err != nil {
		return nil, err
	}
	st := &State{At: at, Doubts: append(c.doubts, lost...)}
	for _, of := range found {
		item, there := newest(of)
		if len(of) == 0 || !there && !deleted {
			continue
		}
		item.Gone = j.segmentOf(item.Last.Segment) < 0
		st.Items = append(st.Items, item)
	}
	slices.SortFunc(st.Items, func(a, b Item) int { return a.compare(&b) })
	return st, nil
}

// follow takes the lines of a segment about an object, by their indexes.
func (c *cut) follow(item *Item, x *index.Index, lines []int) error {
	followed, unknown := false, false
	for n := len(lines) - 1; n >= 0; n-- {
		l, err := x.Line(lines[n])
		if err != nil {
			return err
		}
		if c.includes(item.Stream.Name, &l) {
			item.Last = index.Place{Segment: x.FirstSeq, Seq: l.Seq, Offset: l.Offset}
			item.Deleted, item.followed, item.unknown = l.Type == index.Deleted, followed, unknown
			return nil
		}
		followed, unknown = true, c.unknown(item.Stream.Name, &l)
	}
	if followed && !item.followed {
		item.followed, item.unknown = true, unknown
	}
	return nil
}

// forget marks as deleted what was not there any more when its stream was begun anew in some segments.
func (j *Journal) forget(found map[key]map[string]Item, c *cut, first, last int) error {
	var segments []*index.Index
	for _, s := range j.segments[first : last+1] {
		segments = append(segments, s.x)
	}
	since := make(map[string]uint64)
	for _, of := range found {
		for stream, item := range of {
			begun, known := since[stream]
			if !known {
				var err error
				begun, err = index.Begun(segments, stream, func(l *index.Line) bool { return c.includes(stream, l) })
				if err != nil {
					return err
				}
				since[stream] = begun
			}
			if item.Last.Seq < begun {
				item.Deleted = true
				of[stream] = item
			}
		}
	}
	return nil
}

// settle leaves of those objects of a stream that have the same name the last one: the others were deleted before it was
// made. It returns the streams that have others of which it is not known what they were at the moment.
func (c *cut) settle(found map[key]map[string]Item) []string {
	type name struct{ stream, group, resource, namespace, name string }
	last := make(map[name]uint64)
	each := func(fn func(of map[string]Item, n name, item Item)) {
		for k, of := range found {
			for stream, item := range of {
				fn(of, name{stream, k.group, k.resource, k.namespace, k.name}, item)
			}
		}
	}
	each(func(_ map[string]Item, n name, item Item) { last[n] = max(last[n], item.Last.Seq) })
	doubted := make(map[string]bool)
	each(func(of map[string]Item, n name, item Item) {
		switch {
		case item.Last.Seq < last[n]:
			item.Deleted = true
			of[n.stream] = item
		case item.unknown:
			doubted[n.stream] = true
		}
		if item.Last.Seq == 0 {
			delete(of, n.stream)
		}
	})
	return slices.Sorted(maps.Keys(doubted))
}

// lost returns a doubt for each place in some segments behind which lines are missing; what was there at the beginning of
// the first one may be known by lines behind the journal's first one alone.
func (j *Journal) lost(ctx context.Context, first, last int) (doubts []Doubt, err error) {
	for i := first; i <= last; i++ {
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		since, next := cmp.Or(x.Since, x.FirstSeq), uint64(1)
		if i > first {
			since, next = x.FirstSeq, j.segments[i-1].x.Next
		}
		if since > next {
			doubts = append(doubts, Doubt{Reason: fmt.Sprintf("lines %d to %d are not in the journal's files: objects that have not changed since may be missing or older", next, since-1)})
		}
	}
	return doubts, nil
}

// newest returns what is said last of an object that several streams may have. Where one has it, it is there: a selector
// that it does not match any more has it deleted.
func newest(of map[string]Item) (is Item, there bool) {
	for _, item := range of {
		if alive := !item.Deleted; alive && !there || alive == there && item.Last.Seq > is.Last.Seq {
			is, there = item, alive
		}
	}
	return is, there
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
	var parts [][]int
	for len(order) > 0 {
		n := 1
		for n < min(len(order), itemsPerPart) && items[order[n]].Last.Segment == items[order[0]].Last.Segment {
			n++
		}
		// Its index says where a gzip member begins.
		if _, err := j.index(ctx, j.segmentOf(items[order[0]].Last.Segment)); err != nil {
			return err
		}
		parts, order = append(parts, order[:n]), order[n:]
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan []int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		workers.Go(func() {
			for part := range next {
				if err := j.readPart(ctx, items, part, fn); err != nil {
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

// readPart reads items of one segment, in order.
func (j *Journal) readPart(ctx context.Context, items []Item, part []int, fn func(i int, l *line.Fields) error) error {
	of := j.segments[j.segmentOf(items[part[0]].Last.Segment)]
	s := &segment{Segment: of.Segment, x: of.x}
	defer s.lines.Close()
	for _, i := range part {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l, err := s.read(items[i].Last.Seq, items[i].Last.Offset)
		if err == nil {
			err = fn(i, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
