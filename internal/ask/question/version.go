package question

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// epoch is the part of a stream's lines from a SYNCED to the next GAP: watch lines, in the order of the server's
// versions.
type epoch struct {
	from, to uint64 // seq of the SYNCED, and of the GAP, 0 where none follows
	version  uint64 // that the SYNCED has
	complete uint64 // the version up to which it is complete, by the GAP; 0 where none follows
}

// SeveralStreamsError says that versions were given for several streams, each of which is at another line then.
type SeveralStreamsError struct{ Streams []string }

func (e *SeveralStreamsError) Error() string {
	return fmt.Sprintf(
		"rv: is for one stream, and these are %s; name a namespace with -n, or write a time", argument.Some(e.Streams),
	)
}

// VersionLines returns two moments, each of which may be zero, with lines of the one selected stream in the place of
// versions of the server: for since the first one that is at the version or later, for until the last one up to it. The
// error is a
// *SeveralStreamsError where more streams are selected.
func (j *Journal) VersionLines(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (from, to argument.Moment, doubts []Doubt, err error) {
	doubts, err = archive.Again(j.Journal, func() ([]Doubt, error) {
		from, to = since, until
		return j.versionLines(ctx, s, &from, &to)
	})
	return from, to, doubts, err
}

func (j *Journal) versionLines(
	ctx context.Context, s *argument.Selection, since, until *argument.Moment,
) (doubts []Doubt, err error) {
	if since.Version+until.Version == 0 {
		return nil, nil
	}
	streams, err := j.StreamNames(ctx, s)
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	if len(streams) > 1 {
		return nil, &SeveralStreamsError{streams}
	}
	replace := func(m *argument.Moment, find func(context.Context, string, uint64) (uint64, *Doubt, error)) error {
		if m.Version == 0 {
			return nil
		}
		seq, doubt, err := find(ctx, streams[0], m.Version)
		if err != nil {
			return fmt.Errorf("stream %s: %w", streams[0], err)
		}
		if doubt != nil && !slices.ContainsFunc(doubts, doubt.equal) {
			doubts = append(doubts, *doubt)
		}
		// the first list is later than that, and so is all else
		if *m = (argument.Moment{Seq: seq}); seq == 0 && m == until {
			m.Time = time.Unix(0, 0)
		}
		return nil
	}
	if err := replace(since, j.fromVersion); err != nil {
		return nil, err
	}
	return doubts, replace(until, j.atVersion)
}

// epochOf returns the epoch of a stream that a version of the server is in, and where its lines are. The doubt is that
// it is in none: before all epochs, or in the gap after the one that is returned.
func (j *Journal) epochOf(
	ctx context.Context, stream string, version uint64,
) (e epoch, seqs []index.Place, doubt *Doubt, err error) {
	epochs, err := j.epochs(ctx, stream)
	if err != nil {
		return epoch{}, nil, nil, err
	}
	i := len(epochs) - 1
	for ; i >= 0 && epochs[i].version > version; i-- {
	}
	if i < 0 {
		return epoch{}, nil, &Doubt{
			Stream: stream, Reason: fmt.Sprintf("its first list was at a later version than %d", version),
		}, nil
	}
	e = epochs[i]
	if e.to > 0 && version > e.complete {
		return e, nil, &Doubt{
			Stream: stream, Reason: fmt.Sprintf("version %d is in a gap after version %d", version, e.complete),
		}, nil
	}
	seqs, err = j.seqsOf(ctx, stream, e)
	return e, seqs, nil, err
}

// atVersion returns the seq up to which the lines of a stream give its objects at a version of the server, or why they
// do not.
func (j *Journal) atVersion(ctx context.Context, stream string, version uint64) (uint64, *Doubt, error) {
	e, seqs, doubt, err := j.epochOf(ctx, stream, version)
	if err != nil || doubt != nil {
		return e.to, doubt, err
	}
	n, err := j.after(ctx, seqs, version)
	switch {
	case err != nil:
		return 0, nil, err
	case n < len(seqs):
		return seqs[n].Seq - 1, nil, nil
	case e.to > 0:
		return e.to, nil, nil
	case e.version == version:
		return e.from, nil, nil
	}
	if n, err = j.after(ctx, seqs, version-1); err != nil {
		return 0, nil, err
	} else if n < len(seqs) {
		return seqs[n].Seq, nil, nil
	}
	return j.notYet(ctx, stream, version)
}

// fromVersion returns the seq of the first line of a stream at a version of the server or later, or why it is not
// known: the GAP in which that was, or the line that is still to come.
func (j *Journal) fromVersion(ctx context.Context, stream string, version uint64) (uint64, *Doubt, error) {
	e, seqs, doubt, err := j.epochOf(ctx, stream, version)
	if err != nil || doubt != nil {
		return e.to, doubt, err
	}
	n, err := j.after(ctx, seqs, version-1)
	if err != nil {
		return 0, nil, err
	}
	before, next := e.from, cmp.Or(e.to, math.MaxUint64)
	if n > 0 {
		before = seqs[n-1].Seq
	}
	if n < len(seqs) {
		next = seqs[n].Seq
	}
	// One that was removed may have been at the version.
	removed, is, err := j.RemovedSince(ctx, stream, nil, before, next)
	switch {
	case err != nil || is:
		return removed, nil, err
	case n < len(seqs) || e.to > 0:
		return next, nil, nil
	case e.version == version:
		return e.from, nil, nil
	}
	last, doubt, err := j.notYet(ctx, stream, version)
	return last + 1, doubt, err
}

// notYet returns the journal's last line, with the doubt that a stream has not come to a version of the server.
func (j *Journal) notYet(ctx context.Context, stream string, version uint64) (uint64, *Doubt, error) {
	x, err := j.Index(ctx, len(j.Segments)-1)
	if err != nil {
		return 0, nil, err
	}
	return x.Next - 1, &Doubt{
		Stream: stream, Reason: fmt.Sprintf("it has no line at resourceVersion %d or later", version),
	}, nil
}

// after returns the index of the first of an epoch's lines that is at a later version, or how many there are. A
// replica that has lost its checkpoint may begin a term with some lines of an earlier one again: within a term alone
// versions are in order.
func (j *Journal) after(ctx context.Context, seqs []index.Place, version uint64) (int, error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	first, _, err := j.termAndVersion(ctx, seqs[0])
	if err != nil {
		return 0, err
	}
	last, _, err := j.termAndVersion(ctx, seqs[len(seqs)-1])
	if err != nil {
		return 0, err
	}
	if first != last {
		half := len(seqs) / 2
		n, err := j.after(ctx, seqs[:half], version)
		if err == nil && n == half {
			n, err = j.after(ctx, seqs[half:], version)
			n += half
		}
		return n, err
	}
	n := sort.Search(len(seqs), func(n int) bool {
		_, is, e := j.termAndVersion(ctx, seqs[n])
		if e != nil {
			err = e
		}
		return is > version
	})
	return n, err
}

// termAndVersion reads them in a line; the term is "" without leader election.
func (j *Journal) termAndVersion(ctx context.Context, at index.Place) (term string, version uint64, err error) {
	l, err := j.Line(ctx, at)
	if err != nil {
		return "", 0, err
	}
	version, ok := line.VersionNumber(l.Text(line.FieldResourceVersion))
	if !ok {
		err = fmt.Errorf("line %d has version %q, which cannot be compared", l.Seq, l.Text(line.FieldResourceVersion))
	}
	return string(l.Value(line.FieldTerm)), version, err
}

// epochs reads the GAP and SYNCED lines of a stream.
func (j *Journal) epochs(ctx context.Context, stream string) (all []epoch, err error) {
	for i := range j.Segments {
		x, err := j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		n, there := x.Stream(stream)
		if !there {
			continue
		}
		for _, at := range x.Streams[n].Marks {
			l, err := x.Line(at)
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			f, err := j.LineIn(ctx, i, &l)
			if err != nil {
				return nil, err
			}
			if l.Type == index.Synced {
				if n := len(all); n > 0 && all[n-1].to == 0 {
					all = all[:n-1] // it started over
				}
				version, ok := line.VersionNumber(f.Text(line.FieldResourceVersion))
				if !ok {
					return nil, fmt.Errorf(
						"line %d has version %q, which cannot be compared; ask for a time", l.Seq,
						f.Text(line.FieldResourceVersion),
					)
				}
				all = append(all, epoch{from: l.Seq, version: version})
				continue
			}
			if n := len(all); n > 0 && all[n-1].to == 0 {
				all[n-1].to = l.Seq
				// 0 where it says nothing
				all[n-1].complete, _ = line.VersionNumber(f.Text(line.FieldFromResourceVersion))
			}
		}
	}
	return all, nil
}

// seqsOf returns where the lines of a stream about objects are in an epoch, in order.
func (j *Journal) seqsOf(ctx context.Context, stream string, e epoch) (all []index.Place, err error) {
	for i := range j.Segments {
		if e.to > 0 && j.Segments[i].FirstSeq > e.to || i+1 < len(j.Segments) && j.Segments[i+1].FirstSeq < e.from {
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
		for o, err := range x.Objects(n, nil, nil) {
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			for l, err := range archive.LinesOf(x, o) {
				if err != nil {
					return nil, err
				}
				if l.Seq > e.from && (e.to == 0 || l.Seq < e.to) {
					all = append(all, archive.PlaceOf(x, &l))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b index.Place) int { return int(int64(a.Seq - b.Seq)) })
	return all, nil
}
