package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// sealed is a SEALED line.
type sealed struct {
	line.Seal
	seq uint64 // of the line
}

// seals collects what a journal says of its own files.
type seals struct {
	all     []sealed    // in their order
	removed []line.Span // lines of files that are gone
	lines   archive.Reader
}

// collect reads the lines of a segment that are about files.
func (a *seals) collect(s *archive.Segment, x *index.Index, fn func(string)) error {
	for at := range x.Lines {
		l, err := x.Line(at)
		if err != nil {
			return err
		}
		if l.Type != index.Sealed && l.Type != index.Removed {
			continue
		}
		f, err := a.lines.Read(s, x, l.Seq, l.Offset)
		if err != nil {
			return err
		}
		if gone, ok := f.Removed(); ok && f.Is(line.FieldStream, line.Journal) {
			a.removed = append(a.removed, gone)
		} else if l.Type == index.Sealed {
			is, ok := f.Sealed()
			if !ok {
				fn(fmt.Sprintf("line %d does not say what it seals", l.Seq))
				continue
			}
			a.all = append(a.all, sealed{is, l.Seq})
		}
	}
	return nil
}

// check compares the rotated files with what SEALED lines say of them. It returns how many files are as they were
// sealed, and of how many lines were removed since, so that it cannot be told.
func (a *seals) check(ctx context.Context, j *archive.Journal, fn func(string)) (same, compacted int, err error) {
	files := make(map[uint64]*archive.Segment)
	for _, s := range j.Segments {
		if files[s.FirstSeq] == nil && !s.Active {
			files[s.FirstSeq] = s
		}
	}
	joined := func(seq uint64) bool { // with the file before, when lines of both were removed
		return slices.ContainsFunc(j.Segments, func(s *archive.Segment) bool {
			return s.UpTo > 0 && s.FirstSeq <= seq && seq <= s.UpTo
		})
	}
	known := make(map[uint64]bool)
	for i, is := range a.all {
		if i > 0 && is.Seal == a.all[i-1].Seal {
			continue // it was written again by a replica whose term came back
		}
		if i > 0 && is.After(a.all[i-1].Chain).Chain != is.Chain {
			fn(fmt.Sprintf("line %d does not continue the chain of line %d: a SEALED line was changed, or is missing",
				is.seq, a.all[i-1].seq))
		}
		known[is.From] = true
		s := files[is.From]
		if s == nil {
			if joined(is.From) {
				compacted++
			} else {
				a.missing(&is, fn)
			}
			continue
		}
		now, err := s.Seal(ctx)
		switch {
		case ctx.Err() != nil:
			return same, compacted, ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return same, compacted, err // it was removed meanwhile
		case err != nil:
			continue // Files has said that it cannot be read
		case now.Size == is.Size && now.Sum == is.Sum:
			same++
		case s.UpTo > 0:
			compacted++
		default:
			fn(fmt.Sprintf("%s is not the file that line %d has sealed: that had %d bytes with the SHA-256 %x, this has %d with %x",
				s.Path, is.seq, is.Size, is.Sum, now.Size, now.Sum))
		}
	}
	if n := len(a.all); n > 0 {
		for _, s := range j.Segments {
			between := a.all[0].From <= s.FirstSeq && s.FirstSeq < a.all[n-1].From
			if between && !s.Active && s.UpTo == 0 && !known[s.FirstSeq] {
				fn(fmt.Sprintf("%s is sealed by no line, and later files are", s.Path))
			}
		}
	}
	return same, compacted, nil
}

// missing says that a file is not there that was sealed, unless a line says that it was removed.
func (a *seals) missing(is *sealed, fn func(string)) {
	for _, gone := range a.removed {
		if gone.From <= is.From && is.To <= gone.To {
			return
		}
	}
	fn(fmt.Sprintf("no file begins with line %d, as the file did that line %d has sealed, and no REMOVED line says that it is gone",
		is.From, is.seq))
}
