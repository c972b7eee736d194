package segment

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
)

const (
	readBuffer = 256 << 10 // bytes of lines that are read at once; a line may be longer
	gzipBuffer = 64 << 10  // bytes of a compressed file that are read at once
	firstStep  = 64 << 10  // bytes that reading backward begins with
	maxKept    = 1 << 20   // bytes; a larger buffer is released after the line that needed it
)

// maxLine is a variable for tests only.
var maxLine = line.MaxLine

// RawLine is one line of a segment, as it is in the file; line.Fields has what it says.
type RawLine struct {
	Seq    uint64 // 0 where it is damaged: not a line of a journal, or longer than one can be
	Offset int64  // of its first byte, in bytes of the uncompressed segment
	Bytes  []byte // without its end, and only the beginning of one that is too long; valid until the next call
}

// Time returns when the line was received; zero where that cannot be read.
func (l *RawLine) Time() time.Time { return TimeOf(l.Bytes) }

// TooLong reports whether the line is longer than one can be.
func (l *RawLine) TooLong() bool { return len(l.Bytes) >= maxLine }

func lineOf(b []byte, offset int64) RawLine {
	l := RawLine{Offset: offset, Bytes: b[:len(b)-1]}
	if len(b) <= maxLine {
		l.Seq, _ = SeqOf(b)
	}
	return l
}

// Reader reads lines forward. The zero value reads nothing; Open or Reset give it an input, and may do so again.
type Reader struct {
	Passed *atomic.Int64 // counts the bytes that are read of files, as they are on disk; nil for nobody

	in     *bufio.Reader
	file   disk.File   // that Open has opened; else nil
	plain  io.ReaderAt // the file that the input is; nil for any other input
	offset int64       // of the next byte
	long   []byte      // a line that is longer than the buffer, or torn
	skip   bool        // the rest of a line that is too long follows

	unzipped members // of a compressed file

}

// Reset begins to read in, whose next byte is at offset.
func (r *Reader) Reset(in io.Reader, offset int64) {
	if r.in == nil {
		r.in = bufio.NewReaderSize(nil, readBuffer)
	}
	r.in.Reset(in)
	r.plain, r.offset, r.skip, r.long = nil, offset, false, r.long[:0]
}

// Open begins to read a segment at offset, in bytes of its uncompressed lines. One that was compressed since it was
// listed is read all the same; one that is gone is fs.ErrNotExist.
func (r *Reader) Open(s Segment, offset int64) error {
	r.Close()
	if r.Passed == nil {
		r.Passed = new(atomic.Int64)
	}
	f, size := s.File, s.Size
	if f == nil {
		var err error
		if f, err = s.open(); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		r.file, size = f, math.MaxInt64
	}
	if !s.Gzip {
		r.Passed.Add(offset)
		r.Reset(counted{io.NewSectionReader(f, offset, size-offset), r.Passed}, offset)
		r.plain = f
		return nil
	}
	zipped, plain := int64(0), int64(0) // where to begin
	whole := s.index != nil && s.index.Zipped == s.Size && s.Unread == nil
	if s.index != nil && s.index.Zipped == s.Size {
		zipped, plain = s.index.Member(offset)
	}
	err := r.unzipped.reset(counted{io.NewSectionReader(f, zipped, size-zipped), r.Passed}, !whole)
	if err == nil {
		_, err = io.CopyN(io.Discard, &r.unzipped, offset-plain)
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	r.Reset(&r.unzipped, offset)
	return nil
}

// OpenAfter is Open after the line seq where that ends at offset. Otherwise ok is false, and s is read from its
// beginning.
func (r *Reader) OpenAfter(s Segment, offset int64, seq uint64) (ok bool, err error) {
	if err := r.Open(s, 0); err != nil {
		return false, err
	}
	var line RawLine
	end := int64(0) // of that line
	switch {
	case r.plain == nil:
		for err == nil && r.offset < offset {
			line, err = r.Next()
		}
		end = r.offset
	case 0 < offset && offset <= s.Size:
		back := NewBackward(r.plain, offset)
		end = back.Offset()
		line, err = back.Next()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read journal: %w", err)
	}
	ok = err == nil && end == offset && line.Seq == seq
	if ok && r.plain == nil {
		return true, nil
	}
	if !ok {
		offset = 0
	}
	return ok, r.Open(s, offset)
}

// Close closes the file that Open has opened.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close() // it is only read
		r.file = nil
	}
}

// Next returns the next line. At the end of the input it is io.EOF with the offset after the last whole line; what is
// there is Torn. A damaged line is no error: the next one follows it.
func (r *Reader) Next() (RawLine, error) {
	start := r.offset
	part, err := r.in.ReadSlice('\n')
	if err == nil && !r.skip {
		r.offset += int64(len(part))
		return lineOf(part, start), nil
	}
	if r.long = r.long[:0]; cap(r.long) > maxKept {
		r.long = nil
	}
	for ; ; part, err = r.in.ReadSlice('\n') {
		r.offset += int64(len(part))
		if !r.skip {
			r.long = append(r.long, part...)
		}
		switch {
		case err == nil && r.skip:
			r.skip, start = false, r.offset
		case err == nil:
			return lineOf(r.long, start), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if r.skip {
				start = r.offset
			}
			return RawLine{Offset: start}, err
		case !r.skip && len(r.long) > maxLine:
			r.skip = true
			return RawLine{Offset: start, Bytes: r.long}, nil
		}
	}
}

// Skip passes bytes without looking at them; a line begins after them.
func (r *Reader) Skip(n int64) error {
	for n > 0 {
		skipped, err := r.in.Discard(int(min(n, readBuffer)))
		r.offset += int64(skipped)
		if n -= int64(skipped); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
	}
	return nil
}

// Torn returns what is there without an end after the last line. It is valid between io.EOF from Next and the next
// call.
func (r *Reader) Torn() []byte { return r.long }

// Buffered returns how many bytes of the coming lines were read already.
func (r *Reader) Buffered() int { return r.in.Buffered() }

// counted adds what is read to passed.
type counted struct {
	io.Reader
	passed *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.passed.Add(int64(n))
	return n, err
}

// Backward reads the lines of a plain file from its end to its beginning. A last line without its end is passed over.
type Backward struct {
	f   io.ReaderAt
	buf []byte // what was read and not returned; it ends after the end of a line
	at  int64  // of buf[0]
	err error  // that Next returns

	opened io.Closer // of Segment.Backward
}

// Backward begins to read a segment from its end; Close must follow. ok is false where it is compressed, which can be
// read forward alone.
func (s *Segment) Backward() (b *Backward, ok bool, err error) {
	if s.File != nil {
		return NewBackward(s.File, s.Size), true, nil
	}
	if s.Gzip {
		return nil, false, nil
	}
	f, err := s.open()
	if err != nil || s.Gzip { // compressed since it was listed
		if f != nil {
			_ = f.Close() // nothing was read
		}
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	b = NewBackward(f, info.Size())
	b.opened = f
	return b, true, nil
}

// Close closes the file that Segment.Backward has opened.
func (b *Backward) Close() {
	if b.opened != nil {
		_ = b.opened.Close() // only read from
	}
}

// NewBackward begins to read at the last line's end in the first size bytes of f.
func NewBackward(f io.ReaderAt, size int64) *Backward {
	b := &Backward{f: f, at: size}
	if end := b.lastStart(0); b.err == nil {
		b.take(end)
	}
	return b
}

// Offset is where the line that Next has returned begins; before the first, where the last line ends.
func (b *Backward) Offset() int64 { return b.at + int64(len(b.buf)) }

// Next returns the line before. At the beginning it is io.EOF, and io.ErrUnexpectedEOF where the file has become
// shorter.
func (b *Backward) Next() (RawLine, error) {
	if b.err != nil {
		return RawLine{}, b.err
	}
	start := b.lastStart(1)
	if b.err != nil {
		return RawLine{}, b.err
	}
	line := b.take(start)
	return lineOf(line, b.Offset()), nil
}

// lastStart returns the index in buf after the last newline, ignoring the final skip bytes. It is 0 at the beginning of
// the file, and where a line is too long to be one.
func (b *Backward) lastStart(skip int) int {
	for searched := skip; ; {
		if i := bytes.LastIndexByte(b.buf[:max(0, len(b.buf)-searched)], '\n'); i >= 0 {
			return i + 1
		}
		if b.at == 0 || len(b.buf) > maxLine {
			return 0
		}
		searched = max(skip, len(b.buf))
		if b.err = b.fill(); b.err != nil {
			return 0
		}
	}
}

// take removes from buf what begins at start, and returns it. Where that is all, Next has nothing more to return.
func (b *Backward) take(start int) []byte {
	taken := b.buf[start:]
	if b.buf = b.buf[:start]; start == 0 {
		b.err = io.EOF
	}
	return taken
}

// fill prepends what comes before buf, twice as much each time.
func (b *Backward) fill() error {
	n, end := int(min(b.at, int64(max(firstStep, len(b.buf))))), len(b.buf)
	grown := slices.Grow(b.buf, n)[:n+end]
	copy(grown[n:], b.buf)
	if _, err := b.f.ReadAt(grown[:n], b.at-int64(n)); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	b.buf, b.at = grown, b.at-int64(n)
	return nil
}
