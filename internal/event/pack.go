package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// Packer makes the previous version of an object small enough to be kept in the
// checkpoint, at about the cost of scanning it. It is for one goroutine.
//
// The objects of one stream are much alike, and each is short: what repeats is
// not in it but in the others. So a Packer is given a base, some objects of the
// stream one behind the other, and what an object has in common with that or
// with itself is written as where it stands. The base must be kept as long as
// what was packed with it; without the same one, Unpack refuses.
//
// A packed object is
//
//	byte      0: the object follows as it is
//	          1: it is packed, without a base
//	          2: likewise, with one
//	4 bytes   CRC-32C of the base, little-endian, only behind 2
//	uvarint   length of the object, not behind 0
//	steps     until the object is complete, not behind 0
//
// and a step is, as in LZ4,
//
//	byte      high half: bytes that follow as they are; low half: bytes that are
//	          repeated, less 6. 15 goes on as a uvarint that is added
//	bytes     as they are; if they complete the object, nothing follows
//	uvarint   how far back what is repeated begins, in the base with the object
//	          behind it
type Packer struct {
	base    []byte
	sum     uint32
	indexed *table // of the base; nil until something is packed
}

// packing is what is needed while an object is being packed.
type packing struct {
	table table  // of the base and what of the object has been seen
	b     []byte // the base, and behind it the object
}

// packings are shared: streams are many, and few of them pack at a time.
var packings = sync.Pool{New: func() any { return new(packing) }}

// table finds where six bytes have been seen last: the position behind their
// first byte, by a hash of them.
type table [1 << tableBits]int32

const (
	tableBits  = 13
	leastMatch = 6
	maxBase    = 1 << 15 // bytes of a base that are used
	keptBuffer = 1 << 20 // a larger buffer is not kept

	packedRaw   = 0
	packedAlone = 1
	packedBase  = 2
)

var (
	errPacked    = errors.New("unpack object: damaged")
	errOtherBase = errors.New("unpack object: packed with another base")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// NewPacker returns a Packer. Of a base that is longer, the first 32 KiB are
// used; the base may be empty. It is not copied.
func NewPacker(base []byte) *Packer {
	base = base[:min(len(base), maxBase)]
	return &Packer{base: base, sum: crc32.Checksum(base, castagnoli)}
}

// index fills the table of the base.
func (p *Packer) index() {
	p.indexed = &table{}
	for i := 0; i+8 <= len(p.base); i++ {
		p.indexed[slotOf(binary.LittleEndian.Uint64(p.base[i:]))] = int32(i + 1)
	}
}

// slotOf is the table's slot for the first six bytes of v.
func slotOf(v uint64) uint64 { return (v << 16) * 0x9E3779B185EBCA87 >> (64 - tableBits) }

// Pack appends the packed object to dst.
func (p *Packer) Pack(dst, object []byte) []byte {
	start := len(dst)
	if len(p.base) > 0 {
		dst = append(dst, packedBase)
		dst = binary.LittleEndian.AppendUint32(dst, p.sum)
	} else {
		dst = append(dst, packedAlone)
	}
	dst = binary.AppendUvarint(dst, uint64(len(object)))
	if len(object) < math.MaxInt32-maxBase {
		dst = p.steps(dst, object)
	}
	if len(dst)-start > len(object) || len(object) >= math.MaxInt32-maxBase {
		dst = append(append(dst[:start], packedRaw), object...)
	}
	return dst
}

// AppendUnpacked appends the packed form of an object that is not packed: any
// Packer can unpack it.
func AppendUnpacked(dst, object []byte) []byte {
	return append(append(dst, packedRaw), object...)
}

// steps appends the steps that make object.
func (p *Packer) steps(dst, object []byte) []byte {
	if p.indexed == nil {
		p.index()
	}
	w := packings.Get().(*packing)
	w.table = *p.indexed
	w.b = append(append(w.b[:0], p.base...), object...)
	if cap(w.b) <= keptBuffer {
		defer packings.Put(w)
	}
	b := w.b
	i, done := len(p.base), len(p.base) // done is what the steps so far have made
	for i+8 <= len(b) {
		v := binary.LittleEndian.Uint64(b[i:])
		slot := &w.table[slotOf(v)]
		from := int(*slot) - 1
		*slot = int32(i + 1)
		if from < 0 || (binary.LittleEndian.Uint64(b[from:])^v)<<16 != 0 {
			i += 1 + (i-done)>>6 // the longer nothing was found, the less is looked for
			continue
		}
		end := i + leastMatch + same(b[from+leastMatch:], b[i+leastMatch:])
		for i > done && from > 0 && b[i-1] == b[from-1] {
			i--
			from--
		}
		dst = appendStep(dst, b[done:i], end-i)
		dst = binary.AppendUvarint(dst, uint64(i-from))
		i, done = end, end
		if i+8 <= len(b) {
			w.table[slotOf(binary.LittleEndian.Uint64(b[i-2:]))] = int32(i - 1)
		}
	}
	if done < len(b) {
		dst = appendStep(dst, b[done:], leastMatch)
	}
	return dst
}

// same is how many bytes a and b, which is not longer, begin with in common.
func same(a, b []byte) int {
	n := 0
	for ; n+8 <= len(b); n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// appendStep appends a step, up to its distance.
func appendStep(dst, text []byte, repeated int) []byte {
	const rest = 15
	repeated -= leastMatch
	dst = append(dst, byte(min(len(text), rest)<<4|min(repeated, rest)))
	if len(text) >= rest {
		dst = binary.AppendUvarint(dst, uint64(len(text)-rest))
	}
	if repeated >= rest {
		dst = binary.AppendUvarint(dst, uint64(repeated-rest))
	}
	return append(dst, text...)
}

// Unpack appends the object to dst. What was damaged may be found out or give
// another object: whoever keeps packed objects keeps sums of them. It never
// appends more than limit bytes. With an error, dst is returned as it was.
func (p *Packer) Unpack(dst, packed []byte, limit int) ([]byte, error) {
	if len(packed) == 0 {
		return dst, errPacked
	}
	form, in := packed[0], packed[1:]
	base := p.base
	switch form {
	case packedRaw:
		if len(in) > limit {
			return dst, fmt.Errorf("unpack object: %w", tooLarge(len(in), limit))
		}
		return append(dst, in...), nil
	case packedAlone:
		base = nil
	case packedBase:
		if len(in) < 4 {
			return dst, errPacked
		}
		if binary.LittleEndian.Uint32(in) != p.sum {
			return dst, errOtherBase
		}
		in = in[4:]
	default:
		return dst, errPacked
	}
	size, n := binary.Uvarint(in)
	if n <= 0 {
		return dst, errPacked
	}
	if size > uint64(max(limit, 0)) {
		return dst, fmt.Errorf("unpack object: %w", tooLarge(int(min(size, math.MaxInt)), limit))
	}
	out, ok := unpack(dst, in[n:], base, int(size))
	if !ok {
		return dst, errPacked
	}
	return out, nil
}

// unpack appends size bytes that the steps in make with the base.
func unpack(dst, in, base []byte, size int) ([]byte, bool) {
	dst = slices.Grow(dst, min(size, keptBuffer)) // size may be wrong
	start := len(dst)
	end := start + size
	for len(dst) < end {
		if len(in) == 0 {
			return nil, false
		}
		text, repeated := uint64(in[0]>>4), uint64(in[0]&15)
		in = in[1:]
		for _, n := range []*uint64{&text, &repeated} {
			if *n == 15 {
				more, k := binary.Uvarint(in)
				if k <= 0 || more > uint64(size) {
					return nil, false
				}
				*n += more
				in = in[k:]
			}
		}
		if text > uint64(len(in)) || text > uint64(end-len(dst)) {
			return nil, false
		}
		dst = append(dst, in[:text]...)
		in = in[text:]
		if len(dst) == end {
			break
		}
		back, k := binary.Uvarint(in)
		in = in[max(k, 0):]
		left := int(repeated) + leastMatch
		made := len(dst) - start
		if k <= 0 || back == 0 || back > uint64(made+len(base)) || left > end-len(dst) {
			return nil, false
		}
		from := made - int(back) // in the object; in the base if less than 0
		if from < 0 {
			part := base[len(base)+from:]
			part = part[:min(left, len(part))]
			dst = append(dst, part...)
			left, from = left-len(part), 0
		}
		for left > 0 { // what is repeated may reach into what it makes
			part := dst[start+from:]
			part = part[:min(left, len(part))]
			dst = append(dst, part...)
			left, from = left-len(part), from+len(part)
		}
	}
	return dst, len(in) == 0
}
