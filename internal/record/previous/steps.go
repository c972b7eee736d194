package previous

import (
	"encoding/binary"
	"slices"
)

// Earlier releases packed objects themselves, with a base or without. Behind the form, and the CRC of the base if
// there is one, stands
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
	made := slices.Clone(base) // what steps repeat, then the object
	end := len(base) + size
	for len(made) < end {
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
		if text > uint64(min(len(in), end-len(made))) {
			return nil, false
		}
		made = append(made, in[:text]...)
		in = in[text:]
		if len(made) == end {
			break
		}
		back, k := binary.Uvarint(in)
		if k <= 0 || back == 0 || back > uint64(len(made)) || int(repeated)+leastMatch > end-len(made) {
			return nil, false
		}
		in = in[k:]
		for range int(repeated) + leastMatch { // what is repeated may reach into what it makes
			made = append(made, made[len(made)-int(back)])
		}
	}
	return append(dst, made[len(base):]...), len(in) == 0
}
