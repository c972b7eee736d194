package config

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

type keyType struct {
	key string
	typ reflect.Type
}

// fieldsOf goes through the keys that a section takes, in the order of the struct.
func fieldsOf(t reflect.Type) iter.Seq[keyType] {
	return func(yield func(keyType) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			key := f.Tag.Get("mapstructure")
			if key == "" || key == "-" {
				continue
			}
			if !yield(keyType{key, f.Type}) {
				return
			}
		}
	}
}

// names returns the keys in alphabetical order, for messages.
func names(keys map[string]reflect.Type) []string {
	out := make([]string, 0, len(keys))
	for k := range keys {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// unknownKey says what might have been meant.
func unknownKey(key string, known []string) string {
	if key == "<<" {
		return "merge keys are not supported; write the keys out"
	}
	if first, rest, ok := strings.Cut(key, "."); ok && slices.Contains(known, first) {
		return fmt.Sprintf("unknown key; write %s: {%s: ...}", first, rest)
	}
	if near := nearest(key, known); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	return "unknown key; known here: " + strings.Join(known, ", ")
}

// nearest returns the known word that a typing error away from word, or "".
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

// distance is the number of letters to add, drop, change or swap with their neighbour to come from a to b.
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
