package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"kubejournal/internal/event"
	"kubejournal/internal/filter"
)

// Types are those of lines about objects, in the order in which they stand in a canonical entry.
var Types = []string{"ADDED", "MODIFIED", "DELETED"}

// written checks the keys that decide which events of an entry are written, and what of them.
func (k *checker) written(r Resource) {
	k.excludeNamespaces(r)
	k.types(r)
	if r.Filter != "" {
		if _, err := filter.Compile(r.Filter); err != nil {
			k.add(r.Entry, "filter", "%v", err)
		}
	}
	if payloads := []string{PayloadObject, PayloadMetadata, PayloadNone}; !slices.Contains(payloads, r.Payload) {
		k.add(r.Entry, "payload", "%s", notOneOf(r.Payload, payloads))
	}
	for i, p := range r.IgnoreFields {
		if msg := badPath(event.Shape{Drop: []string{p}}); msg != "" {
			k.add(r.Entry, fmt.Sprintf("ignoreFields[%d]", i), "%s", strings.TrimPrefix(msg, "drop "))
		}
	}
}

func (k *checker) types(r Resource) {
	if r.Types != nil && len(r.Types) == 0 {
		k.add(r.Entry, "types", "is empty; name some of ADDED, MODIFIED and DELETED, or leave it out for all")
	}
	for i, t := range r.Types {
		field := fmt.Sprintf("types[%d]", i)
		switch upper := strings.ToUpper(t); {
		case slices.Contains(r.Types[:i], t):
			k.add(r.Entry, field, "%q stands in this list twice; keep one", t)
		case slices.Contains(Types, t):
		case slices.Contains(Types, upper):
			k.add(r.Entry, field, "%q is not a type; write %s", t, upper)
		case upper == "GAP" || upper == "SYNCED":
			k.add(r.Entry, field, "%q is about the stream and always written; write ADDED, MODIFIED or DELETED", t)
		default:
			k.add(r.Entry, field, "%s", notOneOf(t, Types))
		}
	}
}

func (k *checker) excludeNamespaces(r Resource) {
	for i, glob := range r.ExcludeNamespaces {
		field := fmt.Sprintf("excludeNamespaces[%d]", i)
		if msg := badGlob(glob); msg != "" {
			k.add(r.Entry, field, "%s", msg)
			continue
		}
		if slices.Contains(r.ExcludeNamespaces[:i], glob) {
			k.add(r.Entry, field, "%q stands in this list twice; keep one", glob)
			continue
		}
		excluded := func(namespace string) bool {
			matches, err := path.Match(glob, namespace)
			return err == nil && matches
		}
		if j := slices.IndexFunc(r.Namespaces, excluded); j >= 0 {
			k.add(r.Entry, field, "%q excludes the namespace %s, which namespaces names; keep one of the two", glob, r.Namespaces[j])
		} else if r.Namespace != "" && excluded(r.Namespace) {
			k.add(r.Entry, field, "%q excludes the namespace %s, which -n names; nothing would be written", glob, r.Namespace)
		}
	}
}

// badGlob returns what is wrong with the pattern of a namespace's name, or "".
func badGlob(glob string) string {
	const form = "; it takes names of namespaces, with * and ? in them, e.g. kube-*"
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Sprintf("%q is not a pattern: a bracket or backslash stands alone%s", glob, form)
	}
	if !matchesSomeName(glob) {
		return fmt.Sprintf("%q matches no name that a namespace can have%s", glob, form)
	}
	return ""
}

// matchesSomeName tells whether there can be a namespace that a pattern matches: lower-case letters, digits and -, which
// is neither the first nor the last, at most 63 in all. The pattern must be one that path.Match takes.
func matchesSomeName(glob string) bool {
	const edge, inside = "abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz0123456789-"
	parts := globParts(glob)
	length := 0
	for i, part := range parts {
		if part == "*" {
			continue
		}
		length++
		allowed := inside
		if i == 0 || i == len(parts)-1 {
			allowed = edge
		}
		if !strings.ContainsFunc(allowed, func(c rune) bool {
			matches, err := path.Match(part, string(c))
			return err == nil && matches
		}) {
			return false
		}
	}
	return len(parts) > 0 && length <= validation.DNS1123LabelMaxLength
}

// globParts takes a pattern apart: stars, and patterns of one character each.
func globParts(glob string) []string {
	var parts []string
	for rest := glob; rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		switch rest[0] {
		case '\\':
			_, next := utf8.DecodeRuneInString(rest[1:])
			n = 1 + next
		case '[':
			n = classLength(rest)
		}
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	return parts
}

// classLength is the length of the character class at the beginning of a pattern. A ] may stand in it behind a backslash
// only.
func classLength(pattern string) int {
	for i := 1; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return len(pattern)
}

// canonicaliseWritten brings what decides about lines into one spelling, so that an edit which changes none of it is
// seen to change nothing.
func (r *Resource) canonicaliseWritten() {
	r.Filter = strings.TrimSpace(r.Filter)
	r.ExcludeNamespaces = sorted(r.ExcludeNamespaces)
	r.IgnoreFields = sorted(r.IgnoreFields)
	slices.SortFunc(r.Types, func(a, b string) int { return slices.Index(Types, a) - slices.Index(Types, b) })
	if slices.Equal(r.Types, Types) {
		r.Types = nil
	}
	if len(r.Exclude) == 0 {
		r.Exclude = nil
	}
}

// sorted sorts a list in which order means nothing; nil where it is empty.
func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return slices.Compact(list)
}
