package coverage

import (
	"cmp"
	"slices"
	"time"
)

// Union is the coverage of several journals together, of replicas or of shards: a time that one of them covers is
// covered, and it is late where all that cover it are. That one of them held back what another had written says nothing
// any more.
func Union(journals ...[]Stream) []Stream {
	by := make(map[string][]Interval)
	for _, streams := range journals {
		for _, s := range streams {
			for _, in := range s.Intervals {
				in.HeldBack = slices.DeleteFunc(slices.Clone(in.HeldBack), func(key string) bool {
					return key == LeaderElection
				})
				by[s.Name] = append(by[s.Name], in)
			}
		}
	}
	all := make([]Stream, 0, len(by))
	for name, intervals := range by {
		all = append(all, Stream{Name: name, Intervals: union(intervals)})
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// bound is where an interval begins or ends.
type bound struct {
	at time.Time
	by int // 1 where it begins, -1 where it ends
	of *Interval
}

// union returns intervals of which no two overlap, in order, that cover what any of the given ones covers.
func union(of []Interval) []Interval {
	var (
		bounds []bound
		last   *Interval  // of those that are empty: a list was complete, and nothing was confirmed after it
		points []Interval // those that end with a gap
	)
	for i := range of {
		in := &of[i]
		switch {
		case in.From.Before(in.To):
			bounds = append(bounds, bound{in.From, 1, in}, bound{in.To, -1, in})
			continue
		case last == nil || in.From.After(last.From):
			last = in
		}
		if isGap(reasonNumber(in.End)) {
			points = append(points, *in)
		}
	}
	slices.SortStableFunc(bounds, func(a, b bound) int { return a.at.Compare(b.at) })
	all := sweep(bounds)
	for _, p := range points { // in a hole, each is known to be apart from what is before and after it
		n, found := slices.BinarySearchFunc(all, p, func(in, p Interval) int { return in.From.Compare(p.From) })
		if !found && (n == 0 || !p.From.Before(all[n-1].To)) {
			all = slices.Insert(all, n, p)
		}
	}
	if n := len(all) - 1; last != nil && (n < 0 || last.From.After(all[n].From) && !last.From.Before(all[n].To)) {
		all = append(all, *last)
	}
	for n := range max(0, len(all)-1) {
		if all[n].End == "" && all[n].To.Before(all[n+1].From) {
			all[n].End = Unknown // that of a replica which was killed, and has not written since
		}
	}
	for i := range of {
		for n := range all {
			if len(of[i].HeldBack) > 0 && of[i].From.Before(all[n].To) && all[n].From.Before(of[i].To) {
				all[n].HeldBack = slices.Compact(slices.Sorted(slices.Values(append(all[n].HeldBack,
					of[i].HeldBack...))))
			}
		}
	}
	return all
}

// sweep goes through the bounds in their order, and returns the intervals in which at least one holds. Between two
// times the last of them is open, with To zero, exactly while any holds, and Late exactly while none does that is not.
func sweep(bounds []bound) (all []Interval) {
	var prompt, late int // how many hold
	for i := 0; i < len(bounds); {
		at := bounds[i].at
		var ended *Interval
		through := prompt + late // that hold before and after it
		for ; i < len(bounds) && bounds[i].at.Equal(at); i++ {
			b := bounds[i]
			through += min(0, b.by)
			if b.of.Late {
				late += b.by
			} else {
				prompt += b.by
			}
			if b.by < 0 && (ended == nil || ended.End == HandedOver) {
				ended = b.of
			}
		}
		n := len(all) - 1
		open := n >= 0 && all[n].To.IsZero()
		switch {
		case open && (prompt+late == 0 || through == 0 && isGap(reasonNumber(ended.End))):
			all[n].To, all[n].End, all[n].Differences = at, ended.End, ended.Differences
			if prompt+late > 0 { // the gap took no time
				all = append(all, Interval{From: at, Late: prompt == 0})
			}
		case open && all[n].Late && prompt > 0:
			all[n].To, all[n].End = at, CaughtUp
			all = append(all, Interval{From: at})
		case open && !all[n].Late && prompt == 0:
			all[n].To, all[n].End = at, Interrupted
			all = append(all, Interval{From: at, Late: true})
		case !open:
			all = append(all, Interval{From: at, Late: prompt == 0})
		}
	}
	return all
}

// Span is a time, From <= t < To.
type Span struct{ From, To time.Time }

// Late returns coverage in which these times of streams, by name, are late where they are covered.
func Late(streams []Stream, spans map[string][]Span) []Stream {
	streams = slices.Clone(streams)
	for n := range streams {
		for _, span := range spans[streams[n].Name] {
			var all []Interval
			for _, in := range streams[n].Intervals {
				from, to := latest(in.From, span.From), earliest(in.To, span.To)
				if in.Late || !from.Before(to) {
					all = append(all, in)
					continue
				}
				for _, part := range []struct {
					Span
					late bool
					end  string
				}{{Span{in.From, from}, false, Interrupted}, {Span{from, to}, true, CaughtUp},
					{Span{to, in.To}, false, ""}} {
					if part.From.Before(part.To) {
						of := in
						of.From, of.To, of.Late = part.From, part.To, part.late
						if part.To.Before(in.To) {
							of.End, of.Differences = part.end, nil
						}
						all = append(all, of)
					}
				}
			}
			streams[n].Intervals = all
		}
	}
	return streams
}

// Relisted returns coverage without what nobody can know: where the coverage of a stream, by name, has a hole in one of
// these times, at whose end a list was complete, what comes after the hole begins at that end. A replica that has read
// on meanwhile has all changes since then; but not those of the hole, of which the list shows no more than what came of
// them.
func Relisted(streams []Stream, spans map[string][]Span) []Stream {
	streams = slices.Clone(streams)
	for n := range streams {
		for _, span := range spans[streams[n].Name] {
			var all []Interval
			covered, hole := span.From, false
			for _, in := range streams[n].Intervals {
				hole = hole || in.From.After(covered)
				covered = latest(covered, in.To)
				if hole && in.From.Before(span.To) {
					if !in.To.After(span.To) {
						continue
					}
					in.From = span.To
				}
				all = append(all, in)
			}
			if len(all) == 0 {
				all = []Interval{{From: span.To, To: span.To, End: Unknown}}
			}
			streams[n].Intervals = all
		}
	}
	return streams
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
