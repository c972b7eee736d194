package rawjson

import (
	"bytes"
	"iter"
)

// Cursor steps through a text by its quotes and brackets; white space may be between tokens. What Value passes is
// not looked into, so that text which is not JSON may be taken for some value.
type Cursor struct {
	b []byte
	i int
}

// NewCursor returns a Cursor at the beginning of b.
func NewCursor(b []byte) Cursor { return Cursor{b: b} }

// Offset is how many bytes have been passed.
func (c *Cursor) Offset() int { return c.i }

// Rest passes white space and returns what follows.
func (c *Cursor) Rest() []byte {
	for c.i < len(c.b) && IsSpace(c.b[c.i]) {
		c.i++
	}
	return c.b[c.i:]
}

// Peek passes white space and returns the byte that follows, 0 at the end.
func (c *Cursor) Peek() byte {
	if rest := c.Rest(); len(rest) > 0 {
		return rest[0]
	}
	return 0
}

// Take passes white space and then want, if that is what follows.
func (c *Cursor) Take(want byte) bool {
	if rest := c.Rest(); len(rest) == 0 || rest[0] != want {
		return false
	}
	c.i++
	return true
}

// Value passes one value and returns it; nil where there is none.
func (c *Cursor) Value() []byte {
	rest := c.Rest()
	if len(rest) > 0 && rest[0] == '"' {
		if n := bytes.IndexByte(rest[1:], '"'); n >= 0 && rest[n] != '\\' { // no escape before it: most strings
			c.i += n + 2
			return rest[:n+2]
		}
	}
	var bal Balance
	n, ok := bal.Run(rest)
	if !ok && bal.scalar { // ends with the text
		n = len(rest)
	} else if !ok || n == 0 {
		return nil
	}
	c.i += n
	return rest[:n]
}

// Key passes a member's key and its colon, and returns the inside of the key.
func (c *Cursor) Key() (inside []byte, ok bool) {
	inside = Inside(c.Value())
	return inside, inside != nil && c.Take(':')
}

// Members yields the insides of the keys of an object and the values, as far as it is one.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := NewCursor(object)
		for more := c.Take('{'); more; more = c.Take(',') {
			key, ok := c.Key()
			value := c.Value()
			if !ok || value == nil || !yield(key, value) {
				return
			}
		}
	}
}

// Elements yields the elements of an array, as far as it is one.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		c := NewCursor(array)
		for more := c.Take('['); more; more = c.Take(',') {
			value := c.Value()
			if value == nil || !yield(value) {
				return
			}
		}
	}
}

// Balance finds the end of one JSON value by its brackets and quotes, in a text that need not be complete yet: it may
// be run again from where it stopped, with more bytes after the same beginning. The zero Balance is at the
// beginning.
type Balance struct {
	pos, depth int
	str        bool // pos is inside a string
	scalar     bool // pos is inside a number or a literal
}

// Run returns the length of the value at the start of b, which is not white space, if all of it is there. A number or
// a literal needs the byte after it to be seen.
func (s *Balance) Run(b []byte) (int, bool) {
	i := s.pos
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case s.str:
			q := bytes.IndexByte(b[i:], '"')
			if q < 0 {
				i = len(b) - 1
				continue
			}
			i += q
			if s.str = escapedAt(b, i); !s.str && s.depth == 0 {
				return i + 1, true
			}
		case s.depth == 0 && (IsSpace(c) || c == ',' || c == '}' || c == ']' || c == ':'),
			s.scalar && (c == '{' || c == '[' || c == '"'):
			return i, true
		case c == '"':
			s.str = true
		case c == '{', c == '[':
			s.depth++
		case c == '}', c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		default:
			s.scalar = s.depth == 0
		}
	}
	s.pos = i
	return 0, false
}

// escapedAt reports whether an odd number of backslashes precedes the byte at i.
func escapedAt(b []byte, i int) bool {
	n := i
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}
