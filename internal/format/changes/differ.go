// Package changes says what changed between two versions of an object.
package changes

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"sync"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
)

// Differ says what changed from one version of an object to the next, as operations of RFC 6902, each with the value
// that it takes away beside it as old:
//
//	{"op":"add","path":"/metadata/labels/a","value":"b"}
//	{"op":"remove","path":"/spec/containers/1","old":{"name":"x"}}
//	{"op":"replace","path":"/status/phase","old":"Pending","value":"Running"}
//
// Applied in their order to the object before, they give the object after.
//
//   - Both objects are taken as a Shape left them. A value that is "REDACTED" in both is replaced by "REDACTED" if it
//     is known that what it hides has changed, and the same otherwise.
//   - Members are paired by what their keys mean, and of repeated ones the last counts, as in encoding/json. Their
//     order means nothing.
//   - Elements of arrays are paired by their identities or, where they have none, by their text; what lies between
//     two pairs is paired by position. So an element that is inserted is one add, not a rewrite of all after it.
//   - Strings are the same if they mean the same; numbers if they are written the same, for 1.0 and 1 are not one to
//     every reader.
//   - A list larger than both objects together, and than 4 KiB, is made again at a coarser level: it then replaces a
//     container as a whole where that takes fewer bytes than its changes do. The result never exceeds both objects by
//     more than 64 bytes.
//   - Below 128 levels containers that differ are replaced as a whole.
//
// It is for one goroutine and best used over and over: it keeps its space.
type Differ struct {
	prev, next rawjson.Tape
	out        []byte
	path       []byte   // of the value being compared: a JSON Pointer, escaped as the inside of a JSON string
	start      int      // of the list in out
	end        int      // out may grow to this length before the list is made coarser
	coarse     bool     // it is being made coarser
	untyped    bool     // kind and apiVersion of the objects themselves are not compared
	hidden     Hidden   // of both objects; nil: nothing is known of them
	sets       [][]byte // one of which may own all that has changed
	owner      int      // which; -1: none, or not known
	visit      Visit    // gets the operations in the place of out; may be nil
	owners     ownerWalk

	pairs    []pair    // a stack: each container being compared has its own on it
	elements []element // that align looks at
	lengths  []uint16  // of their common subsequences
	a, b     []byte    // keys that had escapes, decoded
}

var seed = maphash.MakeSeed()

// pair is two cells of the same place; -1 where one is missing.
type pair struct {
	prev, next int32
	whole      bool // elements that have nothing to do with each other
}

const (
	leastChanges = 4 << 10 // bytes; a list up to this is never made coarser
	changesDepth = 128     // containers nested deeper are not looked into
	aroundChange = 3       // levels of a line around a value of the list: {"changes":[{"old":{}}]}
	scannedKeys  = 1 << 14 // comparisons of keys that are made before a map is
	alignedPairs = 1 << 12 // pairs of elements that are looked at to align two arrays
)

// Append appends the list of changes from prev to next as a JSON array, or nothing if there are none. Both must be
// compact JSON of at most object.MaxObject, as AppendShaped writes it. With an error, dst is returned as it was.
func (d *Differ) Append(dst, prev, next []byte) ([]byte, error) {
	if d.hidden == nil && bytes.Equal(prev, next) {
		return dst, nil
	}
	defer d.release()
	if err := d.prev.Read(prev, aroundChange); err != nil {
		return dst, fmt.Errorf("compare objects: read the previous one: %w", err)
	}
	if err := d.next.Read(next, aroundChange); err != nil {
		return dst, fmt.Errorf("compare objects: read the next one: %w", err)
	}
	d.start = len(dst)
	d.end = d.start + max(leastChanges, len(prev)+len(next))
	for _, d.coarse = range []bool{false, true} {
		d.out, d.path, d.pairs = dst, d.path[:0], d.pairs[:0]
		d.values(0, 0, 0)
		if len(d.out) <= d.end {
			break
		}
	}
	dst = d.out
	if len(dst) == d.start {
		return dst, nil
	}
	if len(d.sets) > 0 {
		d.owner = d.owners.find(&d.prev, &d.next, d.sets)
	}
	return append(dst, ']'), nil
}

// release lets go of the caller's bytes, and of space that only large objects need.
func (d *Differ) release() {
	d.out, d.hidden, d.sets = nil, nil, nil
	d.prev.Release()
	d.next.Release()
	if cap(d.pairs) > rawjson.KeptCells {
		d.pairs, d.elements = nil, nil
	}
}

// differs are shared: streams are many, and few of them compare at a time.
var differs = sync.Pool{New: func() any { return new(Differ) }}

// Append is Differ.Append for two versions of one object as a stream receives them: kind and apiVersion are not
// compared, since servers leave them out of the items of a list.
func Append(dst, prev, next []byte) ([]byte, error) {
	list, _, err := AppendOwned(dst, prev, next, nil, nil)
	return list, err
}

// Visit gets an operation: its path, as the inside of a JSON string and valid until it returns, and the values that it
// takes away and brings, parts of the two objects, nil where there is none.
type Visit func(op string, path, old, value []byte)

// Each calls visit for each operation that leads from prev to next, in their order. They are those of Append, but that
// none is ever made coarser.
func Each(prev, next []byte, visit Visit) error {
	d := differs.Get().(*Differ)
	defer func() {
		d.visit = nil
		differs.Put(d)
	}()
	d.untyped, d.hidden, d.sets, d.visit = true, nil, nil, visit
	_, err := d.Append(nil, prev, next)
	return err
}

// Hidden is what is known of the values that are hidden in both versions.
type Hidden interface {
	// Same reports whether they are the same in two parts of equal text, of size bytes, which begin at prev in the
	// version before and at next in this one. A value that is not known in one of them counts as the same.
	Same(prev, next, size int) bool
}

// AppendOwned is Append with what is known of values that the objects hide. It also returns which of sets owns all that
// has changed, as ownerWalk.find does.
func AppendOwned(dst, prev, next []byte, hidden Hidden, sets [][]byte) (list []byte, owner int, err error) {
	d := differs.Get().(*Differ)
	defer differs.Put(d)
	d.untyped, d.hidden, d.sets, d.owner = true, hidden, sets, -1
	list, err = d.Append(dst, prev, next)
	return list, d.owner, err
}

// same reports whether cell p of the previous object and cell n of the next one have the same text, with the same
// redacted values after it.
func (d *Differ) same(p, n int32) bool {
	was := d.prev.Text(p)
	return bytes.Equal(was, d.next.Text(n)) &&
		(d.hidden == nil || d.hidden.Same(d.prev.Offset(p), d.next.Offset(n), len(was)))
}

// values lists what changed from cell p of the previous object to cell n of the next one, with depth containers
// around them.
func (d *Differ) values(p, n int32, depth int) {
	if d.same(p, n) {
		return
	}
	was, is := d.prev.Text(p), d.next.Text(n)
	mark, end := len(d.out), d.end
	if d.coarse {
		end = mark + len(`,{"op":"replace","path":"","old":,"value":}`) + len(d.path) + len(was) + len(is)
	}
	first := was[0]
	switch {
	case first == '"' && is[0] == '"' && !bytes.Equal(was, is) && d.sameText(was[1:len(was)-1], is[1:len(is)-1]):
	case first == '{' && is[0] == '{' && depth < changesDepth:
		d.objects(p, n, depth, end)
	case first == '[' && is[0] == '[' && depth < changesDepth:
		d.arrays(p, n, depth, end)
	default:
		d.operation("replace", was, is)
		return
	}
	if d.coarse && len(d.out) > end {
		d.out = d.out[:mark]
		d.operation("replace", was, is)
	}
}

// objects is values for two objects. It gives up once out is longer than end.
func (d *Differ) objects(p, n int32, depth, end int) {
	if d.inStep(p, n) {
		for i, j := p+1, n+1; j < d.next.Cells[n].Next && len(d.out) <= end; i, j = d.prev.Cells[i].Next,
			d.next.Cells[j].Next {
			// Of repeated keys both objects have the last in the same place.
			if !d.same(i, j) && !d.repeated(n, j) {
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

// inStep reports whether two objects have the same keys in the same order, and so few members that differ that
// repeated may be asked about each. Most have, and the comparison of two pods would take half as long again by match.
func (d *Differ) inStep(p, n int32) bool {
	count := int(d.next.Cells[n].Count)
	if int(d.prev.Cells[p].Count) != count {
		return false
	}
	differ := 0
	for i, j := p+1, n+1; j < d.next.Cells[n].Next; i, j = d.prev.Cells[i].Next, d.next.Cells[j].Next {
		if !d.prev.SameKey(i, &d.next, j, &d.a, &d.b) {
			return false
		}
		if !d.same(i, j) {
			if differ++; differ*count > scannedKeys {
				return false
			}
		}
	}
	return true
}

// repeated reports whether object n has the key of its member j once more after that.
func (d *Differ) repeated(n, j int32) bool {
	for k := d.next.Cells[j].Next; k < d.next.Cells[n].Next; k = d.next.Cells[k].Next {
		if d.next.SameKey(j, &d.next, k, &d.a, &d.b) {
			return true
		}
	}
	return false
}

// match pairs the members of two objects, the last of repeated ones: first those that are gone, then all that the
// next one has, in its order.
func (d *Differ) match(p, n int32) {
	was, is := d.members(&d.prev, p), d.members(&d.next, n)
	for i := p + 1; i < d.prev.Cells[p].Next; i = d.prev.Cells[i].Next {
		key := d.prev.DecodedKey(i, &d.a)
		if _, stays := is[string(key)]; !stays && was[string(key)] == i {
			d.pairs = append(d.pairs, pair{prev: i, next: -1})
		}
	}
	for j := n + 1; j < d.next.Cells[n].Next; j = d.next.Cells[j].Next {
		key := d.next.DecodedKey(j, &d.a)
		if is[string(key)] != j {
			continue
		}
		if i, ok := was[string(key)]; ok {
			d.pairs = append(d.pairs, pair{prev: i, next: j})
		} else {
			d.pairs = append(d.pairs, pair{prev: -1, next: j})
		}
	}
}

// members returns the cells of an object's members by key.
func (d *Differ) members(t *rawjson.Tape, object int32) map[string]int32 {
	cells := make(map[string]int32, t.Cells[object].Count)
	for i := object + 1; i < t.Cells[object].Next; i = t.Cells[i].Next {
		cells[string(t.DecodedKey(i, &d.a))] = i
	}
	return cells
}

// member lists what became of an object's member.
func (d *Differ) member(m pair, depth int) {
	t, i := &d.next, m.next
	if i < 0 {
		t, i = &d.prev, m.prev
	}
	key := t.DecodedKey(i, &d.a)
	if d.untyped && depth == 0 && (string(key) == "kind" || string(key) == "apiVersion") {
		return
	}
	d.change(key, m, depth)
}

// change lists what became of the value at the key or index below path.
func (d *Differ) change(key []byte, p pair, depth int) {
	outer := len(d.path)
	d.path = appendPointer(append(d.path, '/'), key)
	switch {
	case p.prev < 0:
		d.operation("add", nil, d.next.Text(p.next))
	case p.next < 0:
		d.operation("remove", d.prev.Text(p.prev), nil)
	case p.whole:
		d.operation("replace", d.prev.Text(p.prev), d.next.Text(p.next))
	default:
		d.values(p.prev, p.next, depth+1)
	}
	d.path = d.path[:outer]
}

// operation writes one about the value at path.
func (d *Differ) operation(op string, was, is []byte) {
	if d.visit != nil {
		d.visit(op, d.path, was, is)
		return
	}
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

// sameText reports whether two strings, without their quotes, mean the same.
func (d *Differ) sameText(s, t []byte) bool {
	if bytes.IndexByte(s, '\\') < 0 && bytes.IndexByte(t, '\\') < 0 {
		return bytes.Equal(s, t)
	}
	d.a, d.b = rawjson.Unquote(d.a[:0], s), rawjson.Unquote(d.b[:0], t)
	return bytes.Equal(d.a, d.b)
}

// appendPointer writes a key as a token of a JSON Pointer (RFC 6901), escaped as the inside of a JSON string.
func appendPointer(dst, key []byte) []byte {
	return rawjson.AppendEscaped(dst, string(fieldpath.Escaped(key)))
}
