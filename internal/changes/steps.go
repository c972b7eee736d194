package changes

import (
	"encoding/binary"
	"slices"
)

// Earlier releases packed objects themselves, with a base or without. Behind the form,
// and the CRC of the base if there is one, stands
//
//	uvarint   length of the object
//	steps     until the object is complete
//
// and a step is, as in LZ4,
//
//	byte      high half: bytes that follow as they are; low half: bytes that are
//	          repeated, less 6. 15 goes on as a uvarint that is added
//	bytes     as they are; if they complete the object, nothing follows
//	uvarint   how far back what is repeated begins, in the base with the object
//	          behind it

// leastMatch is how many bytes a step repeats at least.
const leastMatch = 6

// unpackSteps appends size bytes that the steps in make with the base.
func unpackSteps(dst, in, base []byte, size int) ([]byte, bool) {
	dst = slices.Grow(dst, min(size, 1<<20)) // size may be wrong
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
