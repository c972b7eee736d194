package search

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// maxQueue bounds the rows that wait for those before them, in bytes: the first one is yielded then, with the versions
// that were counted so far.
const maxQueue = 16 << 20

// Search is what is searched for.
type Search struct {
	Pattern *Pattern
	Field   []fieldpath.Step // only what is there or below; all without it
	Whole   bool             // a Match has its Value, else its Text
	// Wanted reports of a version whether it is asked for, and whether it may be where that is not known. It is called
	// in the order of the versions, with those that match and those that lack something.
	Wanted   func(l *line.Fields, matches bool) (wanted, may bool)
	Progress *Progress // nil for none
}

// Point is a line and its time.
type Point struct {
	Seq  uint64
	Time time.Time
}

// Row is a match, from the first version of an object on that has it.
type Row struct {
	Match
	Line *line.Fields // the version, without its object
	More int          // versions that have the same, one after the other
	Last Point        // the last of them
	Gone Point        // the first that does not; zero where there is none, or it is not known

	of     *object
	seen   uint64 // seq of the last version that has it, wanted or not
	closed bool
	size   int
}

// Result says what was searched, and what was not.
type Result struct {
	Versions int // that were searched
	More     int // matches that no row is of: their version has too many
	Lacking  []Lack
	Doubt    bool // the pattern may be in what is lacking, but for redacted values of resources that are not named
}

// Kind is why something of objects was not searched.
type Kind int

// The kinds.
const (
	Redacted  Kind = iota // values
	Cut                   // values and parts, of truncated lines
	NoContent             // the lines have metadata alone, or nothing
	Damaged               // the object in the line is no JSON
	kinds
)

// Lack is what was not searched of objects, for one reason.
type Lack struct {
	Kind            Kind
	Fields, Objects int // Fields counts the most that a version of each object lacks
}

// object has matches that may be in its next version too.
type object struct {
	key  string
	rows []*Row
}

type match struct {
	of  *object
	sum [sha256.Size]byte
}

// seen is what a look at a line has found.
type seen struct {
	key     string // of its object; empty for a line about none
	at      Point
	deleted bool
	head    []byte   // the line without its object, where it matters
	found   *finding // nil for nothing
	missing bool     // its object is not there
}

type searcher struct {
	*Search
	sel     *argument.Selection
	yield   func(*Row) error
	objects map[string]*object
	open    map[match]*Row
	queue   []*Row
	size    int                    // of queue
	lacks   map[string]*[kinds]int // by object: the most fields that a version lacks
	result  Result
}

// Run calls yield with the rows, in the order of their first versions, and returns what was searched of the selected
// objects between two moments, each of which may be zero.
func (s *Search) Run(
	ctx context.Context, j *question.Journal, sel *argument.Selection, since, until argument.Moment,
	yield func(*Row) error,
) (*Result, error) {
	r := &searcher{
		Search: s, sel: sel, yield: yield, objects: make(map[string]*object), open: make(map[match]*Row),
		lacks: make(map[string]*[kinds]int),
	}
	defer s.Progress.Clear()
	sizes := make([]int64, len(j.Segments))
	for i := range j.Segments {
		size, err := archive.Again(j.Journal, func() (int64, error) {
			if outside, err := j.Outside(ctx, i, since, until); err != nil || outside {
				return 0, err
			}
			x, err := j.Index(ctx, i)
			if err != nil {
				return 0, err
			}
			return x.Size, nil
		})
		if err != nil {
			return nil, err
		}
		sizes[i] = size
		s.Progress.add(size)
	}
	for p, err := range j.Parts(ctx, sel, since, until) {
		if err != nil {
			return nil, err
		}
		last := int64(0)
		err = archive.Scan(ctx, j.Journal, p, s.newLook, func(is seen, end int64) error {
			s.Progress.pass(end - last)
			last = end
			return r.take(&is)
		})
		if err != nil {
			return nil, err
		}
		s.Progress.pass(sizes[p.Segment] - last)
	}
	for _, row := range r.queue {
		if err := yield(row); err != nil {
			return nil, err
		}
	}
	r.count()
	return &r.result, nil
}

// newLook returns what looks at lines, for one goroutine.
func (s *Search) newLook() func(*line.Fields) seen {
	w := &walker{p: s.Pattern, a: s.Pattern.automaton(), field: s.Field, whole: s.Whole}
	hidden := newNeedle(redacted, false)
	inMetadata := len(s.Field) > 0 && s.Field[0].Key == "metadata"
	return func(l *line.Fields) seen {
		if l.AboutStream() || l.SaysRemoved() {
			return seen{}
		}
		is := seen{
			key: keyOf(l), at: Point{l.Seq, l.Time}, deleted: l.Type() == line.Deleted,
			missing: len(l.Object) == 0 || !inMetadata && metadataAlone(l.Object),
		}
		if len(l.Object) > 0 && (l.Incomplete() || w.mayMatch(l.Object) || hidden.in(l.Object)) {
			if f := w.walk(l); len(f.matches)+f.redacted+f.cut > 0 || f.damaged {
				is.found = f
			}
		}
		if is.found != nil || is.missing {
			is.head = without(l.Raw, "object")
		}
		return is
	}
}

// keyOf returns what tells the object of a line from others.
func keyOf(l *line.Fields) string {
	key := make([]byte, 0, 128)
	for _, f := range [...]line.Field{line.FieldStream, line.FieldNamespace, line.FieldName, line.FieldUID} {
		key = append(append(key, l.Text(f)...), 0)
	}
	return string(key)
}

// metadataAlone reports whether an object has nothing else.
func metadataAlone(object []byte) bool {
	c := rawjson.NewCursor(object)
	if !c.Take('{') {
		return false
	}
	key, ok := c.Key()
	return ok && string(key) == "metadata" && c.Value() != nil && c.Take('}')
}

// without returns a JSON object without some members.
func without(object []byte, names ...string) []byte {
	is := []byte{'{'}
	for key, value := range rawjson.Members(object) {
		if rawjson.IndexFrom(names, key, 0) < 0 {
			if len(is) > 1 {
				is = append(is, ',')
			}
			is = append(append(append(append(is, '"'), key...), `":`...), value...)
		}
	}
	return append(is, '}')
}

// take counts a version with the rows of its object, and adds rows.
func (r *searcher) take(is *seen) error {
	if is.key == "" {
		return nil
	}
	r.result.Versions++
	o := r.objects[is.key]
	if is.head == nil {
		return r.end(o, is, false)
	}
	l := &line.Fields{}
	if err := l.Parse(is.head); err != nil {
		return fmt.Errorf("line %d: %w", is.at.Seq, err)
	}
	f := is.found
	if f == nil {
		f = &finding{}
	}
	wanted, may := r.Wanted(l, len(f.matches) > 0)
	if wanted || may {
		r.result.More += f.more
		r.note(is, l, f)
	}
	for i := range f.matches {
		if o == nil {
			o = &object{key: is.key}
			r.objects[is.key] = o
		}
		r.match(o, &f.matches[i], is, l, wanted)
	}
	return r.end(o, is, is.missing || f.cut+f.redacted+f.more > 0 || f.damaged)
}

// match counts a match of a version, or makes a row of it.
func (r *searcher) match(o *object, m *Match, is *seen, l *line.Fields, wanted bool) {
	key := match{o, m.sum}
	row := r.open[key]
	switch {
	case row != nil && row.seen == is.at.Seq: // an element of the same name
	case row != nil:
		if row.seen = is.at.Seq; wanted {
			row.More++
			row.Last = is.at
		}
	case wanted:
		own := &line.Fields{}
		_ = own.Parse(without(l.Raw, "changes")) // it did with them
		row = &Row{Match: *m, Line: own, Last: is.at, of: o, seen: is.at.Seq}
		row.size = len(own.Raw) + len(m.Path) + len(m.Value) + len(m.Text.Before) + len(m.Text.Match) +
			len(m.Text.After) + 1<<10
		r.open[key], o.rows = row, append(o.rows, row)
		r.queue, r.size = append(r.queue, row), r.size+row.size
	}
}

// end closes the rows that a version does not have, all of them with a deletion, and yields the rows that no open one
// is before. unknown says that the version may have them.
func (r *searcher) end(o *object, is *seen, unknown bool) error {
	if o != nil {
		kept := o.rows[:0]
		for _, row := range o.rows {
			if row.seen == is.at.Seq && !is.deleted {
				kept = append(kept, row)
				continue
			}
			if r.close(row); !unknown || is.deleted {
				row.Gone = is.at
			}
		}
		clear(o.rows[len(kept):])
		if o.rows = kept; len(kept) == 0 {
			delete(r.objects, o.key)
		}
	}
	for len(r.queue) > 0 && (r.queue[0].closed || r.size > maxQueue) {
		row := r.queue[0]
		if !row.closed {
			r.close(row)
			row.of.drop(row)
			if len(row.of.rows) == 0 {
				delete(r.objects, row.of.key)
			}
		}
		r.queue[0] = nil
		r.queue, r.size = r.queue[1:], r.size-row.size
		if err := r.yield(row); err != nil {
			return err
		}
	}
	return nil
}

func (r *searcher) close(row *Row) {
	row.closed = true
	delete(r.open, match{row.of, row.sum})
}

func (o *object) drop(row *Row) {
	for i, is := range o.rows {
		if is == row {
			o.rows = append(o.rows[:i], o.rows[i+1:]...)
			return
		}
	}
}

// note notes what is lacking of a version.
func (r *searcher) note(is *seen, head *line.Fields, f *finding) {
	lacks := [kinds]int{Redacted: f.redacted, Cut: f.cut, NoContent: btoi(is.missing), Damaged: btoi(f.damaged)}
	if lacks == [kinds]int{} {
		return
	}
	l := r.lacks[is.key]
	if l == nil {
		l = &lacks
		r.lacks[is.key] = l
	}
	for k, n := range lacks {
		l[k] = max(l[k], n)
	}
	// Who asks for everything, or a namespace, does not expect to be shown the values of Secrets.
	asked := f.hides && (len(r.sel.UIDs) > 0 || r.sel.Names(head))
	r.result.Doubt = r.result.Doubt || is.missing || f.damaged || f.cut > 0 || asked
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count adds up what is lacking.
func (r *searcher) count() {
	var all [kinds]Lack
	for _, l := range r.lacks {
		for k, n := range l {
			if n > 0 {
				all[k].Fields += n
				all[k].Objects++
			}
		}
	}
	for k, l := range all {
		if l.Kind = Kind(k); l.Objects > 0 {
			r.result.Lacking = append(r.result.Lacking, l)
		}
	}
}
