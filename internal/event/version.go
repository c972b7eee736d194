package event

import "strings"

// Later reports whether a is a later resourceVersion than b. Only versions of the
// form that KEP-5504 defines can be compared: decimal, without a leading zero.
func Later(a, b string) bool {
	if !isVersion(a) || !isVersion(b) {
		return false
	}
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

func isVersion(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}
