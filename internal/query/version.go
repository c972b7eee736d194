package query

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"kubejournal/internal/event"
	"kubejournal/internal/index"
	"kubejournal/internal/line"
)

// epoch is the part of a stream's lines from a SYNCED to the next GAP: watch lines, in the order of the server's versions.
type epoch struct {
	from, to uint64 // seq of the SYNCED, and of the GAP, 0 where none follows
	version  uint64 // that the SYNCED has
	complete uint64 // the version up to which it is complete, by the GAP; 0 where none follows
}

// atVersion returns the seq up to which the lines of a stream give its objects at a version of the server, or why they do not.
func (j *Journal) atVersion(ctx context.Context, stream string, version uint64) (uint64, *Doubt, error) {
	epochs, err := j.epochs(ctx, stream)
	if err != nil {
		return 0, nil, err
	}
	i := len(epochs) - 1
	for ; i >= 0 && epochs[i].version > version; i-- {
	}
	if i < 0 {
		return 0, &Doubt{Stream: stream, Reason: fmt.Sprintf("its first list was at a later version than %d", version)}, nil
	}
	e := epochs[i]
	if e.to > 0 && version > e.complete {
		return e.to, &Doubt{Stream: stream, Reason: fmt.Sprintf("version %d is in a gap behind version %d", version, e.complete)}, nil
	}
	seqs, err := j.seqsOf(ctx, stream, e)
	if err != nil {
		return 0, nil, err
	}
	n, err := j.behind(ctx, seqs, version)
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
	if n, err = j.behind(ctx, seqs, version-1); err != nil {
		return 0, nil, err
	} else if n < len(seqs) {
		return seqs[n].Seq, nil, nil
	}
	last := j.segments[len(j.segments)-1]
	if _, err := j.index(ctx, len(j.segments)-1); err != nil {
		return 0, nil, err
	}
	return last.x.Next - 1, &Doubt{Stream: stream, Reason: fmt.Sprintf("it has no line at resourceVersion %d or later", version)}, nil
}

// behind returns the index of the first of an epoch's lines that is at a later version, or how many there are. A replica that has
// lost its checkpoint may begin a term with some lines of an earlier one again: within a term alone versions are in order.
func (j *Journal) behind(ctx context.Context, seqs []index.Place, version uint64) (int, error) {
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
		n, err := j.behind(ctx, seqs[:half], version)
		if err == nil && n == half {
			n, err = j.behind(ctx, seqs[half:], version)
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
	version, ok := event.VersionNumber(l.Text(line.ResourceVersion))
	if !ok {
		err = fmt.Errorf("line %d has version %q, which cannot be compared", l.Seq, l.Text(line.ResourceVersion))
	}
	return string(l.Value(line.Term)), version, err
}

// epochs reads the GAP and SYNCED lines of a stream.
func (j *Journal) epochs(ctx context.Context, stream string) (all []epoch, err error) {
	for i := range j.segments {
		x, err := j.index(ctx, i)
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
			f, err := j.reader.read(j.segments[i], l.Seq, l.Offset)
			if err != nil {
				return nil, err
			}
			if l.Type == index.Synced {
				if n := len(all); n > 0 && all[n-1].to == 0 {
					all = all[:n-1] // begun anew
				}
				version, ok := event.VersionNumber(f.Text(line.ResourceVersion))
				if !ok {
					return nil, fmt.Errorf("line %d has version %q, which cannot be compared; ask for a time", l.Seq, f.Text(line.ResourceVersion))
				}
				all = append(all, epoch{from: l.Seq, version: version})
				continue
			}
			if n := len(all); n > 0 && all[n-1].to == 0 {
				all[n-1].to = l.Seq
				all[n-1].complete, _ = event.VersionNumber(f.Text(line.FromResourceVersion)) // 0 where it says nothing
			}
		}
	}
	return all, nil
}

// seqsOf returns where the lines of a stream about objects are in an epoch, in order.
func (j *Journal) seqsOf(ctx context.Context, stream string, e epoch) (all []index.Place, err error) {
	for i := range j.segments {
		if e.to > 0 && j.segments[i].FirstSeq > e.to || i+1 < len(j.segments) && j.segments[i+1].FirstSeq < e.from {
			continue
		}
		x, err := j.index(ctx, i)
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
			for l, err := range linesOf(x, o) {
				if err != nil {
					return nil, err
				}
				if l.Seq > e.from && (e.to == 0 || l.Seq < e.to) {
					all = append(all, placeOf(x, &l))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b index.Place) int { return int(int64(a.Seq - b.Seq)) })
	return all, nil
}
