package kubeclient

import (
	"bytes"
	"errors"
	"fmt"

	"kubejournal/internal/event"
)

// heads are the beginnings of nearly all watch events: what an API server's
// own encoder writes.
var heads = [...]struct {
	text []byte
	t    event.Type
}{
	{[]byte(`{"type":"MODIFIED","object":{`), event.Modified},
	{[]byte(`{"type":"ADDED","object":{`), event.Added},
	{[]byte(`{"type":"DELETED","object":{`), event.Deleted},
}

var (
	errNoType   = errors.New("split watch event: no type")
	errNoObject = errors.New("split watch event: no object")
)

// splitWatch takes a watch event apart. The object is a part of frame.
//
// Of an event as an API server writes it, only the beginning is looked at and
// the object taken to end where the frame does, for Scan to check: should a
// server add members to the event, they still hang on the object, and Scan
// passes over them.
func splitWatch(frame []byte) (event.Type, []byte, error) {
	if n := len(frame); n < 2 || frame[n-2] != '}' || frame[n-1] != '}' {
		return splitAny(frame)
	}
	for i := range heads {
		if h := &heads[i]; bytes.HasPrefix(frame, h.text) {
			return h.t, frame[len(h.text)-1 : len(frame)-1], nil
		}
	}
	return splitAny(frame)
}

// splitAny is splitWatch for any order of keys and any white space.
func splitAny(frame []byte) (event.Type, []byte, error) {
	c := cursor{b: trimRight(trimLeft(frame))}
	if !c.take('{') {
		return "", nil, c.fault("an object")
	}
	var (
		t      event.Type
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
		switch key {
		case "type":
			t = event.Type(stringValue(value))
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

func (c *cursor) fault(want string) error {
	return fmt.Errorf("split watch event: %w", &event.SyntaxError{Offset: int64(c.i), Msg: "expected " + want})
}
