package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kubejournal/internal/index"
	"kubejournal/internal/journal"
)

// Reindex writes the indexes of rotated files that are missing or damaged, and calls fn with the path of each. The active
// file has none, nor have files that others rotated.
func (j *Journal) Reindex(ctx context.Context, fn func(path string)) error {
	for i, s := range j.segments {
		if s.Active || !s.Ours || j.hasIndex(ctx, i) {
			continue
		}
		var before *index.Index
		if i > 0 {
			var err error
			if before, err = j.index(ctx, i-1); err != nil {
				return err
			}
		}
		content, err := s.BuildIndex(ctx, before)
		if err != nil {
			return fmt.Errorf("read %s: %w", s.Path, err)
		}
		path := journal.IndexPath(s.Path)
		if err := replace(path, content); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
		fn(path)
		if s.x, s.in, err = s.OpenIndex(); err != nil {
			return fmt.Errorf("open index %s: %w", path, err)
		}
	}
	return nil
}

// hasIndex reports whether there is an index beside a segment that is right.
func (j *Journal) hasIndex(ctx context.Context, i int) bool {
	s := j.segments[i]
	x, in, err := s.OpenIndex()
	if err != nil {
		return false
	}
	right, err := j.follows(ctx, i, x)
	if err != nil || !right || x.Check() != nil {
		return in.Close() != nil
	}
	if s.in != nil {
		_ = s.in.Close() // it is only read
	}
	s.x, s.in = x, in
	return true
}

// replace writes a file under a name that nobody reads, syncs it and renames it.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o640)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Verify reads every file and compares it with its index. It calls fn with each fault, a sentence without its full stop, and
// returns how many lines there are.
func (j *Journal) Verify(ctx context.Context, fn func(fault string)) (lines int, err error) {
	var before *index.Index
	for _, s := range j.segments {
		content, err := s.BuildIndex(ctx, before)
		if ctx.Err() != nil {
			return lines, ctx.Err()
		}
		if err != nil {
			fn(fmt.Sprintf("%s cannot be read: %v", s.Path, err))
			before = nil
			continue
		}
		x, err := index.Open(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return lines, err
		}
		if before != nil && before.Next != x.FirstSeq {
			fn(missing(before.Next, x.FirstSeq, s.Path))
		}
		if err := s.verifyLines(x, fn); err != nil {
			return lines, err
		}
		lines += x.Lines
		if !s.Active && s.Ours {
			if err := s.verifyIndex(x, before != nil, fn); err != nil {
				return lines, err
			}
		}
		before = x

	}
	return lines, nil
}

// missing names lines that are not there.
func missing(next, seq uint64, path string) string {
	switch {
	case seq < next:
		return fmt.Sprintf("%s repeats lines from %d on", path, seq)
	case seq == next+1:
		return fmt.Sprintf("line %d is missing before %s", next, path)
	}
	return fmt.Sprintf("lines %d to %d are missing before %s", next, seq-1, path)
}

// verifyLines looks for holes in a segment, and for what is no line.
func (s *segment) verifyLines(x *index.Index, fn func(string)) error {
	next, end := x.FirstSeq, int64(0)
	for at := range x.Lines {
		l, err := x.Line(at)
		if err != nil {
			return err
		}
		if l.Offset != end {
			fn(fmt.Sprintf("%s has %d damaged bytes at offset %d", s.Path, l.Offset-end, end))
		}
		if l.Seq != next {
			fn(fmt.Sprintf("%s goes on with line %d behind line %d", s.Path, l.Seq, next-1))
		}
		next, end = l.Seq+1, l.Offset+l.Size
	}
	if !s.Active && end != x.Size {
		fn(fmt.Sprintf("%s has %d damaged bytes at its end", s.Path, x.Size-end))
	}
	return nil
}

// verifyIndex compares the index beside a segment with one that was made now. before says that what was before was there to
// make it.
func (s *segment) verifyIndex(x *index.Index, before bool, fn func(string)) error {
	path := journal.IndexPath(s.Path)
	is, in, err := s.OpenIndex()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fn(fmt.Sprintf("%s has no index", s.Path))
		return nil
	case errors.Is(err, index.ErrDamaged) || errors.Is(err, index.ErrOther):
		fn(fmt.Sprintf("%s cannot be used: %v", path, err))
		return nil
	case err != nil:
		return err
	}
	defer in.Close()
	same, err := index.Equal(is, x, before && is.Since == x.Since)
	switch {
	case errors.Is(err, index.ErrDamaged):
		fn(fmt.Sprintf("%s cannot be used: %v", path, err))
	case err != nil:
		return err
	case !same:
		fn(fmt.Sprintf("%s does not agree with its file", path))
	}
	return nil
}
