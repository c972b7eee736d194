package object

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"kubejournal/internal/format/fieldpath"
)

// Shape says what is cut from the objects of a stream and what is replaced.
//
// Paths are those that fieldpath.Parse reads.
type Shape struct {
	// Drop lists what is cut.
	Drop []string
	// Redact lists below what every value becomes "REDACTED", keys staying; an array becomes one "REDACTED", and null
	// at the path itself stays null. Any other value that a path cannot enter is replaced whole. The
	// copy of the object that kubectl apply leaves in an annotation is cut, since nothing in it can be redacted, and so
	// is what managedFields say of the path. Other annotations that show a redacted value are redacted.
	Redact []string
	// Secret redacts data and stringData, cuts that annotation, and redacts those.
	Secret bool
}

// LastApplied is the annotation in which kubectl apply leaves a copy of the object.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Validate names the first path that cannot be followed.
func (s Shape) Validate() error {
	_, err := s.compile(&node{})
	return err
}

// Redacts reports whether the shape may redact something.
func (s Shape) Redacts() bool { return s.Secret || len(s.Redact) > 0 }

// Fingerprint identifies a shape and the paths that a stream ignores: another one means that what was kept of the
// stream's objects was made otherwise. The order of paths means nothing.
func (s Shape) Fingerprint(ignore []string) [16]byte {
	h := sha256.New()
	fmt.Fprintf(h, "shape 1\nsecret %t\n", s.Secret)
	if s.Redacts() {
		fmt.Fprintln(h, "copies") // in annotations, which earlier versions left
	}
	for _, list := range []struct {
		name  string
		paths []string
	}{{"drop", s.Drop}, {"redact", s.Redact}, {"ignore", ignore}} {
		paths := slices.Clone(list.paths)
		slices.Sort(paths)
		for _, p := range slices.Compact(paths) {
			fmt.Fprintf(h, "%s %q\n", list.name, p)
		}
	}
	return [16]byte(h.Sum(nil)[:16])
}

// compile adds the shape to the tree at root.
func (s Shape) compile(root *node) (*node, error) {
	for _, p := range s.Drop {
		steps, err := fieldpath.Parse(p)
		if err != nil {
			return nil, fmt.Errorf("drop path %q: %w", p, err)
		}
		root.reach(steps, false).drop = true
	}
	for _, p := range s.Redact {
		steps, err := fieldpath.Parse(p)
		if err != nil {
			return nil, fmt.Errorf("redact path %q: %w", p, err)
		}
		if identifies(steps) {
			return nil, fmt.Errorf("redact path %q: every line carries the object's name and version", p)
		}
		root.reach(steps, true).redact = true
		s.dropOwned(root, steps)
	}
	if s.Secret {
		root.reach(keys("data"), true).redact = true
		root.reach(keys("stringData"), true).redact = true
	}
	if s.Redacts() {
		root.reach(keys("metadata", "annotations"), true).mayCopy = true
		root.reach(keys("metadata", "annotations", LastApplied), true).drop = true
	}
	return root, nil
}

// dropOwned cuts from managedFields, where a line has that, what is said of a redacted path: it quotes the elements of
// sets, and the members by which the elements of a list are known. Of Secrets it quotes nothing but keys.
func (s Shape) dropOwned(root *node, path []fieldpath.Step) {
	const managed = "managedFields"
	if n := root.find([]byte("metadata")); n != nil &&
		(n.drop || n.find([]byte(managed)) != nil && n.find([]byte(managed)).drop) {
		return
	}
	owned := []fieldpath.Step{{Key: "metadata"}, {Key: managed}, {Each: true}, {Key: "fieldsV1"}}
	for _, s := range path {
		if s.Each {
			break // its keys there are those of elements
		}
		owned = append(owned, fieldpath.Step{Key: "f:" + s.Key})
	}
	root.reach(owned, false).drop = true
}

// identifies reports whether a path covers what the line repeats outside of the object, whatever is redacted within.
func identifies(steps []fieldpath.Step) bool {
	if steps[0].Key != "metadata" {
		return false
	}
	if len(steps) == 1 || steps[1].Each {
		return true
	}
	return slices.Contains([]string{"namespace", "name", "uid", "resourceVersion", "generation"}, steps[1].Key)
}

func keys(names ...string) []fieldpath.Step {
	steps := make([]fieldpath.Step, len(names))
	for i, n := range names {
		steps[i].Key = n
	}
	return steps
}

// node is a place in an object where something is looked for: to be remembered, cut or redacted.
type node struct {
	edges   []edge // members of an object
	lengths uint64 // of their keys: a bit for each length modulo 64
	elem    *node  // each element of an array

	capture capture
	mask    captures // capture of this node and of all below

	drop, redact bool
	mayCopy      bool // each member may show what is redacted elsewhere

	// A path below this node is redacted. A value that is not the object, or the array, that it expects is redacted
	// whole.
	wantObject, wantArray bool
}

type edge struct {
	key string
	to  *node
}

// find returns the node of a member, or nil.
func (n *node) find(key []byte) *node {
	if n == nil || n.lengths>>(len(key)%64)&1 == 0 {
		return nil
	}
	for i := range n.edges {
		if e := &n.edges[i]; string(key) == e.key {
			return e.to
		}
	}
	return nil
}

// reach returns the node at the end of a path, making what is missing. guard means that what lies there must not be
// written as it is.
func (n *node) reach(path []fieldpath.Step, guard bool) *node {
	for _, s := range path {
		if s.Each {
			n.wantArray = n.wantArray || guard
			if n.elem == nil {
				n.elem = &node{}
			}
			n = n.elem
			continue
		}
		n.wantObject = n.wantObject || guard
		next := n.find([]byte(s.Key))
		if next == nil {
			next = &node{}
			n.edges, n.lengths = append(n.edges, edge{s.Key, next}), n.lengths|1<<(len(s.Key)%64)
		}
		n = next
	}
	return n
}

// want notes that the value at the end of a path is to be remembered, and returns its node.
func (n *node) want(c capture, path ...string) *node {
	n = n.reach(keys(path...), false)
	n.capture = c
	return n
}

// sum works out the masks.
func (n *node) sum() captures {
	n.mask = n.capture.bit()
	for _, e := range n.edges {
		n.mask |= e.to.sum()
	}
	if n.elem != nil {
		n.mask |= n.elem.sum()
	}
	return n.mask
}

// misfit reports whether a redaction's path cannot enter a value that begins so.
func (n *node) misfit(c byte) bool {
	if n == nil || !n.wantObject && !n.wantArray {
		return false
	}
	switch c {
	case '{':
		return !n.wantObject
	case '[':
		return !n.wantArray
	}
	return true
}
