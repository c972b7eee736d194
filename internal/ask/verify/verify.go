// Package verify proves that the files of a journal are whole, by their indexes and by its SEALED lines, and writes
// indexes that are missing.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/terminal"
)

// Reindex writes the indexes of rotated files that are missing or damaged, and calls fn with the path of each, or
// with what kept it from being written. The active file has none, nor have files that others rotated. What runs that
// were killed have left is removed first.
func Reindex(ctx context.Context, j *archive.Journal, fn func(path string, err error)) {
	if err := segment.RemoveLeftOvers(j.Path()); err != nil {
		fn(j.Path(), err)
	}
	var base []*index.Index
	for i, s := range j.Segments {
		if !s.Active && s.Ours && !hasIndex(s) {
			err := reindex(ctx, j, s, base)
			if ctx.Err() != nil {
				return
			}
			if fn(segment.IndexPath(s.Path), err); err != nil {
				base = nil
				continue
			}
		}
		if x, err := j.Index(ctx, i); err == nil {
			base = follow(base, x)
		} else {
			base = nil // the active file, or one that others rotated
		}
	}
	for i := range j.Unread {
		fn(j.Unread[i].Path, errors.New(archive.CannotRead(&j.Unread[i])))
	}
}

// follow adds an index to those since the last full one.
func follow(base []*index.Index, x *index.Index) []*index.Index {
	if x.Since > 0 {
		base = nil
	}
	return append(base, x)
}

func reindex(ctx context.Context, j *archive.Journal, s *archive.Segment, base []*index.Index) error {
	if len(base) < index.FullEvery {
		base = nil
	}
	content, err := s.BuildIndex(ctx, base, j.Segments[0].FirstSeq)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Path, err)
	}
	if err := segment.WriteIndex(s.Path, content); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// hasIndex reports whether there is an index beside a segment that is right.
func hasIndex(s *archive.Segment) bool {
	x, in, err := s.OpenIndex()
	if err != nil {
		return false
	}
	err = x.Check()
	return in.Close() == nil && err == nil
}

// Result is what Files has read.
type Result struct {
	Lines     int
	Sealed    int // files that are as they were when a SEALED line was written about them
	Compacted int // files of which lines were removed since
}

// String says of how many files SEALED lines tell.
func (is Result) String() (text string) {
	if is.Sealed > 0 {
		text = fmt.Sprintf("; %s as sealed", terminal.Count(is.Sealed, "file is", "files are"))
	}
	if is.Compacted > 0 {
		text += fmt.Sprintf("; lines were removed of %s since, which cannot be checked",
			terminal.Count(is.Compacted, "sealed file", "sealed files"))
	}
	return text
}

// Files reads every file and compares it with its index, and with what SEALED lines say of it. It calls fn with each
// fault, a sentence without its full stop.
func Files(ctx context.Context, j *archive.Journal, fn func(fault string)) (is Result, err error) {
	var base []*index.Index
	var about seals
	defer about.lines.Close()
	complete := true // no line was removed of the segments until now
	for _, s := range j.Unread {
		fn(archive.CannotRead(&s))
	}
	for _, s := range j.Segments {
		complete = complete && s.UpTo == 0
		x, err := verify(ctx, j, s, base, complete, fn)
		if err != nil {
			return is, err
		}
		if x == nil {
			base = nil
			continue
		}
		if err := about.collect(s, x, fn); err != nil {
			return is, err
		}
		if n := len(base); n > 0 && base[n-1].Next != x.FirstSeq {
			fn(archive.MissingLines(base[n-1].Next, x.FirstSeq, s.Path))
		}
		is.Lines += x.Lines
		base = follow(base, x)
	}
	is.Sealed, is.Compacted, err = about.check(ctx, j, fn)
	return is, err
}

// verify reads a segment and returns its index, made now; nil where it cannot be read. Where the segments before are
// not complete any more, the index beside it may know more of them.
func verify(
	ctx context.Context, j *archive.Journal, s *archive.Segment, base []*index.Index, complete bool, fn func(string),
) (*index.Index, error) {
	is, in, err := beside(s, fn)
	if err != nil {
		return nil, err
	}
	if in != nil {
		defer in.Close()
	}
	if is == nil || is.Since == 0 {
		base = nil
	}
	content, err := s.BuildIndex(ctx, base, j.Segments[0].FirstSeq)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		fn(fmt.Sprintf("%s cannot be read: %v", s.Path, err))
		return nil, nil
	}
	x, err := index.Open(bytes.NewReader(content), int64(len(content)))
	if err == nil {
		err = verifyLines(s, x, fn)
	}
	if err == nil && is != nil {
		err = compare(s, is, x, complete, fn)
	}
	return x, err
}

// verifyLines looks for holes in a segment, and for what is no line.
func verifyLines(s *archive.Segment, x *index.Index, fn func(string)) error {
	stand, err := archive.Holding(x)
	if err != nil {
		return err
	}
	next, end := x.FirstSeq, int64(0)
	for at := range x.Lines {
		l, err := x.Line(at)
		if err != nil {
			return err
		}
		if l.Offset != end {
			fn(fmt.Sprintf("%s has %d damaged bytes at offset %d", s.Path, l.Offset-end, end))
		}
		if l.Seq != next && (at == 0 || !stand[at-1] || l.Seq < next) {
			fn(fmt.Sprintf("%s continues with line %d after line %d", s.Path, l.Seq, next-1))
		}
		next, end = l.Seq+1, l.Offset+l.Size
	}
	if !s.Active && end != x.Size {
		fn(fmt.Sprintf("%s has %d damaged bytes at its end", s.Path, x.Size-end))
	}
	return nil
}

// beside opens the index beside a segment that is to have one.
func beside(s *archive.Segment, fn func(string)) (*index.Index, io.Closer, error) {
	if s.Active || !s.Ours {
		return nil, nil, nil
	}
	x, in, err := s.OpenIndex()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fn(fmt.Sprintf("%s has no index", s.Path))
		return nil, nil, nil
	case errors.Is(err, index.ErrDamaged) || errors.Is(err, index.ErrOther):
		fn(fmt.Sprintf("%s cannot be used: %v", segment.IndexPath(s.Path), err))
		return nil, nil, nil
	}
	return x, in, err
}

// compare compares the index beside a segment with one that was made now.
func compare(s *archive.Segment, is, x *index.Index, complete bool, fn func(string)) error {
	same, err := index.Equal(is, x, complete && is.Since == x.Since)
	switch {
	case errors.Is(err, index.ErrDamaged):
		fn(fmt.Sprintf("%s cannot be used: %v", segment.IndexPath(s.Path), err))
	case err != nil:
		return err
	case !same:
		fn(fmt.Sprintf("%s does not agree with its file", segment.IndexPath(s.Path)))
	}
	return nil
}
