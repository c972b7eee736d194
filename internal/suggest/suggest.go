// Package suggest finds what a misspelt name was meant to be.
package suggest

import "strings"

// Near returns the candidate at the smallest edit distance from name, the first of several; "" if none is close. An edit
// adds, drops or changes a letter, or swaps two neighbours. One is allowed in a name of three letters, two in one of eight,
// three in one of twelve: more would find names that nobody meant. Upper and lower case are the same.
func Near(name string, candidates []string) string {
	name = strings.ToLower(name)
	for n := range 1 + min(max(len(name)/4, min(len(name)/3, 1)), 3) {
		for _, c := range candidates {
			if within(n, name, strings.ToLower(c)) {
				return c
			}
		}
	}
	return ""
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
