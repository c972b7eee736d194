package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// keys are the keys that a section of the file takes, by name.
type keys map[string]reflect.StructField

func keysOf(t reflect.Type) keys {
	all := keys{}
	for f := range t.Fields() {
		if name := f.Tag.Get("mapstructure"); name != "" && name != "-" {
			all[name] = f
		}
	}
	return all
}

func (ks keys) String() string { return strings.Join(slices.Sorted(maps.Keys(ks)), ", ") }

// unknown returns the message for a key that the section does not take, with what might have been meant.
func (ks keys) unknown(name string) string {
	if name == "<<" {
		return "merge keys are not supported; write the keys out"
	}
	if first, rest, dotted := strings.Cut(name, "."); dotted {
		if _, ok := ks[first]; ok {
			return fmt.Sprintf("unknown key; write %s: {%s: ...}", first, rest)
		}
	}
	for n := range 1 + min(len(name)/3, 3) {
		for _, known := range slices.Sorted(maps.Keys(ks)) {
			if within(n, strings.ToLower(name), strings.ToLower(known)) {
				return fmt.Sprintf("unknown key; did you mean %s?", known)
			}
		}
	}
	return "unknown key; known here: " + ks.String()
}

// within reports whether adding, dropping, changing or swapping with their neighbour at most n letters leads from a to b.
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
