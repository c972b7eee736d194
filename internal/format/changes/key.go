package changes

import (
	"slices"

	"kubejournal/internal/format/rawjson"
)

// Key returns the value, JSON, by which an element of a list is distinguished from the others, as it is when two lists
// are compared; nil where it has none.
func Key(element []byte) []byte {
	best, value := len(identities), []byte(nil)
	for key, v := range rawjson.Members(element) {
		if v[0] == '{' || v[0] == '[' {
			continue
		}
		for k := range min(best+1, len(identities)) { // of repeated keys the last
			if string(key) == identities[k] {
				best, value = k, v
				break
			}
		}
	}
	return value
}

const longestName = 64 // bytes of an element that is its own name

// Name returns what tells an element of a list from the others: the key by which it is paired, or a scalar itself; ""
// where there is nothing.
func Name(element []byte) string {
	if len(element) == 0 || element[0] == '[' {
		return ""
	}
	value := element
	if element[0] == '{' {
		value = Key(element)
	} else if len(element) > longestName {
		return ""
	}
	if inside := rawjson.Inside(value); inside != nil {
		return string(rawjson.Unquote(nil, inside))
	}
	return string(value)
}

// KeyRank returns how well a member of this name distinguishes an element of a list: Key takes the one with the lowest;
// -1 for a name that does not.
func KeyRank(name string) int { return slices.Index(identities[:], name) }
