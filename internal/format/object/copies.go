package object

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/format/rawjson"
)

// Tools leave copies of an object, or of one of its values, in its annotations. So where something of an object is
// redacted, each annotation that shows a redacted value is redacted too. What is looked for, and what is looked into,
// is described in docs/config.md, "What is redacted".

// The limits of the search. An annotation that exceeds one of them is redacted.
const (
	minValue     = 4       // a shorter value has to be all of the annotation, or stand in it between quotes
	minPart      = 16      // an annotation of so many bytes is redacted if it is a part of a value
	maxEncodings = 8       // one within the other
	maxInflated  = 4 << 20 // of one compressed text
	maxCompared  = 1 << 26 // bytes in an object, each with each value: less than 0.1 seconds
)

// copied are the annotations in which tools keep the object, or one of its values, as they last wrote it; that may
// differ from what the object has now. They are always redacted, and so are all whose names begin with one of
// lastApplied after the prefix.
var (
	copied = []string{
		"kapp.k14s.io/original", "kapp.k14s.io/original-diff", // kapp
		"objectset.rio.cattle.io/applied", // Rancher
		"openshift.io/token-secret.value", // the token that is in a .dockercfg
	}
	lastApplied = []string{"last-applied", "last-handled"} // kopf, k8s-objectmatcher, KubeVela and others
)

// isCopied reports whether an annotation holds a copy by its name.
func isCopied(key []byte) bool {
	_, name, _ := strings.Cut(string(key), "/")
	return slices.Contains(copied, string(key)) ||
		slices.ContainsFunc(lastApplied, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// copyOf reports whether an edit is of an annotation that may have a copy of what is redacted.
type copyOf uint8

const (
	noCopy copyOf = iota
	maybeCopy
	isCopy
)

// noteAnnotation notes an annotation and its value. The edits within that value begin at mark.
func (o *Object) noteAnnotation(key []byte, value span, mark int) {
	switch first := o.Raw[value.start]; {
	case first == 'n', first == '"' && len(o.edits) > mark: // null, or redacted by a path
	case first != '"', isCopied(key): // no server takes one that is not a string
		o.edits = append(o.edits[:mark], edit{value, true, isCopy})
	default:
		o.edits = append(o.edits, edit{value, true, maybeCopy})
		o.mayCopy = true
	}
}

// redactCopies decides on the annotations that were noted.
func (o *Object) redactCopies() {
	hash := o.hashRedacted()
	known := len(o.noCopy) > 0 && o.noCopy[hash>>1%mostNoCopy] == hash // the last bit is always 1
	h := hiddenValues{left: maxCompared}
	for _, e := range o.edits {
		if !known && e.redact && e.copy == noCopy {
			h.add(o, o.Raw[e.start:e.end])
		}
	}
	none := true
	left := o.edits[:0]
	for _, e := range o.edits {
		switch {
		case e.copy != maybeCopy:
			left = append(left, e)
		case !known && h.shownBy(rawjson.Unquote(nil, o.Raw[e.start+1:e.end-1])):
			left, none = append(left, e), false
		}
	}
	if o.edits = left; none && !known {
		if len(o.noCopy) == 0 {
			o.noCopy = make([]uint64, mostNoCopy)
		}
		o.noCopy[hash>>1%mostNoCopy] = hash
	}
}

// mostNoCopy is how many objects without a copy are remembered. Most writes change neither what is redacted nor an
// annotation, and the search takes several times as long as the rest of a scan.
const mostNoCopy = 1 << 12

// hashRedacted returns a hash of all that redactCopies looks at; never 0.
func (o *Object) hashRedacted() uint64 {
	hash := maphash.Bytes(copySeed, o.Name) ^ bits.RotateLeft64(maphash.Bytes(copySeed, o.Namespace), 1)
	for _, e := range o.edits {
		if e.redact {
			hash = (hash ^ maphash.Bytes(copySeed, o.Raw[e.start:e.end]) + uint64(e.copy)) * 0x9e3779b97f4a7c15 // odd
		}
	}
	return hash | 1
}

var copySeed = maphash.MakeSeed()

// hiddenValues are what an annotation must not show: the redacted values of an object, without white space.
type hiddenValues struct {
	values [][]byte // at least minValue long
	short  [][]byte
	left   int // of maxCompared
}

// add adds a redacted value, as the object has it. What every line shows, the object's name and namespace, is not
// hidden, nor are numbers, true and false.
func (h *hiddenValues) add(o *Object, value []byte) {
	if value[0] == '{' || value[0] == '[' {
		h.addStrings(o, value)
		return
	}
	text := rawjson.Inside(value)
	if text == nil || string(value) == redacted { // the latter was scanned before
		return
	}
	text = rawjson.Unquote(nil, text)
	whole := squeeze(text)
	decoded, err := base64.StdEncoding.DecodeString(string(whole))
	plain := squeeze(decoded)
	switch {
	case len(whole) == 0 || o.isNamed(whole) || err == nil && o.isNamed(plain):
	case err != nil:
		h.addText(o, text, whole)
	case len(plain) == 0:
		h.addText(o, text, whole)
	case len(plain) < minValue:
		h.short = append(h.short, whole, plain)
	default:
		h.addText(o, text, whole)
		h.addText(o, decoded, plain)
	}
}

// addText adds a text, given also without white space, and what stands in it.
func (h *hiddenValues) addText(o *Object, text, squeezed []byte) {
	switch {
	case len(squeezed) == 0:
	case len(squeezed) < minValue:
		h.short = append(h.short, squeezed)
	default:
		h.values = append(h.values, squeezed)
		h.addStrings(o, text)
	}
}

// addStrings adds the strings that stand in JSON, such as the password of a registry, but not its keys.
func (h *hiddenValues) addStrings(o *Object, text []byte) {
	text = rawjson.TrimSpace(text)
	var value any
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || json.Unmarshal(text, &value) != nil {
		return
	}
	h.addLeaves(o, value)
}

func (h *hiddenValues) addLeaves(o *Object, value any) {
	switch v := value.(type) {
	case string:
		if s := squeeze([]byte(v)); len(s) >= minValue && !o.isNamed(s) {
			h.values = append(h.values, s)
		}
	case []any:
		for _, e := range v {
			h.addLeaves(o, e)
		}
	case map[string]any:
		for _, e := range v {
			h.addLeaves(o, e)
		}
	}
}

// isNamed reports whether a text is the object's name or namespace.
func (o *Object) isNamed(text []byte) bool {
	return bytes.Equal(text, o.Name) || bytes.Equal(text, o.Namespace)
}

// shownBy reports whether an annotation shows something of what is hidden.
func (h *hiddenValues) shownBy(annotation []byte) bool {
	if part := squeeze(annotation); len(part) >= minPart {
		for _, v := range h.values {
			if h.spend(len(v)) || bytes.Contains(v, part) {
				return true
			}
		}
	}
	return h.in(annotation, 0)
}

// in looks for hidden values in a text that was found inside depth encodings, and in all that may be encoded in it.
func (h *hiddenValues) in(text []byte, depth int) bool {
	if depth > maxEncodings {
		return true
	}
	if inflated, is, ok := inflate(text); is && (!ok || h.in(inflated, depth+1)) {
		return true
	}
	text = squeeze(text)
	const call = 256 // what a short text costs beside its bytes
	if h.spend((len(text)+call)*(len(h.values)+len(h.short)+1)) || copiesObject(text) {
		return true
	}
	if h.shows(text) {
		return true
	}
	if bytes.IndexByte(text, '\\') >= 0 && h.in(rawjson.Unquote(nil, text), depth+1) {
		return true
	}
	plain, escaped := unescapePercent(text)
	if escaped && h.in(plain, depth+1) {
		return true
	}
	if bytes.IndexByte(text, '+') >= 0 { // which may be a space, as in forms
		form, _ := unescapePercent(bytes.ReplaceAll(text, []byte("+"), nil))
		if h.spend(len(form)*(len(h.values)+len(h.short))) || h.shows(squeeze(form)) {
			return true
		}
	}
	return h.inHex(text, depth) || h.inBase64(text, depth)
}

// shows reports whether something of what is hidden stands in a text without white space.
func (h *hiddenValues) shows(text []byte) bool {
	for _, v := range h.values {
		if bytes.Contains(text, v) {
			return true
		}
	}
	for _, v := range h.short {
		if bytes.Equal(text, v) || bytes.Contains(text, strconv.AppendQuote(nil, string(v))) {
			return true
		}
	}
	return false
}

// inHex looks into what may be hexadecimal digits; where a piece of text has an odd number of them, without the last
// one and without the first.
func (h *hiddenValues) inHex(text []byte, depth int) bool {
	for piece := range bytes.FieldsFuncSeq(text, isNoHex) {
		for ; len(piece) >= 2*minValue; piece = piece[1:] {
			decoded, err := hex.AppendDecode(nil, piece[:len(piece)&^1])
			if err == nil && h.in(decoded, depth+1) {
				return true
			}
			if len(piece)%2 == 0 {
				break
			}
		}
	}
	return false
}

func isNoHex(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F')
}

// inBase64 looks into what may be base64, in either alphabet, with and without padding, wherever it begins in a piece
// of text.
func (h *hiddenValues) inBase64(text []byte, depth int) bool {
	shortest := 10 // the least length of a copy that is compressed, or of an object
	for _, v := range h.values {
		shortest = min(shortest, len(v))
	}
	least := base64.RawStdEncoding.EncodedLen(shortest)
	if all := bytes.TrimRight(text, "="); len(all) < least {
		least = max(len(all), 2)
	}
	for piece := range bytes.FieldsFuncSeq(text, isNoBase64) {
		piece = bytes.ReplaceAll(bytes.ReplaceAll(piece, []byte("-"), []byte("+")), []byte("_"), []byte("/"))
		for begin := range min(4, len(piece)-least+1) {
			part := piece[begin:]
			if len(part)%4 == 1 {
				part = part[:len(part)-1] // one character alone encodes no byte
			}
			decoded, err := base64.RawStdEncoding.AppendDecode(nil, part)
			if err == nil && h.in(decoded, depth+1) {
				return true
			}
		}
	}
	return false
}

func isNoBase64(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
		c != '+' && c != '/' && c != '-' && c != '_'
}

// spend reports whether too much has been compared.
func (h *hiddenValues) spend(n int) bool {
	h.left -= n
	return h.left < 0
}

// copiesObject reports whether a text without white space is or contains an object or its data, perhaps of an earlier
// version, whose values are no longer known.
func copiesObject(text []byte) bool {
	has := func(s string) bool { return bytes.Contains(text, []byte(s)) }
	return has(`"data":{`) || has("stringData") || has("apiVersion") && has("metadata")
}

// squeeze returns text without white space: base64 comes in lines, and YAML is indented.
func squeeze(text []byte) []byte {
	if !bytes.ContainsAny(text, " \t\r\n") {
		return text
	}
	squeezed := make([]byte, 0, len(text))
	for _, c := range text {
		if !rawjson.IsSpace(c) {
			squeezed = append(squeezed, c)
		}
	}
	return squeezed
}

// unescapePercent decodes the escapes of a URL. It reports whether there are any.
func unescapePercent(text []byte) (plain []byte, found bool) {
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(string(text[i+1:i+3]), 16, 8); err == nil {
				plain, found = append(plain, byte(n)), true
				i += 2
				continue
			}
		}
		plain = append(plain, text[i])
	}
	return plain, found
}

// inflate decompresses a text, which may begin with something else, as far as it can be read. is reports whether it is
// compressed; ok is false where the result is too long, or the format is not one of those read here.
func inflate(text []byte) (plain []byte, is, ok bool) {
	var from io.Reader
	var err error
	if at := bytes.Index(text, []byte("\x1f\x8b\x08")); at >= 0 {
		from, err = gzip.NewReader(bytes.NewReader(text[at:]))
	} else if at := bytes.Index(text, []byte("PK\x03\x04")); at >= 0 {
		plain, err = unzip(text[at:])
		return plain, true, err == nil
	} else if len(text) > 2 && text[0] == 'x' && binary.BigEndian.Uint16(text)%31 == 0 {
		from, err = zlib.NewReader(bytes.NewReader(text))
	} else {
		other := func(begin string) bool { return bytes.HasPrefix(text, []byte(begin)) }
		zstd, xz, bzip2, lz4 := "\x28\xb5\x2f\xfd", "\xfd7zXZ\x00", "BZh91AY&SY", "\x04\x22\x4d\x18"
		is = slices.ContainsFunc([]string{zstd, xz, bzip2, lz4}, other)
		return nil, is, false
	}
	if err != nil {
		return nil, false, false // it only begins like one
	}
	plain, _ = io.ReadAll(io.LimitReader(from, maxInflated+1)) // of a damaged one, what comes before the damage
	return plain, true, len(plain) <= maxInflated
}

// unzip returns the contents of all files of an archive.
func unzip(text []byte) (plain []byte, err error) {
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	for _, f := range archive.File {
		content, err := f.Open()
		if err != nil {
			return nil, err
		}
		part, err := io.ReadAll(io.LimitReader(content, maxInflated+1-int64(len(plain))))
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
		if plain = append(plain, part...); len(plain) > maxInflated {
			return nil, errTooLong
		}
	}
	return plain, nil
}

var errTooLong = errors.New("archive is too long")
