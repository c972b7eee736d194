package event

import "bytes"

// tape is the outline of one JSON value: a cell for the value itself and, behind
// it, the cells of what it contains, in the order of the text. Members can then
// be passed without looking at their text again.
type tape struct {
	b     []byte
	cells []cell
	s     scanner // of b, for what is not a string
	slash int     // the first backslash not yet passed, len(b) if there is none
	open  []int32 // the cells of containers being read; kept for its space
}

// cell is one value. Positions are in bytes of the text.
type cell struct {
	start, end       int32 // the value
	keyStart, keyEnd int32 // inside of the quotes of a member's key
	next             int32 // the cell behind this value and all that it contains
	count            int32 // members or elements
	escaped          bool  // the key has escapes
}

// keptCells is how much space a tape keeps for the next value: that of an
// object of some 300 KB.
const keptCells = 1 << 15

// release lets go of the text, and of space that only a large object needs.
func (t *tape) release() {
	t.b, t.s = nil, scanner{}
	if cap(t.cells) > keptCells {
		t.cells = nil
	}
}

// read outlines b, which must be compact JSON of at most 2 GiB, as a line has
// it: it checks the grammar, but not for control characters and UTF-8.
func (t *tape) read(b []byte) error {
	t.b = b
	t.cells, t.open = t.cells[:0], t.open[:0]
	t.s = scanner{b: b}
	t.nextSlash(0)
	end := t.values()
	if end >= 0 && end < len(b) {
		end = t.s.fail(end, "expected the end")
	}
	if end < 0 {
		return t.s.err
	}
	return nil
}

// values is read for the whole value at the start of the text. It returns its
// end, or -1 with the fault in the scanner.
func (t *tape) values() int {
	var (
		s      = &t.s
		b      = t.b
		i      = 0
		c      cell  // the next one, with its key where it has one
		parent int32 // the innermost open container, which is b[object] or an array
		object bool
	)
value:
	if i >= len(b) {
		return s.fail(i, "")
	}
	c.start = int32(i)
	switch first := b[i]; first {
	case '{', '[':
		if len(t.open)+aroundObject >= maxDepth {
			return s.fail(i, tooDeep)
		}
		t.open = append(t.open, parent)
		parent = int32(len(t.cells))
		t.cells = append(t.cells, c)
		object = first == '{'
		i++
		if i < len(b) && b[i] == first+2 { // the closing bracket
			goto after
		}
		if object {
			goto key
		}
		c = cell{}
		goto value
	case '"':
		i = t.str(i)
	default:
		i = s.scalar(i)
	}
	if i < 0 {
		return i
	}
	c.end = int32(i)
	c.next = int32(len(t.cells) + 1)
	t.cells = append(t.cells, c)
counted:
	if len(t.open) == 0 {
		return i
	}
	t.cells[parent].count++
	if i >= len(b) {
		return s.fail(i, "")
	}
after:
	switch c := b[i]; {
	case c == ',':
		i++
		if object {
			goto key
		}
	case c == '}' && object, c == ']' && !object:
		i++
		p := &t.cells[parent]
		p.end, p.next = int32(i), int32(len(t.cells))
		last := len(t.open) - 1
		parent = t.open[last]
		t.open = t.open[:last]
		object = len(t.open) > 0 && b[t.cells[parent].start] == '{'
		goto counted
	default:
		return s.fail(i, "expected a comma or a closing bracket")
	}
	c = cell{}
	goto value
key:
	c = cell{keyStart: int32(i + 1)}
	{
		slash := t.slash
		if i = t.str(i); i < 0 {
			return i
		}
		c.keyEnd, c.escaped = int32(i-1), i > slash
	}
	if i >= len(b) || b[i] != ':' {
		return s.fail(i, "expected a colon")
	}
	i++
	goto value
}

// str passes a string.
func (t *tape) str(i int) int {
	if i >= len(t.b) || t.b[i] != '"' {
		return t.s.fail(i, "expected a string")
	}
	n := bytes.IndexByte(t.b[i+1:], '"')
	if n < 0 {
		return t.s.fail(len(t.b), "")
	}
	if end := i + 1 + n; end < t.slash {
		return end + 1
	}
	return t.escaped()
}

// escaped passes the rest of a string from its first backslash.
func (t *tape) escaped() int {
	b := t.b
	for i := t.slash; i < len(b); {
		switch b[i] {
		case '"':
			t.nextSlash(i + 1)
			return i + 1
		case '\\':
			if i+1 >= len(b) {
				return t.s.fail(len(b), "")
			}
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if hexRune(b[i+2:]) < 0 {
					return t.s.fail(i, "faulty escape")
				}
				i += 6
			default:
				return t.s.fail(i, "faulty escape")
			}
		default:
			i++
		}
	}
	return t.s.fail(len(b), "")
}

func (t *tape) nextSlash(i int) {
	t.slash = len(t.b)
	if n := bytes.IndexByte(t.b[i:], '\\'); n >= 0 {
		t.slash = i + n
	}
}

// text is the value of cell i as it is written.
func (t *tape) text(i int32) []byte {
	c := &t.cells[i]
	return t.b[c.start:c.end]
}

// key is the inside of a member's key as it is written.
func (t *tape) key(i int32) []byte {
	c := &t.cells[i]
	return t.b[c.keyStart:c.keyEnd]
}

// decodedKey is what a member's key means; valid until buf is used again.
func (t *tape) decodedKey(i int32, buf *[]byte) []byte {
	key := t.key(i)
	if t.cells[i].escaped {
		*buf = unquote((*buf)[:0], key)
		return *buf
	}
	return key
}
