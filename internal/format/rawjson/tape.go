package rawjson

import "bytes"

// Tape is the outline of one JSON value: a cell for the value itself and, after it, the cells of what it contains,
// in the order of the text. Members can then be passed without looking at their text again. The zero Tape is empty;
// it is best used over and over.
type Tape struct {
	Cells []Cell

	s Scanner
}

// Cell is one value. Positions are in bytes of the text.
type Cell struct {
	start, end       int32 // the value
	keyStart, keyEnd int32 // inside of the quotes of a member's key
	escaped          bool  // the key has escapes

	Next  int32 // the cell after this value and all that it contains
	Count int32 // members or elements
}

// KeptCells is how many cells a tape keeps room for: those of an object of some 300 KB.
const KeptCells = 1 << 15

// Release lets go of the text, and of space that only a large value needs.
func (t *Tape) Release() {
	t.s.Release()
	if cap(t.Cells) > KeptCells {
		t.Cells = nil
	}
}

// Read outlines b, around which there are depth containers. It must be compact JSON of less than 2 GiB; control
// characters and UTF-8 are not checked. Release must follow.
func (t *Tape) Read(b []byte, depth int) error {
	t.Cells = t.Cells[:0]
	t.s.Reset(b)
	return t.s.End(t.value(0, depth, Cell{}))
}

// value outlines the value at i, whose cell has its key already.
func (t *Tape) value(i, depth int, c Cell) int {
	s := &t.s
	b := s.b
	if i >= len(b) {
		return s.Fail(i, "")
	}
	self := len(t.Cells)
	c.start = int32(i)
	t.Cells = append(t.Cells, c)
	more, count := false, int32(0)
	switch first := b[i]; first {
	case '{':
		for i, more = s.Open(i, depth); more; i, more = s.More(i, '}') {
			key, value := s.Key(i)
			if value < 0 {
				return value
			}
			m := Cell{keyStart: int32(i + 1), keyEnd: int32(value - 2)} // before `":`
			m.escaped = len(key) > 0 && &key[0] != &b[i+1]              // decoded elsewhere
			if i = t.value(value, depth+1, m); i < 0 {
				return i
			}
			count++
		}
	case '[':
		for i, more = s.Open(i, depth); more; i, more = s.More(i, ']') {
			if i = t.value(i, depth+1, Cell{}); i < 0 {
				return i
			}
			count++
		}
	case '"':
		i = s.Str(i)
	default:
		i = s.scalar(i)
	}
	if i < 0 {
		return i
	}
	done := &t.Cells[self]
	done.end, done.Next, done.Count = int32(i), int32(len(t.Cells)), count
	return i
}

// Offset returns the position of cell i's value in the text.
func (t *Tape) Offset(i int32) int { return int(t.Cells[i].start) }

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

// SameKey reports whether a member of t and one of u have the same key. a and b are scratch space.
func (t *Tape) SameKey(i int32, u *Tape, j int32, a, b *[]byte) bool {
	if bytes.Equal(t.Key(i), u.Key(j)) {
		return true
	}
	if !t.Cells[i].escaped && !u.Cells[j].escaped {
		return false
	}
	return bytes.Equal(t.DecodedKey(i, a), u.DecodedKey(j, b))
}
