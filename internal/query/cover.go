package query

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/discovery"
	"kubejournal/internal/event"
	"kubejournal/internal/index"
	"kubejournal/internal/journal"
)

// Doubt is why an answer may be incomplete: what a stream is not known to have seen.
type Doubt struct {
	Stream string    `json:"stream"`
	From   time.Time `json:"from,omitzero"` // since when; zero: from the beginning
	To     time.Time `json:"to,omitzero"`   // until when; zero: up to now
	Reason string    `json:"reason"`
	// AsOf says that nobody asked for what came behind From: the answer is of then, and no less true for it.
	AsOf bool `json:"asOf,omitempty"`
}

// Coverage returns from when to when the streams were watched whose objects may be selected, in the order of their names.
// The error says why nothing is known, as coverage.Read's does.
func (j *Journal) Coverage(s *Selection) ([]coverage.Stream, error) {
	streams, err := j.coverageOf()
	if err != nil {
		return nil, err
	}
	var all []coverage.Stream
	for _, c := range streams {
		if s.mayHave(c.Name) {
			all = append(all, c)
		}
	}
	return all, nil
}

// OneResource reports whether all objects that may be selected are known to be of one resource.
func (j *Journal) OneResource(s *Selection) bool {
	streams, err := j.Coverage(s)
	resources := make(map[string]bool)
	for _, stream := range streams {
		resource, _, _ := strings.Cut(stream.Name, "?")
		resources[resource] = true
	}
	return err == nil && len(resources) == 1
}

// Held is a stream whose entry in the config kept changes out of the journal.
type Held struct {
	Stream string
	Keys   []string // of the entry, as coverage.HoldingBack has them
	// Since is, of several replicas' journals, when one of them has last confirmed anything, if that is so long ago that a replica
	// whose journal is not named may have taken over; else zero.
	Since time.Time
}

// OfEvents reports whether the stream has Events and nothing else, and no replica's lines are missing.
func (h *Held) OfEvents() bool {
	resource, _, _ := strings.Cut(h.Stream, "?")
	return (resource == "events" || resource == "events.events.k8s.io") && h.Since.IsZero() && !slices.Contains(h.Keys, coverage.LeaderElection)
}

// HeldBack returns the streams whose objects may be selected, and whose entries have held changes back between two
// moments, each of which may be zero: an object may have been another one than its last line says. Where there is no
// coverage, nothing is known of it.
func (j *Journal) HeldBack(s *Selection, since, until Moment) (all []Held) {
	streams, _ := j.Coverage(s)
	for _, stream := range streams {
		var keys []string
		for _, in := range stream.Intervals {
			if !since.Time.After(in.To) && (until.Time.IsZero() || !until.Time.Before(in.From)) {
				keys = append(keys, in.HeldBack...)
			} else if slices.Contains(in.HeldBack, coverage.LeaderElection) {
				keys = append(keys, coverage.LeaderElection) // another replica wrote whenever this one did not
			}
		}
		held := Held{Stream: stream.Name}
		_, shard := discovery.CutShard(stream.Name)
		if last := j.confirmed[shard]; last.over() {
			held.Since = last.at
		}
		if len(keys) > 0 || !held.Since.IsZero() {
			slices.Sort(keys)
			held.Keys = slices.Compact(keys)
			all = append(all, held)
		}
	}
	return all
}

// coverageOf returns the coverage of all streams. The coverage file is read once.
func (j *Journal) coverageOf() ([]coverage.Stream, error) {
	if j.record != nil {
		segments := make([]journal.Segment, len(j.segments))
		for i, s := range j.segments {
			segments[i] = s.Segment
		}
		j.coverage, j.uncovered = j.record.Streams(segments)
		j.record = nil
	}
	if errors.Is(j.uncovered, fs.ErrNotExist) {
		j.uncovered = errNoCoverage
	}
	return j.coverage, j.uncovered
}

var errNoCoverage = errors.New("the journal has no coverage file, so nothing says from when to when streams were watched")

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
		return named || isNamespaces(group, plural)
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

// NotConfirmed is why a stream is not known to have been followed any more where the daemon has said no reason.
const NotConfirmed = "not confirmed any further"

// at returns how a stream was covered at a time: the interval that holds it, nil where none does; and the doubt then. Of an
// open end it returns the last interval, and as of when that is.
func at(intervals []coverage.Interval, stream string, m Moment) (*coverage.Interval, *Doubt) {
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
	if last := len(intervals) - 1; m.open && last >= 0 {
		doubt.AsOf = true
		return &intervals[last], doubt
	}
	return nil, doubt
}

// wider reports whether every selected object that a stream has is in another one too, by their names.
func wider(s *Selection, other, stream string) bool {
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
	if errA != nil || errB != nil || len(a) != 1 || !a.Has("namespace") {
		return false
	}
	// Of a stream of all namespaces only those count that are asked for.
	within := slices.Equal(slices.Compact(slices.Clone(s.Namespaces)), []string{a.Get("namespace")})
	return b.Get("namespace") == a.Get("namespace") || !b.Has("namespace") && within
}

// cut is a moment, and how it divides the lines of each stream.
type cut struct {
	Moment
	live   map[string]bool   // streams that were followed then: the time at which a line was received counts
	gone   map[string]bool   // streams that were not watched any more then, while another one has their objects
	seqs   map[string]uint64 // of a version: the last line of each stream that counts
	doubts []Doubt
}

// cut finds out how the streams were covered at a moment.
func (j *Journal) cut(ctx context.Context, s *Selection, m Moment) (*cut, error) {
	c := &cut{Moment: m, live: map[string]bool{}, gone: map[string]bool{}, doubts: slices.Clone(s.Unwatched)}
	switch {
	case m.Version > 0:
		return c, j.cutAtVersion(ctx, s, c)
	case m.Seq > 0:
		return c, j.cutAtSeq(ctx, s, c)
	}
	if err := j.doubtClock(ctx, c); err != nil {
		return nil, err
	}
	streams, err := j.Coverage(s)
	if err != nil {
		c.doubts = append(c.doubts, uncovered(err))
		return c, nil
	}
	var doubts []*Doubt
	var now []string // covered
	late := map[string]*coverage.Interval{}
	for _, stream := range streams {
		in, doubt := at(stream.Intervals, stream.Name, m)
		if doubt != nil {
			doubts = append(doubts, doubt)
		}
		if in == nil {
			continue
		}
		now = append(now, stream.Name)
		if c.live[stream.Name] = !in.Late; in.Late {
			late[stream.Name] = in
		}
	}
	for _, doubt := range doubts {
		others := slices.DeleteFunc(slices.Clone(now), func(other string) bool {
			return slices.ContainsFunc(doubts, func(d *Doubt) bool { return d.Stream == other })
		})
		if c.gone[doubt.Stream] = elsewhere(s, doubt.Stream, others); !c.gone[doubt.Stream] {
			c.doubts = append(c.doubts, *doubt)
		}
	}
	if len(streams) == 0 {
		c.doubts = append(c.doubts, noStream)
	}
	c.doubts = append(c.doubts, missingShards(s, namesOf(streams))...)
	undated, err := j.undated(ctx, s, m, late)
	c.doubts = append(c.doubts, undated...)
	return c, err
}

var noStream = Doubt{Reason: "no stream was watched that has such objects"}

// uncovered is the doubt where no coverage can be read.
func uncovered(err error) Doubt { return Doubt{Reason: err.Error()} }

// catchingUp is how long behind the end of a late interval lines may still be received that had waited.
const catchingUp = 10 * time.Second

// undated returns a doubt for each stream that at a moment was in an interval of which the lines came late, if one of the
// selected lines that came then does not say when its change was made: it may have been before the moment or behind it.
func (j *Journal) undated(ctx context.Context, s *Selection, m Moment, late map[string]*coverage.Interval) (doubts []Doubt, err error) {
	end := time.Time{}
	for _, in := range late {
		if to := in.To.Add(catchingUp); to.After(end) {
			end = to
		}
	}
	found := map[string]bool{}
	for i := range j.segments {
		if len(late) == 0 {
			break
		}
		if outside, err := j.outside(ctx, i, m, Moment{Time: end}); err != nil {
			return nil, err
		} else if outside {
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, p := range s.picks(x) {
			name := x.Streams[p.stream].Name
			in := late[name]
			if in == nil || found[name] {
				continue
			}
			for o, err := range s.objects(x, p) {
				for n := 0; err == nil && n < len(o.Lines) && !found[name]; n++ {
					var l index.Line
					l, err = x.Line(o.Lines[n])
					found[name] = err == nil && l.Written.IsZero() && l.Time.After(m.Time) && !l.Time.After(in.To.Add(catchingUp))
				}
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
			}
		}
	}
	for name := range found {
		if in := late[name]; found[name] {
			doubts = append(doubts, Doubt{
				Stream: name, From: in.From, To: in.To, Reason: "was read later, and not every line says when its change was made",
			})
		}
	}
	slices.SortFunc(doubts, func(a, b Doubt) int { return strings.Compare(a.Stream, b.Stream) })
	return doubts, nil
}

// Uncovered returns what is not known to be in the lines between two moments, each of which may be zero: the journal's
// beginning, and now.
func (j *Journal) Uncovered(ctx context.Context, s *Selection, since, until Moment) ([]Doubt, error) {
	return again(j, func() ([]Doubt, error) { return j.uncoveredBetween(ctx, s, since, until) })
}

func (j *Journal) uncoveredBetween(ctx context.Context, s *Selection, since, until Moment) ([]Doubt, error) {
	streams, err := j.Coverage(s)
	switch {
	case err != nil:
		return []Doubt{uncovered(err)}, nil
	case len(streams) == 0:
		return []Doubt{noStream}, nil
	}
	end := until
	if until.IsZero() {
		end = EndOf(since)
	}
	doubts := append(slices.Clone(s.Unwatched), missingShards(s, namesOf(streams))...)
	for _, bound := range []*Moment{&since, &end} {
		if bound.Seq > 0 {
			if bound.Time, err = j.timeOf(ctx, bound.Seq); err != nil {
				return nil, err
			}
		}
	}
	for _, bound := range []Moment{since, end} {
		late := map[string]*coverage.Interval{}
		for _, stream := range streams {
			if in, _ := at(stream.Intervals, stream.Name, bound); in != nil && in.Late && bound.Seq == 0 {
				late[stream.Name] = in
			}
		}
		undated, err := j.undated(ctx, s, bound, late)
		if err != nil {
			return nil, err
		}
		doubts = mergeDoubts(doubts, undated)
	}
	beyond, err := j.beyond(ctx, until)
	if err != nil {
		return nil, err
	}
	doubts = append(doubts, beyond...)
	first, last, err := j.inside(ctx, since, until)
	if err != nil {
		return nil, err
	}
	lost, err := j.lost(ctx, first, last, since, until)
	if err != nil {
		return nil, err
	}
	doubts = append(doubts, lost...)
	for _, stream := range streams {
		for _, d := range holes(&stream, since, end) {
			then := end
			if !d.To.IsZero() && d.To.Before(end.Time) {
				then = Moment{Time: d.To.Add(-1)}
			}
			covered := slices.DeleteFunc(slices.Clone(streams), func(other coverage.Stream) bool {
				in, doubt := at(other.Intervals, other.Name, then)
				return in == nil || doubt != nil
			})
			if !elsewhere(s, stream.Name, namesOf(covered)) {
				doubts = append(doubts, d)
			}
		}
	}
	return j.deserved(ctx, s, doubts)
}

// deserved drops the doubts about gaps that cannot concern the one object that is asked for: it has the same uid and version
// before and after them, so it was not written in between, unless the server was restored. Nothing else is known about a gap:
// other objects may have been created and deleted in it, also where its list found no difference, and also under a name that
// the journal never had.
func (j *Journal) deserved(ctx context.Context, s *Selection, doubts []Doubt) (all []Doubt, err error) {
	if len(s.Objects) != 1 || s.Objects[0].Name == "" || s.Objects[0].name == "*" {
		return doubts, nil
	}
	for _, d := range doubts {
		stands := false
		if isGap(d.Reason) && !d.From.IsZero() && !d.To.IsZero() {
			if stands, err = j.stands(ctx, s, &d); err != nil {
				return nil, err
			}
		}
		if !stands {
			all = append(all, d)
		}
	}
	return all, nil
}

// stands reports whether the one object that is selected, of a name in a namespace or in none, has the same last line at both
// ends of a gap.
func (j *Journal) stands(ctx context.Context, s *Selection, gap *Doubt) (bool, error) {
	var last [2]uint64
	for n, at := range []time.Time{gap.From, gap.To} {
		st, err := j.stateAt(ctx, s, Moment{Time: at}, false)
		if err != nil {
			return false, err
		}
		if len(st.Items) != 1 || len(s.Namespaces) != 1 && st.Items[0].Namespace != "" {
			return false, nil // or another namespace may have had one of that name
		}
		last[n] = st.Items[0].Last.Seq
	}
	return last[0] == last[1], nil
}

// isGap reports whether a reason is that of a GAP behind which versions are those of the same history.
func isGap(reason string) bool {
	return slices.Contains([]event.GapReason{event.Expired, event.PositionRefused, event.RelistInterrupted}, event.GapReason(reason))
}

func namesOf(streams []coverage.Stream) (names []string) {
	for i := range streams {
		names = append(names, streams[i].Name)
	}
	return names
}

// holes returns the times between two moments in which changes of a stream may be missing.
func holes(stream *coverage.Stream, since, until Moment) (doubts []Doubt) {
	for i := range stream.Intervals {
		in := &stream.Intervals[i]
		if i == 0 {
			if !since.IsZero() && since.Time.Before(in.From) {
				doubts = append(doubts, Doubt{Stream: stream.Name, To: in.From, Reason: "not watched yet"})
			}
			continue
		}
		before := &stream.Intervals[i-1]
		if in.From.After(before.To) && in.From.After(since.Time) && before.To.Before(until.Time) {
			doubts = append(doubts, Doubt{Stream: stream.Name, From: before.To, To: in.From, Reason: before.End})
		}
	}
	if last := stream.Intervals[len(stream.Intervals)-1]; until.Seq == 0 && !until.Time.Before(last.To) {
		if _, doubt := at(stream.Intervals, stream.Name, until); doubt != nil {
			doubts = append(doubts, *doubt)
		}
	}
	return doubts
}

// timeOf returns when the line with that seq was received; where it is missing, the one behind it.
func (j *Journal) timeOf(ctx context.Context, seq uint64) (time.Time, error) {
	x, err := j.index(ctx, j.segmentWith(seq))
	if err != nil || x.Lines == 0 {
		return time.Time{}, err
	}
	n := sort.Search(x.Lines-1, func(n int) bool {
		l, lineErr := x.Line(n)
		err = errors.Join(err, lineErr)
		return l.Seq >= seq
	})
	l, lineErr := x.Line(n)
	return l.Time, errors.Join(err, lineErr)
}

// cutAtVersion finds out where each selected stream has a version of the server.
func (j *Journal) cutAtVersion(ctx context.Context, s *Selection, c *cut) error {
	streams, err := j.streams(ctx, s)
	if err != nil {
		return err
	}
	c.doubts = append(c.doubts, missingShards(s, streams)...)
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
	c.doubts = append(c.doubts, missingShards(s, streams)...)
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
	beyond, err := j.beyond(ctx, c.Moment)
	c.doubts = append(c.doubts, beyond...)
	return err
}

// beyond returns a doubt where a moment is a line that the journal does not have yet.
func (j *Journal) beyond(ctx context.Context, m Moment) ([]Doubt, error) {
	if m.Seq == 0 {
		return nil, nil
	}
	x, err := j.index(ctx, len(j.segments)-1)
	if err != nil || m.Seq < x.Next {
		return nil, err
	}
	return []Doubt{{Reason: fmt.Sprintf("the journal's last line is %d", x.Next-1)}}, nil
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

// clockJitter is how far the times of lines may go back without a doubt: clocks are corrected by less all the time.
const clockJitter = 5 * time.Second

// doubtClock adds a doubt where the clock was set back over a time: a line that was received after it stands before one
// of that time or earlier. Lines are selected by their times, so what they show together may never have existed at
// once.
func (j *Journal) doubtClock(ctx context.Context, c *cut) error {
	if c.latest {
		return nil
	}
	late, last := c.Time.Add(clockJitter), uint64(0) // of the last line up to that time
	for i := len(j.segments) - 1; i >= 0; i-- {
		b, err := j.bounds(ctx, i)
		if err != nil {
			return err
		}
		if last == 0 && b.oldest.After(c.Time) || last > 0 && !b.newest.After(late) {
			continue
		}
		x, err := j.index(ctx, i)
		if err != nil {
			return err
		}
		for at := x.Lines - 1; at >= 0 && (last == 0 || b.newest.After(late)); at-- {
			l, err := x.Line(at)
			if err != nil {
				return fmt.Errorf("read index: %w", err)
			}
			if last == 0 && !l.Time.After(c.Time) {
				last = l.Seq
			} else if last > 0 && l.Time.After(late) {
				c.doubts = append(c.doubts, Doubt{Reason: fmt.Sprintf(
					"the clock was set back over that time: line %d is of %s, and line %d, after it, of that time or before",
					l.Seq, Moment{Time: l.Time}, last)})
				return nil
			}
		}
	}
	return nil
}

// includes reports whether a line of a stream was written by the moment: by when it was received or, where the stream
// was not followed then, by the time at which the change was made.
func (c *cut) includes(stream string, l *index.Line) bool {
	switch {
	case c.Version > 0:
		return l.Seq <= c.seqs[stream]
	case c.Seq > 0:
		return l.Seq <= c.Seq
	}
	return c.latest || !l.Time.After(c.Time) || !c.live[stream] && l.Late() && !l.Written.After(c.Time)
}
