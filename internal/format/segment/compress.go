package segment

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"

	"kubejournal/internal/format/index"
)

// memberSize bounds a gzip member, in bytes of lines: it ends with the last line that fits, or with a longer one.
const memberSize = 256 << 10

// zipLevels are those of the members, in turn. Beside one stream of compress/gzip at its default level, members of
// level 8 are 8 % larger and take as much CPU, members of level 6 are 13 % larger and take less than half: that pays
// for the index.
var zipLevels = [...]int{8, 8, 8, 8, 6}

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
