// Package rawjson reads JSON as bytes: it finds where values begin and end, checks them, and decodes nothing but the
// strings it is asked for.
//
// There are three ways through a text, from strict to lenient:
//
//	Scanner  checks the grammar of compact JSON, fast; for what a server sends
//	Tape     the outline of a value that a Scanner has checked, for going to and fro
//	Cursor   looks at quotes and brackets alone and accepts white space; for text that
//	         has been checked before, and for text that may be anything
//
// A Scanner checks everything but two things, which Control and Wide report on: a string may not contain a control
// character, and the text must be UTF-8. It takes up to MaxDepth levels of nesting. Its faults are *SyntaxError, with
// the byte offset. A Cursor checks only what it must to continue; no text makes either of them panic.
package rawjson

import (
	"bytes"
	"fmt"
	"math/bits"
)

// MaxDepth bounds the nesting of a text: at more than that encoding/json gives up.
const MaxDepth = 10_000

// TooDeep is the Msg of the fault of a text that exceeds MaxDepth.
const TooDeep = "nested too deep"

// SyntaxError says where bytes are not the JSON that was expected. It never quotes the text, which may be a Secret.
type SyntaxError struct {
	Offset int64 // bytes before the fault
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.Msg, e.Offset)
}

// Scanner checks the grammar of compact JSON, which has no white space between its tokens. Its methods take the
// position of a token's first byte and return the one after its last, or -1 with the fault in Err. A Scanner is for
// one goroutine, and keeps its space from text to text.
type Scanner struct {
	b    []byte
	x    *index // from Reset to Release
	open []bool // containers that Skip is in, true for an object; kept for its space
	key  []byte // the last key that had escapes; likewise
	err  *SyntaxError
}

// Reset takes a text and indexes it. Release must follow.
func (s *Scanner) Reset(b []byte) {
	s.b, s.err = b, nil
	if s.x == nil {
		s.x = indexes.Get().(*index)
	}
	s.x.build(b)
}

// Release lets go of the text and of the index.
func (s *Scanner) Release() {
	if s.x != nil && cap(s.x.marks) <= keptMarks {
		indexes.Put(s.x)
	}
	s.b, s.x = nil, nil
}

// Text returns the text.
func (s *Scanner) Text() []byte { return s.b }

// Err returns the last fault.
func (s *Scanner) Err() error { return s.err }

// Control reports whether the text has control characters, white space other than blanks included: compact JSON has
// none.
func (s *Scanner) Control() bool { return s.x.control }

// ReadCompact calls read, which goes through the text. If white space is all that is wrong, the text becomes a compact
// copy in buf, and read is called again.
func (s *Scanner) ReadCompact(buf *[]byte, read func() error) error {
	err := read()
	if err != nil {
		var ok bool
		if *buf, ok = AppendCompact((*buf)[:0], s.b); ok && len(*buf) < len(s.b) {
			s.Reset(*buf)
			err = read()
		}
	}
	return err
}

// Wide reports whether the text has bytes beyond ASCII, so that it may not be UTF-8.
func (s *Scanner) Wide() bool { return s.x.wide }

// Fail notes a fault at position i and returns -1.
func (s *Scanner) Fail(i int, msg string) int {
	if i >= len(s.b) {
		i, msg = len(s.b), "unexpected end"
	}
	s.err = &SyntaxError{Offset: int64(i), Msg: msg}
	return -1
}

// End returns nil if i is the end of the text, otherwise the fault.
func (s *Scanner) End(i int) error {
	if i >= 0 && i < len(s.b) {
		i = s.Fail(i, "expected the end")
	}
	if i < 0 {
		return s.err
	}
	return nil
}

// Open passes the opening bracket at i, around which there are depth containers. more is false after an empty
// container or a fault. The members or elements are then passed one by one, each followed by More:
//
//	for i, more := s.Open(i, depth); more; i, more = s.More(i, '}') {
func (s *Scanner) Open(i, depth int) (next int, more bool) {
	b := s.b
	if depth >= MaxDepth {
		return s.Fail(i, TooDeep), false
	}
	// In ASCII the closing bracket is two after the opening one.
	if i+1 < len(b) && b[i+1] == b[i]+2 {
		return i + 2, false
	}
	return i + 1, true
}

// More passes the comma after a member or an element, or the bracket shut in its place, after which there are no
// more.
func (s *Scanner) More(i int, shut byte) (next int, more bool) {
	if i < len(s.b) {
		switch s.b[i] {
		case ',':
			return i + 1, true
		case shut:
			return i + 1, false
		}
	}
	return s.Fail(i, "expected a comma or a closing bracket"), false
}

// Key passes a member's key and its colon. It returns what the key means, valid until the next call.
func (s *Scanner) Key(i int) (key []byte, next int) {
	b := s.b
	if i >= len(b) || b[i] != '"' {
		return nil, s.Fail(i, "expected a string")
	}
	start := i + 1
	if end := s.x.short(start); end > 0 {
		i = end
		key = b[start : i-1]
	} else {
		if i = s.long(start); i < 0 {
			return nil, i
		}
		key = b[start : i-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			s.key = Unquote(s.key[:0], key)
			key = s.key
		}
	}
	if i >= len(b) || b[i] != ':' {
		return nil, s.Fail(i, "expected a colon")
	}
	return key, i + 1
}

// Str passes a string.
func (s *Scanner) Str(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.Fail(i, "expected a string")
	}
	if end := s.x.short(i + 1); end > 0 {
		return end
	}
	return s.long(i + 1)
}

// long passes the inside of any string and its closing quote.
func (s *Scanner) long(i int) int {
	marks := s.x.marks
	at, from := uint(i)/blockSize, uint(i)%blockSize
	quote, slash := marks[at].quote>>from<<from, marks[at].slash>>from<<from
	var slashes uint64 // of the blocks before
	for quote == 0 {
		slashes |= slash
		if at++; at >= uint(len(marks)) {
			return s.Fail(len(s.b), "")
		}
		quote, slash = marks[at].quote, marks[at].slash
	}
	end := int(at)*blockSize + bits.TrailingZeros64(quote)
	if slashes|slash&(quote-1)&^quote != 0 {
		if n := badEscape(s.b[i:end]); n >= 0 {
			return s.Fail(i+n, "faulty escape")
		}
	}
	return end + 1
}

// Close is Skip for a value whose text is going to be thrown away: of an object or array only the quotes and brackets
// are looked at.
func (s *Scanner) Close(i, depth int) int {
	if i >= len(s.b) || s.b[i] != '{' && s.b[i] != '[' {
		return s.Skip(i, depth)
	}
	if i = s.x.closes(i); i < 0 {
		return s.Fail(len(s.b), "")
	}
	return i
}

// Skip passes any value, around which there are depth containers.
func (s *Scanner) Skip(i, depth int) int {
	var (
		b      = s.b
		open   = s.open[:0]
		object bool // the innermost open container is one
	)
value:
	if i >= len(b) {
		return s.Fail(i, "")
	}
	switch c := b[i]; c {
	case '"':
		if end := s.x.short(i + 1); end > 0 {
			i = end
		} else if i = s.long(i + 1); i < 0 {
			return i
		}
	case '{', '[':
		if depth+len(open) >= MaxDepth {
			return s.Fail(i, TooDeep)
		}
		if i++; i < len(b) && b[i] == c+2 { // see Open
			i++
			break
		}
		open = append(open, object)
		if object = c == '{'; object {
			goto key
		}
		goto value
	default:
		if i = s.scalar(i); i < 0 {
			return i
		}
	}
after:
	if len(open) == 0 {
		s.open = open
		return i
	}
	if i >= len(b) {
		return s.Fail(i, "")
	}
	switch c := b[i]; {
	case c == ',':
		i++
		if !object {
			goto value
		}
	case c == '}' && object, c == ']' && !object:
		i++
		object = open[len(open)-1]
		open = open[:len(open)-1]
		goto after
	default:
		return s.Fail(i, "expected a comma or a closing bracket")
	}
key:
	if i >= len(b) || b[i] != '"' {
		return s.Fail(i, "expected a string")
	}
	if end := s.x.short(i + 1); end > 0 {
		i = end
	} else if i = s.long(i + 1); i < 0 {
		return i
	}
	if i >= len(b) || b[i] != ':' {
		return s.Fail(i, "expected a colon")
	}
	i++
	goto value
}

// scalar passes a number or a literal.
func (s *Scanner) scalar(i int) int {
	b := s.b[i:]
	switch {
	case len(b) == 0:
		return s.Fail(i, "")
	case b[0] == '-', b[0] >= '0' && b[0] <= '9':
		return s.number(i)
	case bytes.HasPrefix(b, []byte("true")), bytes.HasPrefix(b, []byte("null")):
		return i + len("true")
	case bytes.HasPrefix(b, []byte("false")):
		return i + len("false")
	}
	return s.Fail(i, "expected a value")
}

func (s *Scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else {
		i = s.digits(i)
	}
	if i >= 0 && i < len(b) && b[i] == '.' {
		i = s.digits(i + 1)
	}
	if i >= 0 && i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits passes one or more.
func (s *Scanner) digits(i int) int {
	start := i
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	if i == start {
		return s.Fail(i, "expected a digit")
	}
	return i
}
