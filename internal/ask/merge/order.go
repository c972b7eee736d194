package merge

import (
	"bytes"
	"cmp"
	"slices"

	"kubejournal/internal/format/line"
)

// Order is the order in which the lines of several sources are merged. Sources with streams in common, which are
// replicas, are merged by term and seq; others, such as shards, by time. The order in which the sources are given does
// not matter.
type Order struct {
	team []int          // by source: one source of its team, those in one order by term and seq
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

// inTurn compares lines of replicas. Two can have the same term and seq only where a source once belonged to other
// replicas.
func inTurn(a, b *line.Fields) int {
	if c := positionOf(a).compare(positionOf(b)); c != 0 {
		return c
	}
	return inTime(a, b)
}

// inTime compares lines that have no order but time. Lines of the same time and version are of different streams.
func inTime(a, b *line.Fields) int {
	if c := a.Time.Compare(b.Time); c != 0 {
		return c
	}
	version := func(l *line.Fields) uint64 { return number(string(l.Text(line.FieldResourceVersion))) }
	return cmp.Or(
		cmp.Compare(version(a), version(b)), bytes.Compare(a.Text(line.FieldStream), b.Text(line.FieldStream)),
	)
}
