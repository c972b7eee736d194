package question

import (
	"slices"
	"sort"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
)

// Outage is a time in which streams were not followed. What the server kept of it was read later.
type Outage struct {
	From, To time.Time
	Streams  int
	// Reason is why the first of the streams was not followed any more, as notFollowed has them.
	Reason string
}

// notFollowed are the reasons of coverage for that.
var notFollowed = []string{coverage.Unknown, coverage.Stopped, coverage.Interrupted, coverage.Silent, coverage.Removed}

// Streams that were cut off together were not all confirmed at the same time before: it is a minute from one bookmark
// to the next, and pulses may be taken back to the last one. They are watched again within seconds of each other.
const (
	sameOutage = 75 * time.Second
	sameEnd    = 10 * time.Second
)

// Outages returns the times in which the streams were not followed that may have selected objects, in order; those of
// several streams that overlap are one, in which none of them was followed. When one began and ended is taken from all
// streams, so that it is the same whatever is asked for. Gaps are not among them: they have lines.
func (j *Journal) Outages(s *argument.Selection) []Outage {
	selected, err := j.Coverage(s)
	if err != nil {
		return nil // the answer says so
	}
	streams, _ := j.AllCoverage()
	every, all := alike(outagesOf(streams)), outagesOf(selected)
	for i, o := range all {
		first := sort.Search(len(every), func(n int) bool { return !every[n].From.Before(o.From) })
		for _, p := range every[first:] {
			if p.From.Sub(o.From) > sameOutage || !p.From.Before(o.To) {
				break
			}
			from, to := latest(all[i].From, p.From), earliest(all[i].To, p.To)
			if p.Reason == o.Reason && o.To.Sub(p.To).Abs() < sameEnd && from.Before(to) {
				all[i].From, all[i].To = from, to
			}
		}
	}
	slices.SortFunc(all, Outage.compare)
	var merged []Outage
	for _, o := range all {
		if !o.From.Before(o.To) {
			continue
		}
		if n := len(merged) - 1; n >= 0 && o.From.Before(merged[n].To) {
			// What was confirmed last of any was the end, and what was confirmed first again is the new beginning.
			merged[n].Streams++
			merged[n].From, merged[n].To = o.From, earliest(merged[n].To, o.To)
		} else {
			merged = append(merged, o)
		}
	}
	return merged
}

func (o Outage) compare(p Outage) int { return o.From.Compare(p.From) }

// alike returns one outage for all that began and ended in the same seconds for the same reason.
func alike(all []Outage) (some []Outage) {
	type seconds struct {
		from, to int64
		reason   string
	}
	at := make(map[seconds]int)
	for _, o := range all {
		is := seconds{o.From.Unix(), o.To.Unix(), o.Reason}
		n, there := at[is]
		if !there {
			at[is] = len(some)
			some = append(some, o)
			continue
		}
		some[n].From, some[n].To = latest(some[n].From, o.From), earliest(some[n].To, o.To)
	}
	slices.SortFunc(some, Outage.compare)
	return some
}

// outagesOf returns the outages of each of some streams, in order.
func outagesOf(streams []coverage.Stream) (all []Outage) {
	for _, stream := range streams {
		for i := 1; i < len(stream.Intervals); i++ {
			before, in := &stream.Intervals[i-1], &stream.Intervals[i]
			if !slices.Contains(notFollowed, before.End) {
				continue
			}
			o := Outage{From: before.To, To: in.From, Streams: 1, Reason: before.End}
			if in.Late {
				o.To = in.To
			}
			if o.To.After(o.From) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, Outage.compare)
	return all
}
