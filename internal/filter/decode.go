package filter

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"kubejournal/internal/rawjson"
)

var errNotObject = errors.New("is not a JSON object")

// decode returns the part of a JSON object that is asked for, as CEL takes it: map[string]any, []any, string, bool, nil,
// int64 for what is written as a whole number and fits, float64 for any other. That is how Kubernetes decodes an object
// without a schema.
func decode(b []byte, want *fields) (any, error) {
	d := decoder{rawjson.NewCursor(b)}
	if d.Peek() != '{' {
		return nil, errNotObject
	}
	v, err := d.value(want, 0)
	if err != nil {
		return nil, err
	}
	if len(d.Rest()) > 0 {
		return nil, faultAt(d.Offset())
	}
	return v, nil
}

// decoder reads JSON that is known to be valid; of what is passed over, only the end is looked for.
type decoder struct{ rawjson.Cursor }

// faultAt says where, not what: the text may hold what nobody is to see.
func faultAt(offset int) error { return fmt.Errorf("is not valid JSON at byte %d", offset) }

// value reads the value that comes next. depth is the number of containers around it.
func (d *decoder) value(want *fields, depth int) (any, error) {
	if depth > rawjson.MaxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", rawjson.MaxDepth)
	}
	switch d.Peek() {
	case '{':
		return d.object(want, depth+1)
	case '[':
		return d.array(depth + 1)
	}
	at := d.Offset()
	v, ok := scalar(d.Value())
	if !ok {
		return nil, faultAt(at)
	}
	return v, nil
}

// everything is what is asked of a container of which nothing particular is.
var everything = &fields{whole: true}

func (d *decoder) object(want *fields, depth int) (any, error) {
	m := make(map[string]any, min(len(want.below), 8))
	for more := d.Take('{') && d.Peek() != '}'; more; more = d.Take(',') {
		key, ok := d.Key()
		if ok && bytes.IndexByte(key, '\\') >= 0 {
			var text string
			text, ok = rawjson.Text(key)
			key = []byte(text)
		}
		if !ok {
			return nil, faultAt(d.Offset())
		}
		part := want.member(key)
		if part == nil {
			if d.Value() == nil {
				return nil, faultAt(d.Offset())
			}
			continue
		}
		v, err := d.value(part, depth)
		if err != nil {
			return nil, err
		}
		m[string(key)] = v
	}
	if !d.Take('}') {
		return nil, faultAt(d.Offset())
	}
	return m, nil
}

// array reads all of an array: which of its elements are looked at is not known beforehand.
func (d *decoder) array(depth int) (any, error) {
	list := []any{}
	for more := d.Take('[') && d.Peek() != ']'; more; more = d.Take(',') {
		v, err := d.value(everything, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if !d.Take(']') {
		return nil, faultAt(d.Offset())
	}
	return list, nil
}

// scalar decodes a string, a number or a literal; it is false for anything else.
func scalar(text []byte) (any, bool) {
	if inside := rawjson.Inside(text); inside != nil {
		return rawjson.Text(inside)
	}
	switch string(text) {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	}
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return nil, false
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}
