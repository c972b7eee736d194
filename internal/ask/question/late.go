package question

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// catchingUp is how long after the end of a late interval lines may still be received that had waited.
const catchingUp = coverage.CatchingUp

// Undated is why an object is in doubt whose line was received late and does not say when the change was made.
const Undated = "received late, without the time of the change"

// waited is what is known, at a moment at which streams were not followed, of lines that were received after it.
type waited struct {
	passed passed
	until  map[string]time.Time // when the last line was received that may have waited, by stream
	doubts []Doubt              // about objects whose lines may have been made before the moment or after it
}

// passed has the seq of a line by stream: the lines up to that one were made by a moment. A line that does not say when
// it was made stands before one that does, and a watch brings changes in the order in which they were made.
type passed map[string]uint64

// has reports whether later lines prove that a line's change was made by the moment.
func (p passed) has(stream string, l *index.Line) bool {
	return l.Seq <= p[stream] && l.Written.IsZero() && !l.Snapshot && l.Type != index.Gap && l.Type != index.Synced
}

// lateLine is a line that was received in a late interval.
type lateLine struct {
	index.Line
	object string // its namespace and name, if it is selected
}

// undated reports whether the line is one of a selected object, and does not say when it was made.
func (l *lateLine) undated() bool { return l.object != "" && l.Written.IsZero() }

// waitedAt finds out about the lines of streams that were in a late interval at a time, or in none: only those of a
// type, where that is not 0, leave a doubt. Of a line or a version there are none: it has its place among the lines.
func (j *Journal) waitedAt(
	ctx context.Context, s *argument.Selection, m argument.Moment, only index.Type,
) (*waited, error) {
	w := &waited{passed: make(passed), until: make(map[string]time.Time)}
	if m.Seq+m.Version > 0 || m.IsZero() {
		return w, nil
	}
	streams, _ := j.Coverage(s) // what is not known is in doubt
	for i := range streams {
		stream := streams[i].Name
		in, end, hole := waitsAt(&streams[i], m)
		if in == nil {
			continue
		}
		w.until[stream] = end
		lines, err := j.lateLines(ctx, s, stream, m, end)
		if err != nil {
			return nil, err
		}
		passed, from := uint64(0), in.From
		for i := range lines {
			if l := &lines[i]; l.Late() && !l.Written.After(m.Time) {
				passed, from = l.Seq, latest(in.From, l.Written)
			}
		}
		doubt := Doubt{Stream: stream, From: from, Reason: Undated}
		for i := range lines {
			l := &lines[i]
			if l.Seq > passed && !l.Snapshot && l.Written.After(m.Time) {
				// it is in whole seconds
				if to := l.Written.Add(time.Second); len(doubt.Objects) > 0 && to.Before(doubt.To) {
					doubt.To = to
				}
				break
			}
			if (l.Seq > passed || l.Snapshot) && l.undated() && (only == 0 || l.Type == only) {
				doubt.Objects, doubt.To = append(doubt.Objects, l.object), l.Time
			}
		}
		if w.passed[stream] = passed; len(doubt.Objects) > 0 && hole == nil {
			slices.Sort(doubt.Objects)
			doubt.Objects = slices.Compact(doubt.Objects)
			w.doubts = append(w.doubts, doubt)
		}
	}
	return w, nil
}

// waitsAt returns the late interval of a stream that holds a moment, or the hole, also as a doubt; and until when
// lines were received that may have been made in it. The interval is nil where there is none.
func waitsAt(stream *coverage.Stream, m argument.Moment) (in *coverage.Interval, end time.Time, hole *Doubt) {
	in, hole = at(stream.Intervals, stream.Name, m)
	switch {
	case in == nil && !hole.From.IsZero() && !hole.To.IsZero(): // lines may still have waited that stand before the GAP
		return &coverage.Interval{From: hole.From, To: hole.To}, hole.To.Add(catchingUp), hole
	case in == nil || !in.Late:
		return nil, end, hole
	}
	return in, waitedUntil(stream.Intervals, in), hole
}

// waitedUntil returns until when lines were received that may have been made in a late interval, which is one of its
// stream's: a while after the stream had caught up, or at its next complete list.
func waitedUntil(intervals []coverage.Interval, late *coverage.Interval) time.Time {
	for i := range intervals {
		switch in := &intervals[i]; {
		case in.From.Before(late.From):
		case in.End == coverage.CaughtUp || i == len(intervals)-1:
			return in.To.Add(catchingUp)
		case intervals[i+1].From.After(in.To):
			return intervals[i+1].From
		}
	}
	return time.Time{}
}

// lateLines returns the lines of a stream that were received after a moment and no later than end, in order, up to a
// GAP; none where each selected one of them says when it was made.
func (j *Journal) lateLines(
	ctx context.Context, s *argument.Selection, stream string, m argument.Moment, end time.Time,
) (all []lateLine, err error) {
	within := func(l *index.Line) bool { return l.Time.After(m.Time) && !l.Time.After(end) }
	var segments []int
	selected := make(map[uint64]string) // by seq
	for i := range j.Segments {
		if outside, err := j.Outside(ctx, i, m, argument.Moment{Time: end}); err != nil {
			return nil, err
		} else if outside {
			continue
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		n, there := x.Stream(stream)
		if !there {
			continue
		}
		segments = append(segments, i)
		p, ok := s.Pick(&x.Streams[n])
		if !ok {
			continue
		}
		p.Stream = n
		for o, err := range s.Select(x, p) {
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			for l, err := range archive.LinesOf(x, o) {
				if err != nil {
					return nil, err
				}
				if l.Written.IsZero() && within(&l) {
					selected[l.Seq] = place(o.Namespace, o.Name)
				}
			}
		}
	}
	if len(selected) == 0 {
		return nil, nil
	}
	for _, i := range segments {
		lines, err := j.LinesOfStream(ctx, i, stream)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			switch {
			case !within(&l):
			case l.Type == index.Gap:
				return all, nil
			case l.Type != index.Synced:
				all = append(all, lateLine{l, selected[l.Seq]})
			}
		}
	}
	return all, nil
}

// place returns an object's namespace and name.
func place(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// window says which lines are between two moments, each of which may be zero.
type window struct {
	since, until         argument.Moment
	passed, passedAtLast passed // of since and of until
	last                 uint64 // the largest of passedAtLast
}

// has reports whether a line of a stream is in the window, by when its change was made as far as that is known.
func (w *window) has(stream string, l *index.Line) bool {
	if w.isOpen() {
		return true
	}
	made := l.Made()
	if w.since.After(l.Seq, made) || w.passed.has(stream, l) {
		return false
	}
	return w.until.IsZero() || !w.until.Before(l.Seq, made) || w.passedAtLast.has(stream, l)
}

// isOpen reports whether every line is in the window.
func (w *window) isOpen() bool { return w.since.IsZero() && w.until.IsZero() }

// outside reports whether no line of a segment is in the window.
func (w *window) outside(ctx context.Context, j *Journal, i int) (bool, error) {
	outside, err := j.Outside(ctx, i, w.since, w.until)
	return outside && j.Segments[i].FirstSeq > w.last, err
}

// window returns the window between two moments, for the selected objects.
func (j *Journal) window(ctx context.Context, s *argument.Selection, since, until argument.Moment) (*window, error) {
	w := &window{since: since, until: until}
	for _, bound := range []struct {
		argument.Moment
		passed *passed
	}{{since.JustBefore(), &w.passed}, {until, &w.passedAtLast}} {
		at, err := j.waitedAt(ctx, s, bound.Moment, 0)
		if err != nil {
			return nil, err
		}
		*bound.passed = at.passed
	}
	for _, seq := range w.passedAtLast {
		w.last = max(w.last, seq)
	}
	return w, nil
}

// notBefore returns the earliest time at which the change of a late line can have been made: that of the
// line before it in its stream that says when it was made, or of the beginning of the interval that lateInterval
// returns. It is zero where the line says that itself, where it was received at once, and where that is not known.
func (j *Journal) notBefore(
	ctx context.Context, e *ends, segment int, stream string, seq uint64, received time.Time,
) (time.Time, error) {
	in := j.lateInterval(stream, received)
	if in == nil {
		return time.Time{}, nil
	}
	if e.lines == nil || e.segment != segment {
		e.segment, e.lines = segment, make(map[string][]index.Line)
	}
	lines, there := e.lines[stream]
	if !there {
		var err error
		if lines, err = j.LinesOfStream(ctx, segment, stream); err != nil {
			return time.Time{}, err
		}
		e.lines[stream] = lines
	}
	n, _ := slices.BinarySearchFunc(lines, seq, func(l index.Line, seq uint64) int { return cmp.Compare(l.Seq, seq) })
	if n < len(lines) && !lines[n].Written.IsZero() {
		return time.Time{}, nil
	}
	for _, before := range slices.Backward(lines[:n]) {
		if before.Type == index.Gap || before.Type == index.Synced || !before.Time.After(in.From) {
			break
		}
		if !before.Written.IsZero() {
			return latest(in.From, before.Written), nil
		}
	}
	return in.From, nil
}

// NotBefore returns the time before which the change of a line was not made that was received late and does not say
// when it was made; zero where that is no question.
func (j *Journal) NotBefore(ctx context.Context, l *line.Fields) (time.Time, error) {
	stream := string(l.Text(line.FieldStream))
	if j.lateInterval(stream, l.Time) == nil {
		return time.Time{}, nil
	}
	return archive.Again(j.Journal, func() (time.Time, error) {
		from, err := j.notBefore(ctx, &j.late, j.SegmentWith(l.Seq), stream, l.Seq, l.Time)
		if l.Time.Sub(from) < coverage.LateAfter {
			return time.Time{}, err
		}
		return from, err
	})
}

// lateInterval returns the late interval of a stream in which a line was received, or the time between two intervals: a
// watch that was not confirmed may have brought it late. It is nil where there is none, or nothing is known.
func (j *Journal) lateInterval(stream string, received time.Time) *coverage.Interval {
	streams, _ := j.AllCoverage()
	for i := range streams {
		if streams[i].Name != stream {
			continue
		}
		intervals := streams[i].Intervals
		for n := range intervals {
			in := &intervals[n]
			if in.Late && received.After(in.From) && !received.After(in.To.Add(catchingUp)) {
				return in
			}
			if n+1 < len(intervals) && received.After(in.To) && received.Before(intervals[n+1].From) {
				return &coverage.Interval{From: in.To, To: intervals[n+1].From}
			}
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
