package coverage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"kubejournal/internal/host/disk"
)

// Why a file cannot be read. It is left as it is, but for one that is damaged.
var (
	ErrForeign = errors.New("not a coverage file of kubejournal")
	ErrNewer   = errors.New("written by a newer version of kubejournal")
	ErrDamaged = errors.New("damaged")
)

// maxSize is how large a file may be that is read, in bytes. One with maxIntervals has 13 MB.
const maxSize = 256 << 20

// content is all that a file says.
type content struct {
	names     map[uint32]string
	intervals map[uint32][]interval // by stream, in the order of their serial numbers
	segments  []segmentRecord       // in the order of seq
	serial    uint64                // the highest
}

// load reads the file at path. Without one the error is fs.ErrNotExist.
func load(d disk.FS, path string) (*content, error) {
	f, err := d.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	return parse(f)
}

func parse(f disk.File) (*content, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSize {
		return nil, fmt.Errorf("%w: larger than any that is written", ErrDamaged)
	}
	b := make([]byte, info.Size())
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parseBytes(b[:n])
}

// identity is what the versions of an interval share.
type identity struct {
	stream      uint32
	since, from int64
	late        bool
}

func parseBytes(b []byte) (*content, error) {
	c := &content{names: make(map[uint32]string), intervals: make(map[uint32][]interval)}
	if len(b) < len(magic) && bytes.HasPrefix([]byte(magic), b) {
		return nil, ErrDamaged
	}
	if !bytes.HasPrefix(b, []byte(magic)) {
		return nil, ErrForeign
	}
	if len(b) < recordSize || !sound(b[:recordSize], 0) {
		return nil, fmt.Errorf("%w: its header", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(b[16:]); v != version {
		return nil, fmt.Errorf("%w: version %d", ErrNewer, v)
	}
	salt, names := binary.LittleEndian.Uint32(b[24:]), make(map[uint32][]byte)
	newest, segments := make(map[identity]interval), make(map[uint64]segmentRecord)
	for at := tableStart; at+recordSize <= len(b); at += recordSize {
		r := b[at : at+recordSize]
		if r[0] == 0 || !sound(r, salt) {
			continue
		}
		stream := binary.LittleEndian.Uint32(r[4:])
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(r[8+8*i:]) }
		switch r[0] {
		case kindInterval:
			i := interval{
				late: r[1]&flagLate != 0, reason: r[2], heldBack: r[3], since: int64(number(0)), from: int64(number(1)),
				to: int64(number(2)), seq: number(3), differences: int64(uint32(number(4))),
				pulse: uint32(number(4) >> 32), serial: number(5),
			}
			if lease := binary.LittleEndian.Uint32(r[leaseAt:]); lease <= maxLease {
				i.lease = lease
			}
			id := identity{stream, i.since, i.from, i.late}
			if c.serial = max(c.serial, i.serial); !i.void() && newest[id].serial < i.serial {
				newest[id] = i
			}
		case kindSegment:
			s := segmentRecord{
				head: stream, time: int64(number(0)), first: number(1), before: number(2), seq: number(3),
				serial: number(5), gone: r[1]&flagGone != 0,
			}
			if c.serial = max(c.serial, s.serial); segments[s.first].serial < s.serial {
				segments[s.first] = s
			}
		case kindName: // its parts are in order; one that is missing may come again
			name, size := names[stream], int(binary.LittleEndian.Uint16(r[2:]))
			if len(name) != int(r[1])*namePart {
				continue
			}
			name = append(name, r[nameAt:nameAt+namePart]...)
			if names[stream] = name; len(name) >= size {
				c.names[stream] = string(name[:size])
			}
		}
	}
	for id, i := range newest {
		c.intervals[id.stream] = append(c.intervals[id.stream], i)
	}
	for stream, all := range c.intervals {
		putInOrder(all)
		c.intervals[stream] = slices.DeleteFunc(all, func(i interval) bool { return i.void() }) // taken back
	}
	c.segments = slices.SortedFunc(maps.Values(segments), func(a, b segmentRecord) int {
		return cmp.Compare(a.first, b.first)
	})
	return c, nil
}

// putInOrder puts the intervals of a stream in the order in which they were written, and ends each where a later one
// begins: the clock may have gone back.
func putInOrder(all []interval) {
	// All fields that may differ are compared, so that reading a file twice gives the same order, even if it was
	// forged.
	slices.SortFunc(all, func(a, b interval) int {
		order := cmp.Or(cmp.Compare(a.serial, b.serial), cmp.Compare(a.from, b.from), cmp.Compare(a.since, b.since))
		switch {
		case order != 0 || a.late == b.late:
			return order
		case a.late:
			return 1
		}
		return -1
	})
	end := int64(math.MaxInt64)
	for n := len(all) - 1; n >= 0; n-- {
		i := &all[n]
		if i.end() > end {
			i.to = min(i.to, end)
			i.pulseTo(end)
		}
		if n+1 < len(all) && i.reason == 0 {
			i.reason = reasonNumber(Unknown)
		}
		end = min(end, i.from)
	}
}

// sound reports whether a record is as it was written.
func sound(r []byte, salt uint32) bool {
	return crc32.Update(salt, castagnoli, r[:sumAt]) == binary.LittleEndian.Uint32(r[sumAt:])
}
