package coverage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/disk"
)

// Stream is what is known of one stream's coverage.
type Stream struct {
	Name      string     `json:"stream"`
	Intervals []Interval `json:"intervals"` // in order; no two overlap
}

// Interval is a time in which every change that the server made is in the journal.
type Interval struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // the first time that is not covered
	// Late says that lines about the interval came as late as at its end.
	Late bool `json:"late,omitempty"`
	// End is why it has ended: one of the constants, or the reason of a GAP. Empty while it goes on, as far as the file says:
	// a daemon that was killed could not say otherwise.
	End string `json:"end,omitempty"`
	// Differences is how many objects differed behind the GAP that ended it; 0 says that nothing had changed. It is nil where
	// no GAP did, and while the SYNCED that follows is not there or not known.
	Differences *int64 `json:"differences,omitempty"`
}

// Read returns the coverage of the streams in the journal whose active file is at path, in the order of their names. It may
// be called while a daemon writes it, and reads nothing of the journal but the ends of its files. Where there is no
// coverage file, as beside journals of earlier versions, the error is fs.ErrNotExist; any error says that nothing is known.
func Read(path string) ([]Stream, error) {
	c, err := load(disk.OS, Path(path))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read coverage: %w", err)
		}
		return nil, fmt.Errorf("read coverage %s: %w", Path(path), err)
	}
	// Behind it, so that the journal has all that it counts on.
	there, last, err := ends(strings.TrimSuffix(Path(path), suffix))
	if err != nil {
		return nil, fmt.Errorf("read coverage: %w", err)
	}
	c.cut(last)
	return c.streams(c.present(there)), nil
}

// streams returns what of the intervals lies in these spans.
func (c *content) streams(spans []span) []Stream {
	var all []Stream
	for stream, intervals := range c.intervals {
		s := Stream{Name: c.names[stream]}
		if s.Name == "" {
			continue // its record is damaged
		}
		end := int64(math.MaxInt64) // where a later one begins: the clock may have gone back
		for n := len(intervals) - 1; n >= 0; n-- {
			i := &intervals[n]
			if i.to = min(i.to, end); n+1 < len(intervals) && i.reason == 0 {
				i.reason = reasonNumber(Unknown)
			}
			end = min(end, i.from)
		}
		for n := range intervals {
			i := &intervals[n]
			one := Interval{Late: i.late, End: reasonText(i.reason)}
			if isGap(i.reason) && n+1 < len(intervals) && intervals[n+1].since != i.since {
				one.Differences = new(intervals[n+1].differences)
			}
			s.Intervals = append(s.Intervals, i.within(spans, one)...)
		}
		if len(s.Intervals) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// within returns the parts of an interval that lie in spans.
func (i *interval) within(spans []span, form Interval) (parts []Interval) {
	for _, s := range spans {
		from, to := max(i.from, s.from), min(i.to, s.to)
		if from >= to {
			continue
		}
		part := form
		part.From, part.To = time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
		if to < i.to {
			part.End, part.Differences = Unknown, nil
		}
		parts = append(parts, part)
	}
	return parts
}
