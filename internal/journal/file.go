package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
)

const (
	fileMode = 0o640

	// readBuffer is the size of the reads of ReadBack, in bytes. A line may be
	// longer.
	readBuffer = 1 << 20

	// firstStep is how far back the beginning of the last committed line is
	// looked for at first, in bytes.
	firstStep = 64 << 10
)

var (
	// ErrLocked says that another process appends to the file.
	ErrLocked = errors.New("held by another process")
	// ErrNotJournal says that the file holds something else.
	ErrNotJournal = errors.New("not a journal of kubejournal")
	// ErrDamaged says that the journal cannot be read where it was not being
	// appended to.
	ErrDamaged = errors.New("damaged")
	// ErrBadLine is for ReadBack's callback: the line is not one of ours.
	ErrBadLine = errors.New("not a journal line")

	lineHead = []byte(`{"seq":`)
)

// Mark is a place between two lines of a journal file.
type Mark struct {
	FirstSeq uint64 // seq of the file's first line, 0 while there is none
	Offset   int64  // bytes from the file's beginning
}

// File is a journal file. Write, ReadBack and Close are for one goroutine;
// Sync may run beside them.
type File struct {
	path     string
	f        *os.File
	firstSeq uint64
	lastSeq  uint64 // as ReadBack found it
	size     int64
	unsynced atomic.Bool // set by a write, cleared by a sync that began after it
}

// OpenFile opens the journal file at path for appending, and creates it when
// there is none (its folder must exist). A file that another process appends
// to is ErrLocked.
func OpenFile(path string) (*File, error) {
	_, statErr := os.Stat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &File{path: path, f: f}
	if err := j.open(errors.Is(statErr, os.ErrNotExist)); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return j, nil
}

func (j *File) open(created bool) error {
	info, err := j.f.Stat()
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open journal %s: not a regular file; use - for stdout", j.path)
	}
	if err := syscall.Flock(int(j.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("open journal %s: %w", j.path, ErrLocked)
		}
		return fmt.Errorf("lock journal %s: %w", j.path, err)
	}
	if created {
		// Without this a power cut could take the file's name and keep the
		// checkpoint that counts on its lines.
		if err := syncDir(filepath.Dir(j.path)); err != nil {
			return err
		}
	}
	j.size = info.Size()
	if j.size == 0 {
		return nil
	}
	// What a killed predecessor wrote may not be on disk yet.
	j.unsynced.Store(true)
	var head [64]byte
	n, err := j.f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read journal: %w", err)
	}
	// Whatever is not ours is refused here, before ReadBack could take it for
	// a torn line and cut it.
	var ours bool
	if j.firstSeq, ours = lineSeq(head[:n]); !ours && !tornHead(head[:n]) {
		return fmt.Errorf("open journal %s: %w; name another file, or move this one away", j.path, ErrNotJournal)
	}
	return nil
}

// lineSeq returns the number after {"seq": at the beginning of a line.
func lineSeq(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, lineHead)
	if !ok {
		return 0, false
	}
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	if end == 0 || end == len(rest) {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil && seq > 0
}

// tornHead tells whether b, the beginning of a file, is that of a first line
// which ends before its seq does.
func tornHead(b []byte) bool {
	if len(b) <= len(lineHead) {
		return bytes.HasPrefix(lineHead, b)
	}
	_, ok := lineSeq(append(b[:len(b):len(b)], ','))
	return ok
}

// LastSeq is the seq of the last line that ReadBack left in the file, 0 when
// there is none. Where it is lower than the last committed one, lines were taken
// away from outside.
func (j *File) LastSeq() uint64 { return j.lastSeq }

// Path is the file's path.
func (j *File) Path() string { return j.path }

// Mark is the place after all that has been written.
func (j *File) Mark() Mark { return Mark{FirstSeq: j.firstSeq, Offset: j.size} }

// Write appends p. After an error the first n bytes of p stand in the file;
// the caller goes on with the rest.
func (j *File) Write(p []byte) (int, error) {
	j.unsynced.Store(true)
	n, err := j.f.WriteAt(p, j.size)
	if j.size == 0 && n > 0 {
		j.firstSeq, _ = lineSeq(p)
	}
	j.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write journal: %w", err)
	}
	return n, nil
}

// Sync makes everything written before the call outlast a power cut. It does
// nothing when nothing was written since.
func (j *File) Sync() error {
	if !j.unsynced.Swap(false) {
		return nil
	}
	if err := j.f.Sync(); err != nil {
		j.unsynced.Store(true)
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// Close closes the file, unsynced.
func (j *File) Close() error {
	if err := j.f.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// ReadBack calls fn with every complete line that follows the line seq, which
// from places, in order and without its "\n". What comes after the last of
// them is cut off, and its size returned: a line torn by a crash, or garbage
// that a power cut left where blocks were never written. fn may refuse a line
// with an error wrapping ErrBadLine; it and all that follows it is then cut off
// too. That is safe because nothing after the last commit has moved a position:
// the server will send these events again.
//
// A line stands where it belongs when its seq is one more than the last one's.
//
// Without a commit to start from (seq 0, or another file than the committed
// one: the line seq does not end at from), lines may stand behind a bad one that
// the server would not send again: then only a last line without its end is
// cut, and anything else is ErrDamaged.
func (j *File) ReadBack(from Mark, seq uint64, fn func(line []byte, seq uint64) error) (cut int64, err error) {
	start := from.Offset
	committed := seq > 0 && from.FirstSeq == j.firstSeq && start <= j.size
	if committed && start > 0 {
		if committed, err = j.endsLine(start, seq); err != nil {
			return 0, err
		}
	}
	if j.lastSeq = seq; !committed {
		start, j.lastSeq = 0, 0
	}
	r := bufio.NewReaderSize(io.NewSectionReader(j.f, start, j.size-start), readBuffer)
	var (
		good = start // end of the last line that counts
		last = seq
		long []byte
	)
	for {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			line, err = r.ReadSlice('\n')
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = line[:0]
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
		n, ok := lineSeq(line)
		if ok && !committed && n <= seq {
			j.lastSeq = n
			good += int64(len(line)) // committed already
			continue
		}
		if !ok || last != 0 && n != last+1 {
			err = ErrBadLine
		} else {
			err = fn(line[:len(line)-1], n)
		}
		if errors.Is(err, ErrBadLine) && committed {
			break
		}
		if errors.Is(err, ErrBadLine) {
			return 0, fmt.Errorf("read journal %s: %w at byte %d, after seq %d; move the file away to begin a new one", j.path, ErrDamaged, good, last)
		}
		if err != nil {
			return 0, err
		}
		last, j.lastSeq = n, n
		good += int64(len(line))
	}
	cut = j.size - good
	if cut == 0 {
		return 0, nil
	}
	// A crash before the truncation leaves it to the next start.
	if err := j.f.Truncate(good); err != nil {
		return 0, fmt.Errorf("cut torn line: %w", err)
	}
	j.unsynced.Store(true)
	j.size = good
	if good == 0 {
		j.firstSeq = 0
	}
	return cut, nil
}

// endsLine tells whether the line that ends at offset is the line seq. In a
// file that took the committed one's place it hardly is.
func (j *File) endsLine(offset int64, seq uint64) (bool, error) {
	for size := int64(firstStep); ; size *= 2 {
		b := make([]byte, min(size, offset))
		if _, err := j.f.ReadAt(b, offset-int64(len(b))); err != nil {
			return false, fmt.Errorf("read journal: %w", err)
		}
		line, ended := bytes.CutSuffix(b, []byte{'\n'})
		if !ended {
			return false, nil
		}
		begin := bytes.LastIndexByte(line, '\n') + 1
		if begin > 0 || int64(len(b)) == offset {
			n, ok := lineSeq(line[begin:])
			return ok && n == seq, nil
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
