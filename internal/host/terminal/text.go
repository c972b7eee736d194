// Package terminal makes untrusted text safe to print and fits it into columns.
package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/width"

	"kubejournal/internal/format/rawjson"
)

// Ellipsis is in the place of what was cut.
const Ellipsis = "…"

// AppendText appends what the inside of a JSON string means, printable.
func AppendText(dst, inside []byte) []byte {
	// it is what it means
	if !slices.ContainsFunc(inside, func(c byte) bool { return c < ' ' || c > '~' || c == '\\' }) {
		return append(dst, inside...)
	}
	for len(inside) > 0 {
		r, n := rawjson.DecodeRune(inside)
		dst = appendRune(dst, r)
		inside = inside[n:]
	}
	return dst
}

// AppendRaw appends bytes as they are, printable. One that is not UTF-8 is an escape.
func AppendRaw(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			dst = fmt.Appendf(dst, `\x%02x`, b[0])
		} else {
			dst = appendRune(dst, r)
		}
		b = b[n:]
	}
	return dst
}

// appendRune appends a rune, or an escape in its place where it would not show: control characters, those that turn the
// direction of text, and the like.
func appendRune(dst []byte, r rune) []byte {
	if unicode.IsGraphic(r) {
		return utf8.AppendRune(dst, r)
	}
	quoted := strconv.AppendQuoteRuneToASCII(nil, r)
	return append(dst, quoted[1:len(quoted)-1]...)
}

// Columns returns how many columns of a terminal printable text takes.
func Columns(b []byte) int {
	n := 0
	for i := 0; i < len(b); n++ {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		n += columnsOf(r) - 1
		i += size
	}
	return n
}

func columnsOf(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0 // drawn over the one before
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Head returns the longest beginning of printable text that takes at most limit columns.
func Head(b []byte, limit int) []byte {
	n := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if n += columnsOf(r); n > limit {
			return b[:i]
		}
		i += size
	}
	return b
}

// CutEnd cuts the text from start on to limit columns, its end left out.
func CutEnd(dst []byte, start, limit int) []byte {
	text := dst[start:]
	if len(text) <= limit || Columns(text) <= limit {
		return dst
	}
	if limit < 1 {
		return dst[:start]
	}
	return append(dst[:start+len(Head(text, limit-1))], Ellipsis...)
}

// CutMiddle does the same, and leaves out the middle: of a pod's name both ends are worth seeing.
func CutMiddle(dst []byte, start, limit int) []byte {
	text := dst[start:]
	all := Columns(text)
	if all <= limit || limit < 3 {
		return CutEnd(dst, start, limit)
	}
	tail := (limit - 1) / 2
	from, to := len(Head(text, limit-1-tail)), len(Head(text, all-tail))
	if Columns(text[to:]) > tail { // a wide rune is across the cut
		_, size := utf8.DecodeRune(text[to:])
		to += size
	}
	return slices.Replace(dst, start+from, start+to, []byte(Ellipsis)...)
}

// CutStart does the same, and leaves out the beginning: names of programs differ in their ends.
func CutStart(dst []byte, start, limit int) []byte {
	text := dst[start:]
	all := Columns(text)
	if all <= limit || limit < 1 {
		return CutEnd(dst, start, limit)
	}
	from := len(Head(text, all-limit+1))
	if Columns(text[from:]) >= limit { // a wide rune is across the cut
		_, size := utf8.DecodeRune(text[from:])
		from += size
	}
	return slices.Replace(dst, start, start+from, []byte(Ellipsis)...)
}

// AppendSafeJSON appends JSON with escapes in the place of what a terminal would act on. It means the same.
func AppendSafeJSON(dst, b []byte) []byte {
	for len(b) > 0 {
		harmless := 0
		for harmless < len(b) && b[harmless] >= ' ' && b[harmless] <= '~' {
			harmless++
		}
		if dst, b = append(dst, b[:harmless]...), b[harmless:]; len(b) == 0 {
			break
		}
		r, n := utf8.DecodeRune(b)
		if unicode.IsGraphic(r) { // U+FFFD too, for what is not UTF-8
			dst = utf8.AppendRune(dst, r)
		} else {
			for _, half := range utf16.AppendRune(nil, r) {
				dst = fmt.Appendf(dst, `\u%04x`, half)
			}
		}
		b = b[n:]
	}
	return dst
}

// Pad appends blanks for n columns.
func Pad(dst []byte, n int) []byte {
	const blanks = "                                "
	for ; n > len(blanks); n -= len(blanks) {
		dst = append(dst, blanks...)
	}
	return append(dst, blanks[:max(n, 0)]...)
}

// Count is a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes is a size for people, in powers of 1000.
func Bytes[N int64 | uint64 | float64](n N) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	size, unit := float64(n), 0
	for ; size >= 999.5 && unit < len(units)-1; unit++ {
		size /= 1000
	}
	if unit > 0 && size < 9.95 {
		return fmt.Sprintf("%.1f %s", size, units[unit])
	}
	return fmt.Sprintf("%.0f %s", size, units[unit])
}
