package rawjson

import "bytes"

// Tape is the outline of one JSON value: a cell for the value itself and, behind
// it, the cells of what it contains, in the order of the text. Members can then
// be passed without looking at their text again. The zero Tape is empty; it is best
// used over and over.
type Tape struct {
	Cells []Cell

	s    Scanner
	open []int32 // the cells of containers being read; kept for its space
}

// Cell is one value. Positions are in bytes of the text.
type Cell struct {
	start, end       int32 // the value
	keyStart, keyEnd int32 // inside of the quotes of a member's key
	escaped          bool  // the key has escapes

	Next  int32 // the cell behind this value and all that it contains
	Count int32 // members or elements
}

// KeptCells is how many cells a tape keeps room for: those of an object of some
// 300 KB.
const KeptCells = 1 << 15

// Release lets go of the text, and of space that only a large value needs.
func (t *Tape) Release() {
	t.s.Release()
	if cap(t.Cells) > KeptCells {
		t.Cells = nil
	}
}

// Read outlines b, around which there are depth containers. It must be compact JSON
// of less than 2 GiB; control characters and UTF-8 are not checked. Release must
// follow.
func (t *Tape) Read(b []byte, depth int) error {
	t.Cells, t.open = t.Cells[:0], t.open[:0]
	t.s.Reset(b)
	end := t.read(depth)
	if end >= 0 && end < len(b) {
		end = t.s.Fail(end, "expected the end")
	}
	if end < 0 {
		return t.s.Err()
	}
	return nil
}

// read outlines the value at the start of the text.
func (t *Tape) read(depth int) int {
	var (
		s      = &t.s
		b      = s.b
		i      = 0
		c      Cell  // the next one, with its key where it has one
		parent int32 // the innermost open container
		object bool  // which is one
	)
value:
	if i >= len(b) {
		return s.Fail(i, "")
	}
	c.start = int32(i)
	switch first := b[i]; first {
	case '{', '[':
		if len(t.open)+depth >= MaxDepth {
			return s.Fail(i, TooDeep)
		}
		t.open = append(t.open, parent)
		parent = int32(len(t.Cells))
		t.Cells = append(t.Cells, c)
		object = first == '{'
		i++
		if i < len(b) && b[i] == first+2 { // the closing bracket
			goto after
		}
		if object {
			goto key
		}
		c = Cell{}
		goto value
	case '"':
		i = s.Str(i)
	default:
		i = s.scalar(i)
	}
	if i < 0 {
		return i
	}
	c.end = int32(i)
	c.Next = int32(len(t.Cells) + 1)
	t.Cells = append(t.Cells, c)
counted:
	if len(t.open) == 0 {
		return i
	}
	t.Cells[parent].Count++
	if i >= len(b) {
		return s.Fail(i, "")
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
		p := &t.Cells[parent]
		p.end, p.Next = int32(i), int32(len(t.Cells))
		last := len(t.open) - 1
		parent = t.open[last]
		t.open = t.open[:last]
		object = len(t.open) > 0 && b[t.Cells[parent].start] == '{'
		goto counted
	default:
		return s.Fail(i, "expected a comma or a closing bracket")
	}
	c = Cell{}
	goto value
key:
	if i >= len(b) || b[i] != '"' {
		return s.Fail(i, "expected a string")
	}
	c = Cell{keyStart: int32(i + 1)}
	if end := s.x.short(i + 1); end > 0 {
		i = end
	} else {
		start := i + 1
		if i = s.long(start); i < 0 {
			return i
		}
		c.escaped = bytes.IndexByte(b[start:i], '\\') >= 0
	}
	c.keyEnd = int32(i - 1)
	if i >= len(b) || b[i] != ':' {
		return s.Fail(i, "expected a colon")
	}
	i++
	goto value
}

// Text returns the value of cell i as it is written.
func (t *Tape) Text(i int32) []byte {
	c := &t.Cells[i]
	return t.s.b[c.start:c.end]
}

// Key returns the inside of a member's key as it is written.
func (t *Tape) Key(i int32) []byte {
	c := &t.Cells[i]
	return t.s.b[c.keyStart:c.keyEnd]
}

// DecodedKey returns what a member's key means; valid until buf is used again.
func (t *Tape) DecodedKey(i int32, buf *[]byte) []byte {
	key := t.Key(i)
	if t.Cells[i].escaped {
		*buf = Unquote((*buf)[:0], key)
		return *buf
	}
	return key
}

// SameKey reports whether a member of t and one of u have the same key. a and b are
// scratch space.
func (t *Tape) SameKey(i int32, u *Tape, j int32, a, b *[]byte) bool {
	if bytes.Equal(t.Key(i), u.Key(j)) {
		return true
	}
	if !t.Cells[i].escaped && !u.Cells[j].escaped {
		return false
	}
	return bytes.Equal(t.DecodedKey(i, a), u.DecodedKey(j, b))
}
