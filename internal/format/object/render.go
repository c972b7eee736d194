package object

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"kubejournal/internal/format/rawjson"
)

// Renderer makes the lines of one stream. It is for one goroutine.
type Renderer struct {
	root   *node
	events bool // the objects are Kubernetes Events

	// Rendered once: the part of every line after the id, the stream name as the inside of a string, the beginning of
	// the object of a relist's deletion, and the part after source in a line about the stream.
	source, stream, bare []byte
	cluster              []byte // the member clusterUID
	// resource and group, as in the stream's name, as the inside of a string
	resource   []byte
	scope      atomic.Pointer[[]byte] // see Distinguish
	apiVersion string                 // of the stream's objects

	second int64  // the Unix time that clock shows
	clock  []byte // empty until the first line
	id     id
	about  []byte // backs the id of an object without a uid

	writtenSecond int64 // the same for writtenAt
	writtenClock  []byte

	// While Scan runs:
	s   rawjson.Scanner
	o   *Object
	cut bool // what is scanned will not be in the line
}

var (
	errNoStream   = errors.New("source names no stream")
	errNoMetadata = errors.New("no metadata object")
	errControl    = errors.New("control character in a string")
	errLongName   = errors.New("metadata too long")
)

// NewRenderer returns a Renderer for the lines of src, with shape applied to its objects.
func NewRenderer(src Source, shape Shape) (*Renderer, error) {
	if src.Stream == "" {
		return nil, errNoStream
	}
	root, err := shape.compile(&node{})
	if err != nil {
		return nil, err
	}
	captureMetadata(root)
	r := &Renderer{root: root}
	r.Distinguish("")
	if src.Resource == "events" && (src.Group == "" || src.Group == "events.k8s.io") {
		r.events = true
		captureEvent(root, src.Group)
	}
	root.sum()

	r.stream = inside(src.Stream)
	r.resource = inside(strings.TrimSuffix(src.Resource+"."+src.Group, "."))
	r.source = appendText(nil, `,"stream":"`, r.stream)
	r.source = appendText(r.source, `,"cluster":"`, inside(src.Cluster))
	r.source = appendText(r.source, `,"group":"`, inside(src.Group))
	r.source = appendText(r.source, `,"version":"`, inside(src.Version))
	r.source = appendText(r.source, `,"resource":"`, inside(src.Resource))
	r.source = appendText(r.source, `,"kind":"`, inside(src.Kind))
	r.cluster = appendText(nil, `,"clusterUID":"`, inside(src.ClusterUID))
	r.apiVersion = src.Version
	if src.Group != "" {
		r.apiVersion = src.Group + "/" + src.Version
	}
	r.bare = fmt.Appendf(
		nil, `,"object":{"apiVersion":"%s","kind":"%s","metadata":`, inside(r.apiVersion), inside(src.Kind),
	)
	return r, nil
}

// Scan looks through one object, checks that it is well-formed JSON with a metadata object, and notes what AppendLine
// needs. Behind the object it passes over further members of a watch event, which its split may leave there. After an
// error o is empty.
func (r *Renderer) Scan(raw []byte, o *Object) error {
	raw = rawjson.TrimSpace(raw)
	defer r.s.Release()
	r.s.Reset(raw)
	if r.s.Wide() && !utf8.Valid(raw) {
		o.valid = rawjson.AppendValid(o.valid[:0], raw)
		r.s.Reset(o.valid)
	}
	err := r.s.ReadCompact(&o.compact, func() error { return r.scan(o) })
	switch {
	case err != nil:
	case o.have&metadata.bit() == 0:
		err = errNoMetadata
	case !o.finish():
		err = errLongName
	}
	if err != nil {
		o.Reset()
		return fmt.Errorf("scan object: %w", err)
	}
	if o.mayCopy {
		o.redactCopies()
	}
	return nil
}

// scan is Scan for the compact JSON that the scanner has.
func (r *Renderer) scan(o *Object) error {
	o.Reset()
	if r.s.Control() {
		return errControl
	}
	o.Raw = r.s.Text()
	r.o, r.cut = o, false
	end := -1
	if len(o.Raw) > 0 && o.Raw[0] == '{' {
		end = r.contents(0, r.root, false, aroundObject)
	} else {
		r.s.Fail(0, "expected an object")
	}
	r.o = nil
	if end < 0 || !r.siblings(end) {
		return r.s.Err()
	}
	o.Raw = o.Raw[:end]
	return nil
}

// siblings passes the members of a watch event after its object.
func (r *Renderer) siblings(i int) bool {
	s := &r.s
	for b := s.Text(); i >= 0 && i < len(b); {
		if b[i] != ',' {
			s.Fail(i, "expected the end of the object")
			return false
		}
		key, value := s.Key(i + 1)
		if string(key) == "type" || string(key) == "object" {
			value = s.Fail(i+1, "repeated key of a watch event")
		}
		if i = value; i >= 0 {
			i = s.Skip(i, 1)
		}
	}
	return i >= 0
}

// walk passes the value of node n, with depth containers around it in its line, and notes what n asks for. n may be
// nil below a redaction, where redact is set.
func (r *Renderer) walk(i int, n *node, redact bool, depth int) int {
	s, o := &r.s, r.o
	b := s.Text()
	var wanted captures
	if n != nil {
		o.have &^= n.mask // the last of repeated keys counts
		wanted = n.capture.bit()
		redact = redact || n.redact
	}
	if i >= len(b) {
		return s.Fail(i, "")
	}
	start, first, mark := i, b[i], len(o.edits)
	whole := redact && first != '{' || n.misfit(first)
	switch {
	case first == '{' && (redact || n != nil && n.edges != nil):
		i = r.contents(i, n, redact, depth)
		wanted &= objects
	case first == '[' && n != nil && n.elem != nil:
		if wanted &= 1 << managed; wanted != 0 {
			o.writers = o.writers[:0]
		}
		i = r.contents(i, n, false, depth)
	case first == '"':
		i = s.Str(i)
		wanted &= texts
	default:
		i = r.over(i, depth)
		switch {
		case first == '{':
			wanted &= objects
		case first == '-', first >= '0' && first <= '9':
			wanted &= numbers
		default:
			wanted = 0
		}
	}
	if i < 0 {
		return i
	}
	if wanted != 0 {
		o.have |= wanted
		o.spans[n.capture] = span{start, i}
		if first == '"' {
			o.spans[n.capture] = span{start + 1, i - 1}
		}
	}
	if !whole {
		return i
	}
	if n != nil {
		if first == 'n' && (n.redact || n.misfit(first)) {
			return i // null says nothing
		}
		o.have &^= n.mask & hideable
	}
	o.edits = append(o.edits[:mark], edit{span: span{start, i}, redact: true})
	return i
}

// contents passes the object or array at i, which is that of node n. What is cut goes with the comma before it if
// anything before it stays, otherwise with the one after it.
func (r *Renderer) contents(i int, n *node, redact bool, depth int) int {
	s, o := &r.s, r.o
	b := s.Text()
	object, shut := b[i] == '{', b[i]+2 // in ASCII the closing bracket is two after the opening one
	kept := false
	i, more := s.Open(i, depth)
	for more {
		start, mark := i, len(o.edits)
		var child *node
		var key []byte
		if object {
			if key, i = s.Key(i); i < 0 {
				return i
			}
			child = n.find(key)
		} else {
			child = n.elem
		}
		value := i
		drop := child != nil && child.drop
		switch {
		case child == nil && !redact:
			i = r.over(i, depth+1)
		case drop && !r.cut:
			// What a line repeats of it is looked for all the same; the rest need not even be
			// JSON, as long as its end can be found.
			r.cut = true
			i = r.walk(i, child, redact, depth+1)
			r.cut = false
		default:
			i = r.walk(i, child, redact, depth+1)
		}
		if i < 0 {
			return i
		}
		switch {
		case n == nil:
		case !object && n.capture == managed && b[start] == '{':
			o.noteWriter()
		case object && n.mayCopy && !drop:
			o.noteAnnotation(key, span{value, i}, mark)
		}
		end := i
		i, more = s.More(i, shut)
		switch {
		case !drop:
			kept = true
			continue
		case kept:
			start--
		case more:
			end = i
		}
		o.edits = append(o.edits[:mark], edit{span: span{start, end}})
	}
	return i
}

// over passes a value in which nothing is looked for.
func (r *Renderer) over(i, depth int) int {
	if r.cut {
		return r.s.Close(i, depth)
	}
	return r.s.Skip(i, depth)
}

// Reset empties o, but keeps its space.
func (o *Object) Reset() {
	o.Raw = nil
	o.Namespace, o.Name, o.UID, o.ResourceVersion, o.Kind = nil, nil, nil, nil, nil
	o.Generation, o.InitialEventsEnd, o.Unusable = 0, false, nil
	o.have, o.mayCopy = 0, false
	o.writers, o.edits, o.decoded = o.writers[:0], o.edits[:0], o.decoded[:0]
}

// finish decodes what was found. It is false where that is too long to name an object.
func (o *Object) finish() bool {
	o.Namespace = o.decode(namespace)
	o.Name = o.decode(name)
	o.UID = o.decode(uid)
	o.ResourceVersion = o.decode(resourceVersion)
	o.Kind = o.decode(objectKind)
	if g := o.raw(generation); len(g) > 0 {
		if n, err := strconv.ParseInt(string(g), 10, 64); err == nil { // else as if there were none
			o.Generation = n
		}
	}
	o.InitialEventsEnd = string(o.decode(initialEventsEnd)) == "true"
	if o.have&managed.bit() == 0 {
		o.writers = o.writers[:0] // they are hidden, or of a repeated key
	}
	return max(len(o.Namespace), len(o.Name), len(o.UID), len(o.ResourceVersion)) <= maxName
}

// raw returns a captured value as it is written, empty if there is none.
func (o *Object) raw(c capture) []byte {
	if o.have&c.bit() == 0 {
		return nil
	}
	p := o.spans[c]
	return o.Raw[p.start:p.end]
}

func (o *Object) decode(c capture) []byte {
	s := o.raw(c)
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	start := len(o.decoded)
	o.decoded = rawjson.Unquote(o.decoded, s)
	return o.decoded[start:]
}
