package journal

import (
	"go.uber.org/zap"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
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
func (t *tidier) findSeal(j *File, all []segment.Segment) {
	t.mu.Lock()
	after, seal, committed := t.sealed, t.seal, t.committed
	t.mu.Unlock()
	if after == nil || !j.options.Load().Seal || seal != nil && seal.From > *after {
		return
	}
	again := func(s *segment.Segment) bool { // whether it is too early to continue
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
