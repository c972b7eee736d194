package tail

import "bytes"

// What is needed to walk over JSON that was written as valid: positions, not values. On anything else the functions
// return -1 or a position that is as good as any; they never leave the slice.

// space returns the position of the first byte from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// str returns the position behind the string that begins at b[i], a quote, or -1 where it does not end.
func str(b []byte, i int) int {
	for from := i + 1; from < len(b); {
		q := bytes.IndexByte(b[from:], '"')
		if q < 0 {
			return -1
		}
		end := from + q
		slashes := 0
		for end-1-slashes > i && b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		from = end + 1
	}
	return -1
}

// value returns the position behind the value that begins at b[i], or -1.
func value(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return str(b, i)
	case '{', '[':
	default:
		start := i
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		if i == start {
			return -1
		}
		return i
	}
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = str(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// members calls fn with the inside of each key of an object and its value, as far as b is one.
func members(b []byte, fn func(key, value []byte)) {
	if len(b) == 0 || b[0] != '{' {
		return
	}
	for i := space(b, 1); ; {
		key, from, to := member(b, i)
		if to < 0 {
			return
		}
		fn(key, b[from:to])
		if i = space(b, to); i >= len(b) || b[i] != ',' {
			return
		}
		i = space(b, i+1)
	}
}

// member reads one member of an object at b[i]: the inside of its key, and where its value stands. to is -1 where there
// is none.
func member(b []byte, i int) (key []byte, from, to int) {
	if i >= len(b) || b[i] != '"' {
		return nil, 0, -1
	}
	end := str(b, i)
	if end < 0 {
		return nil, 0, -1
	}
	key = b[i+1 : end-1]
	if from = space(b, end); from >= len(b) || b[from] != ':' {
		return nil, 0, -1
	}
	from = space(b, from+1)
	return key, from, value(b, from)
}

// elements calls fn with each element of an array, until it returns false.
func elements(b []byte, fn func(value []byte) bool) {
	if len(b) == 0 || b[0] != '[' {
		return
	}
	for i := space(b, 1); i < len(b) && b[i] != ']'; {
		to := value(b, i)
		if to < 0 || !fn(b[i:to]) {
			return
		}
		if i = space(b, to); i < len(b) && b[i] == ',' {
			i = space(b, i+1)
		}
	}
}

// text returns the inside of a string, escapes and all, or nil for another value.
func text(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}
