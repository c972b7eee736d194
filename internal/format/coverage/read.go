package coverage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Stream is what is known of one stream's coverage.
type Stream struct {
	Name      string     `json:"stream"`
	Intervals []Interval `json:"intervals"` // in order; no two overlap
}

// Interval is a time in which every change that the server made is in the journal. An empty one is a point: a list
// was complete then, and nothing is confirmed between it and the GAP that ended it, or yet.
type Interval struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // the first time that is not covered
	// Late says that lines about the interval came as late as at its end.
	Late bool `json:"late,omitempty"`
	// End is why it has ended: one of the constants, or the reason of a GAP. Empty while it continues, as far as the
	// file says: a daemon that was killed could not say otherwise.
	End string `json:"end,omitempty"`
	// Differences is how many objects differed after the GAP that ended it; 0 says that nothing had changed. It is nil
	// where no GAP did, and while the SYNCED that follows is not there or not known.
	Differences *int64 `json:"differences,omitempty"`
	// HeldBack are the keys of HoldingBack that the stream's entry had, for a part of the time at least: changes that
	// it did not select are not in the journal.
	HeldBack []string `json:"heldBack,omitempty"`
	// Pulsed is from when on only pulses have confirmed it; zero where there is no such part. A stalled watch takes
	// that back.
	Pulsed time.Time `json:"-"`
	// LeaseDuration is that of the replica's leader election at the interval's end; 0 is none.
	LeaseDuration time.Duration `json:"-"`
}

// Read is Load, then Streams with the segments that there are. It may be called while a daemon writes the journal, and
// reads nothing of that but the ends of its files. Where there is no coverage file, the error is fs.ErrNotExist; any
// error says that nothing is known.
func Read(path string) ([]Stream, error) {
	r, err := Load(path)
	if err != nil {
		return nil, err
	}
	segments, err := segment.List(strings.TrimSuffix(Path(path), suffix))
	if err != nil {
		return nil, fmt.Errorf("read coverage: %w", err)
	}
	return r.Streams(segments)
}

// Record is what a coverage file said when it was loaded.
type Record struct{ content *content }

// Load reads the coverage file of the journal whose active file is at path. It comes before the segments are listed, so
// that these have all lines that the record counts on.
func Load(path string) (*Record, error) {
	c, err := load(disk.OS, Path(path))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read coverage: %w", err)
		}
		return nil, fmt.Errorf("read coverage %s: %w", Path(path), err)
	}
	return &Record{c}, nil
}

// Streams returns the coverage that is left of the record with these segments, in the order of the streams' names.
func (r *Record) Streams(segments []segment.Segment) ([]Stream, error) {
	last, err := end(segments)
	if err != nil {
		return nil, fmt.Errorf("read coverage: %w", err)
	}
	r.content.cut(last)
	return r.content.streams(presenceOf(segments)), nil
}

// Missing returns the first seqs of the segments in the record that are not among these, or do not begin as they did.
// Those that retention may have removed are not among them.
func (r *Record) Missing(segments []segment.Segment) []uint64 {
	return r.content.missing(presenceOf(segments))
}

// streams returns what of the intervals is in these segments.
func (c *content) streams(there presence) []Stream {
	var all []Stream
	for stream, intervals := range c.intervals {
		s := Stream{Name: c.names[stream]}
		if s.Name == "" {
			continue // its record is damaged
		}
		goesOn := false // the last one in s.Intervals, in the next record
		for n := range intervals {
			i := &intervals[n]
			parts := c.present(i, there)
			if !i.empty() && (len(parts) == 0 || parts[0].from > i.from) {
				s.lose()
				goesOn = false
			}
			for _, part := range parts {
				s.add(part, i, goesOn)
				goesOn = i.reason == reasonNumber(continued) && part.to == i.end()
			}
			if goesOn && i.empty() { // it has ended where the next record begins
				s.Intervals[len(s.Intervals)-1].End = reasonText(i.reason)
				goesOn = i.reason == reasonNumber(continued)
			}
			last := n+1 == len(intervals)
			if !last && intervals[n+1].since == i.since {
				continue
			}
			point := i.isPoint() && c.presentSince(i, there) ||
				last && i.empty() && !isGap(i.reason) && c.presentAt(i, there)
			if point {
				s.add(span{i.from, i.from}, i, false)
			}
			if !last {
				s.endGap(i, point, intervals[n+1].differences)
			}
		}
		if len(s.Intervals) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// lose notes that lines are lost after the last interval: whatever ended it, they are missing before the next one.
func (s *Stream) lose() {
	if n := len(s.Intervals) - 1; n >= 0 {
		s.Intervals[n].End, s.Intervals[n].Differences = Lost, nil
	}
}

// endGap notes how many objects differed after the GAP that ended an interval, which may be a point. Between one
// GAP and the next nothing of the stream may be known: then they are one.
func (s *Stream) endGap(i *interval, point bool, differences int64) {
	n := len(s.Intervals) - 1
	if n < 0 || !isGap(i.reason) {
		return
	}
	switch last := &s.Intervals[n]; {
	case i.empty() && !point && last.Differences != nil:
		*last.Differences += differences
	case (point || !i.empty()) && last.End == reasonText(i.reason):
		last.Differences = new(differences)
	}
}

// add adds a part of an interval, to the last one if that continues.
func (s *Stream) add(part span, i *interval, goesOn bool) {
	from, to, end := time.Unix(0, part.from).UTC(), time.Unix(0, part.to).UTC(), reasonText(i.reason)
	switch {
	case part.to < i.end() || i.lost:
		end = Lost
	case end == continued:
		end = Unknown // unless what follows is there
	}
	var pulsed time.Time
	if part.to > i.to {
		pulsed = time.Unix(0, i.to).UTC()
	}
	if n := len(s.Intervals) - 1; goesOn && s.Intervals[n].To.Equal(from) && s.Intervals[n].Late == i.late {
		s.Intervals[n].To, s.Intervals[n].End, s.Intervals[n].Pulsed = to, end, pulsed
		s.Intervals[n].HeldBack = heldBack(i.heldBack, s.Intervals[n].HeldBack)
		s.Intervals[n].LeaseDuration = seconds(i.lease)
		return
	}
	s.Intervals = append(s.Intervals, Interval{
		From: from, To: to, Late: i.late, End: end, HeldBack: heldBack(i.heldBack, nil), Pulsed: pulsed,
		LeaseDuration: seconds(i.lease),
	})
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// heldBack returns the keys that have their bits set, and others.
func heldBack(bits byte, others []string) (keys []string) {
	for n, key := range HoldingBack {
		if bits&(1<<n) != 0 || slices.Contains(others, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
