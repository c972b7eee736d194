package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Flags of an encoded Known: how its two values are written.
const (
	flagVersionText = 1 << iota // resourceVersion as length and bytes, not as a uvarint
	flagUIDText                 // uid as the rest of the value, not as 16 bytes
	flagDoubtful                // Known.Doubtful
	flagWithheld                // Known.Withheld
)

// flagsOf are those of a Known that do not follow from its values.
func flagsOf(k *Known) (flags byte) {
	if k.Doubtful {
		flags |= flagDoubtful
	}
	if k.Withheld {
		flags |= flagWithheld
	}
	return flags
}

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
func appendKnown[S ~string | ~[]byte](dst []byte, uid, resourceVersion S) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if n, ok := parseDecimal(resourceVersion); ok {
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

func decodeKnown(key, value []byte, k *Known) error {
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

// parseDecimal parses the one way to write a number: no sign, no leading zero.
func parseDecimal[S ~string | ~[]byte](s S) (uint64, bool) {
	if len(s) == 0 || len(s) > 19 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, true
}

// ParseUID parses the form that Kubernetes gives to uids: lower-case
// hexadecimal with dashes at 8, 13, 18 and 23.
func ParseUID[S ~string | ~[]byte](s S) (id [16]byte, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	n := 0
	for _, p := range uuidParts {
		if p[0] > 0 && s[p[0]-1] != '-' {
			return id, false
		}
		for i := p[0]; i < p[1]; i += 2 {
			hi, lo := unhex(s[i]), unhex(s[i+1])
			if hi|lo > 15 {
				return id, false
			}
			id[n] = hi<<4 | lo
			n++
		}
	}
	return id, true
}

// unhex returns 255 for what is not a lower-case hexadecimal digit.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// uuidParts are the digits between the dashes of a uid.
var uuidParts = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}

func formatUUID(id [16]byte) (text [36]byte) {
	digits := hex.AppendEncode(make([]byte, 0, 32), id[:])
	for i, p := range uuidParts {
		if i > 0 {
			text[p[0]-1] = '-'
		}
		digits = digits[copy(text[p[0]:p[1]], digits):]
	}
	return text
}
