package question

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Doubt is why an answer may be incomplete: what a stream is not known to have seen.
type Doubt struct {
	Stream string    `json:"stream"`
	From   time.Time `json:"from,omitzero"` // since when; zero: from the beginning
	To     time.Time `json:"to,omitzero"`   // until when; zero: up to now
	Reason string    `json:"reason"`
	// Objects are those that may be wrong, as namespace/name; none where any object may be.
	Objects []string `json:"objects,omitempty"`
	// AsOf says that nobody asked for what came after From: the answer is of then, and no less true for it.
	AsOf bool `json:"asOf,omitempty"`
}

// NotConfirmed is why a stream is not known to have been followed any more where the daemon has said no reason.
const NotConfirmed = "not confirmed any further"

// pulseAge is how long a stream that is followed may go without being confirmed: a daemon that is well does so every
// five seconds, with its next commit.
const pulseAge = coverage.Silence

var noStream = Doubt{Reason: "no stream was watched that has such objects"}

// unlisted is why a stream that has lines is not known to have all.
const unlisted = "no list of it is complete yet"

// Uncovered returns what is not known to be in the lines between two moments, each of which may be zero: the journal's
// beginning, and now.
func (j *Journal) Uncovered(ctx context.Context, s *argument.Selection, since, until argument.Moment) ([]Doubt, error) {
	return archive.Again(j.Journal, func() ([]Doubt, error) { return j.uncoveredBetween(ctx, s, since, until, 0) })
}

// uncoveredBetween is Uncovered; with a type other than 0 the question is only for the lines of it.
func (j *Journal) uncoveredBetween(
	ctx context.Context, s *argument.Selection, since, until argument.Moment, only index.Type,
) (doubts []Doubt, err error) {
	end := until
	if until.IsZero() {
		end = argument.EndOf(since)
	}
	var waiting []Doubt
	for _, bound := range []argument.Moment{since.JustBefore(), end} {
		w, err := j.waitedAt(ctx, s, bound, only)
		if err != nil {
			return nil, err
		}
		waiting = mergeDoubts(waiting, w.doubts)
	}
	for _, bound := range []*argument.Moment{&since, &end} {
		if bound.Seq > 0 {
			if bound.Time, err = j.TimeOf(ctx, bound.Seq); err != nil {
				return nil, err
			}
		}
	}
	if doubts, err = j.doubts(ctx, s, since, end, waiting); err != nil {
		return nil, err
	}
	beyond, err := j.beyond(ctx, until)
	if err == nil && len(beyond) == 0 && since.Seq > 1 {
		beyond, err = j.beyond(ctx, argument.Moment{Seq: since.Seq - 1}) // the next line may be asked for
	}
	if err != nil {
		return nil, err
	}
	gone, err := j.gone(ctx, s, since, until)
	return slices.Concat(doubts, beyond, gone), err
}

// doubts returns what may be wrong with an answer about the selected objects between two moments, which may be the same
// one, by what is known of each stream that may have them. It is the only place that judges by coverage:
//
//	at a time                                   may be wrong
//	------------------------------------------  ------------------------------------------------------------------------
//	in an interval                              nothing
//	in a late interval, asked for as a bound    the objects of lines that came after it, do not say when the change was
//	                                            made, and stand between lines of the stream before it and after it
//	between two intervals                       every object: what came and went has no line
//	  that a GAP of the same history separates    but for those asked for by name that have the same last line before and
//	                                              after it: they were not written
//	before the first interval                   every object, if a beginning was asked for, or an end before it; else
//	                                            the answer begins there
//	after the last interval, which has ended    every object, if an end there was asked for, or a beginning; else the
//	                                            answer is as of then
//	after the last interval, which goes on      the same, once it was not confirmed for pulseAge
//	any of these, and other streams have all    nothing
//	its objects in intervals at that time
//	before a damaged coverage file was set      every object, also where no beginning was asked for and the journal
//	  aside                                       has lines from then
//	of a resource that no stream is of          every object of it
//	of a shard that no journal is of            every object of the resource
//
// waiting has the doubts about late intervals.
func (j *Journal) doubts(
	ctx context.Context, s *argument.Selection, since, until argument.Moment, waiting []Doubt,
) ([]Doubt, error) {
	streams, err := j.Coverage(s)
	switch {
	case err != nil:
		return []Doubt{unknownCoverage(err)}, nil
	case len(streams) == 0:
		return j.unlisted(ctx, s)
	}
	doubts := slices.Concat(incomplete(s, namesOf(streams)), waiting, j.forgotten(since))
	for i := range streams {
		for _, d := range holes(&streams[i], since, until) {
			from, to := since, until
			if !d.From.IsZero() && d.From.After(since.Time) {
				from = argument.Moment{Time: d.From}
			}
			if !d.To.IsZero() && d.To.Before(until.Time) {
				to = argument.Moment{Time: d.To.Add(-1)}
			}
			covered := slices.DeleteFunc(slices.Clone(streams), func(other coverage.Stream) bool {
				return len(holes(&other, from, to)) > 0
			})
			if s.Elsewhere(d.Stream, namesOf(covered)) {
				continue
			}
			if d, err = j.restrict(ctx, s, d); err != nil {
				return nil, err
			}
			if d.Reason != "" {
				doubts = append(doubts, d)
			}
		}
	}
	return doubts, nil
}

// at returns how a stream was covered at a time: the interval that holds it, nil where none does; and the doubt then.
// Of an open end it returns the last interval, and as of when that is.
func at(intervals []coverage.Interval, stream string, m argument.Moment) (*coverage.Interval, *Doubt) {
	doubt := &Doubt{Stream: stream, Reason: "not watched yet"}
	for i := range intervals {
		in := &intervals[i]
		if m.Time.Before(in.From) {
			doubt.To = in.From
			return nil, doubt
		}
		if m.Time.Before(in.To) || in.End == "" && time.Since(in.To) < pulseAge {
			return in, nil
		}
		doubt.From, doubt.Reason = in.To, in.End
		if in.End == "" {
			doubt.Reason = NotConfirmed
		}
	}
	if last := len(intervals) - 1; m.IsOpen() && last >= 0 {
		doubt.AsOf = true
		return &intervals[last], doubt
	}
	return nil, doubt
}

// unknownCoverage is the doubt where no coverage can be read.
func unknownCoverage(err error) Doubt { return Doubt{Reason: err.Error()} }

// doubtsAt returns what may be wrong with the state at a cut, but for lines that are lost.
func (j *Journal) doubtsAt(ctx context.Context, s *argument.Selection, c *cut) ([]Doubt, error) {
	switch {
	case c.Version > 0:
		return c.doubts, nil
	case c.Seq > 0:
		return j.doubtsAtSeq(ctx, s, c.Moment)
	}
	clock, err := j.doubtClock(ctx, c)
	if err != nil {
		return nil, err
	}
	doubts, err := j.doubts(ctx, s, c.Moment, c.Moment, c.doubts)
	return slices.Concat(clock, doubts), err
}

// NotWatched returns a doubt for each selected resource that nobody watched, and for each file that is lost: what was
// covered in it is not known.
func (j *Journal) NotWatched(s *argument.Selection) []Doubt {
	doubts := unwatched(s)
	for _, lost := range j.LostFiles() {
		doubts = append(doubts, Doubt{Reason: lost})
	}
	return doubts
}

// lost returns a doubt for each reason why lines are not there, as LostLines has them.
func (j *Journal) lost(ctx context.Context, first, last int, since, until argument.Moment) (doubts []Doubt, err error) {
	lost, err := j.LostLines(ctx, first, last, since, until)
	for _, reason := range lost {
		doubts = append(doubts, Doubt{Reason: reason})
	}
	return doubts, err
}

func unwatched(s *argument.Selection) (doubts []Doubt) {
	for _, u := range s.Unwatched {
		doubts = append(doubts, Doubt{Reason: u.Text})
	}
	return doubts
}

// incomplete returns a doubt for each resource that nobody watched, and for each of which some streams do not have all
// shards.
func incomplete(s *argument.Selection, streams []string) (doubts []Doubt) {
	doubts = unwatched(s)
	shards := s.MissingShards(streams)
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		there := strings.Join(shards[name], " and ")
		doubts = append(doubts, Doubt{Stream: name, Reason: fmt.Sprintf("the journal has shard %s of it", there)})
	}
	return doubts
}

// unlisted returns the doubt where no stream has been covered at any time that has such objects.
func (j *Journal) unlisted(ctx context.Context, s *argument.Selection) (doubts []Doubt, err error) {
	streams, err := j.StreamNames(ctx, s)
	for _, name := range streams {
		doubts = append(doubts, Doubt{Stream: name, Reason: unlisted})
	}
	if len(doubts) == 0 {
		doubts = []Doubt{noStream}
	}
	return doubts, err
}

// doubtsAtSeq returns a doubt for each stream that has no list yet at a line, or one that is not complete after a GAP.
func (j *Journal) doubtsAtSeq(ctx context.Context, s *argument.Selection, m argument.Moment) ([]Doubt, error) {
	streams, err := j.StreamNames(ctx, s)
	if err != nil {
		return nil, err
	}
	doubts := incomplete(s, streams)
	for _, name := range streams {
		mark, at, err := j.MarkBefore(ctx, name, m.Seq)
		switch {
		case err != nil:
			return nil, err
		case mark == 0:
			doubts = append(doubts, Doubt{Stream: name, Reason: unlisted})
		case mark == index.Gap:
			doubts = append(
				doubts, Doubt{Stream: name, Reason: fmt.Sprintf("line %d begins a gap, which has not ended there", at)},
			)
		}
	}
	beyond, err := j.beyond(ctx, m)
	return slices.Concat(doubts, beyond), err
}

// restrict returns a doubt about a gap for those objects alone that may have been written in it, where all that are
// asked for are named; the zero Doubt where none of them may.
func (j *Journal) restrict(ctx context.Context, s *argument.Selection, d Doubt) (Doubt, error) {
	if !continuesHistory(d.Reason) || d.From.IsZero() || d.To.IsZero() || len(s.Objects) == 0 ||
		slices.ContainsFunc(s.Objects, func(o argument.Object) bool { return !o.IsOne() }) {
		return d, nil
	}
	namespaces := s.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, o := range s.Objects {
		for _, namespace := range namespaces {
			one := &argument.Selection{Objects: []argument.Object{o}, Namespaces: []string{namespace}, UIDs: s.UIDs}
			if len(s.Namespaces) == 0 {
				one.Namespaces = nil
			}
			if !one.MayHave(d.Stream) {
				continue
			}
			stands, err := j.stands(ctx, one, &d)
			if err != nil {
				return d, err
			}
			if !stands {
				d.Objects = append(d.Objects, place(namespace, o.Name))
			}
		}
	}
	if len(d.Objects) == 0 {
		return Doubt{}, nil
	}
	slices.Sort(d.Objects)
	d.Objects = slices.Compact(d.Objects)
	return d, nil
}

// stands reports whether the object of a name, in a namespace or in none, has the same last line at both ends of a gap.
func (j *Journal) stands(ctx context.Context, s *argument.Selection, gap *Doubt) (bool, error) {
	if len(j.Segments) == 0 { // of several journals, none of which has a line about it
		return false, nil
	}
	var last [2]uint64
	for n, at := range []time.Time{gap.From, gap.To} {
		c, err := j.cut(ctx, s, argument.Moment{Time: at})
		if err != nil {
			return false, err
		}
		if n == 1 { // with a complete list: what the stream received after that has lines, whenever it was made
			c.live[gap.Stream] = true
			delete(c.passed, gap.Stream)
		}
		st, err := j.stateAt(ctx, s, c, false)
		if err != nil {
			return false, err
		}
		if len(st.Items) != 1 || len(s.Namespaces) == 0 && st.Items[0].Namespace != "" {
			return false, nil // or another namespace may have had one of that name
		}
		last[n] = st.Items[0].Last.Seq
	}
	return last[0] == last[1], nil
}

// continuesHistory reports whether a reason is that of a GAP after which versions are those of the same history.
func continuesHistory(reason string) bool {
	return slices.Contains([]line.Reason{line.Expired, line.PositionRefused}, line.Reason(reason))
}

// holes returns the times between two moments in which changes of a stream may be missing.
func holes(stream *coverage.Stream, since, until argument.Moment) (doubts []Doubt) {
	for i := range stream.Intervals {
		in := &stream.Intervals[i]
		if i == 0 {
			begun := until // of what is asked for without a beginning, nothing was watched yet
			if !since.IsZero() {
				begun = since
			}
			if !begun.IsZero() && begun.Time.Before(in.From) {
				doubts = append(doubts, Doubt{Stream: stream.Name, To: in.From, Reason: "not watched yet"})
			}
			continue
		}
		before := &stream.Intervals[i-1]
		if in.From.After(before.To) && in.From.After(since.Time) && !before.To.After(until.Time) {
			doubts = append(doubts, Doubt{Stream: stream.Name, From: before.To, To: in.From, Reason: before.End})
		}
	}
	if last := stream.Intervals[len(stream.Intervals)-1]; until.Seq == 0 && !until.Time.Before(last.To) {
		if _, doubt := at(stream.Intervals, stream.Name, until); doubt != nil {
			// Where all that is asked for is later, nothing of it was watched.
			doubt.AsOf = doubt.AsOf && (since.IsOpen() || since.Seq > 0 || !since.Time.After(doubt.From))
			doubts = append(doubts, *doubt)
		}
	}
	return doubts
}

// beyond returns a doubt where a moment is a line that the journal does not have yet.
func (j *Journal) beyond(ctx context.Context, m argument.Moment) ([]Doubt, error) {
	if m.Seq == 0 {
		return nil, nil
	}
	x, err := j.Index(ctx, len(j.Segments)-1)
	if err != nil || m.Seq < x.Next {
		return nil, err
	}
	return []Doubt{{Reason: fmt.Sprintf("the journal's last line is %d", x.Next-1)}}, nil
}

// clockJitter is how far the times of lines may go back without a doubt: clocks are corrected by less all the time.
const clockJitter = 5 * time.Second

// doubtClock returns a doubt where the clock was set back over a time: a line that was received after it stands before
// one of that time or earlier. Lines are selected by their times, so what they show together may never have existed at
// once.
func (j *Journal) doubtClock(ctx context.Context, c *cut) ([]Doubt, error) {
	if c.IsLatest() {
		return nil, nil
	}
	late, last := c.Time.Add(clockJitter), uint64(0) // of the last line up to that time
	for i := len(j.Segments) - 1; i >= 0; i-- {
		b, err := j.Bounds(ctx, i)
		if err != nil {
			return nil, err
		}
		if last == 0 && b.Oldest.After(c.Time) || last > 0 && !b.Newest.After(late) {
			continue
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		for at := x.Lines - 1; at >= 0 && (last == 0 || b.Newest.After(late)); at-- {
			l, err := x.Line(at)
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			if last == 0 && !l.Time.After(c.Time) {
				last = l.Seq
			} else if last > 0 && l.Time.After(late) {
				return []Doubt{{Reason: fmt.Sprintf(
					"the clock was set back over that time: line %d is of %s, and line %d, after it, of that time or before",
					l.Seq, argument.Moment{Time: l.Time}, last)}}, nil
			}
		}
	}
	return nil, nil
}

// equal reports whether two doubts say the same.
func (d *Doubt) equal(o Doubt) bool {
	return d.Stream == o.Stream && d.From.Equal(o.From) && d.To.Equal(o.To) && d.Reason == o.Reason &&
		d.AsOf == o.AsOf &&
		slices.Equal(d.Objects, o.Objects)
}

// forgotten returns a doubt where a question is about a time that a damaged coverage file was about. What a question
// without a beginning is about begins with the journal's first line.
func (j *Journal) forgotten(since argument.Moment) []Doubt {
	begin := since.Time
	if begin.IsZero() && len(j.Segments) > 0 {
		begin = j.Segments[0].FirstTime
	}
	if j.Aside.At.IsZero() || begin.IsZero() || !begin.Before(j.Aside.At) {
		return nil
	}
	return []Doubt{{To: j.Aside.At, Reason: fmt.Sprintf(
		"the coverage file was damaged, and is kept as %s: what was not watched before is not known", j.Aside.Path)}}
}

// Missing returns a doubt for lines that are missing from a line on, as from between two others.
func (j *Journal) Missing(ctx context.Context, from uint64) ([]Doubt, error) {
	return archive.Again(j.Journal, func() ([]Doubt, error) {
		if j.Empty() || len(j.Segments) == 0 {
			return nil, nil
		}
		since := argument.Moment{Seq: from}
		first, last, err := j.Inside(ctx, since, argument.Moment{})
		if err != nil {
			return nil, err
		}
		return j.lost(ctx, first, last, since, argument.Moment{})
	})
}

func namesOf(streams []coverage.Stream) (names []string) {
	for i := range streams {
		names = append(names, streams[i].Name)
	}
	return names
}
