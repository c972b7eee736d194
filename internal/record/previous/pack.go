package previous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"

	"kubejournal/internal/format/object"
)

// Packer makes an object small enough for the checkpoint, at about the cost of scanning it. The objects of one stream
// are much alike, so a Packer is given a base, some objects of the stream one after the other, which is the
// dictionary. Without the same base, Unpack refuses.
//
// A packed object is
//
//	byte      0: the object follows as it is
//	          3: as an s2 block
//	4 bytes   CRC-32C of the base, little-endian, 0 for none; only after 3
//	the rest
//
// Pods of 2, 6 and 60 KB (BenchmarkPack) take 84, 395 and 4,403 bytes after the first five, with a base of 16 such
// pods, at most 16 KiB. Dictionaries for zstd give 82, 212 and 1,010 bytes, in 2 to 5 times the CPU.
type Packer struct {
	base []byte
	sum  uint32
	dict *s2.Dict // nil where there is no base
}

const (
	packedRaw = 0
	packedS2  = 3

	maxBase = 1 << 15 // bytes of a base that are used
)

var (
	errPacked    = errors.New("unpack object: damaged")
	errOtherBase = errors.New("unpack object: packed with another base")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// NewPacker returns a Packer. Of a base that is longer, the first 32 KiB are used; the base may be empty. It is not
// copied.
func NewPacker(base []byte) *Packer {
	base = base[:min(len(base), maxBase)]
	p := &Packer{base: base, sum: crc32.Checksum(base, castagnoli)}
	if p.sum != 0 {
		p.dict = s2.MakeDict(base, nil)
	}
	return p
}

// Pack appends the packed object to dst.
func (p *Packer) Pack(dst, object []byte) []byte {
	encode, sum := s2.Encode, uint32(0)
	if p.dict != nil {
		encode, sum = p.dict.Encode, p.sum
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, packedS2), sum)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(object)))
	return dst[:len(dst)+len(encode(dst[len(dst):cap(dst)], object))]
}

// AppendUnpacked appends the packed form of an object that is not packed: any Packer can unpack it.
func AppendUnpacked(dst, object []byte) []byte {
	return append(append(dst, packedRaw), object...)
}

// Unpack appends the object to dst. What was damaged may be found out or give another object: the checkpoint has
// sums. It never appends more than limit bytes. With an error, dst is returned as it was.
func (p *Packer) Unpack(dst, packed []byte, limit int) ([]byte, error) {
	if len(packed) == 0 {
		return dst, errPacked
	}
	form, in := packed[0], packed[1:]
	sum := uint32(0)
	if form == packedS2 {
		if len(in) < 4 {
			return dst, errPacked
		}
		if sum, in = binary.LittleEndian.Uint32(in), in[4:]; sum != 0 && sum != p.sum {
			return dst, errOtherBase
		}
	}
	size := uint64(len(in))
	if form != packedRaw {
		n := 0
		if size, n = binary.Uvarint(in); n <= 0 {
			return dst, errPacked
		}
	}
	if size > uint64(max(limit, 0)) {
		return dst, fmt.Errorf("unpack object: %w: over %d bytes, limit %d", object.ErrTooLarge, size, limit)
	}
	switch form {
	case packedRaw:
		return append(dst, in...), nil
	case packedS2:
		decode := s2.Decode
		if sum != 0 && p.dict == nil { // the base is too short to be one
			return dst, errPacked
		} else if sum != 0 {
			decode = p.dict.Decode
		}
		dst = slices.Grow(dst, int(size))
		if out, err := decode(dst[len(dst):cap(dst)], in); err == nil {
			return dst[:len(dst)+len(out)], nil
		}
	}
	return dst, errPacked
}

// base collects what a stream's objects are packed with: what is alike in them shows in a few.
type base struct {
	packer *Packer
	bytes  []byte // what the packer has once it is fixed, until then what was collected
	count  int    // objects in bytes
	fixed  bool
}

const (
	baseBytes   = 16 << 10
	baseObjects = 16
)

// learn takes an object until there are enough, and reports whether there are now.
func (b *base) learn(object []byte) bool {
	if b.fixed {
		return false
	}
	b.bytes = append(b.bytes, object[:min(len(object), baseBytes)]...)
	if b.count++; b.count < baseObjects && len(b.bytes) < baseBytes {
		return false
	}
	b.packer, b.fixed = NewPacker(bytes.Clone(b.bytes)), true
	return true
}
