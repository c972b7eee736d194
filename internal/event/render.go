package event

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"kubejournal/internal/rawjson"
)

// Renderer makes the lines of one stream. It is for one goroutine.
type Renderer struct {
	root   *node
	events bool // the objects are Kubernetes Events

	// Rendered once: what stands in every line behind the id, the stream as the
	// inside of a string, how the object of a relist's deletion begins, and what
	// stands behind source in a line about the stream.
	source, stream, bare []byte
	cluster              []byte // the member clusterUID

	maxLine int // MaxLine

	second int64  // the Unix time that clock shows
	clock  []byte // empty until the first line

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

// NewRenderer returns a Renderer for the lines of src, with shape applied to
// its objects.
func NewRenderer(src Source, shape Shape) (*Renderer, error) {
	if src.Stream == "" {
		return nil, errNoStream
	}
	root, err := shape.compile(&node{})
	if err != nil {
		return nil, err
	}
	captureMetadata(root)
	r := &Renderer{root: root, maxLine: MaxLine}
	if src.Resource == "events" && (src.Group == "" || src.Group == "events.k8s.io") {
		r.events = true
		captureEvent(root, src.Group)
	}
	root.sum()

	r.stream = rawjson.AppendEscaped(nil, src.Stream)
	for _, m := range [...]struct{ key, value string }{
		{"stream", src.Stream}, {"cluster", src.Cluster},
		{"group", src.Group}, {"version", src.Version}, {"resource", src.Resource}, {"kind", src.Kind},
	} {
		r.source = appendMember(r.source, m.key, m.value)
	}
	r.cluster = appendMember(nil, "clusterUID", src.ClusterUID)
	apiVersion := src.Version
	if src.Group != "" {
		apiVersion = src.Group + "/" + src.Version
	}
	r.bare = append(r.bare, `,"object":{"apiVersion":"`...)
	r.bare = rawjson.AppendEscaped(r.bare, apiVersion)
	r.bare = append(r.bare, `","kind":"`...)
	r.bare = rawjson.AppendEscaped(r.bare, src.Kind)
	r.bare = append(r.bare, `","metadata":`...)
	return r, nil
}

// Scan looks through one object, checks that it is well-formed JSON with a
// metadata object, and notes what AppendLine needs. Behind the object it
// passes over further members of a watch event, which its split may leave
// there. After an error o is empty.
func (r *Renderer) Scan(raw []byte, o *Object) error {
	raw = rawjson.TrimSpace(raw)
	r.s.Reset(raw)
	defer r.s.Release()
	if r.s.Wide() && !utf8.Valid(raw) {
		o.valid = rawjson.AppendValid(o.valid[:0], raw)
		raw = o.valid
		r.s.Reset(raw)
	}
	err := r.scan(o)
	if err != nil {
		// The scanner takes only compact JSON. If white space is all that was
		// wrong, it takes a compact copy.
		var ok bool
		if o.compact, ok = rawjson.AppendCompact(o.compact[:0], raw); ok && len(o.compact) < len(raw) {
			r.s.Reset(o.compact)
			err = r.scan(o)
		}
	}
	if err == nil && o.have&metadata.bit() == 0 {
		err = errNoMetadata
	}
	if err == nil && !o.finish() {
		err = errLongName
	}
	if err != nil {
		o.Reset()
		return fmt.Errorf("scan object: %w", err)
	}
	return nil
}

// scan is Scan for the compact JSON that the scanner has.
func (r *Renderer) scan(o *Object) error {
	o.Reset()
	if r.s.Control() {
		return errControl
	}
	raw := r.s.Text()
	r.o, r.cut = o, false
	end := -1
	if len(raw) > 0 && raw[0] == '{' {
		end = r.members(0, r.root, false, aroundObject)
	} else {
		r.s.Fail(0, "expected an object")
	}
	if end > 0 && !r.siblings(end) {
		end = -1
	}
	r.o = nil
	if end < 0 {
		return r.s.Err()
	}
	o.Raw = raw[:end]
	return nil
}

// siblings passes the members of a watch event behind its object.
func (r *Renderer) siblings(i int) bool {
	s := &r.s
	b := s.Text()
	for i >= 0 && i < len(b) {
		if b[i] != ',' {
			i = s.Fail(i, "expected the end of the object")
			break
		}
		key, value := s.Key(i + 1)
		switch string(key) {
		case "type", "object":
			value = s.Fail(i+1, "repeated key of a watch event")
		}
		if i = value; i >= 0 {
			i = s.Skip(i, 1)
		}
	}
	return i >= 0
}

// walk passes the value of node n, with depth containers around it in its line, and notes
// what n asks for. n may be nil below a redaction, where redact is set.
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
		i = r.members(i, n, redact, depth)
		if wanted&objects != 0 {
			o.have |= wanted
			o.spans[n.capture] = span{start, i}
		}
	case first == '[' && n != nil && n.elem != nil:
		i = r.elements(i, n, depth)
	case first == '"':
		i = s.Str(i)
		if wanted&texts != 0 {
			o.have |= wanted
			o.spans[n.capture] = span{start + 1, i - 1}
		}
	default:
		i = r.over(i, depth)
		if wanted&numbers != 0 && (first == '-' || first >= '0' && first <= '9') {
			o.have |= wanted
			o.spans[n.capture] = span{start, i}
		}
	}
	if i < 0 || !whole {
		return i
	}
	if n != nil {
		if first == 'n' && (n.redact || n.misfit(first)) {
			return i // null says nothing
		}
		o.have &^= n.mask & hideable
	}
	o.edits = append(o.edits[:mark], edit{span{start, i}, true})
	return i
}

// members passes the object at i, which is that of node n.
func (r *Renderer) members(i int, n *node, redact bool, depth int) int {
	s, o := &r.s, r.o
	c := cutter{}
	i, more := s.Open(i, depth)
	for more {
		start, mark := i, len(o.edits)
		key, value := s.Key(i)
		if value < 0 {
			return value
		}
		child := n.find(key)
		switch {
		case child != nil && child.drop:
			i = r.dropped(value, child, redact, depth+1)
		case child == nil && !redact:
			i = r.over(value, depth+1)
		default:
			i = r.walk(value, child, redact, depth+1)
		}
		if i < 0 {
			return i
		}
		o.edits = c.passed(o.edits, mark, span{start, i}, child != nil && child.drop)
		comma := i
		if i, more = s.More(i, '}'); more {
			c.comma(o.edits, comma)
		}
	}
	return i
}

// elements passes the array at i, which is that of node n.
func (r *Renderer) elements(i int, n *node, depth int) int {
	s, o := &r.s, r.o
	b := s.Text()
	c := cutter{}
	i, more := s.Open(i, depth)
	for more {
		start, mark := i, len(o.edits)
		if n.elem.drop {
			i = r.dropped(i, n.elem, false, depth+1)
		} else {
			i = r.walk(i, n.elem, false, depth+1)
		}
		if i < 0 {
			return i
		}
		if n.entries && b[start] == '{' {
			r.newest()
		}
		o.edits = c.passed(o.edits, mark, span{start, i}, n.elem.drop)
		comma := i
		if i, more = s.More(i, ']'); more {
			c.comma(o.edits, comma)
		}
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

// dropped passes a value that will be cut. What the line repeats of it is
// looked for all the same; the rest need not even be JSON, as long as its end
// can be found.
func (r *Renderer) dropped(i int, n *node, redact bool, depth int) int {
	outer := r.cut
	r.cut = true
	i = r.walk(i, n, redact, depth)
	r.cut = outer
	return i
}

// cutter cuts members out of one container so that its commas stay right: a
// member behind one that stays goes with the comma before it, any other with
// the comma behind it.
type cutter struct {
	kept    bool // a member before stays
	last    int  // the comma before the present member
	pending bool // the comma behind the last member goes with it
}

// passed notes a member, whose inner edits begin at mark.
func (c *cutter) passed(edits []edit, mark int, m span, drop bool) []edit {
	c.pending = drop && !c.kept
	if !drop {
		c.kept = true
		return edits
	}
	if c.kept {
		m.start = c.last
	}
	return append(edits[:mark], edit{span: m})
}

func (c *cutter) comma(edits []edit, i int) {
	c.last = i
	if c.pending {
		edits[len(edits)-1].end = i + 1
	}
}

// Reset empties o, but keeps its space.
func (o *Object) Reset() {
	o.Raw = nil
	o.Namespace, o.Name, o.UID, o.ResourceVersion = nil, nil, nil, nil
	o.Generation, o.InitialEventsEnd, o.Unusable = 0, false, nil
	o.have = 0
	o.edits, o.decoded = o.edits[:0], o.decoded[:0]
}

// finish decodes what was found. It is false where that is too long to name an object.
func (o *Object) finish() bool {
	o.Namespace = o.decode(namespace)
	o.Name = o.decode(name)
	o.UID = o.decode(uid)
	o.ResourceVersion = o.decode(resourceVersion)
	if g := o.raw(generation); len(g) > 0 {
		o.Generation, _ = strconv.ParseInt(string(g), 10, 64) // no whole number: as if there were none
	}
	o.InitialEventsEnd = string(o.decode(initialEventsEnd)) == "true"
	if len(o.raw(manager)) > maxName || len(o.raw(subresource)) > maxName {
		o.have &^= manager.bit() | subresource.bit()
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

// newest takes the managedFields entry just scanned if none before is newer.
// The object is still being scanned: spans are positions in the scanner's bytes.
func (r *Renderer) newest() {
	o := r.o
	var at span
	if o.have&entryTime.bit() != 0 {
		at = o.spans[entryTime]
	}
	if o.have&written.bit() != 0 {
		best := o.spans[written]
		if b := r.s.Text(); older(b[at.start:at.end], b[best.start:best.end]) {
			return
		}
	}
	o.have &^= newestEntry
	o.have |= written.bit()
	o.spans[written] = at
	if o.have&entryManager.bit() != 0 {
		o.have |= manager.bit()
		o.spans[manager] = o.spans[entryManager]
	}
	if o.have&entrySubresource.bit() != 0 {
		o.have |= subresource.bit()
		o.spans[subresource] = o.spans[entrySubresource]
	}
}

// older compares two times as managedFields has them. No time, or none that
// can be read, is older than any.
func older(a, b []byte) bool {
	const plain = len("2006-01-02T15:04:05Z")
	if len(a) == plain && len(b) == plain && a[plain-1] == 'Z' && b[plain-1] == 'Z' {
		return string(a) < string(b)
	}
	return parseTime(a).Before(parseTime(b))
}

func parseTime(b []byte) time.Time {
	if len(b) == 0 {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(rawjson.Unquote(nil, b)))
	if err != nil {
		return time.Time{}
	}
	return t
}
