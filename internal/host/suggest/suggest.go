// Package suggest finds what a misspelt name was meant to be.
package suggest

import (
	"math"
	"strings"
)

// Near returns the candidate at the smallest edit distance from name, the first of several; "" if none is close. An
// edit adds, drops or changes a letter, or swaps two neighbours. One is allowed in a name of three letters, two in one
// of eight, three in one of twelve: more would find names that nobody meant. Parts between dots that both have do not
// count. Upper and lower case are the same.
func Near(name string, candidates []string) (near string) {
	fewest := math.MaxInt
	for _, c := range candidates {
		a, b := differing(strings.ToLower(name), strings.ToLower(c))
		for n := range min(fewest, 1+min(max(len(a)/4, min(len(a)/3, 1)), 3)) {
			if within(n, a, b) {
				near, fewest = c, n
				break
			}
		}
	}
	return near
}

// differing returns two names without the parts that both begin or end with.
func differing(a, b string) (string, string) {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for len(as) > 1 && len(bs) > 1 && as[0] == bs[0] {
		as, bs = as[1:], bs[1:]
	}
	for len(as) > 1 && len(bs) > 1 && as[len(as)-1] == bs[len(bs)-1] {
		as, bs = as[:len(as)-1], bs[:len(bs)-1]
	}
	return strings.Join(as, "."), strings.Join(bs, ".")
}

// within reports whether at most n edits lead from a to b.
func within(n int, a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= n
	case n == 0:
		return false
	case len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] && within(n-1, a[2:], b[2:]):
		return true
	}
	return within(n-1, a[1:], b) || within(n-1, a, b[1:]) || within(n-1, a[1:], b[1:])
}
