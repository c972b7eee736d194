package line

import "strings"

// Later reports whether a is a later resourceVersion than b. Only versions of the form that KEP-5504 defines can be
// compared: decimal, without a leading zero.
func Later(a, b string) bool {
	if !isVersion(a) || !isVersion(b) {
		return false
	}
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

// VersionNumber returns a resourceVersion of that form as a number; ok is false for another one, and for more than 18
// digits.
func VersionNumber(rv []byte) (n uint64, ok bool) {
	if len(rv) == 0 || len(rv) > 18 || rv[0] == '0' {
		return 0, false
	}
	for _, c := range rv {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, true
}

func isVersion(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}
