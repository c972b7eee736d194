package apidocs

import (
	"errors"
	"io"
)

const (
	leastChunk = 1 << 10
	mostChunk  = 16 << 10
	cutBits    = 12 // a chunk has leastChunk and 4 KiB on average
)

// gear has a number for each byte, the same ones in each version: with others, nothing that is stored would be found
// again.
var gear = func() (table [256]uint32) {
	x := uint32(1)
	for i := range table {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		table[i] = x
	}
	return table
}()

// cut returns the length of the chunk at the beginning of b, 0 where more bytes decide. It ends where the 32 bytes
// before say so: a change moves no end but those near it.
func cut(b []byte) int {
	var h uint32
	for i, c := range b {
		h = h<<1 + gear[c]
		if n := i + 1; n >= leastChunk && h>>(32-cutBits) == 0 || n == mostChunk {
			return n
		}
	}
	return 0
}

// eachChunk calls fn with the chunks of a document in turn; the bytes hold until fn returns.
func eachChunk(r io.Reader, fn func([]byte) error) error {
	buffer, have, ended := make([]byte, mostChunk), 0, false
	for {
		for have < len(buffer) && !ended { // not io.ReadFull, to which a body that breaks off looks like its end
			n, err := r.Read(buffer[have:])
			have += n
			if ended = errors.Is(err, io.EOF); err != nil && !ended {
				return err
			}
		}
		if have == 0 {
			return nil
		}
		size := cut(buffer[:have])
		if size == 0 {
			size = have // the end: a full buffer is a chunk
		}
		if err := fn(buffer[:size]); err != nil {
			return err
		}
		have = copy(buffer, buffer[size:have])
	}
}
