package index

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

const (
	magic      = "kubejournal-idx\n"
	version    = 1
	headerSize = 80
	identity   = 64 // bytes of the header that every checksum begins with
	sumSize    = 4

	linesPerBlock = 1024
	objectsBlock  = 16 << 10 // bytes, without the last object

	typeBits = 7
	lateFlag = 8
	jumpFlag = 16

	snapshotFlag = 32
	unknownFlag  = 64

	beforeFlag   = 1 // of an object
	refersFlag   = 2
	sameRefsFlag = 4
)

// Types are the types of a line; an index has their positions, from 1.
var Types = []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"}

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

const uuidForm = "00000000-0000-0000-0000-000000000000"

// appendUID appends a uid.
func appendUID(dst []byte, uid string) []byte {
	if len(uid) != len(uuidForm) {
		return appendOther(dst, uid)
	}
	start := len(dst)
	dst = append(dst, 0)
	for i := 0; i < len(uid); i++ {
		switch {
		case uuidForm[i] == '-':
			if uid[i] != '-' {
				return appendOther(dst[:start], uid)
			}
		default:
			high, low := hexDigit(uid[i]), hexDigit(uid[i+1])
			if high|low > 15 {
				return appendOther(dst[:start], uid)
			}
			dst = append(dst, high<<4|low)
			i++
		}
	}
	return dst
}

// appendOther appends a uid of another form.
func appendOther(dst []byte, uid string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(uid))+1), uid...)
}

// hexDigit returns the value of a digit in lower case, above 15 for any other byte.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

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

func (d *decoder) uid() string {
	if n := d.number(int64(len(d.b))); n > 0 {
		return string(d.take(int(n) - 1))
	}
	b := d.take(16)
	if b == nil {
		return ""
	}
	text := make([]byte, 0, len(uuidForm))
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, []byte{c})
	}
	return string(text)
}

// end reports whether the block was whole, and nothing is behind its last item.
func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return ErrDamaged
	}
	return nil
}
