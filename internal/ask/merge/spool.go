package merge

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"kubejournal/internal/format/line"
)

// spool is a temporary file of lines that are merged later than they were written. They are those of lists, which may
// be too large for memory.
type spool struct {
	f *os.File // nil: there are none
}

// piece is a line in a spool.
type piece struct {
	at   int64
	size int
}

// keep reads the sources of the lists that come later than they were written, and keeps their lines.
func (p *Plan) keep(ctx context.Context) (_ *spool, err error) {
	moved := make(map[int]bool)
	for _, s := range p.streams {
		for _, b := range s.moved {
			b.lines, b.taken = nil, false
			moved[b.source] = true
		}
	}
	t := &spool{}
	if len(moved) == 0 {
		return t, nil
	}
	if t.f, err = os.CreateTemp("", "kubejournal-lists-"); err != nil {
		return nil, fmt.Errorf("keep lists: %w", err)
	}
	_ = os.Remove(t.f.Name()) // so that a run that is killed leaves nothing
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	w := bufio.NewWriter(t.f)
	end := int64(0)
	for n := range moved {
		for l, err := range p.sources[n].Lines(ctx) {
			if err != nil {
				return nil, err
			}
			s, at := p.stream(l.Fields), positionOf(l.Fields)
			b := s.movedAt(at)
			if b == nil || s.voids(at) {
				continue
			}
			if _, err := w.Write(l.Raw); err != nil {
				return nil, fmt.Errorf("keep lists: %w", err)
			}
			b.lines = append(b.lines, piece{end, len(l.Raw)})
			end += int64(len(l.Raw))
		}
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("keep lists: %w", err)
	}
	return t, nil
}

// read returns a line.
func (t *spool) read(at piece) (*line.Fields, error) {
	raw := make([]byte, at.size)
	if _, err := t.f.ReadAt(raw, at.at); err != nil {
		return nil, fmt.Errorf("keep lists: %w", err)
	}
	var l line.Fields
	err := l.Parse(raw)
	return &l, err
}

// close removes the file.
func (t *spool) close() {
	if t.f != nil {
		_ = t.f.Close() // it has no name
	}
}
