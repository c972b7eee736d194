package rawjson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// IsSpace reports whether c is white space between tokens.
func IsSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// TrimSpace returns b without the white space around it.
func TrimSpace(b []byte) []byte { return TrimRight(TrimLeft(b)) }

// TrimLeft returns b without the white space in front of it.
func TrimLeft(b []byte) []byte {
	for len(b) > 0 && IsSpace(b[0]) {
		b = b[1:]
	}
	return b
}

// TrimRight returns b without the white space behind it.
func TrimRight(b []byte) []byte {
	for len(b) > 0 && IsSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// Inside returns what stands between the quotes of a string, nil for any other
// value.
func Inside(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// Text returns what the inside of a string means, as Unquote has it. It is false
// where an escape is faulty.
func Text(inside []byte) (string, bool) {
	if bytes.IndexByte(inside, '\\') >= 0 {
		if badEscape(inside) >= 0 {
			return "", false
		}
	} else if utf8.Valid(inside) {
		return string(inside), true
	}
	return string(Unquote(nil, inside)), true
}

// Unquote appends what the inside of a string means. Half a surrogate pair, a
// faulty escape and a byte that is not UTF-8 become U+FFFD.
func Unquote(dst, inside []byte) []byte {
	for len(inside) > 0 {
		if c := inside[0]; c != '\\' && c < utf8.RuneSelf {
			dst = append(dst, c)
			inside = inside[1:]
			continue
		}
		r, n := DecodeRune(inside)
		dst = utf8.AppendRune(dst, r)
		inside = inside[n:]
	}
	return dst
}

// DecodeRune returns the first rune of the inside of a string, which is not empty,
// and how many bytes it takes. It is as lenient as Unquote.
func DecodeRune(inside []byte) (rune, int) {
	if inside[0] != '\\' {
		return utf8.DecodeRune(inside)
	}
	if len(inside) < 2 {
		return utf8.RuneError, 1
	}
	switch c := inside[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return utf8.RuneError, 2
	}
	r := hexRune(inside[2:])
	if r < 0 {
		return utf8.RuneError, 2
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(inside) > 7 && inside[6] == '\\' && inside[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(inside[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// badEscape returns where in the inside of a string the first faulty escape is, or
// -1.
func badEscape(inside []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(inside[i:], '\\')
		if n < 0 {
			return -1
		}
		i += n
		if i+1 == len(inside) {
			return i
		}
		switch inside[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if hexRune(inside[i+2:]) < 0 {
				return i
			}
			i += 6
		default:
			return i
		}
	}
}

// hexRune reads four hex digits, or returns -1.
func hexRune(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// AppendEscaped appends s as the inside of a string. What is not UTF-8 becomes
// U+FFFD.
func AppendEscaped(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

// AppendValid appends b with U+FFFD for each byte that is not part of UTF-8.
func AppendValid(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// AppendCompact appends b without the white space between its tokens. It is false
// where that would join two of them, or a string does not end.
func AppendCompact(dst, b []byte) ([]byte, bool) {
	gap := false // white space was dropped before what comes now
	start := len(dst)
	for i := 0; i < len(b); {
		c := b[i]
		if IsSpace(c) {
			gap = true
			i++
			continue
		}
		if gap && len(dst) > start && isScalar(c) && isScalar(dst[len(dst)-1]) {
			return dst, false
		}
		gap = false
		n := 1
		if c == '"' {
			var (
				bal Balance
				ok  bool
			)
			if n, ok = bal.Run(b[i:]); !ok {
				return dst, false
			}
		}
		dst = append(dst, b[i:i+n]...)
		i += n
	}
	return dst, true
}

// isScalar reports whether c belongs to a number or a literal.
func isScalar(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"':
		return false
	}
	return true
}
