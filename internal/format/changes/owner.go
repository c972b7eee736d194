package changes

import (
	"bytes"

	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
)

// find returns which of sets owns all that was set or changed from prev to next; -1 where that is not exactly one. The
// sets are what the entries of next's managedFields own, fieldsV1; an empty one is left out.
//
// The server lets the writer of a version own what it has set, and nobody else. What is removed has no owner, and is
// left out of account, as is what the server sets with any write. Where something else has changed that nobody owns,
// this was not such a write: binding a pod or evicting it changes fields and leaves managedFields as they are.
func (w *ownerWalk) find(prev, next *rawjson.Tape, sets [][]byte) int {
	w.prev, w.next = prev, next
	w.owner, w.container, w.unsure, w.steps = -1, -1, false, ownerSteps
	all := make([]owned, 0, len(sets))
	for i, set := range sets {
		if len(set) > 0 {
			all = append(all, owned{i, set})
		}
	}
	w.value(0, 0, all, wholeObject, 0)
	w.prev, w.next = nil, nil
	if w.unsure || w.container >= 0 && w.container != w.owner {
		return -1
	}
	return w.owner
}

// ownerWalk goes through what differs between two objects, and at the same time through what is owned of it.
type ownerWalk struct {
	prev, next *rawjson.Tape
	owner      int  // of all that was found to have changed; -1: nothing was
	container  int  // likewise of objects and lists that are owned as such
	unsure     bool // there are several owners, or none of something
	steps      int  // comparisons of keys and elements that are still allowed
	a, b, c    []byte
}

// owned is what a set has of a place in the objects, fieldsV1 of what is below it.
type owned struct {
	set    int
	fields []byte
}

// place distinguishes the few objects whose members are not all alike.
type place int

const (
	anywhere place = iota
	wholeObject
	inMetadata
	inAnnotations
	inStatus
	// untraced is a list to which the server itself adds elements that nobody owns: when an object is deleted, and when
	// a pod is bound or evicted.
	untraced
)

const ownerSteps = 1 << 16

// value takes the value that is cell p of the previous object, -1 for none, and cell n of the next one.
func (w *ownerWalk) value(p, n int32, owners []owned, at place, depth int) {
	is := w.next.Text(n)
	if p < 0 {
		w.changed(&w.owner, owners)
		return
	}
	was := w.prev.Text(p)
	inner := w.inner(owners)
	switch {
	case w.unsure, w.same(was, is):
	case depth >= changesDepth:
		w.unsure = true
	case is[0] == '{' && was[0] == '{' && (inner || len(owners) == 0):
		w.members(p, n, owners, at, depth)
	case is[0] == '[' && was[0] == '[' && inner:
		w.elements(p, n, owners, depth)
	case is[0] == '[' && was[0] == '[' && at != untraced && len(is) >= len(was) && w.adds(p, n):
		// Something was set in it, and not only removed. If its elements had owners of their own, there would be one.
		w.changed(&w.owner, owners)
	case is[0] == 'n': // null: what was there is removed
	case inner:
		w.unsure = true // of another kind than it was
	case !isContainer(was) && !isContainer(is):
		w.changed(&w.owner, owners)
	case is[0] != was[0]:
		w.unsure = true
	case len(is) == len("{}"): // all is removed
	case len(was) == len("{}"):
		w.unsure = true // what owns an empty value need not own what is added to it
	default:
		// It is owned as a whole; or only as a container, and nobody owns what is in it. So this proves nothing by
		// itself.
		w.changed(&w.container, owners)
	}
}

func isContainer(value []byte) bool { return value[0] == '{' || value[0] == '[' }

// changed notes in one of owner and container that the owners' value was set or changed.
func (w *ownerWalk) changed(noted *int, owners []owned) {
	if len(owners) == 0 {
		w.unsure = true
	}
	for _, o := range owners {
		if *noted >= 0 && *noted != o.set {
			w.unsure = true
		}
		*noted = o.set
	}
}

// inner reports whether something within the value is owned, not only the value as such.
func (w *ownerWalk) inner(owners []owned) bool {
	for _, o := range owners {
		if len(o.fields) > len("{}") {
			return true
		}
	}
	return false
}

// same reports whether two values are equal; strings, whether they mean the same.
func (w *ownerWalk) same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if a[0] != '"' || b[0] != '"' || bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	w.a, w.b = rawjson.Unquote(w.a[:0], rawjson.Inside(a)), rawjson.Unquote(w.b[:0], rawjson.Inside(b))
	return bytes.Equal(w.a, w.b)
}

// step counts a comparison. Without any left nothing is sure.
func (w *ownerWalk) step() bool {
	w.steps--
	w.unsure = w.unsure || w.steps < 0
	return !w.unsure
}

// members is value for two objects.
func (w *ownerWalk) members(p, n int32, owners []owned, at place, depth int) {
	i, end := p+1, w.prev.Cells[p].Next
	for j := n + 1; j < w.next.Cells[n].Next && w.step(); j = w.next.Cells[j].Next {
		// Most members are in the same order as they were.
		found := int32(-1)
		if i < end && w.prev.SameKey(i, w.next, j, &w.a, &w.b) {
			found = i
		} else {
			for k := p + 1; k < end && w.step(); k = w.prev.Cells[k].Next {
				if w.prev.SameKey(k, w.next, j, &w.a, &w.b) {
					found = k
				}
			}
		}
		if found >= 0 {
			i = w.prev.Cells[found].Next
			if bytes.Equal(w.prev.Text(found), w.next.Text(j)) {
				continue
			}
		}
		key := string(w.next.DecodedKey(j, &w.a))
		if inside, ok := at.enter(key); ok {
			field := "f:" + key
			w.value(found, j, w.below(owners, func(key []byte) bool { return string(key) == field }), inside, depth+1)
		}
	}
}

// enter returns the place of a member's value. It is false for what the server sets with any write, for
// kind and apiVersion, which it leaves out of the items of a list, and for the annotation that it writes for kubectl's
// server-side apply without letting it own that.
func (at place) enter(key string) (place, bool) {
	switch at {
	case wholeObject:
		switch key {
		case "metadata":
			return inMetadata, true
		case "status":
			return inStatus, true
		}
		return anywhere, key != "kind" && key != "apiVersion"
	case inMetadata:
		switch key {
		case "annotations":
			return inAnnotations, true
		case "finalizers":
			return untraced, true
		}
		return anywhere, key != "resourceVersion" && key != "generation" && key != "managedFields" && key != "selfLink"
	case inAnnotations:
		return anywhere, key != object.LastApplied
	case inStatus:
		if key == "conditions" {
			return untraced, true
		}
		return anywhere, true
	default:
		return anywhere, true
	}
}

// below returns what the owners have of a member or an element, which is a key of fieldsV1 that names it.
func (w *ownerWalk) below(owners []owned, names func(key []byte) bool) []owned {
	var found []owned
	for _, o := range owners {
		for k, fields := range rawjson.Members(o.fields) {
			if !w.step() {
				return nil
			}
			if names(w.decoded(k)) {
				found = append(found, owned{o.set, fields})
				break
			}
		}
	}
	return found
}

// decoded is what the inside of a string means, good until the next call.
func (w *ownerWalk) decoded(inside []byte) []byte {
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	w.c = rawjson.Unquote(w.c[:0], inside)
	return w.c
}

// elements is value for two arrays whose elements have owners. Their order means nothing: an element is known by the
// members that k: names, or by its value after v:.
func (w *ownerWalk) elements(p, n int32, owners []owned, depth int) {
	names, ok := w.elementKey(owners)
	if !ok {
		w.unsure = true
		return
	}
	i, end := p+1, w.prev.Cells[p].Next
	for j := n + 1; j < w.next.Cells[n].Next && w.step(); j = w.next.Cells[j].Next {
		found := int32(-1)
		if i < end && w.sameElement(names, i, j) {
			found = i
		} else {
			for k := p + 1; k < end && found < 0 && w.step(); k = w.prev.Cells[k].Next {
				if w.sameElement(names, k, j) {
					found = k
				}
			}
		}
		if found >= 0 {
			i = w.prev.Cells[found].Next
			if w.same(w.prev.Text(found), w.next.Text(j)) {
				continue
			}
		}
		w.value(found, j, w.below(owners, func(key []byte) bool { return w.names(key, j) }), anywhere, depth+1)
	}
}

// adds reports whether an array has an element that the previous one does not have.
func (w *ownerWalk) adds(p, n int32) bool {
	i := p + 1
	for j := n + 1; j < w.next.Cells[n].Next; j = w.next.Cells[j].Next {
		if i < w.prev.Cells[p].Next && w.same(w.prev.Text(i), w.next.Text(j)) {
			i = w.prev.Cells[i].Next // most are in the same order as they were
			continue
		}
		found := false
		for k := p + 1; k < w.prev.Cells[p].Next && !found && w.step(); k = w.prev.Cells[k].Next {
			found = w.same(w.prev.Text(k), w.next.Text(j))
		}
		if !found {
			return !w.unsure
		}
	}
	return false
}

// elementKey returns the names of the members by which the elements of a list are known, none for a list of values that
// are known by themselves. It is false where they are known by neither.
func (w *ownerWalk) elementKey(owners []owned) (names [][]byte, ok bool) {
	for _, o := range owners {
		for k := range rawjson.Members(o.fields) {
			key := w.decoded(k)
			switch {
			case bytes.HasPrefix(key, []byte("v:")):
				return nil, true
			case bytes.HasPrefix(key, []byte("k:{")):
				for name := range rawjson.Members(key[2:]) {
					names = append(names, bytes.Clone(name))
				}
				return names, len(names) > 0
			case string(key) != ".":
				return nil, false
			}
		}
	}
	return nil, false
}

// sameElement reports whether an element of the previous list and one of the next have the same key.
func (w *ownerWalk) sameElement(names [][]byte, p, n int32) bool {
	if len(names) == 0 {
		return w.same(w.prev.Text(p), w.next.Text(n))
	}
	for _, name := range names {
		was, is := w.member(w.prev, p, name), w.member(w.next, n, name)
		if was == nil || is == nil || !w.same(was, is) {
			return false
		}
	}
	return true
}

// member returns the value of an object's member, nil for none.
func (w *ownerWalk) member(t *rawjson.Tape, object int32, name []byte) []byte {
	if t.Text(object)[0] != '{' {
		return nil
	}
	for m := object + 1; m < t.Cells[object].Next; m = t.Cells[m].Next {
		if bytes.Equal(t.Key(m), name) {
			return t.Text(m)
		}
	}
	return nil
}

// names reports whether a key of fieldsV1 is that of an element of the next list.
func (w *ownerWalk) names(key []byte, n int32) bool {
	if value, ok := bytes.CutPrefix(key, []byte("v:")); ok {
		return len(value) > 0 && w.same(value, w.next.Text(n))
	}
	rest, ok := bytes.CutPrefix(key, []byte("k:"))
	if !ok {
		return false
	}
	for name, value := range rawjson.Members(rest) {
		if is := w.member(w.next, n, name); is == nil || !w.same(value, is) {
			return false
		}
	}
	return true
}

// ShowsNode reports whether a shape leaves in an object what distinguishes the binding of a pod, which changes a
// condition that somebody may own, from a write of that condition.
func ShowsNode(s object.Shape) bool {
	const raw = `{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}`
	r, err := object.NewRenderer(object.Source{Stream: "probe"}, s)
	if err != nil {
		return false
	}
	var o object.Object
	return r.Scan([]byte(raw), &o) == nil && bytes.Contains(o.AppendShaped(nil), []byte(`"spec":{"nodeName":"n"}`))
}
