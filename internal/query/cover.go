package query

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/index"
)

// Doubt is why an answer may be incomplete: what a stream is not known to have seen.
type Doubt struct {
	Stream string    `json:"stream"`
	From   time.Time `json:"from,omitzero"` // since when; zero: from the beginning
	To     time.Time `json:"to,omitzero"`   // until when; zero: up to now
	Reason string    `json:"reason"`
}

// Coverage returns from when to when the streams were watched whose objects may be selected, in the order of their names.
// The error says why nothing is known, as coverage.Read's does.
func (j *Journal) Coverage(s *Selection) ([]coverage.Stream, error) {
	if err := j.readCoverage(); err != nil {
		return nil, err
	}
	var all []coverage.Stream
	for _, c := range j.coverage {
		if s.mayHave(c.Name) {
			all = append(all, c)
		}
	}
	return all, nil
}

// readCoverage reads the coverage file once.
func (j *Journal) readCoverage() error {
	if !j.asked {
		j.asked = true
		j.coverage, j.uncovered = coverage.Read(j.path)
	}
	return j.uncovered
}

// mayHave reports whether objects of a stream may be selected, by its name: resource and group, and its scope.
func (s *Selection) mayHave(stream string) bool {
	resource, scope, _ := strings.Cut(stream, "?")
	plural, group, _ := strings.Cut(resource, ".")
	asked := len(s.Objects) == 0
	named := false
	for i := range s.Objects {
		if o := &s.Objects[i]; o.matchName(group, plural) {
			asked, named = true, named || o.name != "*"
		}
	}
	if !asked {
		return false
	}
	if len(s.Namespaces) == 0 {
		return true
	}
	if InNoNamespace([]byte(group), []byte(plural)) {
		return named
	}
	in, err := url.ParseQuery(scope)
	if err != nil || !in.Has("namespace") {
		return true
	}
	for _, namespace := range s.Namespaces {
		if in.Get("namespace") == namespace {
			return true
		}
	}
	return false
}

// at returns how a stream was covered at a time: the interval that holds it, nil where none does; and the doubt then.
func at(intervals []coverage.Interval, stream string, t time.Time) (*coverage.Interval, *Doubt) {
	doubt := &Doubt{Stream: stream, Reason: "not watched yet"}
	for i := range intervals {
		in := &intervals[i]
		if t.Before(in.From) {
			doubt.To = in.From
			if i > 0 && intervals[i-1].Differences != nil && *intervals[i-1].Differences == 0 {
				return in, nil // a GAP behind which nothing had changed
			}
			return nil, doubt
		}
		if t.Before(in.To) {
			return in, nil
		}
		doubt.From, doubt.Reason = in.To, in.End
		if in.End == "" {
			doubt.Reason = "not confirmed any further"
		}
	}
	return nil, doubt
}

// wider reports whether every object that a stream selects is selected by another one too, by their names.
func wider(other, stream string) bool {
	resource, scope, _ := strings.Cut(stream, "?")
	of, from, scoped := strings.Cut(other, "?")
	if other == stream || of != resource {
		return false
	}
	if !scoped {
		return true
	}
	a, errA := url.ParseQuery(from)
	b, errB := url.ParseQuery(scope)
	return errA == nil && errB == nil && len(a) == 1 && a.Has("namespace") && a.Get("namespace") == b.Get("namespace")
}

// cut is a moment, and how it divides the lines of each stream.
type cut struct {
	Moment
	live   map[string]bool              // streams that were followed then: the time at which a line was received counts
	missed map[string]coverage.Interval // streams that were not, and of which all was received by the interval's end
	gone   map[string]bool              // streams that were not watched any more then, while another one has their objects
	seqs   map[string]uint64            // of a version: the last line of each stream that counts
	doubts []Doubt
}

// cut finds out how the streams were covered at a moment.
func (j *Journal) cut(ctx context.Context, s *Selection, m Moment) (*cut, error) {
	c := &cut{Moment: m, live: map[string]bool{}, missed: map[string]coverage.Interval{}, gone: map[string]bool{}}
	switch {
	case m.Version > 0:
		return c, j.cutAtVersion(ctx, s, c)
	case m.Seq > 0:
		return c, j.cutAtSeq(ctx, s, c)
	}
	streams, err := j.Coverage(s)
	if err != nil {
		reason := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			reason = "the journal has no coverage file, so nothing says from when to when streams were watched"
		}
		c.doubts = append(c.doubts, Doubt{Reason: reason})
		return c, nil
	}
	var doubts []*Doubt
	now := map[string]bool{} // covered
	for _, stream := range streams {
		in, doubt := at(stream.Intervals, stream.Name, m.Time)
		if doubt != nil {
			doubts = append(doubts, doubt)
			continue
		}
		now[stream.Name] = true
		if c.live[stream.Name] = !in.Late; in.Late {
			c.missed[stream.Name] = *in
		}
	}
	for _, doubt := range doubts {
		for other := range now {
			c.gone[doubt.Stream] = c.gone[doubt.Stream] || wider(other, doubt.Stream)
		}
		if !c.gone[doubt.Stream] {
			c.doubts = append(c.doubts, *doubt)
		}
	}
	if len(streams) == 0 {
		c.doubts = append(c.doubts, Doubt{Reason: "no stream was watched that has such objects"})
	}
	return c, nil
}

// cutAtVersion finds out where each selected stream has a version of the server.
func (j *Journal) cutAtVersion(ctx context.Context, s *Selection, c *cut) error {
	streams, err := j.streams(ctx, s)
	if err != nil {
		return err
	}
	c.seqs = make(map[string]uint64)
	for _, name := range streams {
		seq, doubt, err := j.atVersion(ctx, name, c.Version)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		if c.seqs[name] = seq; doubt != nil {
			c.doubts = append(c.doubts, *doubt)
		}
	}
	return nil
}

// cutAtSeq finds out which streams have no list yet at a line, or one that is not complete behind a GAP.
func (j *Journal) cutAtSeq(ctx context.Context, s *Selection, c *cut) error {
	streams, err := j.streams(ctx, s)
	if err != nil {
		return err
	}
	for _, name := range streams {
		mark, at, err := j.markBefore(ctx, name, c.Seq)
		switch {
		case err != nil:
			return err
		case mark == 0:
			c.doubts = append(c.doubts, Doubt{Stream: name, Reason: "no list of it is complete yet"})
		case mark == index.Gap:
			c.doubts = append(c.doubts, Doubt{Stream: name, Reason: fmt.Sprintf("line %d begins a gap, which has not ended there", at)})
		}
	}
	return nil
}

// markBefore returns the last GAP or SYNCED line of a stream up to seq; 0 for none, or where a first list has begun since.
func (j *Journal) markBefore(ctx context.Context, stream string, seq uint64) (index.Type, uint64, error) {
	for i := len(j.segments) - 1; i >= 0; i-- {
		if j.segments[i].FirstSeq > seq {
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return 0, 0, err
		}
		n, there := x.Stream(stream)
		if !there {
			continue
		}
		for _, at := range slices.Backward(x.Streams[n].Starts()) {
			l, err := x.Line(at)
			switch {
			case err != nil:
				return 0, 0, fmt.Errorf("read index: %w", err)
			case l.Seq > seq:
			case l.Type != index.Gap && l.Type != index.Synced:
				return 0, 0, nil
			default:
				return l.Type, l.Seq, nil
			}
		}
	}
	return 0, 0, nil
}

// includes reports whether a line of a stream was written by the moment: by the time at which it was received or, where the
// stream was not followed then, by the time at which the change was made.
func (c *cut) includes(stream string, l *index.Line) bool {
	switch {
	case c.Version > 0:
		return l.Seq <= c.seqs[stream]
	case c.Seq > 0:
		return l.Seq <= c.Seq
	}
	return !l.Time.After(c.Time) || !c.live[stream] && !l.Written.IsZero() && !l.Written.After(c.Time)
}

// unknown reports whether a line that was received behind the moment does not say whether it was written by then.
func (c *cut) unknown(stream string, l *index.Line) bool {
	in, missed := c.missed[stream]
	return missed && !l.Dated && l.Time.After(c.Time) && !l.Time.After(in.To)
}

// received returns by when all was received that was written by the moment; zero where that is the moment itself.
func (c *cut) received() (t time.Time) {
	for _, in := range c.missed {
		if in.To.After(t) {
			t = in.To
		}
	}
	return t
}

// doubt returns why such a line of a stream is one.
func (c *cut) doubt(stream string) Doubt {
	in := c.missed[stream]
	return Doubt{Stream: stream, From: in.From, To: in.To, Reason: "lines that were received late do not say when they were written"}
}

// late reports whether lines may count that were received behind the moment.
func (c *cut) late() bool {
	for _, live := range c.live {
		if !live {
			return true
		}
	}
	return len(c.doubts) > 0
}
