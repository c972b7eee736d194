package rows

import (
	"bytes"
	"fmt"
	"slices"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// appendValues appends what a field was and is.
func (c *Change) appendValues(dst []byte, how brevity) []byte {
	was, is := rawjson.Inside(c.old), rawjson.Inside(c.now)
	switch {
	case string(c.op) == "remove":
		return dst
	case c.now == nil || isCut(is) || isCut(was) || string(c.op) == "replace" && c.old == nil:
		return append(dst, " (value cut)"...)
	case string(c.op) == "add":
		if string(is) == redacted {
			return append(dst, " (redacted)"...)
		}
		return appendValue(append(dst, ' '), c.now)
	case was == nil || is == nil:
		dst = appendValue(append(dst, ' '), c.old)
		return appendValue(append(dst, "→"...), c.now)
	case string(was) == redacted && string(is) == redacted:
		return append(dst, " changed (redacted)"...)
	case bytes.Contains(was, lineEnd) || bytes.Contains(is, lineEnd):
		return appendLines(append(dst, ' '), was, is, how)
	}
	return appendStrings(append(dst, ' '), was, is, how)
}

// isCut reports whether the inside of a string marks a value that is cut.
func isCut(inside []byte) bool {
	return bytes.HasSuffix(inside, []byte("]")) && line.IsCut(rawjson.Unquote(nil, inside))
}

// redacted is what kubejournal writes in the place of a secret value.
const redacted = "REDACTED"

// appendStrings appends the insides of two strings; of long ones the beginning is left out that they share.
func appendStrings(dst, was, is []byte, how brevity) []byte {
	n, before := 0, 0
	if len(was)+len(is) > 2*maxValue || how >= briefer {
		n = alike(was, is)
	}
	if n > maxContext {
		before = n
	}
	dst = appendString(dst, was[before:], before > 0)
	return appendString(append(dst, "→"...), is[n:], n > 0)
}

// alike returns how many bytes at the beginning of two strings are not worth showing, since they are the same.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] && ' ' <= a[n] && a[n] <= '~' && a[n] != '\\' {
		n++
	}
	if n == len(a) || n == len(b) {
		n = max(n-1, 0)
	}
	if word := bytes.LastIndexAny(a[:n], "/ ,:;=@") + 1; word > n-maxValue/2 {
		n = word
	}
	if n < 2*len(terminal.Ellipsis) {
		return 0
	}
	return n
}

var lineEnd = []byte(`\n`)

// cutLine cuts the inside of a string around the end of its first line, which is an escape.
func cutLine(inside []byte) (line, rest []byte, more bool) {
	for i := 0; i < len(inside); i += 2 {
		n := bytes.IndexByte(inside[i:], '\\')
		if n < 0 {
			break
		}
		if i += n; i+1 < len(inside) && inside[i+1] == 'n' {
			return inside[:i], inside[i+2:], true
		}
	}
	return inside, nil, false
}

// appendLines appends the first line that differs between the insides of two strings, and its number.
func appendLines(dst, was, is []byte, how brevity) []byte {
	number := 1
	a, restA, moreA := cutLine(was)
	b, restB, moreB := cutLine(is)
	for ; bytes.Equal(a, b) && moreA && moreB; number++ {
		was, is = restA, restB
		a, restA, moreA = cutLine(was)
		b, restB, moreB = cutLine(is)
	}
	rest := ""
	switch {
	case bytes.Equal(a, b) && moreB: // lines were added at the end
		a, is = nil, restB
		b, restB, moreB = cutLine(is)
		number++
	case bytes.Equal(a, b) && moreA:
		b, was = nil, restA
		a, restA, moreA = cutLine(was)
		number++
	case moreB && bytes.Equal(was, restB):
		a, moreA, moreB = nil, false, false
	case moreA && bytes.Equal(restA, is):
		b, moreA, moreB = nil, false, false
	}
	if (moreA || moreB) && !bytes.Equal(restA, restB) {
		rest = " and more"
	}
	switch {
	case a == nil:
		dst = appendString(append(dst, '+'), bytes.TrimSpace(b), false)
	case b == nil:
		dst = appendString(append(dst, '-'), bytes.TrimSpace(a), false)
	default:
		dst = appendStrings(dst, bytes.TrimSpace(a), bytes.TrimSpace(b), how)
	}
	return fmt.Appendf(dst, " (line %d%s)", number, rest)
}

// appendValue appends a value in short: a string as appendString does, and of a larger object or array that it is one.
func appendValue(dst, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	switch v[0] {
	case '"':
		return appendString(dst, rawjson.Inside(v), false)
	case '{', '[':
		if len(v) > maxComplex {
			return append(append(append(dst, v[0]), terminal.Ellipsis...), v[0]+2) // } and ] are two after { and [
		}
	}
	start := len(dst)
	return terminal.CutEnd(terminal.AppendRaw(dst, v), start, maxValue)
}

// appendString appends the inside of a string: without quotes where it is one word, and no more than the beginning of a
// long one. rest says that it is the end of a longer one.
func appendString(dst, inside []byte, rest bool) []byte {
	inside = inside[:min(len(inside), maxValue*12)] // a column is at most one escape pair of 12 bytes
	start := len(dst)
	dst = append(dst, '"')
	if rest {
		dst = append(dst, terminal.Ellipsis...)
	}
	dst = terminal.AppendText(dst, inside)
	if word := dst[start+1:]; len(word) == 0 || bytes.IndexByte(word, ' ') >= 0 || bytes.IndexByte(word, ',') >= 0 ||
		bytes.Contains(word, []byte("→")) {
		return append(terminal.CutEnd(dst, start+1, maxValue), '"')
	}
	return terminal.CutEnd(slices.Delete(dst, start, start+1), start, maxValue)
}
