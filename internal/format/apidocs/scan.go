package apidocs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/klauspost/compress/flate"

	"kubejournal/internal/host/disk"
)

const (
	magic     = "kubejournal-api\n"
	version   = 1
	slotSize  = 20
	start     = 1536 // of the records
	headSize  = 16
	keySize   = 16
	chunkSize = keySize + 4 // in the table of a record of chunks
	docSize   = sha256.Size + 8
	moment    = 4*8 + sha256.Size

	kindChunks   = 1
	kindDocument = 2
	kindMoment   = 3

	maxRecord   = 2 << 20 // bytes of a content
	maxPack     = 256 << 10
	maxManifest = 16 << 20
	// maxRead is how large a file may be that is read: a writer bounds it by MaxSize, and what one moment adds.
	maxRead = 4 * MaxSize
)

// MaxDocument bounds a document, in bytes.
const MaxDocument = 64 << 20

var slots = [2]int64{512, 1024}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrForeign says that a file is no file of this package.
	ErrForeign = errors.New("not a file of API documents that kubejournal has written")
	// ErrNewer says that a later version has written a file.
	ErrNewer = errors.New("a later version of kubejournal has written it")
)

// key is that of a chunk.
type key [keySize]byte

// Sum is the SHA-256 of a document.
type Sum [sha256.Size]byte

// extent is where bytes are in the file.
type extent struct {
	at   int64
	size int
}

// place is where a chunk is.
type place struct {
	pack     int32 // index in content.packs
	at, size int32 // in it
}

// span is a moment.
type span struct {
	number       uint64
	since, until int64
	manifest     Sum
}

// content is what is in a file, but the documents themselves.
type content struct {
	r       io.ReaderAt
	packs   []extent // contents of records of chunks
	chunks  map[key]place
	docs    map[Sum]extent // contents of records of documents
	spans   []span         // in the order of their numbers
	slot    int            // which the next write goes to
	end     int64          // of the last record whose header is right
	damaged error          // nil for none; an incomplete record at the end is none
}

func newContent() *content {
	return &content{chunks: make(map[key]place), docs: make(map[Sum]extent), end: start}
}

// scan reads a file, of this size.
func scan(r io.ReaderAt, size int64) (*content, error) {
	c := newContent()
	c.r = r
	head := make([]byte, len(magic)+4)
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case string(head[:len(magic)]) != magic:
		return nil, ErrForeign
	case binary.LittleEndian.Uint32(head[len(magic):]) > version:
		return nil, ErrNewer
	case size > maxRead:
		return nil, fmt.Errorf("it has more than %d MiB", maxRead>>20)
	}
	record := make([]byte, headSize)
	var b []byte
	for c.end < size {
		if _, err := r.ReadAt(record, c.end); err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
			break // an incomplete header
		}
		n := binary.LittleEndian.Uint32(record)
		if checksum(record[:12]) != binary.LittleEndian.Uint32(record[12:]) || n > maxRecord {
			c.damaged = fmt.Errorf("from byte %d on it is damaged", c.end)
			break
		}
		at := c.end + headSize
		if int64(n) > size-at {
			break // an incomplete content
		}
		b = append(b[:0], make([]byte, n)...)
		if _, err := r.ReadAt(b, at); err != nil {
			return nil, err
		}
		if checksum(b) != binary.LittleEndian.Uint32(record[8:]) || !c.add(record[4], b, at) {
			c.damaged = fmt.Errorf("%d bytes of it from byte %d on are damaged", headSize+n, c.end)
		}
		c.end = at + int64(n)
	}
	err := c.readSlots()
	return c, err
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// add takes in a record, and reports whether it can be one.
func (c *content) add(kind byte, b []byte, at int64) bool {
	switch {
	case kind == kindChunks && len(b) >= 4:
		n := int(binary.LittleEndian.Uint32(b))
		if n > (len(b)-4)/chunkSize {
			return false
		}
		offset := int32(0)
		for i := range n {
			entry := b[4+i*chunkSize:]
			size := binary.LittleEndian.Uint32(entry[keySize:])
			if size > mostChunk {
				return false
			}
			c.chunks[key(entry[:keySize])] = place{int32(len(c.packs)), offset, int32(size)}
			offset += int32(size)
		}
		c.packs = append(c.packs, extent{at, len(b)})
	case kind == kindDocument && len(b) >= docSize && (len(b)-docSize)%keySize == 0:
		c.docs[Sum(b[:sha256.Size])] = extent{at, len(b)}
	case kind == kindMoment && len(b) == moment:
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
		s := span{number(0), int64(number(1)), int64(number(2)), Sum(b[32:])}
		if last := len(c.spans) - 1; last >= 0 {
			if c.spans[last].number >= s.number {
				return false
			}
			if c.spans[last].number+1 == s.number {
				c.spans[last].until = max(c.spans[last].until, int64(number(3)))
			}
		}
		c.spans = append(c.spans, s)
	default:
		return false
	}
	return true
}

// readSlots moves the end of the last moment.
func (c *content) readSlots() error {
	if len(c.spans) == 0 {
		return nil
	}
	last := &c.spans[len(c.spans)-1]
	for n, at := range slots {
		b := make([]byte, slotSize)
		if _, err := c.r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		until := int64(binary.LittleEndian.Uint64(b[8:]))
		if checksum(b[:16]) == binary.LittleEndian.Uint32(b[16:]) && until > last.until &&
			binary.LittleEndian.Uint64(b) == last.number {
			last.until, c.slot = until, 1-n
		}
	}
	return nil
}

// keys returns the keys of a document's chunks, and its size.
func (c *content) keys(doc Sum) ([]key, int64, error) {
	where, ok := c.docs[doc]
	if !ok {
		return nil, 0, errors.New("it is not in the file")
	}
	b := make([]byte, where.size)
	if _, err := c.r.ReadAt(b, where.at); err != nil {
		return nil, 0, err
	}
	size := int64(binary.LittleEndian.Uint64(b[sha256.Size:]))
	keys := make([]key, 0, (len(b)-docSize)/keySize)
	for b = b[docSize:]; len(b) > 0; b = b[keySize:] {
		keys = append(keys, key(b[:keySize]))
	}
	return keys, size, nil
}

// whole reports whether all of a document is there.
func (c *content) whole(doc Sum) bool {
	keys, _, err := c.keys(doc)
	for _, k := range keys {
		if _, ok := c.chunks[k]; !ok {
			return false
		}
	}
	return err == nil
}

// unpack returns the chunks of a record one after the other.
func (c *content) unpack(n int32) ([]byte, error) {
	b := make([]byte, c.packs[n].size)
	if _, err := c.r.ReadAt(b, c.packs[n].at); err != nil {
		return nil, err
	}
	count := int(binary.LittleEndian.Uint32(b))
	// A writer ends a record with the chunk that fills it.
	unpacked := io.LimitReader(flate.NewReader(bytes.NewReader(b[4+count*chunkSize:])), maxPack+mostChunk)
	return io.ReadAll(unpacked)
}

// keptPacks is how many records of chunks are held unpacked while a document is read.
const keptPacks = 16

// read returns a document.
func (c *content) read(doc Sum, limit int64) ([]byte, error) {
	keys, size, err := c.keys(doc)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("it has %d bytes, and up to %d are read", size, limit)
	}
	var b []byte
	unpacked := make(map[int32][]byte)
	for _, k := range keys {
		p, ok := c.chunks[k]
		if !ok {
			return nil, errors.New("a part of it is not in the file")
		}
		pack, ok := unpacked[p.pack]
		if !ok {
			if pack, err = c.unpack(p.pack); err != nil {
				return nil, err
			}
			if len(unpacked) == keptPacks {
				clear(unpacked)
			}
			unpacked[p.pack] = pack
		}
		if int(p.at+p.size) > len(pack) || int64(len(b))+int64(p.size) > size {
			return nil, errors.New("it is damaged")
		}
		b = append(b, pack[p.at:p.at+p.size]...)
	}
	if sha256.Sum256(b) != doc {
		return nil, errors.New("it is damaged")
	}
	return b, nil
}

// open opens a file and reads what is in it.
func open(d disk.FS, path string, flag int) (disk.File, *content, error) {
	f, err := d.OpenFile(path, flag, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	var c *content
	if err == nil {
		c, err = scan(f, info.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, c, nil
}

func instant(t int64) time.Time { return time.Unix(0, t).UTC() }
