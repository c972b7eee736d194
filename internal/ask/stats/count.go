// Package stats counts what a journal is made of, by its indexes: lines and bytes by type, stream, namespace, object,
// writer and hour. It says what a config could leave out, and how many bytes that would save; for some of that it reads
// a sample of the lines.
package stats

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Count is how many lines there are of something, and their bytes, the ends of lines included.
type Count struct {
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
}

func (c *Count) add(o Count) { c.Lines, c.Bytes = c.Lines+o.Lines, c.Bytes+o.Bytes }

// ByType are counts by index.Type; the first one is of types that are not known.
type ByType [index.Sealed + 1]Count

func (b *ByType) sum() (c Count) {
	for _, one := range b {
		c.add(one)
	}
	return c
}

// Object is what lines are about that have the same resource, namespace and name.
type Object struct{ Resource, Namespace, Name string }

// Quarter is a time in quarters of an hour since 1970, which hours begin with in every zone.
type Quarter int64

const quarter = int64(15 * time.Minute)

// Counts are the counts of lines.
type Counts struct {
	Types      ByType
	Streams    map[string]*ByType // line.Journal has the lines about the journal itself
	Namespaces map[string]Count   // of objects in a namespace
	Managers   map[string]Count   // by field manager; "" has lines about objects without one
	Quarters   map[Quarter]Count  // by when they were received

	first, last int64 // when the first and the last of them were received, in Unix nanoseconds; 0 for none

	quarters []Count // of a segment: from base on, those of most lines; added to Quarters at its end
	base     Quarter

	objects map[uint64]located // by hash
	seed    maphash.Seed
	parts   []counted // in order
}

// located is a count, and where a name is that has the hash.
type located struct {
	bytes int64
	lines uint32
	part  uint32 // of Counts.parts
}

func (l *located) count() Count { return Count{int64(l.lines), l.bytes} }

// counted is a segment that lines were counted of.
type counted struct {
	question.Part
	Count
	journal int
}

// spare are slices to be used again, which the garbage collector leaves alone: while very many objects are counted, it
// runs all the time.
type spare[T any] chan []T

func (s spare[T]) take() []T {
	select {
	case one := <-s:
		return one[:0]
	default:
		return nil
	}
}

func (s spare[T]) put(one []T) {
	select {
	case s <- one:
	default:
	}
}

// counter counts the lines of segments, several at once.
type counter struct {
	selection *argument.Selection
	seed      maphash.Seed
	lines     spare[index.Line]
	objects   spare[hashed]
}

// hashed is the count of an object in one segment.
type hashed struct {
	Count
	hash uint64
}

// part is what a segment has.
type part struct {
	Counts
	of      question.Part
	number  int // of Counts.parts
	objects []hashed
}

func newCounts(seed maphash.Seed) Counts {
	return Counts{
		seed: seed, Streams: make(map[string]*ByType), Namespaces: make(map[string]Count),
		Managers: make(map[string]Count), Quarters: make(map[Quarter]Count),
	}
}

// Of counts the lines about the selected objects between two moments, each of which may be zero, in journals of one
// cluster, with GAP and SYNCED of the streams that may have such objects. Where all is selected, those about the
// journal itself are counted too. A line that two journals have counts twice: it takes room twice.
func Of(
	ctx context.Context, all []*question.Journal, s *argument.Selection, since, until argument.Moment,
) (*Counts, error) {
	c := newCounts(maphash.MakeSeed())
	c.objects = make(map[uint64]located)
	// There can be very many objects: they are added while the next segments are counted.
	const most = 32 // segments in memory, more or less
	counting := &counter{s, c.seed, make(spare[index.Line], most), make(spare[hashed], most)}
	counted, added := make(chan *part, 1), make(chan struct{})
	go func() {
		defer close(added)
		for p := range counted {
			c.addObjects(p)
			counting.objects.put(p.objects)
		}
	}()
	defer func() { <-added }()
	defer close(counted)
	for n, j := range all {
		for p, err := range question.Parts(ctx, j, s, since, until, counting.count) {
			if err != nil {
				return nil, err
			}
			c.add(n, p)
			counted <- p
		}
	}
	return &c, nil
}

// count counts the lines of a segment.
func (of *counter) count(p *question.Part) (*part, error) {
	s, seed := of.selection, of.seed
	const longest = 1000 // quarters
	c := &part{Counts: newCounts(seed), of: *p}
	c.base = Quarter(p.Oldest.UnixNano() / quarter)
	c.quarters = make([]Count, min(longest, max(0, p.Newest.Sub(p.Oldest))/time.Duration(quarter)+2))
	lines, err := p.AppendAll(of.lines.take())
	if err != nil {
		return nil, err
	}
	defer of.lines.put(lines)
	for at := range lines {
		// Of what the lines about the journal itself are about, all may be gone.
		if l := &lines[at]; l.Type >= index.Removed && s.All() && p.Has(line.Journal, at, l) {
			c.line(c.stream(line.Journal), l)
		}
	}
	c.objects = of.objects.take()
	t := totals{c: c}
	var key []byte
	for _, pick := range s.Picks(p.Index) {
		stream := &p.Streams[pick.Stream]
		types := c.stream(stream.Name)
		if s.MayHave(stream.Name) {
			for _, at := range stream.Marks {
				if l := &lines[at]; p.Has(stream.Name, at, l) {
					c.line(types, l)
				}
			}
		}
		resource := argument.Named(stream)
		for o, err := range s.Spots(p.Index, pick) {
			if err != nil {
				return nil, err
			}
			var of Count
			for _, at := range o.Lines {
				if l := &lines[at]; p.Has(stream.Name, at, l) {
					of.add(c.line(types, l))
					t.add(l)
				}
			}
			if of.Lines == 0 {
				continue
			}
			key = appendKey(key[:0], resource, o.Place)
			c.objects = append(c.objects, hashed{of, maphash.Bytes(seed, key)})
			t.namespace(o.Namespace(), of)
		}
	}
	t.end()
	for at, n := range c.quarters {
		if n.Lines > 0 {
			addTo(c.Quarters, c.base+Quarter(at), n)
		}
	}
	return c, nil
}

// totals adds counts to maps when what they are of changes: mostly it does not.
type totals struct {
	c                      *part
	of, writer             string
	inNamespace, byManager Count
}

func (t *totals) add(l *index.Line) {
	if l.Writer != t.writer {
		t.endManager()
		t.writer = l.Writer
	}
	t.byManager.add(Count{1, l.Size})
}

func (t *totals) namespace(name []byte, of Count) {
	if string(name) != t.of {
		t.endNamespace()
		t.of = string(name)
	}
	t.inNamespace.add(of)
}

func (t *totals) endManager() {
	if t.byManager.Lines > 0 {
		manager, _, _ := strings.Cut(t.writer, "/")
		addTo(t.c.Managers, manager, t.byManager)
		t.byManager = Count{}
	}
}

func (t *totals) endNamespace() {
	if t.inNamespace.Lines > 0 && t.of != "" {
		addTo(t.c.Namespaces, t.of, t.inNamespace)
	}
	t.inNamespace = Count{}
}

func (t *totals) end() {
	t.endManager()
	t.endNamespace()
}

func addTo[K comparable](all map[K]Count, of K, c Count) {
	is := all[of]
	is.add(c)
	all[of] = is
}

func (c *Counts) stream(name string) *ByType {
	is := c.Streams[name]
	if is == nil {
		is = new(ByType)
		c.Streams[name] = is
	}
	return is
}

// line counts a line of a stream.
func (c *Counts) line(stream *ByType, l *index.Line) Count {
	one := Count{1, l.Size}
	stream[l.Type].add(one)
	ns := l.Time.UnixNano()
	q := Quarter(ns / quarter)
	if at := int64(q - c.base); 0 <= at && at < int64(len(c.quarters)) {
		c.quarters[at].add(one)
	} else {
		addTo(c.Quarters, q, one)
	}
	c.received(ns, ns)
	return one
}

func (c *Counts) received(first, last int64) {
	if c.first == 0 || first < c.first {
		c.first = first
	}
	if c.last == 0 || last > c.last {
		c.last = last
	}
}

// Received returns when the first and the last line were received; zero where there is none.
func (c *Counts) Received() (first, last time.Time) {
	if c.Total().Lines == 0 {
		return first, last
	}
	return time.Unix(0, c.first).UTC(), time.Unix(0, c.last).UTC()
}

// add adds what a segment of a journal has.
func (c *Counts) add(journal int, p *part) {
	all := counted{Part: p.of, journal: journal}
	p.number = len(c.parts)
	for name, types := range p.Streams {
		all.Count.add(types.sum())
		is := c.stream(name)
		for n := range types {
			is[n].add(types[n])
			c.Types[n].add(types[n])
		}
		if is.sum().Lines == 0 {
			delete(c.Streams, name)
		}
	}
	for of, n := range p.Namespaces {
		addTo(c.Namespaces, of, n)
	}
	for of, n := range p.Managers {
		addTo(c.Managers, of, n)
	}
	for of, n := range p.Quarters {
		addTo(c.Quarters, of, n)
	}
	if all.Lines > 0 {
		c.received(p.first, p.last)
		c.parts = append(c.parts, all)
	}
}

// addObjects adds the objects of a segment.
func (c *Counts) addObjects(p *part) {
	for _, o := range p.objects {
		is, known := c.objects[o.hash]
		if !known {
			is.part = uint32(p.number)
		}
		is.lines, is.bytes = is.lines+uint32(o.Lines), is.bytes+o.Bytes
		c.objects[o.hash] = is
	}
}

// Total returns the count of all lines.
func (c *Counts) Total() Count { return c.Types.sum() }

// Row is a count of something.
type Row[K any] struct {
	Of K
	Count
}

// Top are the rows with the most bytes, and the count of the others.
type Top[K any] struct {
	Rows   []Row[K]
	Many   int // rows, the others included
	Others Count
}

// topOf returns the rows with the most bytes, so many of them; 0 is all.
func topOf[K any](rows []Row[K], most int, compare func(a, b K) int) (t Top[K]) {
	slices.SortFunc(rows, func(a, b Row[K]) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Lines, a.Lines), compare(a.Of, b.Of))
	})
	t.Rows, t.Many = rows, len(rows)
	if most > 0 && len(rows) > most {
		for _, r := range rows[most:] {
			t.Others.add(r.Count)
		}
		t.Rows = rows[:most]
	}
	return t
}

// top returns the rows of a map.
func top[K cmp.Ordered](all map[K]Count, most int) Top[K] {
	rows := make([]Row[K], 0, len(all))
	for of, n := range all {
		rows = append(rows, Row[K]{of, n})
	}
	return topOf(rows, most, cmp.Compare)
}

// TopStreams returns the streams with the most bytes.
func (c *Counts) TopStreams(most int) Top[string] {
	all := make(map[string]Count)
	for name, types := range c.Streams {
		all[name] = types.sum()
	}
	return top(all, most)
}

// TopHours returns the hours of the local zone in which most bytes were received, by when they begin, in Unix seconds.
func (c *Counts) TopHours(most int) Top[int64] {
	all := make(map[int64]Count)
	for q, n := range c.Quarters {
		at := time.Unix(0, int64(q)*quarter)
		addTo(all, at.Unix()-int64(at.Minute()*60), n)
	}
	return top(all, most)
}

// TopObjects returns the objects with the most bytes. Their names are read from the indexes again: there can be very
// many.
func (c *Counts) TopObjects(
	ctx context.Context, all []*question.Journal, s *argument.Selection, most int,
) (t Top[Object], err error) {
	least := c.least(most)
	wanted := make(map[uint32]map[uint64]Count)
	for hash, o := range c.objects {
		t.Others.add(o.count())
		if o.bytes < least {
			continue
		}
		if wanted[o.part] == nil {
			wanted[o.part] = make(map[uint64]Count)
		}
		wanted[o.part][hash] = o.count()
	}
	var named []Row[Object]
	for number, hashes := range wanted {
		in := &c.parts[number]
		j := all[in.journal]
		some, err := archive.Again(j.Journal, func() ([]Row[Object], error) {
			return c.named(ctx, j, in.Segment, s, hashes)
		})
		if err != nil {
			return t, err
		}
		named = append(named, some...)
	}
	top := topOf(named, most, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
	t.Rows, t.Many = top.Rows, len(c.objects)
	for _, r := range t.Rows {
		t.Others.add(Count{-r.Lines, -r.Bytes})
	}
	return t, nil
}

// least returns the bytes of the last one of so many objects with the most bytes. 0 is all.
func (c *Counts) least(most int) int64 {
	if most == 0 || most >= len(c.objects) {
		return 0
	}
	largest := make([]int64, most) // in order
	for _, o := range c.objects {
		if o.bytes > largest[0] {
			at, _ := slices.BinarySearch(largest, o.bytes)
			copy(largest, largest[1:at])
			largest[at-1] = o.bytes
		}
	}
	return largest[0]
}

// named returns objects of a segment by the hashes of their names.
func (c *Counts) named(
	ctx context.Context, j *question.Journal, segment int, s *argument.Selection, hashes map[uint64]Count,
) (all []Row[Object], err error) {
	x, err := j.Index(ctx, segment)
	if err != nil {
		return nil, err
	}
	found := make(map[uint64]bool)
	var key []byte
	for _, pick := range s.Picks(x) {
		resource := argument.Named(&x.Streams[pick.Stream])
		for o, err := range s.Spots(x, pick) {
			if err != nil {
				return nil, err
			}
			key = appendKey(key[:0], resource, o.Place)
			hash := maphash.Bytes(c.seed, key)
			if n, wanted := hashes[hash]; wanted && !found[hash] {
				found[hash] = true
				namespace, name, _ := strings.Cut(string(o.Place), "\x00")
				if all = append(all, Row[Object]{Object{resource, namespace, name}, n}); len(all) == len(hashes) {
					return all, nil
				}
			}
		}
	}
	return all, nil
}

// appendKey appends what is hashed of an object.
func appendKey(key []byte, resource string, place []byte) []byte {
	return append(append(append(key, resource...), 0), place...)
}
