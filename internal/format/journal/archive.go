package journal

import (
	"bufio"
	"bytes"
	"cmp"
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

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
)

// memberSize bounds a gzip member, in bytes of lines: it ends with the last line that fits, or with a longer one.
const memberSize = 256 << 10

// zipLevels are those of the members, in turn. Beside one stream of compress/gzip at its default level, members of
// level 8 are 8 % larger and take as much CPU, members of level 6 are 13 % larger and take less than half: that pays
// for the index.
var zipLevels = [...]int{8, 8, 8, 8, 6}

// IndexPath returns the path of the index of a rotated segment, compressed or not.
func IndexPath(segment string) string {
	if r, ok := parseRotated(filepath.Base(segment)); ok {
		return filepath.Join(filepath.Dir(segment), r.plain) + indexed
	}
	return strings.TrimSuffix(segment, gzipped) + indexed
}

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
	if s.file != nil {
		f = io.NewSectionReader(s.file, 0, s.Size)
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

// stoppable is a file whose writing ends with a context.
type stoppable struct {
	io.WriterAt
	ctx context.Context
}

func (w stoppable) WriteAt(p []byte, at int64) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, at)
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

// parts calls fn with the bytes of a plain file, in parts of memberSize at most. Each but the file's last one ends with
// a line, unless that is longer: then whole is false until its end comes.
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

// Compress writes a plain segment as gzip, in members that end with lines, and adds its lines and members to its index.
func Compress(out io.WriterAt, in io.ReaderAt, name string, b *index.Builder) error {
	x := &lineIndexer{Builder: b}
	buffered := bufio.NewWriterSize(io.NewOffsetWriter(out, 0), readBuffer) // gzip writes some hundred bytes at a time
	counted := &counter{Writer: buffered}
	var writers [gzip.BestCompression + 1]*gzip.Writer // by level
	var z *gzip.Writer                                 // of the member that is begun
	members, plain := 0, int64(0)
	begin := func() (err error) {
		level := zipLevels[members%len(zipLevels)]
		if members++; writers[level] == nil {
			writers[level], err = gzip.NewWriterLevel(counted, level)
		} else {
			writers[level].Reset(counted)
		}
		if z = writers[level]; members == 1 {
			z.Name = name
		}
		return err
	}
	err := parts(in, func(part []byte, whole bool) error {
		if z == nil {
			x.Member(counted.n, plain)
			if err := begin(); err != nil {
				return err
			}
		}
		plain += int64(len(part))
		if _, err := z.Write(part); err != nil {
			return err
		}
		if _, err := x.Write(part); err != nil || !whole {
			return err
		}
		err := z.Close()
		z = nil
		return err
	})
	if err == nil && plain == 0 {
		err = begin()
	}
	if err == nil && z != nil {
		err = z.Close()
	}
	x.End(plain, counted.n)
	return cmp.Or(err, buffered.Flush())
}

// fill reads a plain segment, as for its index.
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

// unzip reads a compressed segment, as for its index.
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
	if errors.Is(err, io.EOF) {
		err = nil
	}
	x.End(max(plain, x.offset), zipped)
	return err
}

// segment returns what a rotated file begins with.
func (j *File) segment(a *archive) (Segment, error) {
	s := Segment{Path: filepath.Join(filepath.Dir(j.path), a.file()), Gzip: a.upTo > 0 || !a.plain, Ours: true,
		UpTo: a.upTo}
	err := j.tidy.lister.Look(&s)
	return s, err
}

// FullEvery is how many segments there are from one with a full index to the next: the fewer, the more room they take,
// and the more, the more of them a query reads.
const FullEvery = 4

// pass is one of the tidier's over the rotated files, from the oldest on.
type pass struct {
	*File
	oldest uint64 // seq of the first line of the oldest file that stays

	// The indexes of the files before, from the last full one on, or from the first that was there; also of those that
	// are removed now.
	base []*index.Index
	open []io.Closer
}

func (p *pass) close() {
	for _, in := range p.open {
		_ = in.Close() // it is only read
	}
	p.base, p.open = nil, nil
}

// look opens the index of a file, nil where it has none that is right.
func (p *pass) look(a *archive) (*index.Index, io.Closer, error) {
	s, err := p.segment(a)
	if err != nil {
		return nil, nil, err
	}
	x, in, err := s.OpenIndex()
	if err != nil {
		return nil, nil, nil //nolint:nilerr // it is made again
	}
	return x, in, nil
}

// follow adds the index of a file to those of the files before.
func (p *pass) follow(x *index.Index, in io.Closer) {
	if x == nil || x.Since > 0 {
		p.close() // the next full one is made of what is behind this file, or of this
	}
	if x != nil {
		p.base, p.open = append(p.base, x), append(p.open, in)
	}
}

// remove removes a file by a limit.
func (p *pass) remove(a *archive, limit string) error {
	x, in, err := p.look(a)
	p.follow(x, in)
	return errors.Join(err, p.removeFiles(a, limit))
}

// firstSeq returns the seq of a file's first line.
func (p *pass) firstSeq(a *archive) (uint64, error) {
	s, err := p.segment(a)
	return s.FirstSeq, err
}

// keep compresses a file, if that is asked for, and makes its index, where these are missing.
func (p *pass) keep(a *archive, compress bool) error {
	if a.plain && a.zip { // a crash came between step 4 and 5 of compress
		if err := p.File.remove(a.name); err != nil {
			return err
		}
		a.plain = false
	}
	x, in, err := p.look(a)
	if err == nil && compress && a.plain && a.upTo == 0 {
		err = p.compress(a)
	} else if err == nil && x == nil && !p.tidy.bare[a.name] {
		err = p.index(a)
	} else {
		p.follow(x, in)
		return err
	}
	if in != nil {
		_ = in.Close() // it is only read
	}
	x, in, lookErr := p.look(a)
	p.follow(x, in)
	return errors.Join(err, lookErr)
}

// compress makes a gzip file of a rotated one, and its index:
//
//  1. the gzip file under a name that nobody reads, and synced: a crash leaves a file that the next pass removes;
//  2. the index; a crash leaves the plain file with its index. Without one the file is compressed all the same;
//  3. the gzip file is renamed, where it is complete from the first moment: a crash leaves both;
//  4. the folder is synced, so that the plain file is not the only one that a power cut takes;
//  5. the plain file is removed.
func (p *pass) compress(a *archive) error {
	dir, tmp := filepath.Dir(p.path), temporaryOf(a.name+gzipped)
	_, x, err := p.begin(a)
	var in, writing disk.File
	if err == nil {
		in, err = p.disk.OpenFile(filepath.Join(dir, a.name), os.O_RDONLY, 0)
	}
	if err == nil {
		defer in.Close() //nolint:errcheck // it is only read
		writing, err = p.write(tmp, func(out io.WriterAt) error {
			return Compress(out, in, a.name, x)
		})
	}
	if writing != nil {
		defer writing.Close() //nolint:errcheck // it is synced
	}
	if err != nil {
		return fmt.Errorf("compress journal: %w", errors.Join(err, p.File.remove(tmp)))
	}
	indexErr := p.writeIndex(a.name, x)
	if err := p.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, a.name+gzipped)); err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	a.zip = true
	if err := p.disk.SyncDir(dir); err != nil {
		return err
	}
	err = p.File.remove(a.name)
	a.plain = err != nil
	return errors.Join(indexErr, err)
}

// index makes the index of a rotated file. One that is damaged gets none. Close does not wait for a large one: it makes
// reading fail.
func (p *pass) index(a *archive) error {
	s, x, err := p.begin(a)
	if err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	var failed *fs.PathError
	switch err := s.AddTo(p.tidy.ctx, x); {
	case errors.As(err, &failed) || p.tidy.ctx.Err() != nil:
		return fmt.Errorf("index journal: %w", err)
	case err != nil:
		p.log.Warn("a rotated journal file is damaged and gets no index", zap.String("name", a.file()), zap.Error(err))
		p.tidy.bare[a.name] = true
		return nil
	}
	return p.writeIndex(a.name, x)
}

// begin begins the index of a file.
func (p *pass) begin(a *archive) (Segment, *index.Builder, error) {
	s, err := p.segment(a)
	x := index.NewBuilder(s.Head)
	if len(p.base) >= FullEvery {
		x.Fill(p.base, p.oldest)
	}
	return s, x, err
}

// writeIndex writes the index of a rotated file under a name that nobody reads, syncs it and renames it: a crash leaves
// none, or what the next pass removes. A file without a line gets none.
func (j *File) writeIndex(name string, b *index.Builder) error {
	dir, tmp := filepath.Dir(j.path), temporaryOf(name+indexed)
	writing, err := j.write(tmp, func(out io.WriterAt) error { return b.Save(out) })
	if writing != nil {
		defer writing.Close() //nolint:errcheck // it is synced
	}
	if errors.Is(err, index.ErrNoLine) {
		j.tidy.bare[name] = true
		return j.remove(tmp)
	}
	if err != nil {
		return fmt.Errorf("index journal: %w", errors.Join(err, j.remove(tmp)))
	}
	if err := j.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, name+indexed)); err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	return nil
}

// write is disk.WriteTemporary of a file beside the active one. Close does not wait for a large one: it makes writing
// fail.
func (j *File) write(name string, fn func(io.WriterAt) error) (disk.File, error) {
	return disk.WriteTemporary(j.disk, filepath.Join(filepath.Dir(j.path), name), fileMode, func(out io.WriterAt) error {
		return fn(stoppable{out, j.tidy.ctx})
	})
}
