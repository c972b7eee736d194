package argument

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// MayHave reports whether objects of a stream may be selected, by its name: resource and group, and its scope.
func (s *Selection) MayHave(stream string) bool {
	name := line.ParseStreamName(stream)
	plural, group, _ := strings.Cut(name.Resource, ".")
	asked := len(s.Objects) == 0
	named := false
	for i := range s.Objects {
		if o := &s.Objects[i]; o.matchName(group, plural) {
			asked, named = true, named || o.name != "*"
		}
	}
	if !asked {
		return false
	}
	if len(s.Namespaces) == 0 {
		return true
	}
	if inNoNamespace([]byte(group), []byte(plural)) {
		return named || isNamespaces(group, plural)
	}
	return name.Namespace == "" || slices.Contains(s.Namespaces, name.Namespace)
}

// MayHaveIn reports whether objects of a namespace may be selected.
func (s *Selection) MayHaveIn(namespace string) bool {
	return len(s.Namespaces) == 0 || namespace == "" || slices.Contains(s.Namespaces, namespace)
}

// wider reports whether every selected object that a stream has is in another one too, by their names.
func wider(s *Selection, other, stream string) bool {
	a, b := line.ParseStreamName(other), line.ParseStreamName(stream)
	switch {
	case a == b || a.Resource != b.Resource:
		return false
	case a == line.StreamName{Resource: a.Resource}:
		return true
	case a != line.StreamName{Resource: a.Resource, Namespace: a.Namespace} || !b.Readable():
		return false
	}
	// Of a stream of all namespaces only those count that are asked for.
	within := slices.Equal(slices.Compact(slices.Clone(s.Namespaces)), []string{a.Namespace})
	return b.Namespace == a.Namespace || b.Namespace == "" && within
}

// share is a part of a stream's objects, from and to as fractions of all. Equal fractions have equal quotients.
type share struct{ from, to float64 }

var whole = share{0, 1}

// unsharded returns a stream's name without its shard, and the share that it has of what the name says.
func unsharded(stream string) (name string, has share) {
	is := line.ParseStreamName(stream)
	index, count, _ := strings.Cut(is.Shard, "-of-")
	i, errI := strconv.ParseUint(index, 10, 16)
	n, errN := strconv.ParseUint(count, 10, 16)
	if errI != nil || errN != nil || i >= n {
		return stream, whole
	}
	return is.Whole().String(), share{float64(i) / float64(n), float64(i+1) / float64(n)}
}

// in reports whether others have all of a share.
func (s share) in(others []share) bool {
	slices.SortFunc(others, func(a, b share) int { return cmp.Compare(a.from, b.from) })
	for _, o := range others {
		if o.from <= s.from {
			s.from = max(s.from, o.to)
		}
	}
	return s.from >= s.to
}

// sharesOf returns what streams have of the selected objects that a name without a shard stands for.
func sharesOf(s *Selection, name string, streams []string) (shares []share) {
	for _, stream := range streams {
		if other, has := unsharded(stream); other == name || wider(s, other, name) {
			shares = append(shares, has)
		}
	}
	return shares
}

// Elsewhere reports whether every selected object that a stream has is in others too, by their names.
func (s *Selection) Elsewhere(stream string, others []string) bool {
	name, has := unsharded(stream)
	return has.in(
		sharesOf(s, name, slices.DeleteFunc(slices.Clone(others), func(other string) bool { return other == stream })),
	)
}

// MissingShards returns, by its name without a shard, each of some streams that has not all shards among them, with
// those that there are.
func (s *Selection) MissingShards(streams []string) map[string][]string {
	shards := map[string][]string{} // by name without shard
	for _, stream := range streams {
		if name, has := unsharded(stream); has != whole {
			shards[name] = append(shards[name], line.ParseStreamName(stream).Shard)
		}
	}
	maps.DeleteFunc(shards, func(name string, there []string) bool {
		slices.Sort(there)
		return whole.in(sharesOf(s, name, streams))
	})
	return shards
}

// Named returns a stream's resource, with its group if it has one.
func Named(s *index.Stream) string {
	if s.Group == "" {
		return s.Resource
	}
	return s.Resource + "." + s.Group
}
