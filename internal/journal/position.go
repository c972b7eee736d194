package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"kubejournal/internal/disk"
)

// Position is how far a reading has come: a place where ReadOn resumes it.
type Position struct {
	Seq uint64 // of the line that was given last
	Mark
	// Anchored says that all that follows was written after the last commit.
	Anchored bool
	Hole     bool // as in Tail, up to here
}

// Position is the place behind the line that ReadBack is giving to its callback,
// which alone may ask.
func (j *File) Position() Position { return *j.at }

// Progress returns how many bytes of the journal's files, as they are on disk, the last
// ReadBack, ReadOn or Scan has passed, and how many there are; 0 of 0 before the
// first.
func (j *File) Progress() (passed, total int64) { return j.passed.Load(), j.total.Load() }

// ReadOn resumes a ReadBack that was broken off at p, where Holds reports that
// the journal still holds p.
func (j *File) ReadOn(p Position, fn func(line []byte, seq uint64) error) (Tail, error) {
	r := newReader(p.Mark, p.Seq, fn)
	r.resumed, r.anchored, r.found, r.tail.Hole = true, p.Anchored, p.Seq, p.Hole
	return j.readBack(&r)
}

// Scan calls fn with the lines of all files, in order, and changes nothing. A line
// that is torn or bad ends a file.
func (j *File) Scan(fn func(line []byte, seq uint64) error) error {
	all, err := j.segments()
	if err != nil {
		return err
	}
	if err := j.beginReading(all, 0); err != nil {
		return err
	}
	r := newReader(Mark{}, 0, fn)
	for _, s := range all {
		if err := j.scan(&r, s); err != nil {
			return err
		}
	}
	return nil
}

func (j *File) scan(r *reader, s segment) error {
	f, err := j.disk.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	if _, err := r.read(linesOf(counted{f, &j.passed}, s, 0), s.first, 0); err != nil && !errors.Is(err, ErrBadLine) {
		return err
	}
	return nil
}

// Holds reports whether the line seq ends at m.
func (j *File) Holds(m Mark, seq uint64) (bool, error) {
	all, err := j.segments()
	if err != nil || m.FirstSeq == 0 {
		return false, err
	}
	i := slices.IndexFunc(all, func(s segment) bool { return s.first == m.FirstSeq })
	if i < 0 {
		return false, nil
	}
	if s := all[i]; s.gzip {
		return j.holdsCompressed(s, m.Offset, seq)
	}
	start, err := j.startIn(all[i], m.Offset, seq)
	return start > 0, err
}

func (j *File) holdsCompressed(s segment, offset int64, seq uint64) (bool, error) {
	f, err := j.disk.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return false, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	in := bufio.NewReaderSize(io.LimitReader(linesOf(f, s, 0), offset), readBuffer)
	var (
		passed int64
		last   uint64
		within bool
	)
	for {
		part, err := in.ReadSlice('\n')
		if !within && len(part) > 0 {
			last, _ = lineSeq(part)
		}
		passed += int64(len(part))
		switch {
		case err == nil:
			within = false
		case errors.Is(err, bufio.ErrBufferFull):
			within = true
		case errors.Is(err, io.EOF):
			return passed == offset && len(part) == 0 && !within && last == seq, nil
		default:
			return false, fmt.Errorf("read journal: %w", err)
		}
	}
}

// beginReading counts what there is to read; before is how many files are passed
// over.
func (j *File) beginReading(all []segment, before int) error {
	var passed, total int64
	for i, s := range all {
		size := j.size
		if !s.active {
			info, err := j.disk.Stat(s.path)
			if err != nil {
				return fmt.Errorf("read journal: %w", err)
			}
			size = info.Size()
		}
		if total += size; i < before {
			passed += size
		}
	}
	j.passed.Store(passed)
	j.total.Store(total)
	return nil
}

// counted is a file whose reads are counted.
type counted struct {
	disk.File
	n *atomic.Int64
}

func (c counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.File.ReadAt(p, at)
	c.n.Add(int64(n))
	return n, err
}
