package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// pages walks the tree of pages of a bbolt file, reading from the file itself.
// It accepts no page that bbolt would choke on.
//
// A page begins with its number (8 bytes), what it is (2), how many elements it
// has (2) and how many pages of the file it takes beside the first (4). Then
// come the elements, of 16 bytes each, and their keys and values, at an offset
// from the element. Numbers are in the machine's byte order.
type pages struct {
	file *os.File
	size int    // of a page, in bytes
	seen []bool // by page; as long as the file is
}

const (
	pageHeader  = 16
	pageElement = 16
	pageBranch  = 1 // of what a page is
	pageLeaf    = 2
	leafBucket  = 1  // flag of a leaf's element: the value is a bucket
	bucketSize  = 16 // root page and sequence, before an inline page
)

// walk checks the pages below and including id, whose keys are from least on
// and before limit; nil is no bound.
func (p *pages) walk(id uint64, least, limit []byte) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	return p.check(page, id, least, limit)
}

// read returns a page with those that it goes on in.
func (p *pages) read(id uint64) ([]byte, error) {
	if id < 2 || id >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("%w: there is no page %d", ErrDamaged, id)
	}
	var header [pageHeader]byte
	if err := p.readAt(header[:], id); err != nil {
		return nil, err
	}
	more := uint64(binary.NativeEndian.Uint32(header[12:]))
	if binary.NativeEndian.Uint64(header[:]) != id || id+more >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("%w: page %d is not one", ErrDamaged, id)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("%w: page %d is used twice", ErrDamaged, i)
		}
		p.seen[i] = true
	}
	page := make([]byte, (1+int(more))*p.size)
	return page, p.readAt(page, id)
}

func (p *pages) readAt(b []byte, id uint64) error {
	_, err := p.file.ReadAt(b, int64(id)*int64(p.size))
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: ends within page %d", ErrDamaged, id)
	}
	return err
}

// check checks one page that has been read, and those below it.
func (p *pages) check(page []byte, id uint64, least, limit []byte) error {
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	bad := fmt.Errorf("%w: page %d cannot be read", ErrDamaged, id)
	if kind != pageBranch && kind != pageLeaf || kind == pageBranch && count == 0 || pageHeader+count*pageElement > len(page) {
		return bad
	}
	last := least
	for i := range count {
		e := page[pageHeader+i*pageElement:]
		key, value, ok := element(e, kind)
		if !ok {
			return bad
		}
		// Only the first may equal its bound.
		if c := bytes.Compare(last, key); last != nil && (c > 0 || c == 0 && i > 0) || limit != nil && bytes.Compare(key, limit) >= 0 {
			return fmt.Errorf("%w: keys of page %d out of order", ErrDamaged, id)
		}
		last = key
		var err error
		switch {
		case kind == pageBranch:
			next := limit
			if i+1 < count {
				if next, _, ok = element(e[pageElement:], kind); !ok {
					return bad
				}
			}
			err = p.walk(binary.NativeEndian.Uint64(e[8:]), key, next)
		case binary.NativeEndian.Uint32(e)&leafBucket != 0:
			err = p.bucket(value, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket, given as the value of a leaf's element.
func (p *pages) bucket(value []byte, id uint64) error {
	if len(value) < bucketSize {
		return fmt.Errorf("%w: page %d cannot be read", ErrDamaged, id)
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.walk(root, nil, nil)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != pageLeaf {
		return fmt.Errorf("%w: page %d cannot be read", ErrDamaged, id)
	}
	return p.check(inline, id, nil, nil)
}

// element returns the key and the value of the element at the beginning of e.
func element(e []byte, kind uint16) (key, value []byte, ok bool) {
	at := binary.NativeEndian.Uint32(e)
	keySize, valueSize := binary.NativeEndian.Uint32(e[4:]), uint32(0)
	if kind == pageLeaf {
		at, keySize, valueSize = binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
	}
	end := uint64(at) + uint64(keySize) + uint64(valueSize)
	if at < pageElement || end > uint64(len(e)) {
		return nil, nil, false
	}
	b := e[at:end]
	return b[:keySize], b[keySize:], true
}
