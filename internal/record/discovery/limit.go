package discovery

import (
	"cmp"
	"fmt"
	"slices"

	"kubejournal/internal/config"
	"kubejournal/internal/format/builtin"
)

// How many streams wildcards may come to: each costs memory, and who may add an API or definitions decides how many
// there are. What a config names is not limited.
const (
	MaxOfWildcard = 1000 // of one entry
	MaxStreams    = 2000 // of all entries, those that are named included
)

// TooManyError means that a wildcard covers more than is followed.
type TooManyError struct {
	Name    string // as the user wrote it
	Covers  int    // streams
	Follows int
	Without string // one that is left out
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%q covers %d streams, and %d are followed: %s and %d more are left out; name what is needed, "+
		"or exclude what is not",
		e.Name, e.Covers, e.Follows, e.Without, e.Covers-e.Follows-1)
}

// Prefer has wildcards that cover too much keep first what follows reports, by stream name: what was followed before.
// It must be called before the resolver is shared.
func (r *Resolver) Prefer(follows func(stream string) bool) { r.follows = follows }

// limit leaves out what wildcards cover beyond MaxOfWildcard and MaxStreams, narrower ones first served. Of one entry
// those stay that were followed before, then Kubernetes' own, then as many of each group as of any other: an API with
// thousands of resources takes no room from others.
func (r *Resolver) limit(entries []config.Resource, all []Resolution) {
	room := MaxStreams
	for width := 0; width <= widest; width++ {
		for i, entry := range entries {
			if breadth(entry) != width {
				continue
			}
			of := &all[i]
			if most := max(0, min(MaxOfWildcard, room)); width > 0 && len(of.Streams) > most {
				ranked := r.ranked(of.Streams)
				of.Err = cmp.Or[error](of.Err, &TooManyError{
					Name: written(entry), Covers: len(ranked), Follows: most, Without: ranked[most].Name(),
				})
				of.Streams = ranked[:most]
			}
			room -= len(of.Streams)
		}
	}
}

// ranked returns streams in the order in which they are followed where there is not room for all.
func (r *Resolver) ranked(streams []Stream) []Stream {
	type rank struct {
		class int // 0 was followed before, 1 is Kubernetes' own
		nth   int // of its group
		Stream
	}
	ranks := make([]rank, len(streams))
	seen := make(map[string]int)
	for i, s := range streams {
		class := 2
		switch {
		case r.follows != nil && r.follows(s.Name()):
			class = 0
		case builtin.HasGroup(s.GVR.Group):
			class = 1
		}
		ranks[i] = rank{class, seen[s.GVR.Group], s}
		seen[s.GVR.Group]++
	}
	slices.SortStableFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.nth, b.nth))
	})
	ordered := make([]Stream, len(ranks))
	for i := range ranks {
		ordered[i] = ranks[i].Stream
	}
	return ordered
}
