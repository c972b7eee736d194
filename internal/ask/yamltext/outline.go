package yamltext

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
)

// outline knows where each line of a text is, which is YAML as Append writes it: sorted keys in block style, the items
// of a list as far to the left as its key, scalars over several lines indented.
type outline struct {
	entries []entry
	within  []int32 // of each line, the entry that it is in
	items   int     // of a list at the top
}

// entry is a key or an item of a list.
type entry struct {
	parent int32  // -1 at the top
	step   string // of the path: a key; of an item its position or its name
	rank   int    // changes.KeyRank of what step names an item by
	column int    // twice where it begins, and 1 more for an item, which is in the key above it
	items  int    // so far
	scalar bool   // all lines further to the right belong to it
}

func newOutline(text []byte) *outline {
	o := &outline{}
	current := int32(-1)
	// open adds an entry to the innermost one that is further to the left.
	open := func(column int, step string, scalar bool) int32 {
		for current >= 0 && o.entries[current].column >= column {
			current = o.entries[current].parent
		}
		parent := current
		if column%2 == 1 {
			items := &o.items
			if parent >= 0 {
				items = &o.entries[parent].items
			}
			step = strconv.Itoa(*items)
			*items++
		}
		o.entries = append(
			o.entries, entry{parent: parent, step: step, rank: math.MaxInt, column: column, scalar: scalar},
		)
		current = int32(len(o.entries) - 1)
		return parent
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		rest := strings.TrimLeft(line, " ")
		column := 2 * (len(line) - len(rest))
		if current >= 0 && o.entries[current].scalar && (rest == "" || column > o.entries[current].column) {
			o.within = append(o.within, current)
			continue
		}
		within, found := int32(-1), false
		for strings.HasPrefix(rest, "- ") {
			rest = rest[2:]
			_, _, isKey := cutKey(rest)
			within, found = open(column+1, "", !isKey && !strings.HasPrefix(rest, "- ")), true
			column += 4
		}
		if key, value, ok := cutKey(rest); ok {
			within, found = open(column, key, value != ""), true
			o.name(within, key, value)
		}
		if !found { // no line of ours
			within = current
		}
		o.within = append(o.within, within)
	}
	return o
}

// name names an item of a list by one of its members, if that is the best so far.
func (o *outline) name(item int32, key, value string) {
	if item < 0 || o.entries[item].column%2 == 0 || value == "" {
		return
	}
	if e, rank := &o.entries[item], changes.KeyRank(key); rank >= 0 && rank < e.rank {
		if name := unquote(value); name != "" {
			e.rank, e.step = rank, name
		}
	}
}

// path returns the path of what a line is in, empty at the top.
func (o *outline) path(line int) string {
	if line < 0 || line >= len(o.within) {
		return ""
	}
	var steps []entry
	for at := o.within[line]; at >= 0; at = o.entries[at].parent {
		steps = append(steps, o.entries[at])
	}
	var path []byte
	for _, e := range slices.Backward(steps) {
		if e.column%2 == 1 {
			path = fieldpath.AppendElement(path, e.step)
		} else {
			path = fieldpath.AppendKey(path, e.step)
		}
	}
	return string(path)
}

// cutKey cuts a line that begins with a key.
func cutKey(line string) (key, value string, ok bool) {
	if line == "" {
		return "", "", false
	}
	end := 0
	switch quote := line[0]; quote {
	case '"', '\'':
		for end = 1; end < len(line) && line[end] != quote; end++ {
			if quote == '"' && line[end] == '\\' {
				end++
			}
		}
		end++
	default:
		if end = strings.Index(line, ": "); end < 0 {
			end = len(line) - 1
		}
	}
	if end >= len(line) || line[end] != ':' {
		return "", "", false
	}
	return unquote(line[:end]), strings.TrimPrefix(line[end+1:], " "), true
}

// unquote returns what a short scalar means, without quotes.
func unquote(scalar string) string {
	n := len(scalar)
	if n < 2 || scalar[n-1] != scalar[0] {
		return scalar
	}
	switch inside := scalar[1 : n-1]; scalar[0] {
	case '"':
		if text, err := strconv.Unquote(scalar); err == nil { // most escapes are those of Go
			return text
		}
		return inside
	case '\'':
		return strings.ReplaceAll(inside, "''", "'")
	}
	return scalar
}
