package client

import (
	"bytes"
	"errors"
	"fmt"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
)

// heads are the beginnings of nearly all watch events: what an API server's
// own encoder writes.
var heads = [...]struct {
	text []byte
	t    line.Type
}{
	{[]byte(`{"type":"MODIFIED","object":{`), line.Modified},
	{[]byte(`{"type":"ADDED","object":{`), line.Added},
	{[]byte(`{"type":"DELETED","object":{`), line.Deleted},
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
func splitWatch(frame []byte) (line.Type, []byte, error) {
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
func splitAny(frame []byte) (line.Type, []byte, error) {
	c := rawjson.NewCursor(rawjson.TrimSpace(frame))
	fault := func(want string) error {
		return fmt.Errorf(
			"split watch event: %w", &object.SyntaxError{Offset: int64(c.Offset()), Msg: "expected " + want},
		)
	}
	if !c.Take('{') {
		return "", nil, fault("an object")
	}
	var (
		t      line.Type
		object []byte
	)
	for more := !c.Take('}'); more; {
		key := rawjson.Inside(c.Value())
		if key == nil {
			return "", nil, fault("a key")
		}
		if !c.Take(':') {
			return "", nil, fault("a colon")
		}
		value := c.Value()
		if value == nil {
			return "", nil, fault("a value")
		}
		switch key := string(rawjson.Unquote(nil, key)); {
		case key == "type" && t != "", key == "object" && object != nil:
			return "", nil, fault("no key twice") // which of them counts, readers do not agree on
		case key == "type":
			t = line.Type(text(value))
		case key == "object":
			object = value
		}
		switch {
		case c.Take(','):
		case c.Take('}'):
			more = false
		default:
			return "", nil, fault("a comma or a brace")
		}
	}
	switch {
	case len(c.Rest()) > 0:
		return "", nil, fault("the end")
	case t == "":
		return "", nil, errNoType
	case len(object) == 0 || object[0] != '{':
		return "", nil, errNoObject
	}
	return t, object, nil
}

// text returns what a JSON string means, "" for any other value.
func text(value []byte) string { return string(rawjson.Unquote(nil, rawjson.Inside(value))) }
