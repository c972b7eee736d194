package rawjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// IsSpace reports whether c is white space between tokens.
func IsSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// TrimSpace returns b without the white space around it.
func TrimSpace(b []byte) []byte { return TrimLeft(TrimRight(b)) }

// TrimLeft returns b without leading white space.
func TrimLeft(b []byte) []byte {
	for len(b) > 0 && IsSpace(b[0]) {
		b = b[1:]
	}
	return b
}

// TrimRight returns b without the white space after it.
func TrimRight(b []byte) []byte {
	for len(b) > 0 && IsSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// Inside returns what is between the quotes of a string, nil for any other value.
func Inside(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// Text returns what the inside of a string means, as Unquote has it. It is false where an escape is faulty.
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

// Unquote appends what the inside of a string means. Half a surrogate pair, a faulty escape and a byte that is not
// UTF-8 become U+FFFD.
func Unquote(dst, inside []byte) []byte {
	for {
		plain := 0
		for plain < len(inside) && inside[plain] != '\\' && inside[plain] < utf8.RuneSelf {
			plain++
		}
		dst, inside = append(dst, inside[:plain]...), inside[plain:]
		if len(inside) == 0 {
			return dst
		}
		r, n := DecodeRune(inside)
		dst = utf8.AppendRune(dst, r)
		inside = inside[n:]
	}
}

// DecodeRune returns the first rune of the inside of a string, which is not empty, and how many bytes it takes. It is
// as lenient as Unquote.
func DecodeRune(inside []byte) (rune, int) {
	if inside[0] != '\\' {
		return utf8.DecodeRune(inside)
	}
	r, n := escape(inside)
	if n == 0 {
		return utf8.RuneError, min(len(inside), 2)
	}
	if !utf16.IsSurrogate(r) {
		return r, n
	}
	if rest := inside[n:]; len(rest) > 0 && rest[0] == '\\' {
		low, m := escape(rest)
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, n + m
		}
	}
	return utf8.RuneError, n
}

// meanings has what the byte after a backslash means, but for u.
var meanings = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape decodes the escape that s begins with, half a surrogate pair as it is. n is 0 if it is faulty.
func escape(s []byte) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	if c := meanings[s[1]]; c != 0 {
		return rune(c), 2
	}
	if s[1] != 'u' || len(s) < 6 {
		return 0, 0
	}
	u, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(u), 6
}

// badEscape returns where in the inside of a string the first faulty escape is, or -1.
func badEscape(inside []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(inside[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		_, n := escape(inside[i:])
		if n == 0 {
			return i
		}
		i += n
	}
}

// AppendEscaped appends s as the inside of a string. What is not UTF-8 becomes U+FFFD.
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

// AppendCompact appends b without the white space between its tokens. It is false where that would join two of them,
// or a string does not end.
func AppendCompact(dst, b []byte) ([]byte, bool) {
	c := NewCursor(b)
	scalar := false // the token before is a number or a literal
	for rest := c.Rest(); len(rest) > 0; rest = c.Rest() {
		token := rest[:1]
		switch rest[0] {
		case '{', '}', '[', ']', ',', ':':
			c.i++
			scalar = false
		default:
			joined := scalar
			token = c.Value()
			if scalar = rest[0] != '"'; token == nil || joined && scalar {
				return dst, false
			}
		}
		dst = append(dst, token...)
	}
	return dst, true
}
