package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// checkIndexes checks that each index is about its segment and has its lines; and, if all of them are there, that each
// rotated segment has one.
func (k *keeper) checkIndexes(there bool) error {
	segments, err := Segments(k.path)
	if err != nil {
		return err
	}
	var errs []error
	since := segments[0].FirstSeq // nothing is missing from there on
	for _, s := range segments {
		if s.Active || !s.Ours {
			continue
		}
		if err := checkIndex(s, since); err != nil && (there || !errors.Is(err, fs.ErrNotExist)) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Path, err))
		}
	}
	return errors.Join(errs...)
}

func checkIndex(s Segment, since uint64) error {
	x, in, err := s.OpenIndex()
	if err != nil {
		return err
	}
	defer in.Close()
	var r Reader
	defer r.Close()
	if err := r.Open(s, 0); err != nil {
		return err
	}
	n := 0
	for ; ; n++ {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at, err := x.Line(n)
		if err != nil {
			return err
		}
		if at.Seq != l.Seq || at.Offset != l.Offset {
			return fmt.Errorf("line %d at %d is line %d at %d in the index", l.Seq, l.Offset, at.Seq, at.Offset)
		}
		stream := x.Streams[0].Name
		if !strings.HasPrefix(stream, "pods") {
			return fmt.Errorf("stream %q", stream)
		}
	}
	if n != x.Lines || x.Since > since {
		return fmt.Errorf("%d lines, and %d in the index, since %d", n, x.Lines, x.Since)
	}
	return nil
}
