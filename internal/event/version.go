package event

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

// VersionNumber returns a resourceVersion of that form as a number; ok is false for
// another one, and for more than 18 digits.
func VersionNumber[S ~string | ~[]byte](rv S) (n uint64, ok bool) {
	if len(rv) > 18 || !isVersion(rv) {
		return 0, false
	}
	for i := range len(rv) {
		n = 10*n + uint64(rv[i]-'0')
	}
	return n, true
}

func isVersion[S ~string | ~[]byte](rv S) bool {
	for i := range len(rv) {
		if rv[i] < '0' || rv[i] > '9' {
			return false
		}
	}
	return len(rv) > 0 && rv[0] != '0'
}
