package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// Flags of an encoded object.Known: how its two values are written, and its two marks.
const (
	flagVersionText = 1 << iota // resourceVersion as length and bytes, not as a uvarint
	flagUIDText                 // uid as the rest of the value, not as 16 bytes
	flagDoubtful                // object.Known.Doubtful
	flagWithheld                // object.Known.Withheld
)

// appendKey appends the key of namespace/name. Neither can hold a zero byte
// (both end in a URL path on the server).
func appendKey[S ~string | ~[]byte](dst []byte, namespace, name S) []byte {
	dst = append(dst, namespace...)
	dst = append(dst, 0)
	return append(dst, name...)
}

// appendKnown appends the value of an object: one byte of flags, the
// resourceVersion, the uid. Both are opaque by the API's rules: what does not have
// the usual form is stored as it is.
func appendKnown(dst []byte, flags byte, uid, resourceVersion []byte) []byte {
	at := len(dst)
	dst = append(dst, flags)
	if n, ok := line.VersionNumber(resourceVersion); ok {
		dst = binary.AppendUvarint(dst, n)
	} else {
		dst[at] |= flagVersionText
		dst = binary.AppendUvarint(dst, uint64(len(resourceVersion)))
		dst = append(dst, resourceVersion...)
	}
	if b, ok := ParseUID(uid); ok {
		return append(dst, b[:]...)
	}
	dst[at] |= flagUIDText
	return append(dst, uid...)
}

func decodeKnown(key, value []byte, k *object.Known) error {
	damaged := func() error { return fmt.Errorf("read known object %q: %w", key, ErrDamaged) }
	sep := bytes.IndexByte(key, 0)
	if sep < 0 || len(value) < 1 {
		return damaged()
	}
	k.Namespace, k.Name = string(key[:sep]), string(key[sep+1:])
	flags, rest := value[0], value[1:]
	k.Doubtful, k.Withheld = flags&flagDoubtful != 0, flags&flagWithheld != 0
	v, n := binary.Uvarint(rest)
	if n <= 0 {
		return damaged()
	}
	rest = rest[n:]
	switch {
	case flags&flagVersionText == 0:
		k.ResourceVersion = strconv.FormatUint(v, 10)
	case v > uint64(len(rest)):
		return damaged()
	default:
		k.ResourceVersion, rest = string(rest[:v]), rest[v:]
	}
	switch {
	case flags&flagUIDText != 0:
		k.UID = string(rest)
	case len(rest) == 16:
		text := formatUUID([16]byte(rest))
		k.UID = string(text[:])
	default:
		return damaged()
	}
	return nil
}

// ParseUID parses the form that Kubernetes gives to uids: lower-case
// hexadecimal with dashes at 8, 13, 18 and 23.
func ParseUID[S ~string | ~[]byte](s S) (id [16]byte, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	digits := make([]byte, 0, 32)
	for _, p := range uuidParts {
		digits = append(digits, s[p[0]:p[1]]...)
	}
	_, err := hex.Decode(id[:], digits)
	text := formatUUID(id)
	return id, err == nil && string(text[:]) == string(s)
}

var uuidParts = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}} // the digits between the dashes of a uid

func formatUUID(id [16]byte) (text [36]byte) {
	rest := id[:]
	for _, p := range uuidParts {
		n := hex.Encode(text[p[0]:p[1]], rest[:(p[1]-p[0])/2])
		rest = rest[n/2:]
	}
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return text
}
