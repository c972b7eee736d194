package rawjson

import (
	"bytes"

	"kubejournal/internal/format/fieldpath"
)

// Pick returns the values of those members of an object that have the names, five at most; nil for what it does not
// have.
func Pick(object []byte, names ...string) (values [5][]byte) {
	next, left := 0, len(names)
	for key, value := range Members(object) {
		if at := IndexFrom(names, key, next); at >= 0 {
			values[at], next = value, at+1
			if left--; left == 0 {
				break
			}
		}
	}
	return values
}

// IndexFrom returns the index of a name, or -1. It begins to look at next, since members mostly come in one order.
func IndexFrom(names []string, name []byte, next int) int {
	for i := range names {
		if i += next; i >= len(names) {
			i -= len(names)
		}
		if names[i] == string(name) {
			return i
		}
	}
	return -1
}

// At returns the value that a pointer leads to, nil where there is none. Both are as JSON writes them.
func At(value, pointer []byte) []byte {
	c := NewCursor(value)
	steps, more := bytes.CutPrefix(pointer, []byte("/"))
	for more {
		var step []byte
		step, steps, more = bytes.Cut(steps, []byte("/"))
		if !c.enter(fieldpath.Unescaped(step)) {
			return nil
		}
	}
	return c.Value()
}

// enter goes to the member or element that a step leads to, and reports whether there is one.
func (c *Cursor) enter(step []byte) bool {
	if c.Peek() != '[' {
		for more := c.Take('{'); more; more = c.Take(',') {
			key, ok := c.Key()
			if ok && bytes.Equal(key, step) {
				return true
			}
			if !ok || c.Value() == nil {
				return false
			}
		}
		return false
	}
	if !IsIndex(step) {
		return false
	}
	n := 0
	for _, digit := range step {
		n = n*10 + int(digit-'0')
	}
	for more := c.Take('['); more; more = c.Take(',') {
		if n == 0 {
			return true
		}
		if n--; c.Value() == nil {
			return false
		}
	}
	return false
}

// IsIndex reports whether a step of a pointer may lead into a list.
func IsIndex(step []byte) bool {
	return len(step) > 0 && len(step) < 10 && len(bytes.Trim(step, "0123456789")) == 0
}
