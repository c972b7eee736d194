package object

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	"kubejournal/internal/format/rawjson"
)

// Unusable is why an object is not in its line.
type Unusable struct {
	Reason string // one of the three below, for the line
	Err    error  // says where; it quotes nothing of the object
}

// The reasons of Unusable.
const (
	ObjectTooLarge  = "ObjectTooLarge"
	ObjectTooDeep   = "ObjectTooDeep"
	ObjectMalformed = "ObjectMalformed"
)

var errUnnamed = errors.New("object is not named")

// Identify is for an object that Scan has refused with an error: it finds what names the object and its version,
// going by brackets and quotes alone. o then holds nothing but that, and Unusable; a line of it has no object. What
// cannot be named either is refused, with the error of Scan.
func (r *Renderer) Identify(raw []byte, o *Object, refused error) error {
	raw = rawjson.TrimSpace(raw)
	s := NewObjectSkimmer()
	n, ended := s.Take(raw)
	object, err := s.object()
	if !ended || err != nil || n < len(raw) && !r.trailing(raw[n:]) {
		return refused
	}
	if err := r.Scan(append(object, '}'), o); err != nil { // its strings may be malformed, too
		return refused
	}
	o.Unusable = &Unusable{reasonOf(raw, refused), refused}
	return nil
}

// trailing reports whether what follows an object is members of its watch event that change nothing.
func (r *Renderer) trailing(rest []byte) bool {
	r.s.Reset(rest)
	defer r.s.Release()
	return !r.s.Control() && r.siblings(0)
}

func reasonOf(raw []byte, refused error) string {
	if bytes.HasSuffix(raw, []byte(oversized+"}")) {
		return ObjectTooLarge
	}
	if syntax, ok := errors.AsType[*SyntaxError](refused); ok && syntax.Msg == rawjson.TooDeep {
		return ObjectTooDeep
	}
	return ObjectMalformed
}

// oversized follows the naming members in the short form of an object that is too large to be held. It
// is no JSON, so Scan refuses it.
const oversized = ",too large"

// Skimmer finds what names an object in JSON that cannot be held, or that Scan refuses. It takes the text piece by
// piece, keeps no more of it than the strings that it looks for, and has no limit on size or nesting. Where a key is
// repeated the last counts, as in Scan.
//
// It looks at brackets and quotes alone, and takes a string for a value only where all of `"key":"value"` is in the
// object that it belongs to: text that has lost a quote does not give away what it hides.
type Skimmer struct {
	event bool    // of a watch event
	at    []*node // the objects that the position is in, as long as something is looked for in them
	depth int     // containers that the position is in

	quoted, escaped bool
	step            progress
	text            []byte // the inside of the last string that may be looked for; longer than maxName: none
	member          *node  // the member whose value comes next; nil: nobody looks for it

	found map[capture][]byte // insides of strings
}

// progress is how far a member has been read of an object in which something is looked for.
type progress int

const (
	beforeKey progress = iota
	behindKey
	beforeValue
	behindText // behind a value that is a string
	behindAll  // behind any other, or behind what is no member
)

// NewObjectSkimmer returns a Skimmer of an object.
func NewObjectSkimmer() *Skimmer { return newSkimmer(false, "metadata") }

// NewEventSkimmer returns a Skimmer of a watch event, which holds an object.
func NewEventSkimmer() *Skimmer { return newSkimmer(true, "object", "metadata") }

func newSkimmer(event bool, metadata ...string) *Skimmer {
	root := &node{}
	if event {
		root.want(eventType, "type")
	}
	captureNames(root.reach(keys(metadata...), false))
	root.sum()
	return &Skimmer{event: event, member: root, step: beforeValue, found: map[capture][]byte{}}
}

// Take takes what comes next. It returns how much of it belongs to the value, all of it unless the value has ended.
func (s *Skimmer) Take(b []byte) (n int, ended bool) {
	for i, c := range b {
		known := s.depth == len(s.at) // the innermost container is one that something is looked for in
		switch {
		case s.quoted:
			s.inside(c, known)
		case rawjson.IsSpace(c):
		case c == '"':
			s.quoted, s.text = true, s.text[:0]
		case c == '{', c == '[':
			if known && c == '{' && s.step == beforeValue && s.member != nil && s.member.edges != nil {
				s.at = append(s.at, s.member)
				s.step = beforeKey
			} else if known {
				s.step = behindAll
			}
			s.depth++
		case c == '}', c == ']':
			if known {
				s.take()
				s.at = s.at[:max(len(s.at)-1, 0)]
				s.step = behindAll
			}
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		case !known:
		case c == ',' && len(s.at) > 0:
			s.take()
			s.step = beforeKey
		case c == ':' && s.step == behindKey:
			s.step = beforeValue
			if s.member != nil { // the last of repeated keys counts
				maps.DeleteFunc(s.found, func(c capture, _ []byte) bool { return s.member.mask&c.bit() != 0 })
			}
		default:
			s.step = behindAll
		}
	}
	return len(b), false
}

// inside takes a byte of a string.
func (s *Skimmer) inside(c byte, known bool) {
	switch {
	case c == '"' && !s.escaped:
		s.quoted = false
		if known {
			s.string()
		}
		return
	case known && len(s.text) <= maxName:
		s.text = append(s.text, c)
	}
	s.escaped = c == '\\' && !s.escaped
}

// string takes a string that has ended.
func (s *Skimmer) string() {
	switch s.step {
	case beforeKey:
		s.step, s.member = behindKey, s.at[len(s.at)-1].find(rawjson.Unquote(nil, s.text))
	case beforeValue:
		s.step = behindText
	default:
		s.step = behindAll
	}
}

// take takes the member that has ended.
func (s *Skimmer) take() {
	if s.step == behindText && s.member != nil && s.member.capture != none && len(s.text) <= maxName {
		s.found[s.member.capture] = bytes.Clone(s.text)
	}
}

// AppendShort appends the short form of what was taken, which Scan refuses and Identify names. It is an error where
// it does not name an object.
func (s *Skimmer) AppendShort(dst []byte) ([]byte, error) {
	object, err := s.object()
	if err != nil {
		return dst, err
	}
	if s.event {
		return fmt.Appendf(dst, `{"type":"%s","object":%s%s}}`, s.found[eventType], object, oversized), nil
	}
	return fmt.Appendf(dst, "%s%s}", object, oversized), nil
}

// object returns an object with nothing but what was found, up to its last brace.
func (s *Skimmer) object() ([]byte, error) {
	n := names{s.found[namespace], s.found[name], s.found[uid], s.found[resourceVersion]}
	if len(n.name) == 0 || len(n.version) == 0 {
		return nil, errUnnamed
	}
	return n.appendBare([]byte(`{"metadata":`)), nil
}
