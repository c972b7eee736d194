package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubejournal/internal/disk"
	"kubejournal/internal/event"
)

const (
	// readBuffer is the size of the reads of ReadBack, in bytes. A line may be
	// longer.
	readBuffer = 1 << 20

	// gzipBuffer is the size of the reads of a compressed file.
	gzipBuffer = 64 << 10

	// firstStep is how far back the beginning of the last committed line is
	// looked for at first, in bytes.
	firstStep = 64 << 10
)

// maxLine is a variable for tests only.
var maxLine = event.MaxLine

// Tail is what ReadBack found besides the lines.
type Tail struct {
	// Cut is the size in bytes of what was cut off: a line torn by a crash, or
	// garbage that a power cut left where blocks were never written.
	Cut int64
	// Hole says that lines are missing where they should stand: the committed
	// file does not have the committed line at its place, or two files do not
	// follow each other. Lines that are gone with all of their file are no hole:
	// they were moved away.
	Hole bool
	// Misplaced says that the committed line stands in another file than it was
	// written to.
	Misplaced bool
}

// segment is one file of the journal.
type segment struct {
	path   string
	first  uint64 // seq of its first line
	gzip   bool
	ours   bool // rotated by us
	active bool
}

// ReadBack calls fn with every complete line that follows the line seq, which
// from places, in order and without its "\n". What comes after the last of
// them in the active file is cut off. fn may refuse a line with an error wrapping
// ErrBadLine; it and all that follows it is then cut off too. That is safe because
// nothing after the last commit has moved a position: the server will send these
// events again.
//
// A line stands where it belongs when its seq is one more than the last one's.
//
// It is for the time before the first Write: fn may call Sync.
//
// Without a commit to start from (seq 0, or files that do not lead on from it),
// lines may stand behind a bad one that the server would not send again: then only
// a last line without its end is cut, and anything else is ErrDamaged. So it is in
// rotated files: they were complete when they got their name. begun says that
// there was no line when the checkpoint was begun, so that seq 0 is a commit too.
func (j *File) ReadBack(from Mark, seq uint64, begun bool, fn func(line []byte, seq uint64) error) (Tail, error) {
	r := newReader(from, seq, fn)
	r.anchored = from.FirstSeq == 0 && (seq > 0 || begun)
	return j.readBack(&r)
}

func (j *File) readBack(r *reader) (Tail, error) {
	if err := j.settle(); err != nil {
		return Tail{}, err
	}
	j.setReading(true)
	defer j.setReading(false)
	all, err := j.segments()
	if err != nil {
		return Tail{}, err
	}
	j.at = &r.at
	before := firstOfInterest(all, r.from, r.seq)
	r.anchored = r.anchored && (r.resumed || all[before].first > r.seq)
	if err := j.beginReading(all, before); err != nil {
		return Tail{}, err
	}
	for i, s := range all[before:] {
		start := int64(0)
		if i == 0 && r.seq > 0 && s.first == r.from.FirstSeq && !s.gzip {
			if start, err = j.startIn(s, r.from.Offset, r.seq); err != nil {
				return Tail{}, err
			}
			if start > 0 {
				r.found, r.anchored = r.seq, r.anchored || !r.resumed
				j.passed.Add(start)
			} else {
				r.tail.Hole = true
			}
		}
		if !s.active {
			if err := j.readRotated(r, s, start); err != nil {
				return Tail{}, err
			}
		} else if err := j.readActive(r, s.first, start); err != nil {
			return Tail{}, err
		}
		if s.first == r.from.FirstSeq && r.found < r.seq {
			r.tail.Hole = true
		}
	}
	j.lastSeq = r.found
	return r.tail, nil
}

func (j *File) setReading(is bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reading = is
}

// firstOfInterest is the index of the first file that may hold lines after the
// line seq: the committed one, or else the last that begins before them. It is never
// behind the active one, whose last line may be torn whatever the mark says: lines
// may have gone to stdout since.
func firstOfInterest(all []segment, from Mark, seq uint64) int {
	behind := 0
	for i, s := range all {
		if s.first == from.FirstSeq {
			return i
		}
		if s.first <= seq {
			behind = i + 1
		}
	}
	// Where the active file was empty at the commit, the files before it were
	// read to their end.
	if from.FirstSeq > 0 && behind > 0 && (behind == len(all) || all[behind].first != seq+1) {
		behind--
	}
	return min(behind, len(all)-1)
}

// reader reads back one file after the other.
type reader struct {
	seq   uint64 // of the last committed line
	last  uint64 // of the last line that counts, at least seq
	found uint64 // of the last line that was seen
	// anchored says that all that comes now was written after the last commit.
	anchored bool
	// committed says that the file being read is the committed one, compressed.
	committed bool
	// resumed says that seq is no commit, but where a reading was broken off.
	resumed bool
	from    Mark     // of the last commit
	at      Position // behind the line being given
	fn      func(line []byte, seq uint64) error
	r       *bufio.Reader
	long    []byte // scratch: a line longer than the buffer
	tail    Tail
}

func newReader(from Mark, seq uint64, fn func(line []byte, seq uint64) error) reader {
	return reader{seq: seq, last: seq, from: from, fn: fn, r: bufio.NewReaderSize(nil, readBuffer)}
}

// segments returns the journal's files in the order of seq, the active one
// last. Of files that begin with the same line one is taken.
func (j *File) segments() ([]segment, error) {
	dir := filepath.Dir(j.path)
	entries, err := j.disk.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var all []segment
	for _, e := range entries {
		name := e.Name()
		if name == j.name.active || !j.name.related(name) || !e.Type().IsRegular() {
			continue
		}
		s := segment{path: filepath.Join(dir, name), gzip: strings.HasSuffix(name, gzipped)}
		_, _, s.ours = j.name.parse(name)
		if s.first, err = j.firstOf(s); err != nil {
			return nil, err
		}
		if s.first > 0 && s.first != j.firstSeq {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b segment) int {
		// Ours before others', and the plain file of two.
		return cmp.Or(cmp.Compare(a.first, b.first), compareBool(b.ours, a.ours), compareBool(a.gzip, b.gzip))
	})
	all = slices.CompactFunc(all, func(a, b segment) bool { return a.first == b.first })
	first := j.firstSeq
	if first == 0 {
		first = math.MaxUint64 // whatever comes before it
	}
	return append(all, segment{path: j.path, first: first, active: true}), nil
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// firstOf is the seq of the first line of a file that may be ours; 0 when it
// is not.
func (j *File) firstOf(s segment) (uint64, error) {
	f, err := j.disk.OpenFile(s.path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return 0, nil // gone, or nothing of ours
	}
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	var head [64]byte
	n, err := io.ReadFull(linesOf(f, s, 0), head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && s.gzip {
		return 0, nil // not a gzip file of ours
	}
	seq, _ := lineSeq(head[:n])
	return seq, nil
}

// linesOf reads the lines of a file from start on.
func linesOf(f disk.File, s segment, start int64) io.Reader {
	plain := io.NewSectionReader(f, start, math.MaxInt64-start)
	if !s.gzip {
		return plain
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(plain, gzipBuffer))
	if err != nil {
		return failed{err}
	}
	return z
}

// failed is a reader of nothing but an error.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// startIn is where reading begins in the file of the last commit: behind the
// line seq, or at the file's beginning where that line is not at its place.
func (j *File) startIn(s segment, offset int64, seq uint64) (int64, error) {
	f := j.f
	if !s.active {
		var err error
		if f, err = j.disk.OpenFile(s.path, os.O_RDONLY, 0); err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
		defer f.Close() //nolint:errcheck // it is only read
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	if offset <= 0 || offset > info.Size() {
		return 0, nil
	}
	if n, ok, err := seqBefore(f, offset); err != nil || !ok || n != seq {
		return 0, err
	}
	return offset, nil
}

// readRotated reads a file that nothing is appended to.
func (j *File) readRotated(r *reader, s segment, start int64) error {
	f, err := j.disk.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	r.committed = s.first == r.from.FirstSeq && s.gzip
	good, err := r.read(linesOf(counted{f, &j.passed}, s, start), s.first, start)
	if !s.ours && !s.gzip && r.anchored && (err == nil || errors.Is(err, ErrBadLine)) {
		return j.cutRenamed(r, s, start+good)
	}
	if errors.Is(err, ErrBadLine) {
		return fmt.Errorf("read journal %s: %w at byte %d, after seq %d; move the file away to go on without it", s.path, ErrDamaged, start+good, r.found)
	}
	return err
}

// cutRenamed cuts off what is behind the last good line of a file that others
// have renamed, perhaps while no daemon ran: it was the active one, and the crash
// was its.
func (j *File) cutRenamed(r *reader, s segment, good int64) error {
	f, err := j.disk.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // what it cut, the next start would cut again
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if info.Size() == good {
		return nil
	}
	if err := j.owned(); err != nil {
		return err
	}
	if err := f.Truncate(good); err != nil {
		return fmt.Errorf("cut torn line: %w", err)
	}
	r.tail.Cut += info.Size() - good
	return nil
}

// readActive reads the active file and cuts off what is behind its last good
// line. A crash before the truncation leaves it to the next start.
func (j *File) readActive(r *reader, first uint64, start int64) error {
	r.committed = false
	good, err := r.read(io.NewSectionReader(counted{j.f, &j.passed}, start, j.size-start), first, start)
	good += start
	if errors.Is(err, ErrBadLine) && !r.anchored {
		return fmt.Errorf("read journal %s: %w at byte %d, after seq %d; move the file away to begin a new one", j.path, ErrDamaged, good, r.found)
	}
	if err != nil && !errors.Is(err, ErrBadLine) {
		return err
	}
	j.lineEnd = good
	if j.size == good {
		return nil
	}
	if err := j.owned(); err != nil {
		return err
	}
	r.tail.Cut += j.size - good
	if err := j.f.Truncate(good); err != nil {
		return fmt.Errorf("cut torn line: %w", err)
	}
	j.unsynced = true
	j.size, j.safe = good, good
	j.end.restart(good)
	if good == 0 {
		j.firstSeq = 0
	}
	return nil
}

// read reads the lines from start on of the file that begins with the line first,
// and returns how many bytes of whole, good lines it has: up to a line without its
// end, or with ErrBadLine up to a bad one.
func (r *reader) read(in io.Reader, first uint64, start int64) (good int64, err error) {
	r.r.Reset(in)
	before := uint64(0) // seq of the line before, 0 in front of the file
	if start > 0 {
		before = r.last
	}
	for {
		line, err := r.r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			if r.long = append(r.long, line...); len(r.long) > maxLine { // zeros, or no journal
				r.long = nil
				return good, ErrBadLine
			}
			line, err = r.r.ReadSlice('\n')
		}
		if len(r.long) > 0 {
			line = append(r.long, line...)
			r.long = line[:0]
		}
		if errors.Is(err, io.EOF) {
			return good, nil
		}
		if err != nil {
			return good, fmt.Errorf("read journal: %w", err)
		}
		n, ok := lineSeq(line)
		if !ok || before > 0 && n != before+1 {
			return good, ErrBadLine
		}
		r.at.Mark = Mark{FirstSeq: first, Offset: start + good + int64(len(line))}
		if !r.resumed && before == 0 && n == r.seq+1 && r.seq > 0 {
			r.anchored = true // a file begun after the commit
		}
		if n == r.seq && n > 0 {
			r.meet()
		}
		if err := r.take(line[:len(line)-1], n); err != nil {
			return good, err
		}
		before = n
		good += int64(len(line))
	}
}

// meet compares where the line seq stands with where it was committed.
func (r *reader) meet() {
	switch {
	case r.from.FirstSeq != r.at.FirstSeq:
		r.tail.Misplaced = r.tail.Misplaced || r.from.FirstSeq > 0 && r.found < r.seq
	case r.from.Offset != r.at.Offset:
		r.tail.Hole = true
	case r.committed && !r.resumed:
		r.anchored = true
	}
}

// take takes the line n.
func (r *reader) take(line []byte, n uint64) error {
	if n <= r.last {
		r.found = max(r.found, n)
		return nil // committed already, or read in another file
	}
	if n != r.last+1 && r.last > 0 {
		r.tail.Hole = true
	}
	r.at.Seq, r.at.Anchored, r.at.Hole = n, r.anchored, r.tail.Hole
	if err := r.fn(line, n); err != nil {
		return err
	}
	r.last, r.found = n, n
	return nil
}

// seqBefore is the seq of the line that ends at offset; ok is false when none
// does. In a file that took the committed one's place it hardly is.
func seqBefore(f io.ReaderAt, offset int64) (seq uint64, ok bool, err error) {
	for size := int64(firstStep); ; size *= 2 {
		b := make([]byte, min(size, offset))
		if _, err := f.ReadAt(b, offset-int64(len(b))); err != nil {
			return 0, false, fmt.Errorf("read journal: %w", err)
		}
		line, ended := bytes.CutSuffix(b, []byte{'\n'})
		if !ended {
			return 0, false, nil
		}
		begin := bytes.LastIndexByte(line, '\n') + 1
		if begin > 0 || int64(len(b)) == offset {
			seq, ok = lineSeq(line[begin:])
			return seq, ok, nil
		}
	}
}
