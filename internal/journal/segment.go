package journal

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/disk"
)

// Segment is one of a journal's files that nothing is appended to any more, for
// those who read beside the process that appends.
type Segment struct {
	Path     string
	FirstSeq uint64 // of its first line
	Gzip     bool
}

// Rotated returns the rotated files of the journal at path, those that
// logrotate has renamed or copied included, in the order of seq. Files of
// others' making may hold lines that stand in another one too. A file that is
// compressed while it looks may be missing: a reader that finds a hole in seq
// asks again.
func Rotated(path string) ([]Segment, error) {
	j := File{path: path, name: namingOf(path), disk: disk.OS}
	dir := filepath.Dir(path)
	entries, err := j.disk.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	var rotated []Segment
	for _, e := range entries {
		name := e.Name()
		if name == j.name.active || !j.name.related(name) || !e.Type().IsRegular() {
			continue
		}
		plain, compressed := strings.CutSuffix(name, gzipped)
		if compressed && names[plain] {
			continue // the same lines
		}
		s := segment{path: filepath.Join(dir, name), gzip: compressed}
		if s.first, err = j.firstOf(s); err != nil {
			return nil, err
		}
		if s.first > 0 {
			rotated = append(rotated, Segment{Path: s.path, FirstSeq: s.first, Gzip: compressed})
		}
	}
	slices.SortFunc(rotated, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.FirstSeq, b.FirstSeq), strings.Compare(a.Path, b.Path))
	})
	return rotated, nil
}

// FirstSeq is the seq of the first line of an open journal file, 0 where there
// is none yet.
func FirstSeq(f io.ReaderAt) (uint64, error) {
	seq, _, err := headOf(f)
	return seq, err
}

// IsRotated tells whether a file has the name of a rotated one, of whatever
// journal: nothing will be appended to it.
func IsRotated(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), gzipped)
	for _, stem := range []string{strings.TrimSuffix(name, filepath.Ext(name)), name} {
		at := len(stem) - len(timeLayout)
		if at < 1 || stem[at-1] != '-' {
			continue
		}
		if t, err := time.Parse(timeLayout, stem[at:]); err == nil && t.Format(timeLayout) == stem[at:] {
			return true
		}
	}
	return false
}
