package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"go.uber.org/zap"

	"kubejournal/internal/disk"
	"kubejournal/internal/index"
	"kubejournal/internal/line"
)

// memberSize bounds a gzip member, in bytes of lines: it ends with the last line that fits, or with a longer one.
const memberSize = 256 << 10

// IndexPath returns the path of the index of a rotated segment, compressed or not.
func IndexPath(segment string) string { return strings.TrimSuffix(segment, gzipped) + indexed }

// OpenIndex opens the index of a rotated segment, which the caller closes. The error is fs.ErrNotExist where there is none,
// and index.ErrDamaged where it is about something else.
func (s *Segment) OpenIndex() (*index.Index, io.Closer, error) { return s.openIndex(disk.OS) }

func (s *Segment) openIndex(d disk.FS) (*index.Index, io.Closer, error) {
	f, err := d.OpenFile(IndexPath(s.Path), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	var x *index.Index
	if err == nil {
		x, err = index.Open(f, info.Size())
	}
	if err == nil && !s.isOf(x) {
		err = fmt.Errorf("about another segment: %w", index.ErrDamaged)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return x, f, nil
}

// isOf reports whether an index is about the segment.
func (s *Segment) isOf(x *index.Index) bool {
	if x.FirstSeq != s.FirstSeq || x.Head != s.Head {
		return false
	}
	return s.Gzip && (x.Zipped == 0 || x.Zipped == s.Size) || !s.Gzip && x.Size == s.Size
}

// lineIndexer adds the lines of a segment to its index, as the bytes come.
type lineIndexer struct {
	*index.Builder
	line   line.Fields
	part   []byte // of a line whose end is still to come
	offset int64  // of the next line
}

func (x *lineIndexer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
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
		if len(l) > maxLine || x.line.Parse(l[:len(l)-1]) != nil {
			continue // damaged
		}
		x.Add(&x.line, at, len(l))
	}
	return len(p), nil
}

// parts calls fn with the bytes of a plain file, in parts of memberSize at most. Each but the file's last one ends with a
// line, unless that is longer: then whole is false until its end comes.
func parts(in io.ReaderAt, fn func(part []byte, whole bool) error) error {
	buf := make([]byte, memberSize)
	whole := true
	for at := int64(0); ; {
		n, err := in.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		end := bytes.LastIndexByte(buf[:n], '\n') + 1
		if !whole {
			end = bytes.IndexByte(buf[:n], '\n') + 1
		}
		if whole = end > 0; !whole {
			end = n
		}
		if err := fn(buf[:end], whole); err != nil {
			return err
		}
		at += int64(end)
	}
}

// counter counts what is written.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// zip writes a plain segment as gzip, in members that end with lines, and adds it to an index.
func zip(out io.Writer, in io.ReaderAt, name string, x *lineIndexer) error {
	counted := &counter{Writer: out}
	z, begun := gzip.NewWriter(counted), false
	z.Name = name
	plain := int64(0)
	err := parts(in, func(part []byte, whole bool) error {
		if !begun {
			if plain > 0 {
				z.Reset(counted)
			}
			x.Member(counted.n, plain)
			begun = true
		}
		plain += int64(len(part))
		if _, err := z.Write(part); err != nil {
			return err
		}
		if _, err := x.Write(part); err != nil || !whole {
			return err
		}
		begun = false
		return z.Close()
	})
	if err == nil && (begun || plain == 0) {
		err = z.Close()
	}
	x.End(plain, counted.n)
	return err
}

// fill adds a plain segment to an index.
func fill(in io.ReaderAt, x *lineIndexer) error {
	size := int64(0)
	err := parts(in, func(part []byte, _ bool) error {
		size += int64(len(part))
		_, err := x.Write(part)
		return err
	})
	x.End(size, 0)
	return err
}

// unzip adds a compressed segment to an index.
func unzip(file io.ReaderAt, x *lineIndexer) error {
	in := io.NewSectionReader(file, 0, math.MaxInt64)
	buffered := bufio.NewReaderSize(in, gzipBuffer)
	at := func() int64 {
		n, _ := in.Seek(0, io.SeekCurrent) // never fails
		return n - int64(buffered.Buffered())
	}
	z, err := gzip.NewReader(buffered)
	plain, zipped := int64(0), int64(0)
	for err == nil {
		x.Member(zipped, plain)
		z.Multistream(false)
		var n int64
		if n, err = io.Copy(x, z); err != nil {
			break
		}
		plain, zipped = plain+n, at()
		err = z.Reset(buffered)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	x.End(plain, zipped)
	return nil
}

// segment returns what a rotated file begins with.
func (j *File) segment(a *archive) (Segment, error) {
	s := Segment{Path: filepath.Join(filepath.Dir(j.path), a.name), Gzip: a.zip && !a.plain, Ours: true}
	if s.Gzip {
		s.Path += gzipped
	}
	err := s.look(j.disk, &j.tidy.heads)
	return s, err
}

// newIndexer begins the index of a rotated file behind that of the file before it, if that has one. done closes that.
func (j *File) newIndexer(a, before *archive) (x *lineIndexer, done func(), err error) {
	s, err := j.segment(a)
	if err != nil {
		return nil, nil, err
	}
	earlier, in := j.indexOf(before)
	done = func() {
		if in != nil {
			_ = in.Close() // it is only read
		}
	}
	return &lineIndexer{Builder: index.NewBuilder(earlier, s.Head)}, done, nil
}

// indexOf returns the index of a rotated file and what closes it; nil where there is none that is right.
func (j *File) indexOf(a *archive) (*index.Index, io.Closer) {
	if a == nil {
		return nil, nil
	}
	s, err := j.segment(a)
	if err != nil {
		return nil, nil
	}
	x, in, err := s.openIndex(j.disk)
	if err != nil {
		return nil, nil
	}
	return x, in
}

// isIndexed reports whether a rotated file has an index that is right, and was made with that of the file before it.
func (j *File) isIndexed(a, before *archive) bool {
	if j.tidy.indexed[a.name] || !a.index {
		return j.tidy.indexed[a.name]
	}
	x, in := j.indexOf(a)
	if x == nil {
		return false
	}
	defer in.Close() //nolint:errcheck // it is only read
	if x.Since < x.FirstSeq {
		return true
	}
	earlier, in := j.indexOf(before)
	if earlier == nil {
		return true
	}
	defer in.Close() //nolint:errcheck // it is only read
	return earlier.Next != x.FirstSeq
}

// indexArchive makes the index of a rotated file. One that is damaged gets none.
func (j *File) indexArchive(a, before *archive) error {
	x, done, err := j.newIndexer(a, before)
	if err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	defer done()
	path, fill := filepath.Join(filepath.Dir(j.path), a.name), fill
	if a.zip {
		path, fill = path+gzipped, unzip
	}
	var failed *fs.PathError
	switch err := j.read(path, func(in disk.File) error { return fill(in, x) }); {
	case errors.As(err, &failed) || j.tidy.ctx.Err() != nil:
		return fmt.Errorf("index journal: %w", err)
	case err != nil:
		j.log.Warn("a rotated journal file is damaged and gets no index", zap.String("name", a.name), zap.Error(err))
		return nil
	}
	return j.writeIndex(a.name, x.Builder)
}

// read calls fn with an open file. Close does not wait for a large one: it makes reading fail.
func (j *File) read(path string, fn func(disk.File) error) error {
	in, err := j.disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	defer context.AfterFunc(j.tidy.ctx, func() { _ = in.Close() })()
	return fn(in)
}

// writeIndex writes the index of a rotated file under a name that nobody reads, syncs it and renames it: a crash leaves none,
// or what the next pass removes. A file without a line gets none.
func (j *File) writeIndex(name string, b *index.Builder) error {
	content, err := b.AppendTo(nil)
	if errors.Is(err, index.ErrNoLine) {
		return nil
	}
	dir, tmp := filepath.Dir(j.path), temporaryOf(name+indexed)
	if err == nil {
		err = j.writeWhole(filepath.Join(dir, tmp), func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("index journal: %w", errors.Join(err, j.remove(tmp)))
	}
	if err := j.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, name+indexed)); err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	return nil
}

// writeWhole writes a new file and syncs it.
func (j *File) writeWhole(path string, fn func(io.Writer) error) error {
	out, err := j.disk.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(io.NewOffsetWriter(out, 0), copyBuffer) // gzip writes some hundred bytes at a time
	err = fn(buffered)
	for _, step := range []func() error{buffered.Flush, out.Sync} {
		if err == nil {
			err = step()
		}
	}
	return errors.Join(err, out.Close())
}
