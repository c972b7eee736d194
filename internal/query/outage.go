package query

import (
	"slices"
	"time"

	"kubejournal/internal/coverage"
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

// Outages returns the times in which the streams were not followed that may have selected objects, in order; those of several
// streams that overlap are one, in which none of them was followed. Gaps are not among them: they have lines.
func (j *Journal) Outages(s *Selection) []Outage {
	streams, err := j.Coverage(s)
	if err != nil {
		return nil // the answer says so
	}
	var all []Outage
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
	slices.SortFunc(all, func(a, b Outage) int { return a.From.Compare(b.From) })
	var merged []Outage
	for _, o := range all {
		if n := len(merged) - 1; n >= 0 && o.From.Before(merged[n].To) {
			// What was confirmed last of any was the end, and what was confirmed first again is the new beginning.
			merged[n].Streams++
			if merged[n].From = o.From; o.To.Before(merged[n].To) {
				merged[n].To = o.To
			}
			continue
		}
		merged = append(merged, o)
	}
	return merged
}
