package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"go.uber.org/zap"

	"kubejournal/internal/format/line"
)

// Seal returns what a SEALED line is to say of the oldest committed rotated file that begins after a line; nil where
// there is none, where Options.Seal is off, or where its checksum is not known yet. The tidier finds that out, and is
// told by the question which file is the next.
func (j *File) Seal(after uint64) *line.Seal {
	t := &j.tidy
	if !j.options.Load().Seal {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seal != nil && t.seal.To < j.Extent().FirstSeq {
		t.seal = nil // it was removed
	}
	if t.seal != nil && t.seal.From > after {
		return t.seal
	}
	if t.sealed == nil || *t.sealed != after {
		t.sealed = &after
		t.wakeUp()
	}
	return nil
}

// sealTries is how often the next file is looked at before it is believed that one before it is gone, or passed over
// because it cannot be read.
const sealTries = 3

// findSeal reads the file that is to be sealed next. all are the segments of the journal, the oldest first: a file that
// was renamed meanwhile may be missing.
func (t *tidier) findSeal(j *File, all []Segment) {
	t.mu.Lock()
	after, seal, committed := t.sealed, t.seal, t.committed
	t.mu.Unlock()
	if after == nil || !j.options.Load().Seal || seal != nil && seal.From > *after {
		return
	}
	again := func(s *Segment) bool { // whether it is too early to continue
		if t.tries[s.FirstSeq]++; t.tries[s.FirstSeq] >= sealTries {
			return false
		}
		t.wakeUp()
		return true
	}
	for i := range all {
		s := &all[i]
		if s.FirstSeq <= *after {
			continue
		}
		if i+1 == len(all) || s.Active {
			return
		}
		// A copy that somebody made of the active file is not a rotated one.
		if next := &all[i+1]; next.Active && next.FirstSeq == s.FirstSeq {
			return
		}
		if s.FirstSeq != *after+1 && again(s) {
			return
		}
		is, err := s.Seal(t.ctx)
		switch {
		case t.ctx.Err() != nil || err == nil && is.To > committed:
			return
		case err == nil:
			clear(t.tries)
			t.mu.Lock()
			t.seal = &is
			t.mu.Unlock()
			return
		case again(s):
			return
		}
		j.log.Warn("a rotated journal file cannot be read and is not sealed", zap.String("path", s.Path),
			zap.Error(err))
	}
}

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
	if is.To, _ = lineSeq(last.head); is.To < is.From {
		return is, fmt.Errorf("%s: its last line is none: %w", s.Path, ErrDamaged)
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
