package auditlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/host/disk"
)

const (
	headSize  = 256 // bytes by which a file is known: an event begins with its id
	chunkSize = 4 << 20
	// patience is how many rounds a file may fail to be read before it counts as lost.
	patience = 6
	// idle is how long a file is held open that nothing is written to: then it was rotated, and read to its end.
	idle = 10 * time.Minute
)

// maxLine bounds a line, in bytes; a longer one is passed over. It is a variable for tests only.
var maxLine = 64 << 20

// errReplaced says that a file was renamed since it was looked for; the next round finds it.
var errReplaced = errors.New("it was replaced just now")

// file is an audit log, or a part of one that was rotated.
type file struct {
	path string
	info fs.FileInfo // as of the last look
	gone bool        // it has no name any more that is followed
	err  error       // why it cannot be read
	fail int         // how many rounds it could not be read

	f    disk.File // nil while it is closed
	in   io.Reader // of a compressed one, while it is open
	head []byte    // nil before it was opened for the first time
	zip  bool
	pos  int64     // bytes that were read, of a plain one
	rest []byte    // of a line whose end is still to come
	skip bool      // that line is too long
	at   time.Time // when what was read last was written; at first, what is to be read
	done bool      // nothing is to be read
	late bool      // nothing can be read in this round
	copy bool      // of one that was read, compressed
}

// files are the logs that some patterns name.
type files struct {
	all   []*file
	since time.Time // a file that was written last before is not read
	buf   []byte
}

// look finds the files that are there now, and what has become of those that were. The error says which of them cannot
// be read, and does not hinder the others.
func (x *files) look(patterns []string, now time.Time) error {
	var paths []string
	var errs []error
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		paths, errs = append(paths, found...), append(errs, err)
	}
	slices.Sort(paths)
	for _, f := range x.all {
		f.gone, f.late = true, false
	}
	for _, path := range slices.Compact(paths) {
		info, err := disk.OS.Stat(path)
		switch {
		case err == nil && info.Mode().IsRegular():
			x.at(path, info)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	x.all = slices.DeleteFunc(x.all, func(f *file) bool {
		if f.gone && f.f != nil { // until it was read to its end
			f.grown(f.f.Stat())
		}
		if f.done && (f.gone || now.Sub(f.info.ModTime()) > idle) {
			f.close()
		}
		return f.gone && f.f == nil
	})
	for _, f := range x.all {
		if f.err != nil && !errors.Is(f.err, errReplaced) {
			errs = append(errs, fmt.Errorf("read %s: %w", f.path, f.err))
		}
	}
	return errors.Join(errs...)
}

// at notes which file is at a path now, under whatever name it was found before.
func (x *files) at(path string, info fs.FileInfo) {
	i := slices.IndexFunc(x.all, func(f *file) bool { return os.SameFile(f.info, info) })
	if i >= 0 {
		f := x.all[i]
		f.path, f.gone = path, false
		f.grown(info, nil)
		return
	}
	f := &file{path: path, info: info}
	plain := strings.TrimSuffix(path, ".gz")
	f.copy = plain != path && slices.ContainsFunc(x.all, func(of *file) bool {
		return of.path == plain && of.err == nil && (of.done || of.f != nil)
	})
	if f.done = f.copy || info.ModTime().Before(x.since); !f.done {
		f.begin()
	}
	x.all = append(x.all, f)
}

// grown notes what has become of a file since the last look.
func (f *file) grown(info fs.FileInfo, err error) {
	if f.copy || err != nil {
		f.err = err
		return
	}
	same := info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime())
	f.info = info
	switch {
	case f.head == nil && (!same || f.err != nil):
		f.begin()
	case same:
	case f.zip || info.Size() < f.pos || !f.sameHead():
		f.close()
		f.pos, f.rest, f.skip = 0, nil, false
		f.begin() // it was still being compressed, or was cut off and is written again
	default:
		f.done = info.Size() <= f.pos
	}
}

// begin reads what a file begins with.
func (f *file) begin() {
	if f.err = f.open(); f.err != nil {
		f.done = true
		return
	}
	defer f.close()
	head := make([]byte, headSize)
	n, err := f.f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err, f.done = err, true
		return
	}
	f.head, f.done = head[:n], n == 0
	f.zip = bytes.HasPrefix(f.head, []byte("\x1f\x8b"))
	in := io.Reader(io.NewSectionReader(f.f, 0, chunkSize))
	if f.zip {
		if in, f.err = gzip.NewReader(in); f.err != nil {
			f.done = true
			return
		}
	}
	first, _ := bufio.NewReaderSize(io.LimitReader(in, chunkSize), 64<<10).ReadBytes('\n')
	f.at = audit.Time(first)
}

func (f *file) sameHead() bool {
	if f.f == nil {
		if f.err = f.open(); f.err != nil {
			return true
		}
		defer f.close()
	}
	head := make([]byte, headSize)
	n, err := f.f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) || !bytes.HasPrefix(head[:n], f.head) {
		return false
	}
	f.head = head[:n]
	return true
}

func (f *file) open() error {
	in, err := disk.OS.OpenFile(f.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	if info, err := in.Stat(); err != nil || !os.SameFile(info, f.info) {
		_ = in.Close() // it was only read
		return errors.Join(err, errReplaced)
	}
	f.f = in
	return nil
}

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close() // it was only read
		f.f, f.in = nil, nil
	}
}

// lost returns up to when events may be in files that cannot be read. wait reports that they may yet be.
func (x *files) lost() (until time.Time, wait bool) {
	for _, f := range x.all {
		if f.err == nil {
			f.fail = 0
			continue
		}
		if f.fail++; f.fail < patience {
			wait = true
		} else if f.info.ModTime().After(until) {
			until = f.info.ModTime()
		}
	}
	return until, wait
}

// next returns the file whose next events are the oldest; nil where all were read.
func (x *files) next() (oldest *file) {
	for _, f := range x.all {
		if !f.done && !f.late && (oldest == nil || f.at.Before(oldest.at)) {
			oldest = f
		}
	}
	return oldest
}

// read returns some whole lines of a file, valid until the next call.
func (x *files) read(f *file) ([]byte, error) {
	n, err := x.fill(f)
	if f.err = err; err != nil {
		f.done = !f.late // until it changes
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	all := x.buf[:len(f.rest)+n]
	end := bytes.LastIndexByte(all, '\n') + 1
	if f.zip && f.done {
		end = len(all) // nothing will be appended
	}
	lines := all[:end]
	if f.rest = append(f.rest[:0], all[end:]...); cap(f.rest) > chunkSize && len(f.rest) < chunkSize {
		f.rest = slices.Clone(f.rest)
	}
	if f.skip && end > 0 {
		lines, f.skip = lines[bytes.IndexByte(lines, '\n')+1:], false
	}
	if f.skip || len(f.rest) > maxLine {
		f.rest, f.skip = nil, true
	}
	last := bytes.TrimRight(lines, "\r\n")
	if at := audit.Time(last[bytes.LastIndexByte(last, '\n')+1:]); at.After(f.at) {
		f.at = at
	}
	return lines, nil
}

// fill reads what comes next in a file, after its rest, into buf.
func (x *files) fill(f *file) (n int, err error) {
	if f.f == nil {
		if err := f.open(); err != nil {
			f.late = true
			return 0, err
		}
		if f.zip {
			if f.in, err = gzip.NewReader(io.NewSectionReader(f.f, 0, math.MaxInt64)); err != nil {
				return 0, err
			}
		}
	}
	if size := len(f.rest) + chunkSize; len(x.buf) < size || len(x.buf) > 2*size {
		x.buf = make([]byte, size)
	}
	copy(x.buf, f.rest)
	space := x.buf[len(f.rest):][:chunkSize]
	if !f.zip {
		n, err = f.f.ReadAt(space, f.pos)
		f.pos += int64(n)
	} else {
		for n < len(space) && err == nil {
			var more int
			more, err = f.in.Read(space[n:])
			n += more
		}
	}
	if f.done = errors.Is(err, io.EOF); f.done {
		err = nil
	}
	return n, err
}
