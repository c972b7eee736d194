package index

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"kubejournal/internal/format/line"
)

const (
	magic      = "kubejournal-idx\n"
	version    = 2
	headerSize = 96
	identity   = 56 // bytes of the header that every checksum begins with
	times      = 68 // where the header has the times, after the extent of the directory
	sumSize    = 4

	linesPerBlock = 1024
	objectsBlock  = 8 << 10 // bytes, without the last object

	typeBits     = 7
	writtenFlag  = 8
	jumpFlag     = 16
	snapshotFlag = 32

	beforeFlag   = 1 // of an object
	refersFlag   = 2
	sameRefsFlag = 4
	nearFlag     = 8
	linesFlag    = 16
	createdFlag  = 32

	maxInflated  = 64 << 20 // bytes of a block that is compressed
	deflateLevel = 3
)

// removals is the name of the stream of REMOVED lines, which is none. It is the last one of an index. Its objects are
// what the lines are about: a stream as namespace, and a namespace as name.
const removals = ""

// Types are the types of a line; an index has their positions, from 1.
var Types = []string{
	string(line.Added), string(line.Modified), string(line.Deleted), string(line.Gap), string(line.Synced),
	string(line.Removed), string(line.Sealed),
}

// ErrDamaged says that a file is not, or not any more, what a Builder has made.
var ErrDamaged = errors.New("damaged index")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockSum is the checksum of a block at a place in the file with that header.
func blockSum(header []byte, at int64, block []byte) uint32 {
	sum := crc32.Update(0, castagnoli, header[:identity])
	sum = crc32.Update(sum, castagnoli, binary.LittleEndian.AppendUint64(nil, uint64(at)))
	return crc32.Update(sum, castagnoli, block)
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

const (
	uuidForm  = "00000000-0000-0000-0000-000000000000"
	uuidBytes = 16
)

// A uid in memory is a zero byte and the 16 bytes of a UUID, or a one and its text, so that most are not taken apart
// and put together again from index to index.

// appendPacked appends a uid as it is in memory.
func appendPacked(dst, uid []byte) []byte {
	if len(uid) != len(uuidForm) {
		return append(append(dst, 1), uid...)
	}
	start := len(dst)
	dst = append(dst, 0)
	for i := 0; i < len(uid); i += 2 {
		if uuidForm[i] == '-' {
			if uid[i] != '-' {
				return append(append(dst[:start], 1), uid...)
			}
			i++
		}
		high, low := hexDigits[uid[i]], hexDigits[uid[i+1]]
		if high|low > 15 {
			return append(append(dst[:start], 1), uid...)
		}
		dst = append(dst, high<<4|low)
	}
	return dst
}

// unpacked returns the text of a uid.
func unpacked(uid string) string {
	if uid[0] != 0 {
		return uid[1:]
	}
	b := make([]byte, 0, len(uuidForm))
	for i := range uuidBytes {
		if len(b) < len(uuidForm) && uuidForm[len(b)] == '-' {
			b = append(b, '-')
		}
		b = append(b, hexText[uid[i+1]>>4], hexText[uid[i+1]&15])
	}
	return string(b)
}

const hexText = "0123456789abcdef"

// hexDigits are the values of digits in lower case, above 15 for any other byte.
var hexDigits = func() (values [256]byte) {
	for i := range values {
		values[i] = 0xff
	}
	for i := range len(hexText) {
		values[hexText[i]] = byte(i)
	}
	return values
}()

// decoder takes a block apart. After a fault it returns zeros, and bad is true.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

// number returns a varint of at most limit.
func (d *decoder) number(limit int64) int64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || limit < 0 || v > uint64(limit) {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return int64(v)
}

// count returns the number of items that follow, each of which takes a byte or more.
func (d *decoder) count() int { return int(d.number(int64(len(d.b)))) }

func (d *decoder) delta() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) text() string { return string(d.take(d.count())) }

// uid returns a uid whose form is here, and whose bytes are in uids.
func (d *decoder) uid(uids *decoder) string {
	if n := d.number(int64(len(uids.b)) + 1); n > 0 {
		return "\x01" + string(uids.take(int(n)-1))
	}
	b := uids.take(uuidBytes)
	if b == nil {
		d.fail()
		return "\x01"
	}
	return "\x00" + string(b)
}

// end reports whether the block was whole, and nothing comes after its last item.
func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return ErrDamaged
	}
	return nil
}
