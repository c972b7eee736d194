package event

import (
	"bytes"
	"errors"
	"fmt"

	"kubejournal/internal/rawjson"
)

// heads are the beginnings of nearly all watch events: what an API server's
// own encoder writes.
var heads = [...]struct {
	text []byte
	t    Type
}{
	{[]byte(`{"type":"MODIFIED","object":{`), Modified},
	{[]byte(`{"type":"ADDED","object":{`), Added},
	{[]byte(`{"type":"DELETED","object":{`), Deleted},
}

var (
	errNoType   = errors.New("split watch event: no type")
	errNoObject = errors.New("split watch event: no object")
)

// SplitWatch takes a watch event apart. The object is a part of frame.
//
// Of an event as an API server writes it, only the beginning is looked at and
// the object taken to end where the frame does, for Scan to check: should a
// server add members to the event, they still hang on the object, and Scan
// passes over them.
func SplitWatch(frame []byte) (Type, []byte, error) {
	for i := range heads {
		h := &heads[i]
		if bytes.HasPrefix(frame, h.text) && bytes.HasSuffix(frame, []byte("}}")) {
			return h.t, frame[len(h.text)-1 : len(frame)-1], nil
		}
	}
	return splitAny(frame)
}

// splitAny is SplitWatch for any order of keys and any white space.
func splitAny(frame []byte) (Type, []byte, error) {
	c := cursor{b: trimRight(trimLeft(frame))}
	if !c.take('{') {
		return "", nil, c.fault("an object")
	}
	var (
		t      Type
		object []byte
	)
	for more := !c.take('}'); more; {
		key, ok := c.string()
		if !ok {
			return "", nil, c.fault("a key")
		}
		if !c.take(':') {
			return "", nil, c.fault("a colon")
		}
		value, ok := c.value()
		if !ok {
			return "", nil, c.fault("a value")
		}
		switch string(key) {
		case "type":
			if len(value) < 2 || value[0] != '"' {
				return "", nil, errNoType
			}
			t = Type(rawjson.Unquote(nil, value[1:len(value)-1]))
		case "object":
			object = value
		}
		switch {
		case c.take(','):
		case c.take('}'):
			more = false
		default:
			return "", nil, c.fault("a comma or a brace")
		}
	}
	switch {
	case c.i != len(c.b):
		return "", nil, c.fault("the end")
	case t == "":
		return "", nil, errNoType
	case len(object) == 0 || object[0] != '{':
		return "", nil, errNoObject
	}
	return t, object, nil
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
func (c *cursor) string() ([]byte, bool) {
	v, ok := c.value()
	if !ok || v[0] != '"' {
		return nil, false
	}
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, '\\') >= 0 {
		v = rawjson.Unquote(nil, v)
	}
	return v, true
}

func (c *cursor) fault(want string) error {
	return fmt.Errorf("split watch event: %w", &SyntaxError{Offset: int64(c.i), Msg: "expected " + want})
}
