package event

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"strconv"
	"sync"
)

// Differ says what changed from one version of an object to the next. It is
// for one goroutine and best used over and over: it keeps its space.
//
// What it lists are operations of RFC 6902, each with the value that it takes
// away beside it as old:
//
//	{"op":"add","path":"/metadata/labels/a","value":"b"}
//	{"op":"remove","path":"/spec/containers/1","old":{"name":"x"}}
//	{"op":"replace","path":"/status/phase","old":"Pending","value":"Running"}
//
// Applied in their order to the object before, they give the object behind.
// The list is complete: metadata.resourceVersion is in it like any other field,
// unless a Shape cut it.
//
//   - Both objects are taken as a Shape left them. A value that is "REDACTED"
//     in both is the same in both, whatever it hides: the list tells nothing
//     that the two objects in the journal do not.
//   - Members are paired by what their keys mean, and of repeated ones the last
//     counts, as in encoding/json. Their order means nothing.
//   - Elements of arrays are paired by what the lists of Kubernetes are keyed
//     by (see identities) or, where they have no such member, by their text;
//     what stands between two pairs is paired by position. So an element that
//     is inserted is one add, not a rewrite of all behind it.
//   - Strings are the same if they mean the same; numbers if they are written
//     the same, for 1.0 and 1 are not one to every reader.
//   - A list that comes to more than both objects together, or to 4 KiB if that
//     is more, is made again, coarser: a container is then replaced as a
//     whole where that takes fewer bytes than what changed in it. This never
//     exceeds both objects by more than 64 bytes.
//   - Below 128 levels containers that differ are replaced as a whole.
type Differ struct {
	prev, next tape
	out        []byte
	path       []byte // of the value being compared: a JSON Pointer, escaped as the inside of a JSON string
	start      int    // of the list in out
	end        int    // out may grow to this length before the list is made coarser
	coarse     bool   // it is being made coarser
	untyped    bool   // kind and apiVersion of the objects themselves are not compared

	seed    maphash.Seed
	pairs   []pair   // a stack: each container being compared has its own on it
	slots   []int32  // the tables of match: cells, plus one; 0 is free
	ids     []uint64 // of the elements that align looks at
	lengths []uint16 // of their common subsequences
	a, b    []byte   // keys that had escapes, decoded
}

// pair is two cells that stand for the same place; -1 where one is missing.
type pair struct {
	prev, next int32
	whole      bool // elements that have nothing to do with each other
}

const (
	leastChanges = 4 << 10 // bytes; a list up to this is never made coarser
	changesDepth = 128     // containers nested deeper are not looked into
	scannedKeys  = 1 << 14 // comparisons of keys that are made before a table is
	alignedPairs = 1 << 12 // pairs of elements that are looked at to align two arrays
)

// identities are the members that tell the elements of Kubernetes' lists from
// each other, as their definitions have them; the first that an element has
// counts.
var identities = [...]string{
	"name", "type", "key", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "manager",
}

var errOver2GiB = errors.New("over 2 GiB")

// Append appends the list of changes from prev to next as a JSON array, or
// nothing if there are none. Both must be compact JSON, as AppendShaped writes
// it. With an error, dst is returned as it was.
func (d *Differ) Append(dst, prev, next []byte) ([]byte, error) {
	if bytes.Equal(prev, next) {
		return dst, nil
	}
	if len(prev) > math.MaxInt32 || len(next) > math.MaxInt32 {
		return dst, fmt.Errorf("compare objects: %w", errOver2GiB)
	}
	defer d.release()
	if err := d.prev.read(prev); err != nil {
		return dst, fmt.Errorf("compare objects: read the previous one: %w", err)
	}
	if err := d.next.read(next); err != nil {
		return dst, fmt.Errorf("compare objects: read the next one: %w", err)
	}
	if d.seed == (maphash.Seed{}) {
		d.seed = maphash.MakeSeed()
	}
	d.start = len(dst)
	d.end = d.start + max(leastChanges, len(prev)+len(next))
	d.coarse = false
	d.run(dst)
	if len(d.out) > d.end {
		d.coarse = true
		d.run(dst)
	}
	dst = d.out
	if len(dst) > d.start {
		dst = append(dst, ']')
	}
	return dst, nil
}

// release lets go of the caller's bytes, and of space that only large objects
// need.
func (d *Differ) release() {
	d.out = nil
	d.prev.release()
	d.next.release()
	if cap(d.pairs) > keptCells {
		d.pairs, d.slots, d.ids = nil, nil, nil
	}
}

// differs are shared: streams are many, and few of them compare at a time.
var differs = sync.Pool{New: func() any { return new(Differ) }}

// AppendChanges is Append of a Differ that nobody else uses, for two objects of one
// stream: kind and apiVersion say nothing of a change. Servers leave them out of
// the items of a list.
func AppendChanges(dst, prev, next []byte) ([]byte, error) {
	d := differs.Get().(*Differ)
	defer differs.Put(d)
	d.untyped = true
	return d.Append(dst, prev, next)
}

// run compares the two objects.
func (d *Differ) run(dst []byte) {
	d.out, d.path, d.pairs = dst, d.path[:0], d.pairs[:0]
	d.values(0, 0, 0)
}

// values lists what changed from cell p of the previous object to cell n of the
// next one, with depth containers around them.
func (d *Differ) values(p, n int32, depth int) {
	was, is := d.prev.text(p), d.next.text(n)
	if bytes.Equal(was, is) {
		return
	}
	mark, end := len(d.out), d.end
	if d.coarse {
		end = mark + d.cost(was, is)
	}
	first := was[0]
	switch {
	case first == '"' && is[0] == '"' && d.sameText(was[1:len(was)-1], is[1:len(is)-1]):
	case first == '{' && is[0] == '{' && depth < changesDepth:
		d.objects(p, n, depth, end)
	case first == '[' && is[0] == '[' && depth < changesDepth:
		d.arrays(p, n, depth, end)
	default:
		d.replace(was, is)
		return
	}
	if d.coarse && len(d.out) > end {
		d.out = d.out[:mark]
		d.replace(was, is)
	}
}

// objects is values for two objects. It gives up once out is longer than end.
func (d *Differ) objects(p, n int32, depth, end int) {
	if d.inStep(p, n) {
		for i, j := p+1, n+1; j < d.next.cells[n].next && len(d.out) <= end; i, j = d.prev.cells[i].next, d.next.cells[j].next {
			// Of repeated keys both objects have the last in the same place.
			if !bytes.Equal(d.prev.text(i), d.next.text(j)) && !d.repeated(n, j) {
				d.member(pair{prev: i, next: j}, depth)
			}
		}
		return
	}
	base := len(d.pairs)
	d.match(p, n)
	for k := base; k < len(d.pairs) && len(d.out) <= end; k++ {
		d.member(d.pairs[k], depth)
	}
	d.pairs = d.pairs[:base]
}

// inStep reports whether two objects have the same keys in the same order, and
// so few members that differ that repeated may be asked about each.
func (d *Differ) inStep(p, n int32) bool {
	count := int(d.next.cells[n].count)
	if int(d.prev.cells[p].count) != count {
		return false
	}
	differ := 0
	for i, j := p+1, n+1; j < d.next.cells[n].next; i, j = d.prev.cells[i].next, d.next.cells[j].next {
		if !d.sameKey(&d.prev, i, &d.next, j) {
			return false
		}
		if !bytes.Equal(d.prev.text(i), d.next.text(j)) {
			if differ++; differ*count > scannedKeys {
				return false
			}
		}
	}
	return true
}

// repeated reports whether object n has the key of its member j once more
// behind that.
func (d *Differ) repeated(n, j int32) bool {
	for k := d.next.cells[j].next; k < d.next.cells[n].next; k = d.next.cells[k].next {
		if d.sameKey(&d.next, j, &d.next, k) {
			return true
		}
	}
	return false
}

// match pairs the members of two objects: first those that are gone, then all
// that the next one has, in its order.
func (d *Differ) match(p, n int32) {
	was := 1 << bits.Len32(uint32(2*d.prev.cells[p].count))
	is := 1 << bits.Len32(uint32(2*d.next.cells[n].count))
	d.slots = append(d.slots[:0], make([]int32, was+is)...)
	prev, next := d.slots[:was], d.slots[was:]
	d.fill(prev, &d.prev, p)
	d.fill(next, &d.next, n)
	for i := p + 1; i < d.prev.cells[p].next; i = d.prev.cells[i].next {
		if *d.slot(prev, &d.prev, &d.prev, i) == i+1 && *d.slot(next, &d.next, &d.prev, i) == 0 {
			d.pairs = append(d.pairs, pair{prev: i, next: -1})
		}
	}
	for j := n + 1; j < d.next.cells[n].next; j = d.next.cells[j].next {
		if *d.slot(next, &d.next, &d.next, j) == j+1 {
			d.pairs = append(d.pairs, pair{prev: *d.slot(prev, &d.prev, &d.next, j) - 1, next: j})
		}
	}
}

// fill puts an object's members into a table; the last of repeated ones stays.
func (d *Differ) fill(table []int32, t *tape, object int32) {
	for i := object + 1; i < t.cells[object].next; i = t.cells[i].next {
		*d.slot(table, t, t, i) = i + 1
	}
}

// slot finds the place in a table of t's members for the key of cell i of from.
// The table is at most half full.
func (d *Differ) slot(table []int32, t, from *tape, i int32) *int32 {
	h := maphash.Bytes(d.seed, from.decodedKey(i, &d.a))
	for {
		s := &table[h&uint64(len(table)-1)]
		if *s == 0 || d.sameKey(t, *s-1, from, i) {
			return s
		}
		h++
	}
}

// arrays is values for two arrays. It gives up once out is longer than end.
func (d *Differ) arrays(p, n int32, depth, end int) {
	base := len(d.pairs)
	d.align(p, n)
	at := 0 // in the array as the operations before have left it
	for k := base; k < len(d.pairs) && len(d.out) <= end; k++ {
		e := d.pairs[k]
		d.element(at, e, depth)
		if e.next >= 0 {
			at++
		}
	}
	d.pairs = d.pairs[:base]
}

// align pairs the elements of two arrays, in their order.
func (d *Differ) align(p, n int32) {
	d.ids = d.ids[:0]
	for i := p + 1; i < d.prev.cells[p].next; i = d.prev.cells[i].next {
		d.ids = append(d.ids, d.identity(&d.prev, i))
	}
	for j := n + 1; j < d.next.cells[n].next; j = d.next.cells[j].next {
		d.ids = append(d.ids, d.identity(&d.next, j))
	}
	count := d.prev.cells[p].count
	w := walk{d: d, i: p + 1, j: n + 1, was: d.ids[:count], is: d.ids[count:]}

	for len(w.was) > 0 && len(w.is) > 0 && w.was[0] == w.is[0] {
		w.both()
	}
	tail := 0
	for tail < len(w.was) && tail < len(w.is) && w.was[len(w.was)-1-tail] == w.is[len(w.is)-1-tail] {
		tail++
	}
	was, is := w.was[:len(w.was)-tail], w.is[:len(w.is)-tail]
	if size := len(was) * len(is); size > 0 && size <= alignedPairs {
		d.subsequences(was, is)
		x, y := 0, 0 // behind the last pair
		for k, l := 0, 0; k < len(was) && l < len(is); {
			switch {
			case was[k] == is[l]:
				w.apart(k-x, l-y)
				w.both()
				k, l = k+1, l+1
				x, y = k, l
			case d.common(len(is), k+1, l) >= d.common(len(is), k, l+1):
				k++
			default:
				l++
			}
		}
	}
	w.apart(len(w.was)-tail, len(w.is)-tail)
	for range tail {
		w.both()
	}
}

// walk goes through two arrays side by side. The next elements are the cells i
// and j; was and is are their identities and those of all behind them.
type walk struct {
	d       *Differ
	i, j    int32
	was, is []uint64
}

// both pairs the next elements.
func (w *walk) both() {
	a, b := w.was[0], w.is[0]
	w.d.pairs = append(w.d.pairs, pair{w.i, w.j, a != b && (a|b)&keyed != 0})
	w.i, w.was = w.d.prev.cells[w.i].next, w.was[1:]
	w.j, w.is = w.d.next.cells[w.j].next, w.is[1:]
}

// apart passes elements that have no equals: what can be is paired by position.
func (w *walk) apart(was, is int) {
	for ; was > 0 && is > 0; was, is = was-1, is-1 {
		w.both()
	}
	for ; was > 0; was-- {
		w.d.pairs = append(w.d.pairs, pair{prev: w.i, next: -1})
		w.i, w.was = w.d.prev.cells[w.i].next, w.was[1:]
	}
	for ; is > 0; is-- {
		w.d.pairs = append(w.d.pairs, pair{prev: -1, next: w.j})
		w.j, w.is = w.d.next.cells[w.j].next, w.is[1:]
	}
}

// keyed is the bit of an identity that is not just the element's text.
const keyed = 1

// identity stands for an element while two arrays are aligned. That two have
// the same by chance makes a longer list, not a wrong one.
func (d *Differ) identity(t *tape, i int32) uint64 {
	best, value := len(identities), int32(0)
	if t.b[t.cells[i].start] == '{' {
		for m := i + 1; m < t.cells[i].next; m = t.cells[m].next {
			if c := t.b[t.cells[m].start]; c == '{' || c == '[' {
				continue
			}
			key := t.decodedKey(m, &d.a)
			for k := range min(best+1, len(identities)) { // of repeated keys the last
				if string(key) == identities[k] {
					best, value = k, m
					break
				}
			}
		}
	}
	if best == len(identities) {
		return maphash.Bytes(d.seed, t.text(i)) &^ keyed
	}
	text := t.text(value)
	if text[0] == '"' && bytes.IndexByte(text, '\\') >= 0 {
		d.a = unquote(d.a[:0], text)
		text = d.a
	}
	return (maphash.Bytes(d.seed, text) + uint64(best)<<1) | keyed
}

// subsequences works out, for each end of a and each of b, the length of the
// longest sequence that both have in common.
func (d *Differ) subsequences(a, b []uint64) {
	row := len(b) + 1
	d.lengths = append(d.lengths[:0], make([]uint16, (len(a)+1)*row)...)
	for k := len(a) - 1; k >= 0; k-- {
		for l := len(b) - 1; l >= 0; l-- {
			at := k*row + l
			if a[k] == b[l] {
				d.lengths[at] = d.lengths[at+row+1] + 1
			} else {
				d.lengths[at] = max(d.lengths[at+row], d.lengths[at+1])
			}
		}
	}
}

// common is what subsequences found for a[k:] and b[l:], b having n elements.
func (d *Differ) common(n, k, l int) uint16 { return d.lengths[k*(n+1)+l] }

// member lists what became of an object's member.
func (d *Differ) member(m pair, depth int) {
	t, i := &d.next, m.next
	if i < 0 {
		t, i = &d.prev, m.prev
	}
	key := t.decodedKey(i, &d.a)
	if d.untyped && depth == 0 && (string(key) == "kind" || string(key) == "apiVersion") {
		return
	}
	outer := len(d.path)
	d.path = append(d.path, '/')
	d.path = appendPointer(d.path, key)
	d.change(m, depth)
	d.path = d.path[:outer]
}

// element lists what became of an array's element that stands at the given
// position now.
func (d *Differ) element(at int, e pair, depth int) {
	outer := len(d.path)
	d.path = append(d.path, '/')
	d.path = strconv.AppendInt(d.path, int64(at), 10)
	d.change(e, depth)
	d.path = d.path[:outer]
}

// change lists what became of the value at path.
func (d *Differ) change(p pair, depth int) {
	switch {
	case p.prev < 0:
		d.operation("add", nil, d.next.text(p.next))
	case p.next < 0:
		d.operation("remove", d.prev.text(p.prev), nil)
	case p.whole:
		d.replace(d.prev.text(p.prev), d.next.text(p.next))
	default:
		d.values(p.prev, p.next, depth+1)
	}
}

func (d *Differ) replace(was, is []byte) { d.operation("replace", was, is) }

// cost is what replace takes, in bytes.
func (d *Differ) cost(was, is []byte) int {
	const frame = len(`,{"op":"replace","path":"","old":,"value":}`)
	return frame + len(d.path) + len(was) + len(is)
}

// operation writes one about the value at path.
func (d *Differ) operation(op string, was, is []byte) {
	c := byte(',')
	if len(d.out) == d.start {
		c = '['
	}
	d.out = append(d.out, c)
	d.out = append(d.out, `{"op":"`...)
	d.out = append(d.out, op...)
	d.out = append(d.out, `","path":"`...)
	d.out = append(d.out, d.path...)
	d.out = append(d.out, '"')
	if was != nil {
		d.out = append(d.out, `,"old":`...)
		d.out = append(d.out, was...)
	}
	if is != nil {
		d.out = append(d.out, `,"value":`...)
		d.out = append(d.out, is...)
	}
	d.out = append(d.out, '}')
}

// sameKey reports whether two members have the same key.
func (d *Differ) sameKey(t *tape, i int32, u *tape, j int32) bool {
	if bytes.Equal(t.key(i), u.key(j)) {
		return true
	}
	if !t.cells[i].escaped && !u.cells[j].escaped {
		return false
	}
	return bytes.Equal(t.decodedKey(i, &d.a), u.decodedKey(j, &d.b))
}

// sameText reports whether two strings, without their quotes, mean the same.
func (d *Differ) sameText(s, t []byte) bool {
	if bytes.IndexByte(s, '\\') < 0 && bytes.IndexByte(t, '\\') < 0 {
		return bytes.Equal(s, t)
	}
	d.a, d.b = unquote(d.a[:0], s), unquote(d.b[:0], t)
	return bytes.Equal(d.a, d.b)
}

// appendPointer writes a key as a token of a JSON Pointer (RFC 6901), escaped
// as the inside of a JSON string.
func appendPointer(dst, key []byte) []byte {
	for len(key) > 0 {
		n := bytes.IndexAny(key, "~/")
		if n < 0 {
			return appendEscaped(dst, string(key))
		}
		dst = appendEscaped(dst, string(key[:n]))
		if key[n] == '~' {
			dst = append(dst, "~0"...)
		} else {
			dst = append(dst, "~1"...)
		}
		key = key[n+1:]
	}
	return dst
}
