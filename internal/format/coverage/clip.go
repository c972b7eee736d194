package coverage

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"

	"kubejournal/internal/format/segment"
)

// span is a part of time, from <= t < to.
type span struct{ from, to int64 }

// of returns the index of the segment that was active when seq was committed; -1 where that is not known.
func (c *content) of(seq uint64) int {
	n := len(c.segments) - 1
	for n >= 0 && c.segments[n].first > seq {
		n--
	}
	if n >= 0 && n+1 < len(c.segments) && c.segments[n+1].before != c.segments[n].first {
		return -1 // the record of one in between is damaged
	}
	return n
}

// present returns the parts of an interval of which all lines are in these segments: for a time these are the segment
// that was active then and those that follow it up to the one in which the interval was confirmed.
func (c *content) present(i *interval, there presence) (parts []span) {
	end := int64(math.MaxInt64)
	for n := c.of(i.seq); n >= 0; n-- {
		s := &c.segments[n]
		if !there.has(s) {
			break
		}
		if from, to := max(i.from, s.time), min(i.end(), end); from < to {
			if last := len(parts) - 1; last >= 0 && parts[last].from == to {
				parts[last].from = from
			} else {
				parts = append(parts, span{from, to})
			}
		}
		end = min(end, s.time) // the clock may have gone back
		if n > 0 && c.segments[n-1].first != s.before {
			break
		}
	}
	slices.Reverse(parts)
	return parts
}

// presentAt reports whether the segment is there in which an interval was confirmed last.
func (c *content) presentAt(i *interval, there presence) bool {
	n := c.of(i.seq)
	return n >= 0 && there.has(&c.segments[n])
}

// presentSince reports whether all segments are there from the one that was active when an interval began.
func (c *content) presentSince(i *interval, there presence) bool {
	instant := *i
	instant.to, instant.pulse = i.from+1, 0
	return len(c.present(&instant, there)) > 0
}

// missing returns the first seqs of the segments that are not there or begin otherwise. Those before the oldest one
// that is there are not among them: retention removes the oldest ones first.
func (c *content) missing(there presence) (first []uint64) {
	any := false
	for i := range c.segments {
		switch s := &c.segments[i]; {
		case s.gone: // how it began is not known
		case there.has(s):
			any = true
		case any:
			first = append(first, s.first)
		}
	}
	return first
}

// presence is which segments are there.
type presence struct {
	heads map[uint64]uint32 // the checksums of their beginnings, by the seq of their first lines
	// compacted are those that others were made into: a line that is missing there is known to be, and of which
	// namespace.
	compacted []segment.Segment
}

func presenceOf(there []segment.Segment) presence {
	p := presence{heads: make(map[uint64]uint32)}
	for _, s := range there {
		if s.UpTo > 0 {
			p.compacted = append(p.compacted, s)
		} else if s.FirstSeq > 0 {
			p.heads[s.FirstSeq] = s.Head
		}
	}
	return p
}

// has reports whether a segment is there, as itself or in a compacted one.
func (p presence) has(s *segmentRecord) bool {
	head, is := p.heads[s.first]
	return !s.gone && (is && head == s.head || slices.ContainsFunc(p.compacted, func(by segment.Segment) bool {
		return by.FirstSeq <= s.first && s.first <= by.UpTo
	}))
}

// cut takes the intervals that were confirmed after the journal's last line, and reports whether there were any. What
// is left of such a stream has ended, and nothing continues it.
func (c *content) cut(last uint64) (any bool) {
	for stream, all := range c.intervals {
		before := len(all)
		all = slices.DeleteFunc(all, func(i interval) bool { return i.seq > last })
		c.intervals[stream] = all
		if len(all) == before {
			continue
		}
		any = true
		if n := len(all) - 1; n >= 0 {
			all[n].reason, all[n].since, all[n].lost = reasonNumber(Unknown), 0, true
		} else {
			delete(c.intervals, stream)
		}
	}
	return any
}

// retire takes from all intervals what lies before the journal's first segment, and the segments that are gone with it.
func (c *content) retire(there []segment.Segment) {
	is := presenceOf(there)
	first := slices.IndexFunc(c.segments, func(s segmentRecord) bool { return is.has(&s) })
	floor := int64(math.MaxInt64)
	if first >= 0 {
		floor = c.segments[first].time
	} else {
		first = len(c.segments)
	}
	c.segments = c.segments[first:]
	for stream, all := range c.intervals {
		for n := range all {
			all[n].from = max(all[n].from, floor)
		}
		if all = slices.DeleteFunc(all, func(i interval) bool { return i.void() }); len(all) > 0 {
			c.intervals[stream] = all
		} else {
			delete(c.intervals, stream)
		}
	}
}

// limitTo drops the oldest intervals where there are more than most.
func (c *content) limitTo(most int) {
	var ends []int64
	for _, all := range c.intervals {
		for _, i := range all {
			ends = append(ends, i.end())
		}
	}
	if len(ends) <= most {
		return
	}
	slices.Sort(ends)
	oldest := ends[len(ends)-most]
	for stream, all := range c.intervals {
		if all = slices.DeleteFunc(all, func(i interval) bool { return i.end() < oldest }); len(all) == 0 {
			delete(c.intervals, stream)
			continue
		}
		c.intervals[stream] = all
	}
}

// end returns the seq of the last line in the segments of a journal, or a lower one where that would have to be
// decompressed.
func end(there []segment.Segment) (last uint64, err error) {
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
			if l, lineErr := segment.NewBackward(f, info.Size()).Next(); lineErr == nil {
				last = max(last, l.Seq)
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
	}
	return last, nil
}
