package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

// history makes random lines, and knows what an index of them must say.
type history struct {
	*rand.Rand
	seq   uint64
	at    time.Time
	alive map[string]map[string]Object // by stream, and by key; Lines is unused
	refs  map[string][]string          // by key
}

func newHistory(seed uint64) *history {
	return &history{Rand: rand.New(rand.NewPCG(seed, 1)), at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), alive: map[string]map[string]Object{}, refs: map[string][]string{}}
}

// segment is one segment with what it says.
type segment struct {
	first   uint64
	lines   []string
	places  []Line
	marks   map[string][]int
	objects map[string]map[string]Object
	own     map[string]map[string]Object // those with lines, by themselves
}

func (h *history) segment(n int) *segment {
	s := &segment{marks: map[string][]int{}, objects: map[string]map[string]Object{}, own: map[string]map[string]Object{}}
	for stream, objects := range h.alive {
		s.objects[stream] = maps.Clone(objects)
	}
	offset := int64(0)
	for range n {
		if h.seq++; h.IntN(50) == 0 {
			h.seq += h.Uint64N(3)  // a hole, or nothing
			offset += h.Int64N(90) // of a damaged line
		}
		h.at = h.at.Add(time.Duration(h.IntN(2_000_000_000) - 200_000_000))
		place := Line{Seq: h.seq, Offset: offset, Time: h.at}
		head := fmt.Sprintf(`{"seq":%d,"time":%q,`, h.seq, h.at.Format(time.RFC3339Nano))
		var text string
		switch stream := []string{"pods", "widgets.example.com?namespace=a", "events"}[h.IntN(3)]; h.IntN(20) {
		case 0:
			place.Type = Gap
			s.marks[stream] = append(s.marks[stream], len(s.lines))
			text = head + fmt.Sprintf(`"type":"GAP","stream":%q,"version":"v1","resource":%q}`, stream, stream)
		default:
			text = head + h.object(s, stream, &place)
		}
		place.Size = int64(len(text) + 1)
		s.lines, s.places = append(s.lines, text), append(s.places, place)
		offset += place.Size
	}
	s.first = s.places[0].Seq
	return s
}

func (h *history) object(s *segment, stream string, l *Line) string {
	name, namespace := fmt.Sprintf("n-%d", h.IntN(40)), []string{"", "a", "a-b", "b"}[h.IntN(4)]
	uid := fmt.Sprintf("%08x-0000-4000-8000-00000000000%d", h.IntN(2), h.IntN(2))
	if h.IntN(10) == 0 {
		uid = fmt.Sprintf("u-%d", h.IntN(3))
	}
	key := namespace + "\x00" + name + "\x00" + uid
	if h.alive[stream] == nil {
		h.alive[stream] = map[string]Object{}
	}
	if s.objects[stream] == nil {
		s.objects[stream] = map[string]Object{}
	}
	o := s.objects[stream][key]
	o.Namespace, o.Name, o.UID = namespace, name, uid
	o.Lines = append(slices.Clone(o.Lines), len(s.lines))
	members, referred := "", []string(nil)
	if ref := fmt.Sprintf("owner-%d", h.IntN(3)); stream == "events" {
		members = fmt.Sprintf(`,"event":{"reason":"x","regarding":{"kind":"Pod","namespace":"a","name":%q,"uid":%q}}`, ref, ref)
		o.Refs, referred = with(with(o.Refs, ref), "Pod a/"+ref), []string{ref, "Pod a/" + ref}
	} else if h.IntN(2) == 0 {
		o.Created = time.Date(2026, 11, 19, 10, 0, len(uid)+int(uid[len(uid)-1]), 0, time.UTC) // each time the same
		members = fmt.Sprintf(`,"object":{"metadata":{"creationTimestamp":%q,"labels":{"a":"b"},"ownerReferences":[{"kind":"x","uid":%q}]}}`,
			o.Created.Format(time.RFC3339), ref)
		o.Refs, referred = with(o.Refs, ref), []string{ref}
	}
	origin, written := "watch", ""
	if l.Snapshot = h.IntN(8) == 0; l.Snapshot {
		origin = "snapshot"
	}
	if h.IntN(4) == 0 {
		l.Written = h.at.Add(-time.Duration(h.IntN(100)-5) * time.Second).Truncate(time.Second)
		written = fmt.Sprintf(`"writtenAt":%q,`, l.Written.Format(time.RFC3339))
	}
	switch n := h.IntN(300); h.IntN(3) {
	case 0:
		l.Writer = fmt.Sprint("writer ", n)
		written += fmt.Sprintf(`"manager":%q,`, l.Writer)
	case 1:
		l.Writer = fmt.Sprintf("writer/%d/status", n)
		written += fmt.Sprintf(`"manager":"writer/%d","subresource":"status",`, n)
	}
	l.Type = Type(1 + h.IntN(3))
	s.objects[stream][key] = o
	if s.own[stream] == nil {
		s.own[stream] = map[string]Object{}
	}
	mine := s.own[stream][key]
	mine.Namespace, mine.Name, mine.UID, mine.Lines = namespace, name, uid, o.Lines
	if members != "" && stream != "events" {
		mine.Created = o.Created
	}
	for _, ref := range referred {
		mine.Refs = with(mine.Refs, ref)
	}
	s.own[stream][key] = mine
	before := o
	if before.Lines, before.Before = nil, (Place{s.begins(l), l.Seq, l.Offset}); l.Type == Deleted {
		delete(h.alive[stream], key)
	} else {
		h.alive[stream][key] = before
	}
	return fmt.Sprintf(`"type":%q,"origin":%q,"stream":%q,%s"version":"v1","resource":%q,"kind":"K","namespace":%q,"name":%q,"uid":%q%s}`,
		Types[l.Type-1], origin, stream, written, stream, namespace, name, uid, members)
}

// begins is the seq of the first line, of which l may be the one.
func (s *segment) begins(l *Line) uint64 {
	if len(s.places) == 0 {
		return l.Seq
	}
	return s.places[0].Seq
}

func with(refs []string, ref string) []string {
	if slices.Contains(refs, ref) {
		return refs
	}
	return slices.Sorted(slices.Values(append(slices.Clone(refs), ref)))
}

// build makes the index of a segment, a full one if there is a base.
func (s *segment) build(t testing.TB, base ...*Index) []byte {
	t.Helper()
	b := NewBuilder(uint32(s.first))
	if base != nil {
		b.Fill(base, 1)
	}
	var l line.Fields
	offset := int64(0)
	for i, text := range s.lines {
		if i%7 == 0 {
			b.Member(int64(i), offset)
		}
		if err := l.Parse([]byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b.Add(&l, s.places[i].Offset, len(text)+1)
		offset = s.places[i].Offset + int64(len(text)+1)
	}
	b.End(offset+5, int64(len(s.lines)))
	made, err := b.AppendTo([]byte("in front"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimPrefix(made, []byte("in front"))
}

func open(t testing.TB, b []byte) *Index {
	t.Helper()
	x, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// all returns everything that an index says.
func all(x *Index) (any, error) {
	lines, err := x.AppendAll(nil)
	if err != nil {
		return nil, err
	}
	objects := map[string]map[string]Object{}
	for i, s := range x.Streams {
		of := map[string]Object{}
		for o, err := range x.Objects(i, nil, nil) {
			if err != nil {
				return nil, err
			}
			c := *o
			c.Lines, c.place, c.uid, c.refs, c.near = slices.Clone(o.Lines), "", "", nil, Place{}
			of[o.place+"\x00"+o.UID] = c
		}
		objects[s.Name] = of
	}
	names, err := x.Names()
	return []any{x.FirstSeq, x.Next, x.Since, x.Lines, x.Head, x.Size, x.Zipped, x.Oldest, x.Newest, x.Earliest, x.Streams, x.members, lines, objects, names}, err
}

func TestIndex(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		h := newHistory(seed)
		var base []*Index
		since, next := uint64(0), uint64(0)
		for n := range 5 {
			s := h.segment(1 + h.IntN(2000))
			if since == 0 || next != s.first {
				since = s.first
			}
			next = h.seq + 1
			x := open(t, s.build(t))
			s.check(t, x, s.own)
			if x.Since != 0 || x.FirstSeq != s.first || x.Next != next {
				t.Errorf("seed %d, segment %d: first %d, next %d, since %d", seed, n, x.FirstSeq, x.Next, x.Since)
			}
			if n > 0 {
				full := open(t, s.build(t, base...))
				s.check(t, full, s.objects)
				if full.Since != since {
					t.Errorf("seed %d, segment %d: since %d, want %d", seed, n, full.Since, since)
				}
				if h.IntN(2) == 0 {
					base = nil
					x = full
				}
			}
			base = append(base, x)
		}
	}
}

func (s *segment) check(t *testing.T, x *Index, objects map[string]map[string]Object) {
	t.Helper()
	got, err := x.AppendAll(nil)
	if err != nil || !reflect.DeepEqual(got, s.places) {
		t.Fatalf("lines: %v\n%v\n%v", err, got, s.places)
	}
	for i := len(s.places) - 1; i >= 0; i -= 97 {
		if l, err := x.Line(i); err != nil || l != s.places[i] {
			t.Fatalf("line %d: %v %v", i, l, err)
		}
		zipped, plain := x.Member(s.places[i].Offset)
		m, end := i/7*7, int64(0) // where the lines before the member end
		if m > 0 {
			end = s.places[m-1].Offset + s.places[m-1].Size
		}
		if zipped != int64(m) || plain != end {
			t.Fatalf("member of line %d: %d %d", i, zipped, plain)
		}
	}
	for i, stream := range x.Streams {
		if !slices.Equal(stream.Marks, s.marks[stream.Name]) {
			t.Fatalf("%s: marks %v, want %v", stream.Name, stream.Marks, s.marks[stream.Name])
		}
		for _, namespace := range []*string{nil, new(""), new("a"), new("b"), new("c")} {
			for _, name := range []*string{nil, new("n-1"), new("n-39"), new("n")} {
				checkObjects(t, x, objects[stream.Name], i, namespace, name)
			}
		}
	}
}

func checkObjects(t *testing.T, x *Index, objects map[string]Object, i int, namespace, name *string) {
	t.Helper()
	want := maps.Clone(objects)
	maps.DeleteFunc(want, func(_ string, o Object) bool {
		return namespace != nil && o.Namespace != *namespace || name != nil && o.Name != *name
	})
	last := ""
	for o, err := range x.Objects(i, namespace, name) {
		if err != nil {
			t.Fatal(err)
		}
		key := o.Namespace + "\x00" + o.Name + "\x00" + o.UID
		w, there := want[key]
		if !there {
			t.Fatalf("%s: unexpected %q", x.Streams[i].Name, key)
		}
		delete(want, key)
		if key <= last || !slices.Equal(o.Lines, w.Lines) || o.Before != w.Before || !slices.Equal(o.Refs, w.Refs) || !o.Created.Equal(w.Created) {
			t.Fatalf("%s %q behind %q: %+v\nwant %+v", x.Streams[i].Name, key, last, o, w)
		}
		last = key
	}
	if len(want) > 0 {
		t.Fatalf("%s: missing %v", x.Streams[i].Name, want)
	}
}

// TestNested iterates over an index within an iteration over it.
func TestNested(t *testing.T) {
	h := newHistory(3)
	s := h.segment(4000)
	x := open(t, s.build(t))
	keys := func(stream int, within func()) (all []string) {
		for o, err := range x.Objects(stream, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if len(all)%50 == 0 {
				within()
			}
			all = append(all, fmt.Sprint(o.Namespace, "/", o.Name, "/", o.UID, o.Lines, o.Refs))
		}
		return all
	}
	blocks := 0
	for i := range x.Streams {
		want := keys(i, func() {})
		got := keys(i, func() { keys((i+1)%len(x.Streams), func() {}) })
		if !slices.Equal(got, want) || len(got) < 100 {
			t.Errorf("%s: %d objects, want %d, or others", x.Streams[i].Name, len(got), len(want))
		}
		blocks += len(x.objects)
	}
	if blocks <= len(x.Streams)*len(x.Streams) {
		t.Error("no stream has two blocks of objects")
	}
}

// TestDamage flips and cuts everything: an index says what it did, or that it is damaged.
func TestDamage(t *testing.T) {
	h := newHistory(7)
	before := open(t, h.segment(15).build(t))
	b := h.segment(25).build(t, before)
	want, err := all(open(t, b))
	if err != nil {
		t.Fatal(err)
	}
	look := func(what string, b []byte, size int) {
		x, err := Open(bytes.NewReader(b), int64(size))
		var got any
		if err == nil {
			got, err = all(x)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: another answer", what)
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOther) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range b {
		for bit := range 8 {
			if i >= headerSize && bit != i%8 { // a checksum finds each of them
				continue
			}
			b[i] ^= 1 << bit
			look(fmt.Sprintf("bit %d of byte %d", bit, i), b, len(b))
			b[i] ^= 1 << bit
		}
		look(fmt.Sprintf("cut to %d", i), b[:i], i)
	}
	look("longer", append(slices.Clone(b), 0), len(b)+1)
	// Blocks that change places have no checksum that fits.
	x := open(t, b)
	one, other := x.lines[0], x.objects[0].extent
	n := min(one.size, other.size) + sumSize
	swapped := slices.Clone(b)
	copy(swapped[one.at:one.at+n], b[other.at:])
	if err := open(t, swapped).Check(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a block in another's place: %v", err)
	}
}

func TestNoLine(t *testing.T) {
	if _, err := NewBuilder(0).AppendTo(nil); !errors.Is(err, ErrNoLine) {
		t.Errorf("no line: %v", err)
	}
}

// writes are what was written, until one fails.
type writes struct {
	memory
	sizes []int
	fails int // the write that does, from 1
}

var errWrite = errors.New("no space left")

func (w *writes) WriteAt(p []byte, at int64) (int, error) {
	if w.sizes = append(w.sizes, len(p)); len(w.sizes) == w.fails {
		return 0, errWrite
	}
	return w.memory.WriteAt(p, at)
}

// counted counts reads.
type counted struct {
	in io.ReaderAt
	n  int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	c.n++
	return c.in.ReadAt(p, at)
}

// An index of many objects is not held in memory.
func TestSave(t *testing.T) {
	var l line.Fields
	b := NewBuilder(0)
	size := int64(0)
	for seq := range 30_000 {
		text := fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T12:00:00Z","type":"ADDED","stream":"pods","name":"pod-%d","uid":"00000000-0000-4000-8000-%012x","object":{}}`,
			seq+1, seq, uint64(seq)*0x9e3779b97f4a7c15>>16)
		if err := l.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		b.Add(&l, size, len(text)+1)
		size += int64(len(text) + 1)
	}
	b.End(size, 0)
	var w writes
	if err := b.Save(&w); err != nil {
		t.Fatal(err)
	}
	if n := len(w.sizes); n < 4 || slices.Max(w.sizes) > 2*flushSize || w.sizes[n-1] != headerSize {
		t.Errorf("writes of %d bytes", w.sizes)
	}
	if err := open(t, w.b).Check(); err != nil {
		t.Error(err)
	}
	// One that fails ends it: what is left of the segments before is not read.
	var read [2]int
	for fails := range read {
		base := counted{in: bytes.NewReader(w.b)}
		x, err := Open(&base, int64(len(w.b)))
		if err != nil {
			t.Fatal(err)
		}
		next := NewBuilder(0)
		next.Fill([]*Index{x}, 1)
		next.Add(&l, 0, 100)
		next.End(100, 0)
		if err := next.Save(&writes{fails: fails}); (err == nil) != (fails == 0) {
			t.Errorf("Save returned %v", err)
		}
		read[fails] = base.n
	}
	if read[1] > read[0]*3/4 {
		t.Errorf("%d reads, %d of them where a write failed", read[0], read[1])
	}
	for fails := range len(w.sizes) {
		if err := b.Save(&writes{fails: fails + 1}); !errors.Is(err, errWrite) {
			t.Errorf("write %d failed, and Save returned %v", fails+1, err)
		}
	}
}

func TestNames(t *testing.T) {
	crd := func(seq int, name, spec string) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T12:00:00Z","type":"ADDED","origin":"watch","stream":"customresourcedefinitions.apiextensions.k8s.io","group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":%q,"uid":"u","object":{"metadata":{},"spec":%s}}`, seq, name, spec)
	}
	build := func(base []*Index, lines ...string) *Index {
		s := &segment{lines: lines}
		offset := int64(0)
		for _, text := range lines {
			s.places = append(s.places, Line{Offset: offset})
			offset += int64(len(text) + 1)
		}
		return open(t, s.build(t, base...))
	}
	one := build(nil, crd(1, "widgets.example.com", `{"conversion":{"strategy":"None"},"group":"example.com","names":{"kind":"Widget","plural":"widgets","shortNames":["wd"]},"scope":"Namespaced","versions":[{"name":"v1","schema":{},"additionalPrinterColumns":[{"name":"Size"}]},{"name":"v2"}]}`), crd(2, "b.example.com", `{"group":"example.com"}`))
	two := build([]*Index{one}, crd(3, "gadgets.example.com", `{"group":"example.com","names":{"kind":"Gadget"},"versions":[]}`))
	got, err := two.Names()
	want := map[string]string{
		"widgets.example.com": `{"group":"example.com","names":{"kind":"Widget","plural":"widgets","shortNames":["wd"]},"scope":"Namespaced","versions":[{"name":"v1","additionalPrinterColumns":[{"name":"Size"}]},{"name":"v2"}]}`,
		"gadgets.example.com": `{"group":"example.com","names":{"kind":"Gadget"},"versions":[]}`,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v", err, got)
	}
}

func FuzzOpen(f *testing.F) {
	h := newHistory(5)
	first := open(f, h.segment(20).build(f))
	b := h.segment(20).build(f, first)
	f.Add(b, 0, uint64(0))
	f.Add(b, 90, uint64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, at int, with uint64) {
		if len(b) > headerSize {
			// With checksums that fit, so that what is behind them is reached.
			b = slices.Clone(b)
			at = max(0, at) % len(b)
			for i := range min(8, len(b)-at) {
				b[at+i] ^= byte(with >> (8 * i))
			}
			resum(b)
		}
		if x, err := Open(bytes.NewReader(b), int64(len(b))); err == nil {
			_, _ = all(x)
		}
	})
}

// resum puts right the checksums of header, directory and, as far as that can be read, of the blocks.
func resum(b []byte) {
	put := func(e extent) {
		if n := int64(len(b)) - sumSize; 0 <= e.at && e.at <= n && 0 <= e.size && e.size <= n-e.at {
			binary.LittleEndian.PutUint32(b[e.at+e.size:], blockSum(b, e.at, b[e.at:e.at+e.size]))
		}
	}
	binary.LittleEndian.PutUint32(b[headerSize-sumSize:], crc32.Checksum(b[:headerSize-sumSize], castagnoli))
	put(extent{int64(binary.LittleEndian.Uint64(b[identity:])), int64(binary.LittleEndian.Uint32(b[identity+8:]))})
	x, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	for _, e := range append(slices.Clone(x.lines), x.names) {
		put(e)
	}
	for _, o := range x.objects {
		put(o.extent)
	}
}

// TestGone leaves out what only a segment has said that is not there any more.
func TestGone(t *testing.T) {
	h := newHistory(9)
	first, second, third := h.segment(300), h.segment(300), h.segment(300)
	base := []*Index{open(t, first.build(t)), open(t, second.build(t))}
	b := NewBuilder(0)
	b.Fill(base, second.first)
	var l line.Fields
	if err := l.Parse([]byte(third.lines[0])); err != nil {
		t.Fatal(err)
	}
	b.Add(&l, 0, len(third.lines[0])+1)
	b.End(int64(len(third.lines[0])+1), 0)
	made, err := b.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, made)
	if x.Since != second.first && second.places[len(second.places)-1].Seq+1 == third.first {
		t.Errorf("since %d, want %d", x.Since, second.first)
	}
	kept := 0
	for i := range x.Streams {
		for o, err := range x.Objects(i, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if o.Before.Seq > 0 {
				kept++
			}
			if o.Before.Seq > 0 && o.Before.Segment != second.first {
				t.Errorf("%s/%s was there by %+v", o.Namespace, o.Name, o.Before)
			}
		}
	}
	if kept == 0 {
		t.Error("nothing was there")
	}
}
