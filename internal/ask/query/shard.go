package query

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/format/line"
)

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

// elsewhere reports whether every selected object that a stream has is in others too, by their names.
func elsewhere(s *Selection, stream string, others []string) bool {
	name, has := unsharded(stream)
	return has.in(sharesOf(s, name, slices.DeleteFunc(slices.Clone(others), func(other string) bool { return other == stream })))
}

// missingShards returns a doubt for each resource of which the journal has not all shards.
func missingShards(s *Selection, streams []string) (doubts []Doubt) {
	shards := map[string][]string{} // by name without shard
	for _, stream := range streams {
		if name, has := unsharded(stream); has != whole {
			shards[name] = append(shards[name], line.ParseStreamName(stream).Shard)
		}
	}
	for name, there := range shards {
		if !whole.in(sharesOf(s, name, streams)) {
			slices.Sort(there)
			doubts = append(doubts, Doubt{Stream: name, Reason: fmt.Sprintf("the journal has shard %s of it", strings.Join(there, " and "))})
		}
	}
	slices.SortFunc(doubts, func(a, b Doubt) int { return strings.Compare(a.Stream, b.Stream) })
	return doubts
}
