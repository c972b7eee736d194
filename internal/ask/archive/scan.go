package archive

import (
	"context"
	"runtime"
	"sync"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Part is the lines that a history has of a segment.
type Part struct {
	Segment int
	Steps   []Step
}

// scanBytes is how many bytes of lines a goroutine reads at once, up to the end of a gzip member.
const scanBytes = 1 << 20

// scanner reads the lines of a segment that are between two others.
type scanner[T any] struct {
	lines []index.Line
	of    []T
	err   error
	done  chan struct{}
}

// Scan calls look with lines of a segment, from several goroutines at once, each of which has its own from newLook. It
// calls yield with what look returns, in the order of the lines, and the offset after each. A line is valid until look
// returns.
func Scan[T any](
	ctx context.Context, j *Journal, p Part, newLook func() func(*line.Fields) T, yield func(T, int64) error,
) error {
	x, err := j.Index(ctx, p.Segment)
	if err != nil || len(p.Steps) == 0 {
		return err
	}
	of := &Segment{Segment: j.Segments[p.Segment].Segment}
	workers := runtime.GOMAXPROCS(0)
	work, pending := make(chan *scanner[T], 2*workers), make([]*scanner[T], 0, 2*workers)
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer close(work)
	defer stop()
	for range workers {
		running.Go(func() {
			var r Reader
			defer r.Close()
			look := newLook()
			for s := range work {
				s.scan(ctx, &r, of, x, look)
			}
		})
	}
	for rest := p.Steps; len(rest) > 0 || len(pending) > 0; {
		for len(rest) > 0 && len(pending) < cap(pending) {
			s := &scanner[T]{done: make(chan struct{})}
			if rest, s.err = s.take(x, of.Gzip, rest); s.err != nil {
				return s.err
			}
			pending = append(pending, s)
			work <- s
		}
		s := pending[0]
		pending = append(pending[:0], pending[1:]...)
		if <-s.done; s.err != nil {
			return s.err
		}
		for i, is := range s.of {
			if err := yield(is, s.lines[i].Offset+s.lines[i].Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// take takes the first steps, and returns the others.
func (s *scanner[T]) take(x *index.Index, zipped bool, steps []Step) ([]Step, error) {
	end := int64(0)
	for n, st := range steps {
		l, err := x.Line(st.at)
		if err != nil {
			return nil, err
		}
		if end > 0 && l.Offset >= end {
			return steps[n:], nil
		}
		if end == 0 {
			end = l.Offset + scanBytes
			if _, plain := x.Member(end); zipped && plain > l.Offset {
				end = plain // or what is before it would be inflated twice
			}
		}
		s.lines = append(s.lines, l)
	}
	return nil, nil
}

// scan reads the lines.
func (s *scanner[T]) scan(ctx context.Context, r *Reader, of *Segment, x *index.Index, look func(*line.Fields) T) {
	defer close(s.done)
	for i := range s.lines {
		if s.err = ctx.Err(); s.err != nil {
			return
		}
		var l *line.Fields
		if l, s.err = r.Read(of, x, s.lines[i].Seq, s.lines[i].Offset); s.err != nil {
			return
		}
		s.of = append(s.of, look(l))
	}
}
