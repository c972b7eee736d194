package event

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendEscaped writes s as the inside of a JSON string. What is not UTF-8
// becomes U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
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

// appendMember writes `,"key":"value"`, or nothing for an empty value.
func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':', '"')
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

// unquote appends what the inside of a JSON string means. Half a surrogate pair
// becomes U+FFFD, and so does a byte that is not UTF-8, as in encoding/json.
// A faulty escape, which no caller that has scanned the string passes, is
// dropped.
func unquote(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			if c < utf8.RuneSelf {
				dst = append(dst, c)
				i++
				continue
			}
			r, n := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		if i+1 >= len(s) {
			break
		}
		c = s[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hexRune(s[i:])
			if r < 0 {
				continue
			}
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+1 < len(s) && s[i] == '\\' && s[i+1] == 'u' {
					low = hexRune(s[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst
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

// appendValid appends b with U+FFFD for each byte that is not part of UTF-8.
func appendValid(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// appendCompact appends b without the white space between its tokens. It is
// false where that would join two of them, or a string does not end.
func appendCompact(dst, b []byte) ([]byte, bool) {
	gap := false // white space was dropped before what comes now
	start := len(dst)
	for i := 0; i < len(b); {
		c := b[i]
		if isSpace(c) {
			gap = true
			i++
			continue
		}
		if gap && len(dst) > start && isScalar(c) && isScalar(dst[len(dst)-1]) {
			return dst, false
		}
		gap = false
		if c != '"' {
			dst = append(dst, c)
			i++
			continue
		}
		end := i + 1
		for {
			q := bytes.IndexByte(b[end:], '"')
			if q < 0 {
				return dst, false
			}
			end += q + 1
			if !escapedAt(b, end-1) {
				break
			}
		}
		dst = append(dst, b[i:end]...)
		i = end
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

// escapedAt reports whether the quote at i stands behind an odd number of
// backslashes.
func escapedAt(b []byte, i int) bool {
	n := i
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func trimLeft(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// stringValue decodes a JSON string; any other value is empty.
func stringValue(v []byte) string {
	if v[0] != '"' {
		return ""
	}
	if v = v[1 : len(v)-1]; bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return string(v)
	}
	return string(unquote(nil, v))
}
