package merge

import (
	"bytes"
	"cmp"
	"slices"

	"kubejournal/internal/line"
)

// Order is the order in which the lines of several sources come: of sources that have streams in common, which are those of replicas,
// by term and seq; of others, as those of shards, by time. It is the same whatever the order of the sources.
type Order struct {
	team []int          // by source: one of those that are in one order with it, the same for all of them
	of   map[string]int // by stream: a source that has it
	next []int          // scratch: by team
}

const none = -1

// NewOrder returns the order of so many sources, of which nothing is known yet.
func NewOrder(sources int) *Order {
	o := &Order{team: make([]int, sources), of: make(map[string]int), next: make([]int, sources)}
	for n := range o.team {
		o.team[n] = n
	}
	return o
}

// Has says that a source has lines of a stream.
func (o *Order) Has(source int, stream string) {
	other, there := o.of[stream]
	if !there {
		o.of[stream] = source
		return
	}
	from, to := o.team[source], o.team[other]
	for n := range o.team {
		if o.team[n] == from {
			o.team[n] = to
		}
	}
}

// One reports whether all sources are in one order by term and seq, so that nothing else that they have changes it.
func (o *Order) One() bool {
	return !slices.ContainsFunc(o.team, func(team int) bool { return team != o.team[0] })
}

// teams returns the sources that are in one order by term and seq.
func (o *Order) teams() [][]int {
	all := make([][]int, len(o.team))
	for n, team := range o.team {
		all[team] = append(all[team], n)
	}
	return slices.DeleteFunc(all, func(of []int) bool { return len(of) == 0 })
}

// First returns the source whose next line comes first, or -1; line returns the next one of a source, or nil.
func (o *Order) First(line func(source int) *line.Fields) int {
	for n := range o.next {
		o.next[n] = none
	}
	for n, team := range o.team {
		if l := line(n); l != nil && (o.next[team] == none || inTurn(l, line(o.next[team])) < 0) {
			o.next[team] = n
		}
	}
	first := none
	for _, n := range o.next {
		if n != none && (first == none || inTime(line(n), line(first)) < 0) {
			first = n
		}
	}
	return first
}

// inTurn compares lines of replicas. No two have the same place, but where a source was once of others.
func inTurn(a, b *line.Fields) int {
	if c := positionOf(a).compare(positionOf(b)); c != 0 {
		return c
	}
	return inTime(a, b)
}

// inTime compares lines of which nothing but the time is in one order. Lines of the same time and version are of different streams.
func inTime(a, b *line.Fields) int {
	if c := a.Time.Compare(b.Time); c != 0 {
		return c
	}
	version := func(l *line.Fields) uint64 { return number(string(l.Text(line.ResourceVersion))) }
	return cmp.Or(cmp.Compare(version(a), version(b)), bytes.Compare(a.Text(line.Stream), b.Text(line.Stream)))
}
