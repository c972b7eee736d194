package coverage

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"

	"kubejournal/internal/journal"
)

// span is a part of time, from <= t < to.
type span struct{ from, to int64 }

// present returns the times whose lines are in these segments of the journal, in their order.
func (c *content) present(there []journal.Segment) []span {
	var all []span
	for n, s := range c.segments {
		if !slices.ContainsFunc(there, func(t journal.Segment) bool { return t.FirstSeq == s.first && t.Head == s.head && !s.gone }) {
			continue
		}
		end := int64(math.MaxInt64)
		if n+1 < len(c.segments) {
			next := c.segments[n+1]
			if next.before != s.first {
				continue // the record of the one that followed is damaged
			}
			end = next.time
		}
		if last := len(all) - 1; last >= 0 && all[last].to == s.time {
			all[last].to = end
		} else {
			all = append(all, span{s.time, end})
		}
	}
	return all
}

// limit returns up to when an interval counts that was committed behind the journal's last line: the beginning of the
// segment that has this line.
func (c *content) limit(last uint64) int64 {
	limit := int64(math.MinInt64)
	for _, s := range c.segments {
		if s.first <= last {
			limit = s.time
		}
	}
	return limit
}

// cut takes from all intervals what was committed behind the journal's last line, and reports whether that was any. What is
// left of such an interval has ended, and nothing continues it.
func (c *content) cut(last uint64) (any bool) {
	limit := c.limit(last)
	for stream, all := range c.intervals {
		for n := range all {
			if i := &all[n]; i.seq > last {
				any = true
				i.to, i.reason, i.since = min(i.to, limit), reasonNumber(Unknown), 0
			}
		}
		c.intervals[stream] = slices.DeleteFunc(all, func(i interval) bool { return i.empty() })
	}
	return any
}

// retire takes from all intervals what lies before the journal's first segment, and the segments that are gone with it.
func (c *content) retire(there []journal.Segment) {
	spans, floor := c.present(there), int64(math.MaxInt64)
	if len(spans) > 0 {
		floor = spans[0].from
	}
	for stream, all := range c.intervals {
		for n := range all {
			all[n].from = max(all[n].from, floor)
		}
		if all = slices.DeleteFunc(all, func(i interval) bool { return i.empty() }); len(all) > 0 {
			c.intervals[stream] = all
		} else {
			delete(c.intervals, stream)
		}
	}
	first := slices.IndexFunc(c.segments, func(s segment) bool { return s.time == floor })
	if first < 0 {
		first = len(c.segments)
	}
	c.segments = c.segments[first:]
}

// limitTo drops the oldest intervals where there are more than most.
func (c *content) limitTo(most int) {
	var ends []int64
	for _, all := range c.intervals {
		for _, i := range all {
			ends = append(ends, i.to)
		}
	}
	if len(ends) <= most {
		return
	}
	slices.Sort(ends)
	oldest := ends[len(ends)-most]
	for stream, all := range c.intervals {
		if all = slices.DeleteFunc(all, func(i interval) bool { return i.to < oldest }); len(all) == 0 {
			delete(c.intervals, stream)
			continue
		}
		c.intervals[stream] = all
	}
}

// ends returns the segments of a journal and the seq of its last line, or a lower one where that would have to be decompressed.
func ends(path string) (there []journal.Segment, last uint64, err error) {
	if there, err = journal.Segments(path); err == nil {
		last, err = lastSeq(there)
	}
	return there, last, err
}

// lastSeq is ends for segments.
func lastSeq(there []journal.Segment) (last uint64, err error) {
	for _, s := range there {
		last = max(last, s.FirstSeq)
	}
	for _, s := range there {
		if s.FirstSeq == 0 || s.Gzip || s.FirstSeq < last && !s.Active {
			continue
		}
		f, err := os.Open(s.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed or compressed since
		}
		if err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err == nil {
			if l, lineErr := journal.NewBackward(f, info.Size()).Next(); lineErr == nil {
				last = max(last, l.Seq)
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
	}
	return last, nil
}
