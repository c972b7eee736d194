package kubeclient

import (
	"bytes"
	"encoding/json"
)

// balance finds the end of one JSON value by its brackets and quotes. It may be
// run again from where it stopped, with more bytes behind the same beginning.
type balance struct {
	pos, depth int
	str        bool // pos is inside a string
	scalar     bool // pos is inside a number or a literal
}

// run returns the length of the value at the start of b, if all of it is there.
// A number or a literal needs the byte after it to be seen.
func (s *balance) run(b []byte) (int, bool) {
	i := s.pos
	for i < len(b) {
		if s.str {
			q := bytes.IndexByte(b[i:], '"')
			if q < 0 {
				i = len(b)
				break
			}
			i += q + 1
			if escapedAt(b, i-1) {
				continue
			}
			s.str = false
			if s.depth == 0 {
				s.pos = i
				return i, true
			}
			continue
		}
		c := b[i]
		if s.depth == 0 && (s.scalar || (c != '{' && c != '[' && c != '"')) {
			if isSpace(c) || c == ',' || c == '}' || c == ']' || c == ':' || s.scalar && (c == '{' || c == '[' || c == '"') {
				s.pos = i
				return i, true
			}
			s.scalar = true
			i++
			continue
		}
		i++
		switch c {
		case '"':
			s.str = true
		case '{', '[':
			s.depth++
		case '}', ']':
			s.depth--
			if s.depth == 0 {
				s.pos = i
				return i, true
			}
		}
	}
	s.pos = i
	return 0, false
}

// escapedAt reports whether the quote at i stands behind an odd number of
// backslashes.
func escapedAt(b []byte, i int) bool {
	n := i
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}

// The white space of JSON.
func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func trimLeft(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// cursor steps through the outermost level of one JSON value in memory.
type cursor struct {
	b []byte
	i int
}

// take passes white space and then c, if that is what follows.
func (c *cursor) take(want byte) bool {
	for c.i < len(c.b) && isSpace(c.b[c.i]) {
		c.i++
	}
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

// value passes one value, checked for its brackets and quotes only.
func (c *cursor) value() ([]byte, bool) {
	for c.i < len(c.b) && isSpace(c.b[c.i]) {
		c.i++
	}
	var bal balance
	n, ok := bal.run(c.b[c.i:])
	if !ok || n == 0 {
		return nil, false
	}
	v := c.b[c.i : c.i+n]
	c.i += n
	return v, true
}

// string passes one string and returns it decoded.
func (c *cursor) string() (string, bool) {
	v, ok := c.value()
	if !ok || v[0] != '"' {
		return "", false
	}
	return stringValue(v), true
}

// stringValue decodes a JSON string; any other value is empty.
func stringValue(v []byte) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
