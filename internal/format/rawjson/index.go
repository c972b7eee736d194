package rawjson

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

const blockSize = 64 // bytes that one marks describes

// marks are the bitmaps of 64 bytes of text; the lowest bit is the first byte's.
type marks struct {
	quote, slash uint64 // quotes that are not escaped; backslashes
	open, shut   uint64 // brackets and braces
}

// keptMarks bounds the marks that are kept for the next text, in blocks: those of a text of 2 MiB take 1 MiB.
const keptMarks = 2 << 20 / blockSize

// indexes are pooled, not owned by scanners: streams are many, and few of them scan at a time.
var indexes = sync.Pool{New: func() any { return new(index) }}

// index is the bitmap index of a text. Building it is the only step that looks at every byte; the scanner then goes
// from mark to mark. The idea is simdjson's. The zero value is ready to build.
//
// Vector instructions earn their file: a pod of 6 KB is indexed in 0.31 us with AVX2 and in 4.4 us without
// (BenchmarkIndex), and all else of its scan takes 2.7 us.
type index struct {
	marks []marks
	// control: there are control characters, which includes all white space but blanks. wide: there are bytes beyond
	// ASCII.
	control, wide bool
}

// build sets the marks of b.
func (x *index) build(b []byte) {
	whole := len(b) / blockSize
	if n := whole + 1; cap(x.marks) < n {
		x.marks = make([]marks, n+n/4)
	}
	x.marks = x.marks[:whole+1]
	x.control, x.wide = findMarks(b, x.marks[:whole])
	var last [blockSize]byte
	n := copy(last[:], b[whole*blockSize:])
	for ; n < blockSize; n++ {
		last[n] = ' '
	}
	control, wide := findMarks(last[:], x.marks[whole:])
	x.control, x.wide = x.control || control, x.wide || wide

	var escape uint64
	for i := range x.marks {
		if m := &x.marks[i]; m.slash|escape != 0 {
			var escaped uint64
			escaped, escape = escapes(m.slash, escape)
			m.quote &^= escaped
		}
	}
}

// escapes marks the bytes of a block that a backslash before them escapes. first is 1 if the block's first byte is
// escaped, next is 1 if the first byte of the next block is. As in simdjson, a subtraction carries through each run
// of backslashes, so that its end shows whether it began at an odd or an even bit.
func escapes(slash, first uint64) (escaped, next uint64) {
	const odd = 0xaaaaaaaaaaaaaaaa
	begin := slash &^ first
	runs := (begin<<1 | odd) - begin ^ odd
	return runs ^ (slash | first), runs & slash >> (blockSize - 1)
}

// short returns the byte after the string whose inside begins at i, if it ends in the block that it begins in and
// has no escapes before that, as most do; else 0. i is at most the length of the text.
func (x *index) short(i int) int {
	m := &x.marks[uint(i)/blockSize]
	quote := m.quote >> (uint(i) % blockSize)
	if quote == 0 || m.slash>>(uint(i)%blockSize)&(quote-1)&^quote != 0 {
		return 0
	}
	return i + bits.TrailingZeros64(quote) + 1
}

// closes returns the position after the object or array that begins at i, found by brackets and quotes alone; -1 if
// it does not end.
func (x *index) closes(i int) int {
	depth := 0
	var in uint64 // all bits set where a block begins inside a string
	at := i / blockSize
	skip := uint64(1)<<(i%blockSize) - 1 // before i
	for ; at < len(x.marks); at++ {
		m := &x.marks[at]
		// Each bit becomes the parity of the quotes up to it: set from an opening quote to the byte before the
		// closing one.
		inside := m.quote &^ skip
		inside ^= inside << 1
		inside ^= inside << 2
		inside ^= inside << 4
		inside ^= inside << 8
		inside ^= inside << 16
		inside ^= inside << 32
		inside ^= in
		in = uint64(int64(inside) >> (blockSize - 1)) // the last bit, for all
		inside |= skip
		skip = 0
		open, shut := m.open&^inside, m.shut&^inside
		if n := bits.OnesCount64(shut); depth > n {
			depth += bits.OnesCount64(open) - n
			continue
		}
		for ; shut != 0; shut &= shut - 1 {
			k := bits.TrailingZeros64(shut)
			before := open & (1<<k - 1)
			open &^= before
			if depth += bits.OnesCount64(before) - 1; depth == 0 {
				return at*blockSize + k + 1
			}
		}
		depth += bits.OnesCount64(open)
	}
	return -1
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
	// gather brings the lowest bits of eight bytes together in the highest one.
	gather = 0x0102040810204080
)

// findPlain is findMarks without vector instructions, eight bytes at a time.
func findPlain(b []byte, out []marks) (control, wide bool) {
	var low, high uint64
	for at := range out {
		block := (*[blockSize]byte)(b[at*blockSize:])
		var m marks
		for i := 0; i < blockSize; i += 8 {
			x := binary.LittleEndian.Uint64(block[i:])
			high |= x
			// With the high bit set before 0x20 is taken away, no byte borrows from its neighbour, and an ASCII byte
			// keeps the bit if it is 0x20 or more.
			low |= ^(x | highs - ' '*lows | x)
			// A bracket and the brace of its kind differ in this bit, and nothing else becomes one of them with it.
			braces := x | ' '*lows
			m.quote |= equal(x, '"'*lows) << i
			m.slash |= equal(x, '\\'*lows) << i
			m.open |= equal(braces, '{'*lows) << i
			m.shut |= equal(braces, '}'*lows) << i
		}
		out[at] = m
	}
	return low&highs != 0, high&highs != 0
}

// equal returns a bit for each byte that x and y have in common.
func equal(x, y uint64) uint64 {
	x ^= y
	const rest = ^uint64(highs)
	return ^(x&rest + rest | x | rest) >> 7 * gather >> 56
}
