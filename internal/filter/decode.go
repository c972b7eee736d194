package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10_000

// decode returns the part of a JSON object that is asked for, as CEL takes it: map[string]any, []any, string, bool, nil,
// int64 for what is written as a whole number and fits, float64 for any other. That is how Kubernetes decodes an object
// without a schema.
func decode(b []byte, want *fields) (any, error) {
	d := decoder{b: b}
	d.space()
	if d.peek() != '{' {
		return nil, fmt.Errorf("is not a JSON object")
	}
	v, err := d.value(want, 0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.i != len(b) {
		return nil, d.fault()
	}
	return v, nil
}

// decoder reads JSON that is known to be valid; so what is passed over is only looked at for where it ends.
type decoder struct {
	b []byte
	i int // of what comes next
}

// fault tells where, not what: the text may hold what nobody is to see.
func (d *decoder) fault() error { return fmt.Errorf("is not valid JSON at byte %d", d.i) }

func (d *decoder) space() {
	for d.i < len(d.b) && (d.b[d.i] == ' ' || d.b[d.i] == '\n' || d.b[d.i] == '\t' || d.b[d.i] == '\r') {
		d.i++
	}
}

// peek returns the next byte, 0 at the end.
func (d *decoder) peek() byte {
	if d.i < len(d.b) {
		return d.b[d.i]
	}
	return 0
}

// take passes the next byte if it is c, and the white space behind it.
func (d *decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.i++
	d.space()
	return true
}

// value reads the value that comes next. depth is the number of containers around it.
func (d *decoder) value(want *fields, depth int) (any, error) {
	switch c := d.peek(); {
	case depth > maxDepth:
		return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	case c == '{':
		return d.object(want, depth+1)
	case c == '[':
		return d.array(depth + 1)
	case c == '"':
		return d.text()
	case d.word("true"):
		return true, nil
	case d.word("false"):
		return false, nil
	case d.word("null"):
		return nil, nil
	default:
		return d.number()
	}
}

// everything is what is asked of a container of which nothing particular is.
var everything = &fields{whole: true}

func (d *decoder) object(want *fields, depth int) (any, error) {
	d.take('{')
	m := make(map[string]any, min(len(want.below), 8))
	if d.take('}') {
		return m, nil
	}
	for {
		raw, err := d.raw()
		if err != nil {
			return nil, err
		}
		d.space()
		if !d.take(':') {
			return nil, d.fault()
		}
		key := raw[1 : len(raw)-1]
		if !isPlain(key) {
			text, err := d.unquote(raw)
			if err != nil {
				return nil, err
			}
			key = []byte(text)
		}
		if part := want.member(key); part == nil {
			if err := d.skip(); err != nil {
				return nil, err
			}
		} else if m[string(key)], err = d.value(part, depth); err != nil {
			return nil, err
		}
		d.space()
		if d.take('}') {
			return m, nil
		}
		if !d.take(',') {
			return nil, d.fault()
		}
	}
}

// array reads all of an array: which of its elements are looked at is not known beforehand.
func (d *decoder) array(depth int) (any, error) {
	d.take('[')
	list := []any{}
	if d.take(']') {
		return list, nil
	}
	for {
		v, err := d.value(everything, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		d.space()
		if d.take(']') {
			return list, nil
		}
		if !d.take(',') {
			return nil, d.fault()
		}
	}
}

// text reads a string.
func (d *decoder) text() (string, error) {
	raw, err := d.raw()
	if err != nil {
		return "", err
	}
	if inside := raw[1 : len(raw)-1]; isPlain(inside) {
		return string(inside), nil
	}
	return d.unquote(raw)
}

// isPlain tells whether the inside of a string stands for itself.
func isPlain(inside []byte) bool { return bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) }

func (d *decoder) unquote(raw []byte) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", d.fault()
	}
	return s, nil
}

// raw passes a string and returns it with its quotes.
func (d *decoder) raw() ([]byte, error) {
	if d.peek() != '"' {
		return nil, d.fault()
	}
	start := d.i
	for i := start + 1; ; {
		n := bytes.IndexByte(d.b[i:], '"')
		if n < 0 {
			d.i = len(d.b)
			return nil, d.fault()
		}
		end := i + n
		slashes := 0
		for d.b[end-1-slashes] == '\\' { // ends at the first quote
			slashes++
		}
		i = end + 1
		if slashes%2 == 0 {
			d.i = i
			return d.b[start:i], nil
		}
	}
}

func (d *decoder) word(w string) bool {
	if !bytes.HasPrefix(d.b[d.i:], []byte(w)) {
		return false
	}
	d.i += len(w)
	return true
}

func (d *decoder) number() (any, error) {
	start, whole := d.i, true
	for ; d.i < len(d.b); d.i++ {
		switch c := d.b[d.i]; {
		case c >= '0' && c <= '9' || c == '-':
			continue
		case c == '.' || c == 'e' || c == 'E' || c == '+':
			whole = false
			continue
		}
		break
	}
	text := string(d.b[start:d.i])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.i = start
		return nil, d.fault()
	}
	return f, nil
}

// skip passes a value of any kind: of a container, its brackets and quotes.
func (d *decoder) skip() error {
	switch d.peek() {
	case '"':
		_, err := d.raw()
		return err
	case '{', '[':
	default:
		start := d.i
		for d.i < len(d.b) && isScalar(d.b[d.i]) {
			d.i++
		}
		if d.i == start {
			return d.fault()
		}
		return nil
	}
	depth := 0
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case '"':
			if _, err := d.raw(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		d.i++
		if depth == 0 {
			return nil
		}
	}
	return d.fault()
}

// isScalar tells whether a number, true, false or null may go on with c.
func isScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}
