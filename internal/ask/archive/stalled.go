package archive

import (
	"cmp"
	"context"
	"slices"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
)

// takeBack returns the coverage of several journals without what only pulses of a replica have confirmed, where
// another one has read what shows that they may have been wrong: the watch may have stalled in the first one's
// term, which was killed then, so that no later line of its own says so. That is where nothing covers the time
// between the two terms, and the first line of that time is a GAP, or does not say that its change was made after
// the pulses.
func takeBack(ctx context.Context, of []*Journal, all [][]coverage.Stream) ([][]coverage.Stream, error) {
	all = slices.Clone(all)
	intervals := make(map[string][]coverage.Interval) // by stream
	for n := range all {
		for _, s := range all[n] {
			intervals[s.Name] = append(intervals[s.Name], s.Intervals...)
		}
	}
	for n := range all {
		all[n] = slices.Clone(all[n])
		for s := range all[n] {
			stream := &all[n][s]
			stream.Intervals = slices.Clone(stream.Intervals)
			for i := range stream.Intervals {
				in := &stream.Intervals[i]
				if in.Pulsed.IsZero() {
					continue
				}
				next, goesOn := continued(intervals[stream.Name], in.To)
				if goesOn {
					continue
				}
				others := slices.Delete(slices.Clone(of), n, n+1) // its own coverage knows what its own lines show
				missed, err := readLater(ctx, others, stream.Name, in.To, next)
				if err != nil {
					return nil, err
				}
				if missed {
					if in.To = in.Pulsed; in.To.Before(in.From) {
						in.To = in.From
					}
					in.Pulsed, in.End = time.Time{}, coverage.Unknown
				}
			}
		}
	}
	return all, nil
}

// continued reports whether the time at which an interval of a stream ends is covered by another one. Otherwise it
// returns when the next one begins, zero if there is none.
func continued(all []coverage.Interval, end time.Time) (next time.Time, is bool) {
	for _, in := range all {
		switch {
		case !in.From.After(end) && in.To.After(end):
			return time.Time{}, true
		case in.From.After(end) && (next.IsZero() || in.From.Before(next)):
			next = in.From
		}
	}
	return next, false
}

// readLater reports whether the first line of a stream between two times, of which the later one may be zero, is a
// GAP, or about a change that may have been made before.
func readLater(ctx context.Context, of []*Journal, stream string, from, to time.Time) (bool, error) {
	var first *index.Line
	for _, j := range of {
		for i := range j.Segments {
			if outside, err := j.Outside(ctx, i, argument.Moment{Time: from}, argument.Moment{Time: to}); err != nil {
				return false, err
			} else if outside {
				continue
			}
			lines, err := j.LinesOfStream(ctx, i, stream)
			if err != nil {
				return false, err
			}
			for n := range lines {
				l := &lines[n]
				if l.Type == index.Synced || !l.Time.After(from) || !to.IsZero() && l.Time.After(to) {
					continue
				}
				if first == nil || l.Time.Before(first.Time) {
					first = l
				}
			}
		}
	}
	return first != nil && !first.Written.After(from), nil
}

// writtenLater returns, by stream, the times before which a replica wrote lines that its own coverage does not have,
// back to where that ended: it was late, and was killed before it could say so. Another one, which had received these
// changes in time, has left them out, and its coverage may begin before they were written.
func writtenLater(ctx context.Context, of []*Journal) (map[string][]coverage.Span, error) {
	spans := make(map[string][]coverage.Span)
	for _, j := range of {
		intervals := make(map[string][]coverage.Interval) // of the streams that it has lines of: it may not cover them
		for i := range j.Segments {
			x, err := j.Index(ctx, i)
			if err != nil {
				return nil, err
			}
			for n := range x.Streams {
				intervals[x.Streams[n].Name] = nil
			}
		}
		covered, _ := j.AllCoverage() // that it cannot be read was reported before
		for _, s := range covered {
			if _, has := intervals[s.Name]; has {
				intervals[s.Name] = s.Intervals
			}
		}
		for stream, all := range intervals {
			end := time.Time{}
			for _, next := range append(slices.Clip(all), coverage.Interval{}) { // and all the time after them
				last, err := j.lastLine(ctx, stream, end, next.From)
				if err != nil {
					return nil, err
				}
				if !last.IsZero() && last.Sub(end) > coverage.LateAfter {
					spans[stream] = append(spans[stream], coverage.Span{From: end, To: last})
				}
				end = next.To
			}
		}
	}
	return spans, nil
}

// lastLine returns when a stream's watch brought its last line between two times; zero if it brought none. A zero to is
// no bound.
func (j *Journal) lastLine(ctx context.Context, stream string, from, to time.Time) (last time.Time, err error) {
	var before time.Time // the list in which it is
	for i := range j.Segments {
		outside, err := j.Outside(ctx, i, argument.Moment{Time: from}, argument.Moment{Time: to})
		if err != nil {
			return last, err
		} else if outside {
			continue
		}
		lines, err := j.LinesOfStream(ctx, i, stream)
		if err != nil {
			return last, err
		}
		slices.SortFunc(lines, func(a, b index.Line) int { return cmp.Compare(a.Seq, b.Seq) })
		for n := range lines {
			l := &lines[n]
			between := l.Time.After(from) && (to.IsZero() || l.Time.Before(to))
			switch {
			case l.Type == index.Gap:
				before = last
			case l.Type == index.Synced:
				last = before // what a list shows is known to be old
			case l.Type <= index.Deleted && between && l.Time.After(last):
				last = l.Time
			}
		}
	}
	return last, nil
}
