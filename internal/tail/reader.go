package tail

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"kubejournal/internal/event"
)

// chunk is how much is read at once, in bytes.
const chunk = 256 << 10

// maxLine bounds a line, in bytes. What is longer is no line. It is a variable for tests only.
var maxLine = event.MaxLine

// reader takes a file apart into lines. Its zero value reads nothing until reset.
type reader struct {
	in       io.Reader
	buf      []byte
	from, to int   // what is in buf and has not been taken
	seen     int   // bytes of it that hold no end of a line
	offset   int64 // of buf[from], in the input
	drop     bool  // a line that is too long goes on
	// parts tells whether the line that next has returned came with more than one read.
	parts bool
}

// reset begins to read in, whose next byte stands at offset.
func (r *reader) reset(in io.Reader, offset int64) {
	r.in, r.offset = in, offset
	r.from, r.to, r.seen, r.drop, r.parts = 0, 0, 0, false, false
}

// next returns the next line without its end, and where it begins. At the end of the input it is io.EOF; what stands
// there without an end is rest.
func (r *reader) next() (line []byte, at int64, err error) {
	r.parts = false
	for {
		if i := bytes.IndexByte(r.buf[r.from+r.seen:r.to], '\n'); i >= 0 {
			i += r.seen
			line, at = r.buf[r.from:r.from+i], r.offset
			r.from += i + 1
			r.offset += int64(i) + 1
			r.seen = 0
			if r.drop {
				r.drop = false
				continue
			}
			return line, at, nil
		}
		r.seen = r.to - r.from
		r.parts = r.seen > 0
		switch {
		case r.drop:
			r.offset += int64(r.seen)
			r.from, r.to, r.seen = 0, 0, 0
		case r.seen >= maxLine:
			// Its beginning is all that anybody sees of it.
			line, at = r.buf[r.from:r.from+2*maxBad], r.offset
			r.drop = true
			return line, at, nil
		}
		if err := r.fill(); err != nil {
			return nil, r.offset, err
		}
	}
}

// fill reads more, into a buffer that grows with the line and shrinks behind it.
func (r *reader) fill() error {
	switch {
	case r.from == r.to:
		r.from, r.to = 0, 0
		if len(r.buf) == 0 || len(r.buf) > 4*chunk {
			r.buf = make([]byte, chunk)
		}
	case r.to == len(r.buf) && r.from > 0:
		r.to = copy(r.buf, r.buf[r.from:r.to])
		r.from = 0
	}
	if r.to == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for range 100 {
		n, err := r.in.Read(r.buf[r.to:])
		r.to += n
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// rest is what stands behind the last line without an end.
func (r *reader) rest() []byte {
	if r.drop {
		return nil
	}
	return r.buf[r.from:r.to]
}

// errRewritten says that a file does not hold any more what was read from it.
var errRewritten = errors.New("file was truncated or written anew")

// active reads a file that is appended to, and makes sure that it still is the same.
type active struct {
	f   *os.File
	off int64 // of the next byte to read

	// The last line that was taken: where it begins, and its first bytes. With seq and time among them, no other line
	// has the same.
	markAt int64
	mark   []byte

	check []byte // scratch
}

const markBytes = 128

// seek goes on at off, where a line begins.
func (a *active) seek(off int64) {
	a.off, a.markAt, a.mark = off, off, a.mark[:0]
}

// took remembers a line.
func (a *active) took(line []byte, at int64) {
	a.markAt, a.mark = at, append(a.mark[:0], line[:min(len(line), markBytes)]...)
}

// Read reads on. The look at the last line comes behind the reading, so that what was read belongs to the same file
// content as that line.
func (a *active) Read(p []byte) (int, error) {
	n, err := a.f.ReadAt(p, a.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if same, err := a.same(); err != nil {
		return 0, err
	} else if !same {
		return 0, errRewritten
	}
	a.off += int64(n)
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// holds tells whether the line stands at its place, whole.
func (a *active) holds(line []byte, at int64) (bool, error) {
	a.check = slices.Grow(a.check[:0], len(line)+1)[:len(line)+1]
	n, err := a.f.ReadAt(a.check, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if cap(a.check) > maxKept {
		defer func() { a.check = nil }()
	}
	return n == len(line)+1 && a.check[len(line)] == '\n' && bytes.Equal(a.check[:len(line)], line), nil
}

// same tells whether the last line still stands where it stood, or, before the first, whether a line ends there.
func (a *active) same() (bool, error) {
	at, want := a.markAt, a.mark
	if len(want) == 0 {
		if at == 0 {
			return true, nil
		}
		at, want = at-1, []byte{'\n'}
	}
	var got [markBytes]byte
	n, err := a.f.ReadAt(got[:len(want)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Equal(got[:n], want), nil
}

// backward goes through a file's lines from its end to its beginning. A last line without its end is passed over.
type backward struct {
	f   io.ReaderAt
	buf []byte
	at  int64 // of buf[0]
	end int   // of what is left in buf: behind the end of a line
	// done says that nothing is left: the file's beginning is reached, or what is too long to be a line.
	done bool
}

func newBackward(f io.ReaderAt, size int64) (*backward, error) {
	b := &backward{f: f, at: size}
	// Up to the last line's end.
	for {
		if i := bytes.LastIndexByte(b.buf, '\n'); i >= 0 {
			b.end = i + 1
			return b, nil
		}
		if b.at == 0 || len(b.buf) >= maxLine {
			b.end, b.done = 0, true
			return b, nil
		}
		b.end = len(b.buf)
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
}

// offset is where the line that next has returned begins; before that, where the last line ends.
func (b *backward) offset() int64 { return b.at + int64(b.end) }

// next returns the line before, without its end. At the file's beginning it is io.EOF.
func (b *backward) next() ([]byte, error) {
	for searched := 0; !b.done; {
		if b.end > 0 {
			line := b.buf[:b.end-1]
			if i := bytes.LastIndexByte(line[:len(line)-searched], '\n'); i >= 0 {
				b.end = i + 1
				return line[i+1:], nil
			}
			if b.at == 0 || len(line) >= maxLine {
				b.end, b.done = 0, true
				return line, nil
			}
			searched = len(line)
		} else if b.at == 0 {
			break
		}
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// fill puts what stands before buf in front of it, twice as much each time.
func (b *backward) fill() error {
	n := min(b.at, int64(max(chunk, b.end)))
	grown := b.buf
	if need := int(n) + b.end; cap(grown) < need {
		grown = make([]byte, need)
	}
	grown = grown[:int(n)+b.end]
	copy(grown[n:], b.buf[:b.end])
	if _, err := b.f.ReadAt(grown[:n], b.at-n); err != nil {
		return err // io.EOF too: the file has become shorter
	}
	b.buf, b.at, b.end = grown, b.at-n, int(n)+b.end
	return nil
}
