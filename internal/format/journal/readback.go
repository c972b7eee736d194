package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Tail is what ReadBack found besides the lines.
type Tail struct {
	// Cut is the size in bytes of what was cut off: a torn line, or what a power cut left of blocks that were never
	// written.
	Cut int64
	// Hole says that lines are missing where they should be: the committed segment does not have the committed line at
	// its place, or two segments do not follow each other. Lines that were moved away with all of their segment are no
	// hole.
	Hole bool
	// Misplaced says that the committed line is in another segment than it was written to.
	Misplaced bool
}

// Position is how far a reading has come: a place where ReadOn resumes it.
type Position struct {
	Seq uint64 // of the last line that was read
	Mark
	Anchored bool // all that follows was written after the last commit
	Hole     bool // as in Tail, up to here
}

// reading is the state of a File's ReadBack.
type reading struct {
	running       atomic.Bool    // the active file is not replaced
	lastSeq       atomic.Uint64  // of the last line that was found
	at            *Position      // for the callback
	passed, total atomic.Int64   // bytes
	lister        segment.Lister // for a start alone
}

// Position returns the place after the line that ReadBack passes to its callback, which alone may call it.
func (j *File) Position() Position { return *j.reading.at }

// Progress returns how many bytes of the files on disk the last ReadBack, ReadOn or Scan has passed, and how many there
// are.
func (j *File) Progress() (passed, total int64) {
	return j.reading.passed.Load(), j.reading.total.Load()
}

// LastSeq returns the seq of the last line that ReadBack found, 0 for none: lower than the last committed one where
// lines are gone.
func (j *File) LastSeq() uint64 { return j.reading.lastSeq.Load() }

// Fresh reports whether there is no line yet, in any of the journal's files.
func (j *File) Fresh() (bool, error) {
	all, err := j.segments()
	return err == nil && len(all) == 1 && j.active.size == 0, err
}

// segments returns one segment for each first line, in the order of seq, the open file last.
func (j *File) segments() ([]segment.Segment, error) {
	all, err := j.reading.lister.List(j.path)
	if err != nil {
		return nil, err
	}
	first, shared := j.active.firstSeq, disk.SharedFolder(filepath.Dir(j.path))
	all = slices.DeleteFunc(all, func(s segment.Segment) bool {
		return s.Active || s.FirstSeq == first || j.foreign(shared, s.Path)
	})
	all = slices.CompactFunc(all, func(a, b segment.Segment) bool { return a.FirstSeq == b.FirstSeq })
	if first == 0 {
		first = math.MaxUint64 // behind all others
	}
	return append(all, segment.Segment{
		Path: j.path, FirstSeq: first, Size: j.active.size, Active: true, File: j.active.f,
	}), nil
}

// foreign reports whether a file may be somebody else's, who has put it among the journal's. It is logged once, and
// no line is taken from it: that would be a line that this journal never had.
func (j *File) foreign(shared *disk.Shared, path string) bool {
	if shared == nil {
		return false
	}
	info, err := j.disk.Stat(path)
	if err != nil {
		return false // reading it says so
	}
	why := shared.Foreign(info)
	if why == "" {
		return false
	}
	if _, said := j.strangers.LoadOrStore(path, true); !said {
		j.log.Warn("a file with the name of a rotated one may be somebody else's and is not read;"+
			" remove it, or chown it if it is this journal's", zap.String("path", path), zap.String("why", why))
	}
	return true
}

// reader returns a Reader that counts what it reads of segments, of which the first ones are passed over.
func (j *File) reader(all []segment.Segment, passedOver int) segment.Reader {
	var passed, total int64
	for i, s := range all {
		if total += s.Size; i < passedOver {
			passed += s.Size
		}
	}
	j.reading.passed.Store(passed)
	j.reading.total.Store(total)
	return segment.Reader{Passed: &j.reading.passed}
}

// Holds reports whether the line seq ends at m.
func (j *File) Holds(m Mark, seq uint64) (bool, error) {
	all, err := j.segments()
	i := slices.IndexFunc(all, func(s segment.Segment) bool { return s.FirstSeq == m.FirstSeq })
	if err != nil || i < 0 {
		return false, err
	}
	var r segment.Reader
	defer r.Close()
	return r.OpenAfter(all[i], m.Offset, seq)
}

// Scan calls fn with the lines of all segments, in order, and changes nothing. A line that is torn or damaged, or that
// fn refuses with ErrBadLine, ends a segment.
func (j *File) Scan(fn func(line []byte, seq uint64) error) error {
	all, err := j.segments()
	if err != nil {
		return err
	}
	r := j.reader(all, 0)
	defer r.Close()
	for _, s := range all {
		err := r.Open(s, 0)
		for err == nil {
			var l segment.RawLine
			if l, err = r.Next(); err == nil && l.Seq == 0 {
				err = ErrBadLine
			}
			if err == nil {
				err = fn(l.Bytes, l.Seq)
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrBadLine) {
			return err
		}
	}
	return nil
}

// ReadBack calls fn with every complete line after the line seq, which ends at from, in order and without its "\n".
// What comes after the last of them in the active file is cut off, and so is a line that fn refuses with an error
// wrapping ErrBadLine, with all that follows it. That is safe because nothing after the last commit has moved a
// position: the server will send these events again. It must come before the first Write; fn may call Sync.
//
// Without a commit to start from (seq 0, or segments that do not lead on from it), lines may follow a damaged one that
// the server would not send again: then only a last line without its end is cut, and anything else is ErrDamaged. The
// same goes for rotated segments: they were complete when they got their name. begun says that there was no line when
// the checkpoint was begun, so that seq 0 is a commit too.
func (j *File) ReadBack(from Mark, seq uint64, begun bool, fn func(line []byte, seq uint64) error) (Tail, error) {
	b := replay{from: from, seq: seq, last: seq, fn: fn}
	b.anchored = from.FirstSeq == 0 && (seq > 0 || begun)
	return j.readBack(&b)
}

// ReadOn resumes a ReadBack that was broken off at p, where Holds reports that the journal still holds p.
func (j *File) ReadOn(p Position, fn func(line []byte, seq uint64) error) (Tail, error) {
	b := replay{from: p.Mark, seq: p.Seq, last: p.Seq, found: p.Seq, resumed: true, anchored: p.Anchored, fn: fn}
	b.tail.Hole = p.Hole
	return j.readBack(&b)
}

// replay is one call of ReadBack or ReadOn.
type replay struct {
	from     Mark     // of the last commit
	seq      uint64   // of the last committed line
	last     uint64   // of the last line that counts, at least seq
	found    uint64   // of the last line that was seen
	anchored bool     // all that comes now was written after the last commit
	resumed  bool     // seq is no commit, but where a reading was broken off
	at       Position // behind the line that fn gets
	tail     Tail
	fn       func(line []byte, seq uint64) error
}

func (j *File) readBack(b *replay) (Tail, error) {
	if err := j.settle(); err != nil {
		return Tail{}, err
	}
	j.reading.running.Store(true)
	defer j.reading.running.Store(false)
	all, err := j.segments()
	if err != nil {
		return Tail{}, err
	}
	j.reading.at = &b.at
	first := firstOfInterest(all, b.from, b.seq)
	b.anchored = b.anchored && (b.resumed || all[first].FirstSeq > b.seq)
	r := j.reader(all, first)
	defer r.Close()
	for _, s := range all[first:] {
		var start int64
		committed := s.FirstSeq == b.from.FirstSeq
		if b.seq > 0 && committed {
			ok, err := r.OpenAfter(s, b.from.Offset, b.seq)
			if err != nil {
				return Tail{}, err
			}
			if ok {
				start, b.found, b.anchored = b.from.Offset, b.seq, b.anchored || !b.resumed
			}
			b.tail.Hole = b.tail.Hole || !ok
		} else if err := r.Open(s, 0); err != nil {
			return Tail{}, err
		}
		if err := j.readSegment(b, &r, s, start); err != nil {
			return Tail{}, err
		}
		b.tail.Hole = b.tail.Hole || committed && b.found < b.seq
	}
	j.reading.lastSeq.Store(b.found)
	return b.tail, nil
}

// firstOfInterest is the index of the first segment that may hold lines after the line seq: the committed one, or else
// the last that begins before them; at most the active one, whose end may be torn even if lines have gone to stdout
// since.
func firstOfInterest(all []segment.Segment, from Mark, seq uint64) int {
	behind := 0
	for i, s := range all {
		if s.FirstSeq == from.FirstSeq {
			return i
		}
		if s.FirstSeq <= seq {
			behind = i + 1
		}
	}
	// Where the active file was empty at the commit, the segments before it were read to their end.
	if from.FirstSeq > 0 && behind > 0 && (behind == len(all) || all[behind].FirstSeq != seq+1) {
		behind--
	}
	return min(behind, len(all)-1)
}

// readSegment reads a segment, whose first start bytes are passed over. Where it is the active one, or was when the
// crash came and others have renamed it since, what is behind its last good line is cut off.
func (j *File) readSegment(b *replay, r *segment.Reader, s segment.Segment, start int64) error {
	good, err := b.read(r, s.FirstSeq, start)
	bad := errors.Is(err, ErrBadLine)
	if err != nil && !bad {
		return err
	}
	mayCut := b.anchored && !s.Ours && !s.Gzip
	if bad && !mayCut {
		remedy := "go on without it"
		if s.Active {
			remedy = "begin a new one"
		}
		return fmt.Errorf("read journal %s: %w at byte %d, after seq %d; move the file away to %s", s.Path, ErrDamaged,
			good, b.found, remedy)
	}
	if mayCut || s.Active {
		return j.cut(b, s, good)
	}
	return nil
}

// cut cuts off what is behind the last good line. A crash before that leaves it to the next start.
func (j *File) cut(b *replay, s segment.Segment, good int64) error {
	if s.Size == good {
		return nil
	}
	if err := j.owned(); err != nil {
		return err
	}
	f := j.active.f
	if !s.Active {
		var err error
		if f, err = j.disk.OpenFile(s.Path, os.O_RDWR, 0); err != nil {
			return fmt.Errorf("cut torn line: %w", err)
		}
		defer f.Close() //nolint:errcheck // what it cut, the next start would cut again
	}
	if err := f.Truncate(good); err != nil {
		return fmt.Errorf("cut torn line: %w", err)
	}
	b.tail.Cut += s.Size - good
	if s.Active {
		j.active.endsAt(good)
		j.active.unsynced = true
		if good == 0 {
			j.active.firstSeq = 0
		}
	}
	return nil
}

// read reads the lines of the segment that begins with the line first, from start on. It returns where its good lines
// end: at a line without its end, or with ErrBadLine at a bad one.
func (b *replay) read(r *segment.Reader, first uint64, start int64) (good int64, err error) {
	before := uint64(0) // seq of the line before, 0 before the file's first
	if start > 0 {
		before = b.seq
	}
	for good = start; ; {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return good, nil
		}
		if err != nil {
			return good, fmt.Errorf("read journal: %w", err)
		}
		if l.Seq == 0 || before > 0 && l.Seq != before+1 {
			return good, ErrBadLine
		}
		end := l.Offset + int64(len(l.Bytes)) + 1
		b.at.Mark = Mark{FirstSeq: first, Offset: end}
		if b.seq > 0 && b.seq+1 == l.Seq && before == 0 && !b.resumed {
			b.anchored = true // a file begun after the commit
		}
		if l.Seq == b.seq && b.found < b.seq && b.from.FirstSeq > 0 && b.from.FirstSeq != first {
			b.tail.Misplaced = true
		}
		if err := b.take(l.Bytes, l.Seq); err != nil {
			return good, err
		}
		before, good = l.Seq, end
	}
}

// take passes the line n to the callback, unless it was committed already or read in another segment.
func (b *replay) take(line []byte, n uint64) error {
	if n <= b.last {
		b.found = max(b.found, n)
		return nil
	}
	if n != b.last+1 && b.last > 0 {
		b.tail.Hole = true
	}
	b.at.Seq, b.at.Anchored, b.at.Hole = n, b.anchored, b.tail.Hole
	if err := b.fn(line, n); err != nil {
		return err
	}
	b.last, b.found = n, n
	return nil
}
