package journal

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"math"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/disk"
)

// Extent is how far back a journal reaches. It is found out when the journal is opened and when its files change, not when
// it is asked for.
type Extent struct {
	Oldest   time.Time // of the first line of the oldest segment; zero where there is none, or it cannot be read
	Segments int       // the active one included

	first uint64 // the seq of that line
}

// Extent returns how far back the journal reaches.
func (j *File) Extent() Extent { return *j.extent.Load() }

// survey finds out how far back the journal reaches. Only OpenFile and the tidier call it.
func (j *File) survey() {
	before := j.extent.Load()
	now, err := j.look(*before)
	if err != nil {
		j.log.Warn("cannot read how far back the journal reaches", zap.Error(err))
	}
	if !j.extent.CompareAndSwap(before, &now) {
		j.tidy.wakeUp() // the journal's first line has been written meanwhile
	}
}

// look is survey's reading; before is what it found the last time.
func (j *File) look(before Extent) (Extent, error) {
	all, err := listSegments(j.disk, j.path, &j.tidy.heads)
	if err != nil {
		return before, err
	}
	listed := make(map[string]bool, len(all))
	for _, s := range all {
		listed[s.Path] = true
	}
	maps.DeleteFunc(j.tidy.heads.known, func(path string, _ Segment) bool { return !listed[path] })
	now := before
	now.Segments = len(all)
	if !listed[j.path] { // a new active file is about to be there
		now.Segments++
	}
	if len(all) == 0 || all[0].FirstSeq == now.first {
		return now, nil
	}
	now.first = all[0].FirstSeq
	now.Oldest, err = all[0].firstTime(j.disk)
	return now, err
}

// began takes note of the first line of a new file, which is the journal's first where there are no others.
func (j *File) began(line []byte) {
	now := *j.extent.Load()
	if now.Segments > 1 || !now.Oldest.IsZero() {
		return
	}
	now.first, _ = lineSeq(line)
	now.Oldest = lineTime(line)
	j.extent.Store(&now)
}

// firstTime reads the time of the segment's first line, zero where there is none.
func (s *Segment) firstTime(d disk.FS) (time.Time, error) {
	if s.FirstSeq == 0 {
		return time.Time{}, nil
	}
	f, err := s.open(d)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	var in io.Reader = io.NewSectionReader(f, 0, math.MaxInt64)
	if s.Gzip {
		if in, err = gzip.NewReader(in); err != nil {
			return time.Time{}, err
		}
	}
	head := make([]byte, 2*headSize)
	n, err := io.ReadFull(in, head)
	if n > 0 {
		err = nil // a short line
	}
	return lineTime(head[:n]), err
}

// lineTime returns the time behind the seq at the beginning of a line, zero where there is none.
func lineTime(line []byte) (t time.Time) {
	rest, ok := bytes.CutPrefix(line, lineHead)
	if !ok {
		return t
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, "0123456789"), []byte(`,"time":"`))
	if end := bytes.IndexByte(rest, '"'); ok && end > 0 {
		t, _ = time.Parse(time.RFC3339Nano, string(rest[:end])) // zero with an error
	}
	return t
}
