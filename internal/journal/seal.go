package journal

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"go.uber.org/zap"

	"kubejournal/internal/disk"
	"kubejournal/internal/line"
)

// Seal returns what a SEALED line is to say of the oldest committed rotated file that begins after a line; nil where there is
// none, where Options.Seal is off, or where its checksum is not known yet. The tidier finds that out, and is told by the
// question which file is the next.
func (j *File) Seal(after uint64) *line.Seal {
	t := &j.tidy
	if !j.options.Load().Seal {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seal != nil && t.seal.From > after {
		return t.seal
	}
	if t.sealed == nil || *t.sealed != after {
		t.sealed = &after
		t.wakeUp()
	}
	return nil
}

// findSeal reads the file that is to be sealed next. all are the segments of the journal, the oldest first.
func (t *tidier) findSeal(j *File, all []Segment) {
	t.mu.Lock()
	after, seal, committed := t.sealed, t.seal, t.committed
	t.mu.Unlock()
	if after == nil || !j.options.Load().Seal || seal != nil && seal.From > *after {
		return
	}
	for i := range max(0, len(all)-1) { // the last one is active, or not followed by another
		s, next := &all[i], all[i+1].FirstSeq
		if s.FirstSeq <= *after || next == s.FirstSeq { // a copy that others have made has the same lines
			continue
		}
		if next < s.FirstSeq || next > committed+1 {
			return
		}
		is, err := s.Seal(t.ctx, j.disk)
		if err != nil {
			if t.ctx.Err() == nil {
				j.log.Warn("a rotated journal file cannot be read to be sealed; it is tried again", zap.String("path", s.Path), zap.Error(err))
			}
			return
		}
		is.To = next - 1
		t.mu.Lock()
		t.seal = &is
		t.mu.Unlock()
		return
	}
}

// Seal reads the segment, and returns what is in it but for its last line's seq.
func (s *Segment) Seal(ctx context.Context, d disk.FS) (is line.Seal, err error) {
	f, err := s.open(d)
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
	sum := sha256.New()
	is.From = s.FirstSeq
	if is.Size, err = io.CopyBuffer(sum, in, make([]byte, copyBuffer)); err != nil {
		return is, fmt.Errorf("%s: %w", s.Path, err)
	}
	sum.Sum(is.Sum[:0])
	return is, nil
}
