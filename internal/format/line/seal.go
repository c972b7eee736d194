package line

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Seal is what a SEALED line says of a rotated file: which lines it has, and their checksum. Chain is made of this one
// and the chain of the SEALED line before, so that none of these lines can be changed, or left out, without all that
// follow it.
type Seal struct {
	From, To uint64            // seqs of the first and the last line
	Size     int64             // bytes of the lines, their ends included, without compression
	Sum      [sha256.Size]byte // SHA-256 of these bytes
	Chain    string            // in hex
}

// After chains the seal to the one before, by that one's chain; "" is for the first.
func (s Seal) After(chain string) Seal {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %x\n", chain, s.From, s.To, s.Size, s.Sum))
	s.Chain = hex.EncodeToString(sum[:])
	return s
}

// SaysSealed reports whether the line is a SEALED line: it is about a file of the journal, and about no object.
func (l *Fields) SaysSealed() bool { return l.Type() == Sealed }

// Sealed returns what a SEALED line says; ok is false for any other line, and where it does not say that.
func (l *Fields) Sealed() (s Seal, ok bool) {
	if !l.SaysSealed() {
		return s, false
	}
	is := rawjson.Pick(l.values[FieldSealed], "fromSeq", "toSeq", "bytes", "sha256", "chain")
	var errs [4]error
	s.From, errs[0] = strconv.ParseUint(string(is[0]), 10, 64)
	s.To, errs[1] = strconv.ParseUint(string(is[1]), 10, 64)
	s.Size, errs[2] = strconv.ParseInt(string(is[2]), 10, 64)
	s.Chain = string(rawjson.Inside(is[4]))
	sum := rawjson.Inside(is[3])
	if len(sum) == hex.EncodedLen(len(s.Sum)) {
		_, errs[3] = hex.Decode(s.Sum[:], sum)
	} else {
		errs[3] = hex.ErrLength
	}
	return s, errors.Join(errs[:]...) == nil && s.From <= s.To
}

// Append appends the rest of a SEALED line, after its seq and term.
func (s Seal) Append(dst []byte, now time.Time, cluster string) []byte {
	dst = appendJournal(dst, Sealed, s.From, s.To, now, cluster)
	return fmt.Appendf(dst, `,"sealed":{"fromSeq":%d,"toSeq":%d,"bytes":%d,"sha256":"%x","chain":"%s"}}`+"\n",
		s.From, s.To, s.Size, s.Sum, s.Chain)
}
