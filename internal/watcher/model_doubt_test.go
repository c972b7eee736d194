package watcher_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/test/invariant"
)

// The judge of doubts knows what the server did, and what a reader of the lines alone can know. What is answered without a doubt
// must be true. A doubt is deserved only if the same lines could also come from a history in which the answer is false.

// questions asks about random moments and times between two of them: about a resource, one object, and a name that nothing has.
func (o *oracle) questions(r *rand.Rand, sel *argument.Selection, streams []modelStream) {
	o.t.Helper()
	moment := func() time.Time {
		at := o.began.Add(time.Duration(r.Int64N(int64(time.Since(o.began)) + 1)))
		if r.IntN(2) == 0 {
			at = o.lines[r.IntN(len(o.lines))].at.Add(time.Duration(r.IntN(5)-2) * time.Second / 2)
		}
		if holes := o.holes(streams); len(holes) > 0 && r.IntN(2) == 0 {
			h := holes[r.IntN(len(holes))]
			at = h[0].Add(time.Duration(r.Int64N(int64(h[1].Sub(h[0])) + 1)))
		}
		return at
	}
	for range askedMoments {
		of, only := sel, invariant.Key{}
		if r.IntN(2) == 0 {
			of, only = o.one(r, sel, streams)
		}
		o.state(of, streams, moment(), only)
		a, b := moment(), moment()
		if b.Before(a) {
			a, b = b, a
		}
		o.between(of, streams, a, b, only)
		o.deletions(of, streams, a, b, only)
	}
}

// holes returns the times between the intervals of streams.
func (o *oracle) holes(streams []modelStream) (all [][2]time.Time) {
	for _, c := range o.covered {
		if !slices.ContainsFunc(streams, func(s modelStream) bool { return s.name == c.Name }) {
			continue
		}
		for n := 1; n < len(c.Intervals); n++ {
			if from, to := c.Intervals[n-1].To, c.Intervals[n].From; from.Before(to) {
				all = append(all, [2]time.Time{from, to})
			}
		}
	}
	return all
}

// one returns a selection of one object of a resource that was written, or of a name that nothing has.
func (o *oracle) one(r *rand.Rand, sel *argument.Selection, streams []modelStream) (*argument.Selection, invariant.Key) {
	gvr := streams[0].gvr
	var written []written
	for _, w := range o.written {
		if w.gvr == gvr {
			written = append(written, w)
		}
	}
	k := invariant.Key{Group: gvr.Group, Resource: gvr.Resource, Name: "none"}
	if len(written) > 0 {
		w := written[r.IntN(len(written))]
		if k.Namespace = w.namespace; r.IntN(5) > 0 {
			k.Name = w.name
		}
	}
	of := &argument.Selection{Objects: slices.Clone(sel.Objects)}
	of.Objects[0].Name = k.Name
	if k.Namespace != "" {
		of.Namespaces = []string{k.Namespace}
	}
	return of, k
}

// knows reports whether the server's versions and times mean what the judge takes them for.
func (o *oracle) knows() bool { return !o.restored && o.defined == 0 && !o.fault.stalled() }

// state asks for one time.
func (o *oracle) state(sel *argument.Selection, streams []modelStream, at time.Time, only invariant.Key) {
	o.t.Helper()
	st, err := o.journal.State(o.t.Context(), sel, argument.Moment{Time: at})
	must(o.t, err)
	doubted, whole := o.deserved(st.Doubts, streams, at, at, only)
	if whole || !o.knows() {
		return
	}
	modelTally.times.Add(1)
	o.truth(st, streams, func(k invariant.Key) bool {
		return (only.Name == "" || k == only) && !doubted[place(k)]
	})
}

func place(k invariant.Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// deserved checks that doubts about the time from since to until are deserved. It returns the objects that are in doubt, and
// whether all are.
func (o *oracle) deserved(
	doubts []question.Doubt, streams []modelStream, since, until time.Time, only invariant.Key,
) (objects map[string]bool, whole bool) {
	o.t.Helper()
	objects = make(map[string]bool)
	for _, d := range doubts {
		for _, object := range d.Objects {
			objects[object] = true
		}
		whole = whole || len(d.Objects) == 0 || d.Reason != question.Undated
		switch {
		case d.AsOf:
			o.t.Fatalf("from %s to %s, which are named: %+v", since, until, d)
		case d.Reason == question.Undated:
			o.undated(d, since, until)
		case d.Stream != "":
			o.uncovered(d, streams, since, until, only)
		}
	}
	return objects, whole
}

// undated checks that each object of a doubt has a line that may have been written before one of two times or after it: it came
// late, does not say when it was written, and no line before it in its stream says that it was after that time.
func (o *oracle) undated(d question.Doubt, since, until time.Time) {
	o.t.Helper()
	for _, object := range d.Objects {
		may := false
		for _, at := range []time.Time{since.Add(-1), until} {
			after := false // a line of the stream that came later was written after that time
			for _, l := range o.lines {
				if l.Stream != d.Stream || !l.at.After(at) {
					continue
				}
				written, err := time.Parse(time.RFC3339, l.WrittenAt)
				switch k := (invariant.Key{Namespace: l.Namespace, Name: l.Name}); {
				case l.Type == invariant.Gap:
					after = true
				case err == nil && l.Origin != invariant.FromSnapshot:
					after = after || written.After(at)
				case l.UID != "" && place(k) == object && !after:
					may = true
				}
			}
		}
		if !may {
			o.t.Fatalf("from %s to %s: %s has no line that came late and may be of either side: %+v", since, until, object, d)
		}
	}
}

// uncovered checks that a stream was not covered at all times from since to until, and that the one object that was asked for
// has not the same line on both sides of a gap.
func (o *oracle) uncovered(d question.Doubt, streams []modelStream, since, until time.Time, only invariant.Key) {
	o.t.Helper()
	covered := since
	for _, c := range o.covered {
		for n, i := range c.Intervals {
			if c.Name == d.Stream && !i.From.After(covered) && i.To.After(covered) {
				if covered = i.To; n == len(c.Intervals)-1 && i.End == "" && time.Since(i.To) < 10*time.Second {
					covered = time.Now().Add(time.Hour)
				}
			}
		}
	}
	if covered.After(until) {
		o.t.Fatalf("from %s to %s, which is covered: %+v", since, until, d)
	}
	same := []line.Reason{line.Expired, line.PositionRefused}
	if only.Name == "" || d.From.IsZero() || d.To.IsZero() || !slices.Contains(same, line.Reason(d.Reason)) {
		return
	}
	var before, after told
	for _, l := range o.lines {
		if l.Group != only.Group || l.Resource != only.Resource || l.Namespace != only.Namespace || l.Name != only.Name || l.UID == "" {
			continue
		}
		if !l.at.After(d.From) {
			before = l
		}
		if !l.at.After(d.To) {
			after = l
		}
	}
	if before.Line != nil && before.Seq == after.Seq && before.Type != invariant.Deleted && len(streams) == 1 {
		o.t.Fatalf("line %d is the last one about %v on both sides: %+v", before.Seq, only, d)
	}
}

// between asks what happened between two times. Each write of that time has its row and each row its write, but for what is
// in doubt.
func (o *oracle) between(sel *argument.Selection, streams []modelStream, since, until time.Time, only invariant.Key) {
	o.t.Helper()
	for _, c := range o.covered {
		for _, i := range c.Intervals {
			if since.Equal(i.From) { // the clock stands still: the lines of the list are of the same moment
				since = since.Add(1)
			}
		}
	}
	until = latest(since, until)
	from, to := argument.Moment{Time: since}, argument.Moment{Time: until}
	doubts, err := o.journal.Uncovered(o.t.Context(), sel, from, to)
	must(o.t, err)
	type row struct {
		invariant.Key
		from time.Time // not made before that, as far as the row says
	}
	rows := make(map[uint64]row) // by version
	for v, err := range o.journal.History(o.t.Context(), sel, from, to) {
		must(o.t, err)
		l := o.lines[v.Seq-1]
		found := l.Type == invariant.Deleted && l.Origin == invariant.FromRelist // its version is that of the line before
		if version, err := strconv.ParseUint(l.ResourceVersion, 10, 64); err == nil && l.UID != "" && !found && l.Origin != invariant.FromSnapshot {
			k := invariant.Key{Group: l.Group, Resource: l.Resource, Namespace: l.Namespace, Name: l.Name}
			from, err := o.journal.NotBefore(o.t.Context(), v.Fields)
			must(o.t, err)
			switch known, late := o.lateSince(l); {
			case from.IsZero() || from.After(since):
				from = o.madeAfter(l, since)
			case !late || from.Before(known):
				o.logCoverage()
				o.t.Fatalf("line %d %s is said to be made since %v", l.Seq, l.Stream, from)
			}
			rows[version] = row{k, from}
		}
	}
	doubted, whole := o.deserved(doubts, streams, since, until, only)
	if whole || !o.knows() {
		return
	}
	modelTally.windows.Add(1)
	at := make(map[uint64]time.Time)
	for _, w := range o.written {
		k := invariant.Key{Group: w.gvr.Group, Resource: w.gvr.Resource, Namespace: w.namespace, Name: w.name}
		if at[w.version] = w.at; w.gvr != streams[0].gvr || only.Name != "" && k != only || doubted[place(k)] ||
			w.at.Before(since.Add(time.Second)) || w.at.After(until.Add(-lagging)) || o.inGap(streams, w.at) {
			continue
		}
		if _, there := rows[w.version]; !there && o.changes(streams, k, w.version) {
			o.logCoverage()
			o.t.Fatalf("from %s to %s, which are not in doubt (%+v): the write of %v at %s, version %d, has no row", since, until, doubts, k, w.at, w.version)
		}
	}
	for version, k := range rows {
		if w, ok := at[version]; ok && !doubted[place(k.Key)] && (w.Before(k.from.Add(-lagging)) || w.After(until.Add(time.Second))) {
			if o.hasCopy(version, since) {
				continue
			}
			o.logCoverage()
			o.t.Fatalf("from %s to %s, which are not in doubt (%+v): version %d of %v is of %s", since, until, doubts, version, k, w)
		}
	}
}

// inGap reports whether a gap of a stream began at a time: the clock stood still, so what it lost may be of that moment.
func (o *oracle) inGap(streams []modelStream, at time.Time) bool {
	gaps := []line.Reason{line.Expired, line.PositionRefused}
	return slices.ContainsFunc(o.covered, func(c coverage.Stream) bool {
		return slices.ContainsFunc(streams, func(s modelStream) bool { return s.name == c.Name }) &&
			slices.ContainsFunc(c.Intervals, func(i coverage.Interval) bool {
				return i.To.Equal(at) && slices.Contains(gaps, line.Reason(i.End))
			})
	})
}

func (o *oracle) logCoverage() {
	for _, c := range o.covered {
		o.t.Logf("%s is covered %+v", c.Name, c.Intervals)
	}
}

// deletions asks what was deleted between two times: each object that went then and did not come back, and each at a time
// that the answer gives.
func (o *oracle) deletions(sel *argument.Selection, streams []modelStream, since, until time.Time, only invariant.Key) {
	o.t.Helper()
	items, doubts, err := o.journal.Deleted(o.t.Context(), sel, argument.Moment{Time: since}, argument.Moment{Time: until})
	must(o.t, err)
	doubted, whole := o.deserved(doubts, streams, since, until, only)
	if whole || !o.knows() {
		return
	}
	went := make(map[invariant.Key][]time.Time)
	for _, w := range o.written {
		k := invariant.Key{Group: w.gvr.Group, Resource: w.gvr.Resource, Namespace: w.namespace, Name: w.name}
		if w.gvr != streams[0].gvr || only.Name != "" && k != only || doubted[place(k)] || w.at.After(until.Add(time.Second)) {
			continue
		}
		before, after := o.sees(streams, k, w.version-1), o.sees(streams, k, w.version)
		if before.UID == "" || before.UID == after.UID {
			continue
		}
		went[k] = append(went[k], w.at)
		found := slices.ContainsFunc(items, func(i question.Item) bool { return i.Namespace == k.Namespace && i.Name == k.Name })
		if !found && w.at.After(since.Add(time.Second)) && w.at.Before(until.Add(-lagging)) && !o.returned(streams, k, w.version, before.UID) {
			o.logCoverage()
			o.t.Fatalf("deleted from %s to %s, which are not in doubt (%+v): %v went at %s, version %d", since, until, doubts, k, w.at, w.version)
		}
	}
	for _, i := range items {
		k := invariant.Key{Group: streams[0].gvr.Group, Resource: streams[0].gvr.Resource, Namespace: i.Namespace, Name: i.Name}
		at := func(t time.Time) bool {
			return !t.Before(i.EndedAfter.Add(-lagging)) && !t.After(i.Ended.Add(time.Second))
		}
		if !doubted[place(k)] && !slices.ContainsFunc(went[k], at) {
			o.logCoverage()
			o.t.Fatalf("deleted from %s to %s, which are not in doubt (%+v): %v from %s to %s, and it went %v",
				since, until, doubts, k, i.EndedAfter, i.Ended, went[k])
		}
	}
}

// sees returns what streams have of an object at a version of the server.
func (o *oracle) sees(streams []modelStream, k invariant.Key, version uint64) (is invariant.Object) {
	for _, s := range streams {
		if of, there := o.expectAt(s, version)[k]; there {
			is = of
		}
	}
	return is
}

// returned reports whether streams have an object again at a later version.
func (o *oracle) returned(streams []modelStream, k invariant.Key, version uint64, uid string) bool {
	return slices.ContainsFunc(o.written, func(w written) bool {
		return w.version > version && o.sees(streams, k, w.version).UID == uid
	})
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// madeAfter returns since when the change of a line may have been made that is shown since a time: what a list found may be of
// the time in which its stream was not watched, and says so.
func (o *oracle) madeAfter(l told, since time.Time) time.Time {
	for _, c := range o.covered {
		var from time.Time
		for _, i := range c.Intervals {
			if c.Name == l.Stream && l.Origin == invariant.FromRelist && !l.at.Before(from) && !l.at.After(i.From) && from.Before(since) {
				return from
			}
			from = i.To
		}
	}
	return since
}

// lateSince returns since when the change of a line may have been made that was received late, as far as coverage says:
// since its late interval began, or since the interval before a gap ended.
func (o *oracle) lateSince(l told) (since time.Time, late bool) {
	for _, c := range o.covered {
		for n, i := range c.Intervals {
			switch {
			case c.Name != l.Stream || l.WrittenAt != "":
			case i.Late && l.at.After(i.From) && !l.at.After(i.To.Add(10*time.Second)):
				return i.From, true
			case n+1 < len(c.Intervals) && l.at.After(i.To) && l.at.Before(c.Intervals[n+1].From):
				return i.To, true
			}
		}
	}
	return time.Time{}, false
}

// hasCopy reports whether a line has a version that was received before a time. Another stream may have its objects, have been
// after, and tell it once more.
func (o *oracle) hasCopy(version uint64, since time.Time) bool {
	return slices.ContainsFunc(o.lines, func(l told) bool {
		return l.ResourceVersion == strconv.FormatUint(version, 10) && l.at.Before(since)
	})
}

// changes reports whether a stream sees a write of an object.
func (o *oracle) changes(streams []modelStream, k invariant.Key, version uint64) bool {
	before, after := invariant.State{}, invariant.State{}
	for _, s := range streams {
		maps.Copy(before, o.expectAt(s, version-1))
		maps.Copy(after, o.expectAt(s, version))
	}
	was, there := before[k]
	is, now := after[k]
	return there != now || there && was.ResourceVersion != is.ResourceVersion
}
