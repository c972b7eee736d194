package segment

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"kubejournal/internal/format/line"
)

// Seal reads the segment, and returns what is to be said of it but for the chain.
func (s *Segment) Seal(ctx context.Context) (is line.Seal, err error) {
	f, err := s.open()
	if err != nil {
		return is, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	var in io.Reader = io.NewSectionReader(interruptible{f, ctx}, 0, s.Size)
	if s.Gzip {
		if in, err = gzip.NewReader(in); err != nil {
			return is, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	sum, last := sha256.New(), new(lastLine)
	is.From = s.FirstSeq
	if is.Size, err = io.CopyBuffer(io.MultiWriter(sum, last), in, make([]byte, readBuffer)); err != nil {
		return is, fmt.Errorf("%s: %w", s.Path, err)
	}
	if is.To, _ = SeqOf(last.head); is.To < is.From {
		return is, fmt.Errorf("%s: its last line is none: damaged", s.Path)
	}
	sum.Sum(is.Sum[:0])
	return is, nil
}

// lastLine keeps what the last line begins with of all that is written to it.
type lastLine struct {
	head  []byte
	ended bool // what is written next begins a line
}

func (l *lastLine) Write(p []byte) (int, error) {
	const enough = 64 // bytes for a seq
	n := len(p)
	if l.ended && n > 0 {
		l.head, l.ended = l.head[:0], false
	}
	if n > 0 && p[n-1] == '\n' {
		p, l.ended = p[:n-1], true
	}
	if at := bytes.LastIndexByte(p, '\n'); at >= 0 {
		l.head, p = l.head[:0], p[at+1:]
	}
	l.head = append(l.head, p[:min(len(p), max(0, enough-len(l.head)))]...)
	return n, nil
}
