package tail

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
)

// errRewritten says that a file does not hold any more what was read from it.
var errRewritten = errors.New("file was truncated or written anew")

// active reads a file that is appended to, and makes sure that it is still the same.
type active struct {
	f   *os.File
	off int64 // of the next byte to read

	// The last line that was taken: where it begins, and its first bytes. With seq and time among them, no other line
	// has the same. Before the first one it is the end of the line in front of it.
	markAt int64
	mark   []byte

	check [32 << 10]byte // scratch
}

const markBytes = 128

// seek continues at off, where a line begins.
func (a *active) seek(off int64) {
	a.off, a.markAt, a.mark = off, 0, a.mark[:0]
	if off > 0 {
		a.took([]byte{'\n'}, off-1)
	}
}

// took remembers a line.
func (a *active) took(line []byte, at int64) {
	a.markAt, a.mark = at, append(a.mark[:0], line[:min(len(line), markBytes)]...)
}

// Read compares the last line after reading, so that what was read belongs to the same file content as that line.
func (a *active) Read(p []byte) (int, error) {
	n, err := a.f.ReadAt(p, a.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if same, err := a.holds(a.mark, a.markAt); err != nil {
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

// holds reports whether the file has b at an offset.
func (a *active) holds(b []byte, at int64) (bool, error) {
	for part := range slices.Chunk(b, len(a.check)) {
		n, err := a.f.ReadAt(a.check[:len(part)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if !bytes.Equal(a.check[:n], part) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}
