package changes

import (
	"slices"

	"kubejournal/internal/rawjson"
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

// KeyRank returns how well a member of this name distinguishes an element of a list: Key takes the one with the lowest;
// -1 for a name that does not.
func KeyRank(name string) int { return slices.Index(identities[:], name) }
