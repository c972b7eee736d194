package segment

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
)

// OpenIndex opens the index of a rotated segment, which the caller closes; a Reader uses it from then on. The error is
// fs.ErrNotExist where there is none, and index.ErrDamaged where it is about something else.
func (s *Segment) OpenIndex() (*index.Index, io.Closer, error) {
	x, f, err := s.readIndex(index.Open)
	if err == nil {
		s.index = x
	}
	return x, f, err
}

// IndexHeader reads the header of the index beside the segment, as index.ReadHeader does.
func (s *Segment) IndexHeader() (*index.Index, error) {
	x, f, err := s.readIndex(index.ReadHeader)
	if err != nil {
		return nil, err
	}
	return x, f.Close()
}

func (s *Segment) readIndex(read func(io.ReaderAt, int64) (*index.Index, error)) (*index.Index, io.Closer, error) {
	f, err := cmp.Or(s.disk, disk.OS).OpenFile(IndexPath(s.Path), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	var x *index.Index
	if err == nil {
		x, err = read(f, info.Size())
	}
	if err == nil && !s.isOf(x) {
		err = fmt.Errorf("about another segment: %w", index.ErrDamaged)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return x, f, nil
}

// MakeIndex reads the segment and makes an index in memory, for a segment that has none; a Reader uses it from then on.
// Where not all could be read, Unread or Long says so.
func (s *Segment) MakeIndex(ctx context.Context) (*index.Index, error) {
	content, err := s.BuildIndex(ctx, nil, 0)
	if isCut(err) && content != nil {
		s.Unread, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	x, err := index.Open(bytes.NewReader(content), int64(len(content)))
	if err == nil {
		s.index = x
	}
	return x, err
}

// isOf reports whether an index is about the segment.
func (s *Segment) isOf(x *index.Index) bool {
	if x.FirstSeq != s.FirstSeq || x.Head != s.Head {
		return false
	}
	return s.Gzip && (x.Zipped == 0 || x.Zipped == s.Size) || !s.Gzip && x.Size == s.Size
}

// BuildIndex reads the segment and returns its index; a full one, if there is a base: see index.Builder.Fill. Of a
// compressed file that is cut off it returns the index of what is there with the error.
func (s *Segment) BuildIndex(ctx context.Context, base []*index.Index, oldest uint64) ([]byte, error) {
	b := index.NewBuilder(s.Head)
	if base != nil {
		b.Fill(base, oldest)
	}
	cut := s.AddTo(ctx, b)
	if cut != nil && !isCut(cut) {
		return nil, cut
	}
	content, err := b.AppendTo(nil)
	return content, cmp.Or(cut, err)
}

// AddTo reads the segment and adds its lines and members to its index.
func (s *Segment) AddTo(ctx context.Context, b *index.Builder) error {
	var f io.ReaderAt
	if s.File != nil {
		f = io.NewSectionReader(s.File, 0, s.Size)
	} else {
		opened, err := s.open()
		if err != nil {
			return err
		}
		defer opened.Close() //nolint:errcheck // it is only read
		f = opened
	}
	x, fill := &lineIndexer{Builder: b}, fill
	if s.Gzip {
		fill = unzip
	}
	err := fill(interruptible{f, ctx}, x)
	s.Long = x.long
	return err
}

// isCut reports whether a compressed file ends too early, or is followed by something else. What was read is right.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader)
}

// interruptible is a file whose reading ends with a context.
type interruptible struct {
	io.ReaderAt
	ctx context.Context
}

func (r interruptible) ReadAt(p []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReaderAt.ReadAt(p, at)
}

// lineIndexer adds the lines of a segment to its index.
type lineIndexer struct {
	*index.Builder
	splitter
	line line.Fields
}

func (x *lineIndexer) Write(p []byte) (int, error) {
	x.Content(p)
	return len(p), x.split(p, func(l []byte, at int64) error {
		if x.line.Parse(l[:len(l)-1]) == nil { // else damaged
			x.Add(&x.line, at, len(l))
		}
		return nil
	})
}

// splitter splits what comes in parts into lines.
type splitter struct {
	part   []byte // of a line whose end is still to come; no more than maxLine
	offset int64  // of the next line
	passed int64  // bytes of a line that is too long, whose end is still to come
	long   error  // names the first line that is too long
}

// split calls fn with each line that ends in p, its end included, and where it begins. A line that is too long is left
// out.
func (x *splitter) split(p []byte, fn func(l []byte, at int64) error) error {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		size := int64(end)
		if end == 0 {
			size = int64(len(rest))
		}
		if x.passed > 0 || int64(len(x.part))+size > int64(maxLine) {
			x.pass(size, end > 0)
			rest = rest[size:]
			continue
		}
		if end == 0 {
			x.part = append(x.part, rest...)
			break
		}
		l := rest[:end]
		if rest = rest[end:]; len(x.part) > 0 {
			l = append(x.part, l...)
			x.part = l[:0]
		}
		at := x.offset
		x.offset += int64(len(l))
		if err := fn(l, at); err != nil {
			return err
		}
	}
	return nil
}

// pass passes bytes of a line that is longer than one can be.
func (x *splitter) pass(size int64, ended bool) {
	if x.long == nil {
		x.long = fmt.Errorf("the line at offset %d is longer than %d MiB and is left out", x.offset, maxLine>>20)
	}
	x.passed += int64(len(x.part)) + size
	x.part = nil
	if ended {
		x.offset, x.passed = x.offset+x.passed, 0
	}
}
