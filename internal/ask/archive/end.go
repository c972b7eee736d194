package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/line"
)

// End is where a journal ends, as far as it is read: who follows it begins there.
type End struct {
	Path     string          // of the active file
	FirstSeq uint64          // of its first line; 0 where it has none, or none that can be read
	Offset   int64           // in it, of the end of its last whole line
	Seq      uint64          // of the journal's last line; 0 for none
	Time     time.Time       // the newest one of the last lines
	Begin    argument.Moment // of the journal's first line, with both seq and time
}

// end returns where a journal ends.
func (j *Journal) end(ctx context.Context) (End, error) {
	e := End{Path: j.path}
	if len(j.Segments) == 0 {
		return e, nil
	}
	first, n := j.Segments[0], len(j.Segments)-1
	e.Begin = argument.Moment{Seq: first.FirstSeq, Time: first.FirstTime}
	s := j.Segments[n]
	if !s.Active {
		x, err := j.Index(ctx, n)
		if err != nil {
			return e, err
		}
		e.Seq, e.Time = x.Next-1, x.Newest
		return e, nil
	}
	b, _, err := s.Backward()
	if err != nil {
		return e, fmt.Errorf("read journal %s: %w", s.Path, err)
	}
	defer b.Close()
	e.FirstSeq, e.Offset = s.FirstSeq, b.Offset()
	var l line.Fields
	for {
		raw, err := b.Next()
		switch {
		case errors.Is(err, io.EOF):
			return e, nil
		case err != nil:
			return e, fmt.Errorf("read journal %s: %w", s.Path, err)
		case l.Parse(raw.Bytes) == nil:
			e.Seq, e.Time = l.Seq, l.Time
			return e, nil
		}
	}
}

// Order returns the order in which several journals were merged, for those of Ends.
func (j *Journal) Order() *merge.Order { return j.order }

// Ends returns where the journal ends, or each of several journals that were merged.
func (j *Journal) Ends(ctx context.Context) ([]End, error) {
	if j.Merged() {
		return j.ends, nil
	}
	e, err := j.end(ctx)
	return []End{e}, err
}
