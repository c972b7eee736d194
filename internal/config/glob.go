package config

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// badGlob returns what is wrong with the pattern of a namespace's name, or "".
func badGlob(glob string) string {
	const form = "; it takes names of namespaces, with * and ? in them, e.g. kube-*"
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Sprintf("%q is not a pattern: it has an unmatched bracket or backslash%s", glob, form)
	}
	if !matchesSomeName(glob) {
		return fmt.Sprintf("%q matches no name that a namespace can have%s", glob, form)
	}
	return ""
}

// matches reports whether a pattern that badGlob accepts matches a name.
func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// matchesSomeName reports whether a pattern that path.Match takes matches any name of a namespace: lower-case letters,
// digits and -, which is neither the first nor the last, at most 63 in all.
func matchesSomeName(glob string) bool {
	const edge = "abcdefghijklmnopqrstuvwxyz0123456789"
	parts, length := globParts(glob), 0
	for i, part := range parts {
		if part == "*" {
			continue
		}
		length++
		allowed := edge
		if i > 0 && i < len(parts)-1 {
			allowed += "-"
		}
		if !strings.ContainsFunc(allowed, func(c rune) bool { return matches(part, string(c)) }) {
			return false
		}
	}
	return len(parts) > 0 && length <= validation.DNS1123LabelMaxLength
}

// globParts splits a pattern that path.Match takes into stars and patterns of one character each: its shortest prefixes
// that are patterns.
func globParts(glob string) []string {
	var parts []string
	begin := 0
	for at := range glob + " " {
		part := glob[begin:at]
		if _, err := path.Match(part, ""); err == nil && part != "" {
			parts, begin = append(parts, part), at
		}
	}
	return parts
}
