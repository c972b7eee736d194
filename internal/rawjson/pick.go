package rawjson

import "bytes"

// Pick returns the values of those members of an object that have the names, five at most; nil for what it does not have.
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
	steps, more := bytes.CutPrefix(pointer, []byte("/"))
	for more && len(value) > 0 {
		var step []byte
		step, steps, more = bytes.Cut(steps, []byte("/"))
		value = childOf(value, Unescaped(step))
	}
	return value
}

// childOf returns the member or element that a step leads to, nil where there is none.
func childOf(value, step []byte) []byte {
	if value[0] != '[' {
		for key, v := range Members(value) {
			if bytes.Equal(key, step) {
				return v
			}
		}
		return nil
	}
	if !IsIndex(step) {
		return nil
	}
	n := 0
	for _, digit := range step {
		n = n*10 + int(digit-'0')
	}
	for v := range Elements(value) {
		if n == 0 {
			return v
		}
		n--
	}
	return nil
}

// Unescaped returns a step of a pointer as the key is.
func Unescaped(step []byte) []byte {
	if bytes.IndexByte(step, '~') < 0 {
		return step
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(step, []byte("~1"), []byte("/")), []byte("~0"), []byte("~"))
}

// IsIndex reports whether a step of a pointer may lead into a list.
func IsIndex(step []byte) bool {
	return len(step) > 0 && len(step) < 10 && len(bytes.Trim(step, "0123456789")) == 0
}
