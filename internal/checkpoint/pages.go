package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// pages walks the tree of pages of a bbolt file, once, reading from the file itself: it
// accepts no page that bbolt would panic on, and adds up what is in them (see entrySum).
// Its memory is a page for each level of the tree and a byte for each page of the file.
//
// It is here for what bbolt does with a damaged file by itself. Of 1,000 files with one
// wrong byte in use, pages and sum refuse 508; bbolt opens 324 of these and commits to
// them, and 6 end the process, which no caller can prevent (go test -run BboltAlone
// -bbolt-alone -v ./internal/checkpoint). For 100,000 objects the walk costs 9 ms of
// CPU, a walk by bbolt's cursors 5 ms (BenchmarkOpen).
//
// A page begins with its number (8 bytes), its kind (2), how many elements it has (2)
// and how many more pages of the file it takes (4). Then come the elements, of 16
// bytes each, and their keys and values, at an offset from the element. Numbers are in
// the machine's byte order.
type pages struct {
	file *os.File
	size int    // of a page, in bytes
	seen []bool // by page; as long as the file is

	sum     uint64          // of all entries but the stored sum
	stored  []byte          // the sum in the file
	strange bool            // the structure is one that no file of this schema has
	objects map[string]*int // how many known objects are in the tree, by stream
	levels  [][]byte        // the pages between the root and the one being checked
	depth   int             // how many of them are in use
}

const (
	pageHeader  = 16
	pageElement = 16
	pageBranch  = 1 // of what a page is
	pageLeaf    = 2
	leafBucket  = 1  // flag of a leaf's element: the value is a bucket
	bucketSize  = 16 // root page and sequence, before an inline page
)

// scope is the bucket that a page belongs to.
type scope struct {
	root    bool   // it holds buckets only
	meta    bool   // it is that of the sum
	streams string // its name, if it holds a bucket for each stream
	crc     uint32 // what the numbers of its entries begin with
	objects *int   // counts its entries; nil if not needed
}

// below is the bucket name in the bucket at.
func (p *pages) below(at scope, name []byte) (b scope) {
	if at.root {
		b.meta, b.crc = string(name) == string(bucketMeta), bucketCRC(name, nil)
		switch string(name) {
		case string(bucketKnown), string(bucketRecent), string(bucketKept):
			b.streams = string(name)
		}
		return b
	}
	b.crc = bucketCRC([]byte(at.streams), name)
	if at.streams == string(bucketKnown) {
		b.objects = new(int)
		p.objects[string(name)] = b.objects
	}
	return b
}

// holdsBuckets reports whether the bucket holds buckets; the others hold values.
func (at scope) holdsBuckets() bool { return at.root || at.streams != "" }

// walk checks the pages from id on down, with keys from least to before limit; nil is no bound.
func (p *pages) walk(id uint64, at scope, least, limit []byte) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	p.depth++
	err = p.check(page, id, at, least, limit)
	p.depth--
	return err
}

// read returns a page with those that it continues in, in the memory of its level.
func (p *pages) read(id uint64) ([]byte, error) {
	if id < metaPages || id >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("%w: there is no page %d", ErrDamaged, id)
	}
	if p.depth == len(p.levels) {
		p.levels = append(p.levels, make([]byte, p.size))
	}
	page := p.levels[p.depth][:p.size]
	if err := p.readAt(page, id); err != nil {
		return nil, err
	}
	more := uint64(binary.NativeEndian.Uint32(page[12:]))
	if binary.NativeEndian.Uint64(page) != id || id+more >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("%w: page %d has another number or size", ErrDamaged, id)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("%w: page %d is used twice", ErrDamaged, i)
		}
		p.seen[i] = true
	}
	if more == 0 {
		return page, nil
	}
	page = slices.Grow(page, int(more)*p.size)[:int(1+more)*p.size]
	p.levels[p.depth] = page
	return page, p.readAt(page, id)
}

func (p *pages) readAt(b []byte, id uint64) error {
	_, err := p.file.ReadAt(b, int64(id)*int64(p.size))
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: ends within page %d", ErrDamaged, id)
	}
	return err
}

func (p *pages) check(page []byte, id uint64, at scope, least, limit []byte) error {
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if kind != pageBranch && kind != pageLeaf || kind == pageBranch && count == 0 ||
		pageHeader+count*pageElement > len(page) {
		return unreadable(id)
	}
	last := least
	for i := range count {
		e := page[pageHeader+i*pageElement:]
		key, value, ok := element(e, kind)
		if !ok {
			return unreadable(id)
		}
		// Only the first may equal its bound.
		if c := bytes.Compare(last, key); last != nil && (c > 0 || c == 0 && i > 0) ||
			limit != nil && bytes.Compare(key, limit) >= 0 {
			return fmt.Errorf("%w: keys of page %d out of order", ErrDamaged, id)
		}
		last = key
		var err error
		switch {
		case kind == pageBranch:
			next := limit
			if i+1 < count {
				if next, _, ok = element(e[pageElement:], kind); !ok {
					return unreadable(id)
				}
			}
			err = p.walk(binary.NativeEndian.Uint64(e[8:]), at, key, next)
		case binary.NativeEndian.Uint32(e)&leafBucket != 0:
			err = p.bucket(key, value, id, at)
		default:
			p.add(key, value, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) add(key, value []byte, at scope) {
	switch {
	case at.holdsBuckets():
		p.strange = true // a value instead of a bucket
	case at.meta && string(key) == string(keySum):
		p.stored = bytes.Clone(value)
	default:
		p.sum += entrySum(at.crc, key, value)
		if at.objects != nil {
			*at.objects++
		}
	}
}

// bucket checks a bucket, given as an element of a leaf.
func (p *pages) bucket(key, value []byte, id uint64, at scope) error {
	if len(value) < bucketSize {
		return unreadable(id)
	}
	if !at.holdsBuckets() {
		p.strange = true
	}
	below := p.below(at, key)
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.walk(root, below, nil, nil)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != pageLeaf {
		return unreadable(id)
	}
	return p.check(inline, id, below, nil, nil)
}

// checkSum compares what was added up on the walk with what was committed.
func (p *pages) checkSum() error {
	if p.strange {
		return fmt.Errorf("%w: a value where a bucket should be, or a bucket where a value should be", ErrDamaged)
	}
	if len(p.stored) != 8 || binary.BigEndian.Uint64(p.stored) != p.sum {
		return fmt.Errorf("%w: the content does not match the checksum", ErrDamaged)
	}
	return nil
}

func unreadable(id uint64) error { return fmt.Errorf("%w: page %d cannot be read", ErrDamaged, id) }

// element returns the key and the value of the element at the beginning of e.
func element(e []byte, kind uint16) (key, value []byte, ok bool) {
	at := binary.NativeEndian.Uint32(e)
	keySize, valueSize := binary.NativeEndian.Uint32(e[4:]), uint32(0)
	if kind == pageLeaf {
		at, keySize, valueSize = binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]),
			binary.NativeEndian.Uint32(e[12:])
	}
	end := uint64(at) + uint64(keySize) + uint64(valueSize)
	if at < pageElement || end > uint64(len(e)) {
		return nil, nil, false
	}
	b := e[at:end]
	return b[:keySize], b[keySize:], true
}
