package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// key is one key of a section of the file: its name, the type of its value and its struct tags.
type key struct {
	name string
	typ  reflect.Type
	tag  reflect.StructTag
}

// keys are the keys that a section takes.
type keys []key

// keysOf returns the keys of a section in the order of the struct.
func keysOf(t reflect.Type) keys {
	var all keys
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("mapstructure"); name != "" && name != "-" {
			all = append(all, key{name, f.Type, f.Tag})
		}
	}
	return all
}

func (ks keys) find(name string) (k key, ok bool) {
	i := slices.IndexFunc(ks, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return ks[i], true
}

// names returns the names in alphabetical order, for messages.
func (ks keys) names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.name
	}
	slices.Sort(names)
	return names
}

func (ks keys) String() string { return strings.Join(ks.names(), ", ") }

// unknown returns the message for a key that the section does not take, with what might have been meant.
func (ks keys) unknown(name string) string {
	if name == "<<" {
		return "merge keys are not supported; write the keys out"
	}
	if first, rest, dotted := strings.Cut(name, "."); dotted {
		if _, ok := ks.find(first); ok {
			return fmt.Sprintf("unknown key; write %s: {%s: ...}", first, rest)
		}
	}
	if near := nearest(name, ks.names()); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	return "unknown key; known here: " + ks.String()
}

// nearest returns the known word that is a typing error away from word, or "".
func nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", 1+min(len(word)/3, 3)
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is how many letters to add, drop, change or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
