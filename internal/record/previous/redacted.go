package previous

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"kubejournal/internal/format/object"
)

// redactedValues finds out which redacted values of an object have changed. With each stored version of an object goes
// a digest of each value that is redacted in it:
//
//	8 bytes    id of the key
//	uvarint    nonce, another one for each version
//	           then, for each redacted value:
//	uvarint    position of its "REDACTED" in the object, from the one before
//	8 bytes    beginning of HMAC-SHA-256 of nonce, ordinal and value
//
// The key is random and only in memory, and no two digests have the same input. So whoever has the checkpoint, even
// several copies of it over time, cannot try values, and learns neither which are equal nor which have changed. After a
// restart the daemon cannot either: digests under another key say nothing, and their values count as unchanged until
// the object has been read again, see Store.Missing. A key that the daemon could read from a file would let others who
// can read the file try values.
//
// A value is compared as the server sent it, without white space between tokens. Another spelling of the same value
// counts as a change; API servers spell a value the same way each time.
type redactedValues struct {
	id    [8]byte
	mac   hash.Hash // HMAC-SHA-256
	nonce uint64    // of the last version

	// The two versions that Same looks at.
	prevNonce uint64
	prev      []valueDigest
	next      []redactedValue

	sum, stored []byte // scratch
}

// redactedValue is a value that is redacted in an object. It must not be stored.
type redactedValue struct {
	at   int // where its "REDACTED" begins in the object
	text []byte
}

// valueDigest is what is stored of such a value.
type valueDigest struct {
	at   int
	sum  [8]byte
	with int  // one more than the index of the value that this was compared with last
	same bool // the result
}

// newRedactedValues returns nil where the shape redacts nothing.
func newRedactedValues(shape object.Shape) *redactedValues {
	if !shape.Redacts() {
		return nil
	}
	r := &redactedValues{mac: newMAC(newKey())}
	rand.Read(r.id[:]) // never fails: see crypto/rand
	return r
}

func newKey() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return key
}

func newMAC(key []byte) hash.Hash { return hmac.New(sha256.New, key) }

// take takes the redacted values of a version as the next ones. They are good as long as the object's bytes are.
func (r *redactedValues) take(o *object.Object) {
	r.drop()
	if r == nil {
		return
	}
	for at, text := range o.Redacted() {
		r.next = append(r.next, redactedValue{at, text})
	}
}

// drop forgets the next values.
func (r *redactedValues) drop() {
	if r != nil {
		clear(r.next)
		r.next = r.next[:0]
	}
}

// move takes the next values, which are those of a version that reads shaped, as those of an object that is stored. It
// drops them unless that is the same version: the same text, but for kind and apiVersion, which servers leave out of
// the items of a list. It reports whether there are any.
func (r *redactedValues) move(shaped, object []byte) bool {
	if r == nil || len(r.next) == 0 {
		return false
	}
	short, long := shaped, object
	if len(short) > len(long) {
		short, long = long, short
	}
	further := len(object) - len(shaped)
	if !bytes.HasSuffix(long, short[1:]) || r.next[0].at+further <= 0 { // less the opening brace
		r.drop()
		return false
	}
	for i := range r.next {
		r.next[i].at += further
	}
	return true
}

// digests makes what is to be stored of the next values, and drops them; where there are none it returns what is
// stored. It is good until the next call.
func (r *redactedValues) digests(stored []byte) []byte {
	if r == nil || len(r.next) == 0 {
		return stored
	}
	defer r.drop()
	r.nonce++
	dst := r.stored[:0]
	dst = append(dst, r.id[:]...)
	dst = binary.AppendUvarint(dst, r.nonce)
	last := 0
	for i, v := range r.next {
		dst = binary.AppendUvarint(dst, uint64(v.at-last))
		last = v.at
		sum := r.digest(r.nonce, i, v.text)
		dst = append(dst, sum[:]...)
	}
	r.stored = dst
	return dst
}

func (r *redactedValues) digest(nonce uint64, ordinal int, text []byte) (sum [8]byte) {
	r.mac.Reset()
	r.sum = binary.BigEndian.AppendUint64(r.sum[:0], nonce)
	r.sum = binary.BigEndian.AppendUint64(r.sum, uint64(ordinal))
	r.mac.Write(r.sum) // never fails: see hash.Hash
	r.mac.Write(text)
	r.sum = r.mac.Sum(r.sum[:0])
	copy(sum[:], r.sum)
	return sum
}

// own reports whether digests were made with this key.
func (r *redactedValues) own(digests []byte) bool {
	return r != nil && len(digests) > len(r.id) && string(digests[:len(r.id)]) == string(r.id[:])
}

// compare takes the digests of the version before, if any are known. It reports whether there is anything to compare.
func (r *redactedValues) compare(digests []byte) bool {
	if !r.own(digests) || len(r.next) == 0 {
		return false
	}
	rest := digests[len(r.id):]
	nonce, n := binary.Uvarint(rest)
	r.prevNonce, r.prev = nonce, r.prev[:0]
	at := 0
	for n > 0 {
		var d valueDigest
		rest = rest[n:]
		var further uint64
		if further, n = binary.Uvarint(rest); n <= 0 || len(rest) < n+len(d.sum) {
			break
		}
		at += int(further)
		d.at = at
		n += copy(d.sum[:], rest[n:])
		r.prev = append(r.prev, d)
	}
	return len(r.prev) > 0
}

// Same reports whether the redacted values are the same in two parts, equal in their text, of the version before and of
// the next one: size bytes from prev and from next on. A value that is unknown in one of them counts as the same.
func (r *redactedValues) Same(prev, next, size int) bool {
	i, _ := slices.BinarySearchFunc(r.prev, prev, func(d valueDigest, at int) int { return cmp.Compare(d.at, at) })
	j, _ := slices.BinarySearchFunc(r.next, next, func(v redactedValue, at int) int { return cmp.Compare(v.at, at) })
	for i < len(r.prev) && j < len(r.next) && r.prev[i].at < prev+size && r.next[j].at < next+size {
		switch cmp.Compare(r.prev[i].at-prev, r.next[j].at-next) {
		case -1:
			i++
		case 1:
			j++
		default:
			if !r.equal(i, j) {
				return false
			}
			i, j = i+1, j+1
		}
	}
	return true
}

// equal compares a value before with a next one. Containers are compared within containers, so it keeps the result.
func (r *redactedValues) equal(i, j int) bool {
	d := &r.prev[i]
	if d.with != j+1 {
		d.with, d.same = j+1, d.sum == r.digest(r.prevNonce, i, r.next[j].text)
	}
	return d.same
}
