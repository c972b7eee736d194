package blame

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
)

// node is a value of the object: who wrote it, not what it is. The write of a container is that which added or replaced
// it, or the last that emptied it or added the first to it.
type node struct {
	write    *Write
	kind     byte   // '{', '['; 0 for a scalar, and for what is deeper than yamltext.MaxDepth: it is one value
	name     string // that tells it from the other elements of its list; "" if nothing does
	members  map[string]*node
	elements []*node
}

// newTree returns the tree of a value that was written by w, around which there are depth objects and lists.
func newTree(value []byte, w *Write, depth int) (*node, error) {
	var t rawjson.Tape
	if err := t.Read(value, 0); err != nil {
		return nil, err
	}
	defer t.Release()
	var buf []byte
	var build func(i int32, depth int) *node
	build = func(i int32, depth int) *node {
		n := &node{write: w}
		if depth >= yamltext.MaxDepth && t.Cells[i].Count > 0 {
			return n
		}
		switch t.Text(i)[0] {
		case '{':
			n.kind, n.members = '{', make(map[string]*node, t.Cells[i].Count)
			for m := i + 1; m < t.Cells[i].Next; m = t.Cells[m].Next {
				key := string(t.DecodedKey(m, &buf))
				n.members[key] = build(m, depth+1)
			}
		case '[':
			n.kind, n.elements = '[', make([]*node, 0, t.Cells[i].Count)
			for m := i + 1; m < t.Cells[i].Next; m = t.Cells[m].Next {
				element := build(m, depth+1)
				element.name = changes.Name(t.Text(m))
				n.elements = append(n.elements, element)
			}
		}
		return n
	}
	return build(0, depth), nil
}

func (n *node) len() int { return len(n.members) + len(n.elements) }

// child returns the member or element that a step leads to, nil where there is none.
func (n *node) child(step string) *node {
	if n.kind == '[' {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.elements) {
			return n.elements[i]
		}
		return nil
	}
	return n.members[step]
}

// find returns what steps lead to or, in what is too deep, into; nil where there is nothing.
func (n *node) find(steps []string) *node {
	for len(steps) > 0 && n != nil && n.kind != 0 {
		n, steps = n.child(steps[0]), steps[1:]
	}
	return n
}

// mark counts for w what differs between two values of the node, with all, and what is redacted.
func (n *node) mark(old, value []byte, w *Write, all bool) {
	same := bytes.Equal(old, value)
	if string(value) == `"REDACTED"` || all && !same && (n.len() == 0 || len(old) == 0 || old[0] != n.kind) {
		n.write = w
	}
	i := 0
	switch n.kind {
	case '{':
		was := map[string][]byte{}
		for key, v := range rawjson.Members(old) {
			was[text(key)] = v
		}
		for key, v := range rawjson.Members(value) {
			if child := n.members[text(key)]; child != nil {
				child.mark(was[text(key)], v, w, all && !same)
			}
		}
	case '[':
		for v := range rawjson.Elements(value) {
			if i < len(n.elements) {
				n.elements[i].mark(nil, v, w, all && !same)
			}
			i++
		}
	}
}

// change applies an operation of RFC 6902.
func (h *History) change(pointer, old, value []byte, w *Write) {
	if rest, ok := bytes.CutPrefix(pointer, []byte(managedFields)); ok && (len(rest) == 0 || rest[0] == '/') {
		return // they are never shown
	}
	way := fieldpath.PointerSteps(text(pointer))
	var added *node
	if value != nil {
		var err error
		if added, err = newTree(value, w, len(way)); err != nil {
			return // it is part of an object that could be read
		}
		added.name = changes.Name(value)
	}
	if len(way) == 0 {
		h.root = added
		return
	}
	parent, path := h.root, h.path[:0]
	for _, step := range way[:len(way)-1] {
		if parent.kind == 0 {
			break
		}
		child := parent.child(step)
		if child == nil {
			return
		}
		path = parent.appendStep(path, step, child)
		parent = child
	}
	if parent.kind == 0 {
		parent.write = w
		return
	}
	step := way[len(way)-1]
	was := parent.child(step)
	if _, ok := h.empty[parent]; !ok && (old == nil || value == nil) {
		if h.empty == nil {
			h.empty = map[*node]bool{}
		}
		h.empty[parent] = parent.len() == 0
	}
	if old != nil && was != nil && (value == nil || was.kind != 0) {
		h.gone = append(h.gone, Field{Path: string(parent.appendStep(path, step, was)), Value: old})
	}
	if added != nil {
		h.came = append(h.came, Field{Path: string(parent.appendStep(path, step, added)), Value: value})
	}
	h.path = path
	parent.put(step, old != nil, added)
}

// put adds, replaces or, with nil, removes a member or element.
func (n *node) put(step string, replace bool, child *node) {
	if n.kind == '{' {
		if n.members[step] = child; child == nil {
			delete(n.members, step)
		}
		return
	}
	i, err := strconv.Atoi(step)
	switch {
	case err != nil || i < 0 || i > len(n.elements) || replace && i == len(n.elements):
	case child == nil:
		n.elements = slices.Delete(n.elements, i, i+1)
	case replace:
		n.elements[i] = child
	default:
		n.elements = slices.Insert(n.elements, i, child)
	}
}

// appendStep appends the step to a child to a path. Elements without a name have their position.
func (n *node) appendStep(path []byte, step string, child *node) []byte {
	if n.kind == '[' {
		return fieldpath.AppendElement(path, cmp.Or(child.name, step))
	}
	return fieldpath.AppendKey(path, step)
}

// maxRemoved bounds the bytes of paths and values of removed fields.
const maxRemoved = 4 << 20

// removed has the fields that are gone, by their paths.
type removed struct {
	fields  map[string]Field
	size    int
	dropped int // for want of space
}

// add adds the scalars and the empty containers in a value that is gone.
func (r *removed) add(path string, value []byte, w *Write) {
	r.addBelow(path, value, w, 0)
}

func (r *removed) addBelow(path string, value []byte, w *Write, depth int) {
	if each(path, value, depth, func(child string, v []byte) { r.addBelow(child, v, w, depth+1) }) {
		return
	}
	r.delete(path)
	if r.fields == nil {
		r.fields = map[string]Field{}
	}
	r.fields[path] = Field{Path: path, Value: bytes.Clone(value), Write: w}
	r.size += len(path) + len(value)
}

// drop drops what is in a value that is there again.
func (r *removed) drop(path string, value []byte) { r.dropBelow(path, value, 0) }

func (r *removed) dropBelow(path string, value []byte, depth int) {
	r.delete(path)
	each(path, value, depth, func(child string, v []byte) { r.dropBelow(child, v, depth+1) })
}

func (r *removed) delete(path string) {
	if f, ok := r.fields[path]; ok {
		r.size -= len(path) + len(f.Value)
		delete(r.fields, path)
	}
}

// trim drops what has been gone for longest, half of all, if there is too much.
func (r *removed) trim() {
	if r.size <= maxRemoved {
		return
	}
	all := r.sorted()
	for _, f := range all[:(len(all)+1)/2] {
		r.delete(f.Path)
		r.dropped++
	}
	r.trim()
}

// sorted returns the fields, those first that have been gone for longest.
func (r *removed) sorted() []Field {
	return slices.SortedFunc(maps.Values(r.fields), func(a, b Field) int {
		return cmp.Or(cmp.Compare(a.Write.Seq, b.Write.Seq), strings.Compare(a.Path, b.Path))
	})
}

// each calls f for each member and element of a value, with its path, and reports whether there are any. What depth
// objects and lists are around is one value if these are too many.
func each(path string, value []byte, depth int, f func(path string, value []byte)) bool {
	if depth >= yamltext.MaxDepth {
		return false
	}
	parent, any := node{kind: value[0]}, false
	child := func(step string, v []byte) {
		f(string(parent.appendStep([]byte(path), step, &node{name: changes.Name(v)})), v)
		any = true
	}
	switch value[0] {
	case '{':
		for key, v := range rawjson.Members(value) {
			child(text(key), v)
		}
	case '[':
		i := 0
		for v := range rawjson.Elements(value) {
			child(strconv.Itoa(i), v)
			i++
		}
	}
	return any
}
