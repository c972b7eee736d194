package question

import (
	"context"
	"slices"
	"strings"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Change is what became of an object between two moments.
type Change struct {
	Before, After *Item // nil where it was not there
	Versions      int   // lines about it in between
}

// Item returns the object, as it was at the later moment if it was there.
func (c *Change) Item() *Item {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Comparison is what became of the selected objects between two moments, in the order of State.
type Comparison struct {
	From, To argument.Moment
	// Changes are the objects whose last line differs between the moments. An object that was deleted and created
	// again, with another uid, is there twice.
	Changes []Change
	// Passed are those that were neither there at the one moment nor at the other, but in between.
	Passed []Change
	Doubts []Doubt // why it may not be all

	selection *argument.Selection
}

// Compare compares the states at two moments.
func (j *Journal) Compare(ctx context.Context, s *argument.Selection, from, to argument.Moment) (*Comparison, error) {
	before, err := j.State(ctx, s, from)
	if err != nil {
		return nil, err
	}
	after, err := j.State(ctx, s, to)
	if err != nil {
		return nil, err
	}
	between, err := archive.Again(j.Journal, func() (map[key]*passage, error) { return j.between(ctx, s, from, to) })
	if err != nil {
		return nil, err
	}
	versions := func(k key) int {
		if p := between[k]; p != nil {
			return p.lines
		}
		return 0
	}
	c := &Comparison{From: from, To: to, selection: s, Doubts: mergeDoubts(before.Doubts, after.Doubts)}
	then := make(map[key]*Item, len(before.Items))
	for i := range before.Items {
		then[before.Items[i].key()] = &before.Items[i]
	}
	for i := range after.Items {
		is := &after.Items[i]
		k := is.key()
		if was := then[k]; was == nil || was.Last.Seq != is.Last.Seq {
			c.Changes = append(c.Changes, Change{Before: was, After: is, Versions: versions(k)})
		}
		delete(then, k)
		delete(between, k)
	}
	for k, was := range then {
		c.Changes = append(c.Changes, Change{Before: was, Versions: versions(k)})
		delete(between, k)
	}
	for _, p := range between {
		c.Passed = append(c.Passed, Change{After: &p.last, Versions: p.lines})
	}
	for _, all := range [][]Change{c.Changes, c.Passed} {
		slices.SortFunc(all, func(a, b Change) int { return a.Item().compare(b.Item()) })
	}
	return c, nil
}

// Between calls fn with the lines about some of c.Changes, each of an object that was there at both moments: those
// after the earlier state up to the later one, in the order of seq. A version is valid until fn returns.
func (j *Journal) Between(
	ctx context.Context, c *Comparison, some []*Change, fn func(i int, v *archive.Version) error,
) error {
	of := make(map[key]int, len(some))
	s := *c.selection
	s.UIDs = make(map[string]bool, len(some))
	var since, until argument.Moment
	for i, ch := range some {
		of[ch.After.key()], s.UIDs[ch.After.UID] = i, true
		if since.Seq == 0 || ch.Before.Last.Seq < since.Seq {
			since.Seq = ch.Before.Last.Seq
		}
		until.Seq = max(until.Seq, ch.After.Last.Seq)
	}
	if len(some) == 0 {
		return nil
	}
	for v, err := range j.History(ctx, &s, since, until) {
		if err != nil {
			return err
		}
		k := key{
			v.Unquoted(line.FieldGroup), v.Unquoted(line.FieldResource), v.Unquoted(line.FieldNamespace),
			v.Unquoted(line.FieldName), v.Unquoted(line.FieldUID),
		}
		i, wanted := of[k]
		if !wanted || v.AboutStream() || v.Seq <= some[i].Before.Last.Seq || v.Seq > some[i].After.Last.Seq {
			continue
		}
		if err := fn(i, v); err != nil {
			return err
		}
	}
	return nil
}

// passage is what lines between two moments are about an object.
type passage struct {
	lines int
	last  Item // by the last of them
}

// between returns what lines there are about each object between two moments.
func (j *Journal) between(
	ctx context.Context, s *argument.Selection, from, to argument.Moment,
) (map[key]*passage, error) {
	a, err := j.cut(ctx, s, from)
	if err != nil {
		return nil, err
	}
	b, err := j.cut(ctx, s, to)
	if err != nil {
		return nil, err
	}
	first, _, err := j.span(ctx, a)
	if err != nil {
		return nil, err
	}
	_, last, err := j.span(ctx, b)
	if err != nil {
		return nil, err
	}
	all := make(map[key]*passage)
	for i := first; i <= last; i++ {
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
				if a.includes(m.Stream.Name, &l) || !b.includes(m.Stream.Name, &l) {
					continue
				}
				of := all[item.key()]
				if of == nil {
					of = &passage{}
					all[item.key()] = of
				}
				of.lines++
				if l.Seq > of.last.Last.Seq {
					item.Last, item.Deleted = archive.PlaceOf(x, &l), l.Type == index.Deleted
					of.last = item
				}
			}
		}
	}
	return all, nil
}

// mergeDoubts returns the doubts of two answers, each once.
func mergeDoubts(a, b []Doubt) []Doubt {
	all := slices.Clone(a)
	for _, d := range b {
		if !slices.ContainsFunc(all, d.equal) {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b Doubt) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}
