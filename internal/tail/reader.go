package tail

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// errRewritten says that a file does not hold any more what was read from it.
var errRewritten = errors.New("file was truncated or written anew")

// active reads a file that is appended to, and makes sure that it is still the same.
type active struct {
	f   *os.File
	off int64 // of the next byte to read

	// The last line that was taken: where it begins, and its first bytes. With seq and time among them, no other line
	// has the same.
	markAt int64
	mark   []byte
}

const markBytes = 128

// seek continues at off, where a line begins.
func (a *active) seek(off int64) {
	a.off, a.markAt, a.mark = off, off, a.mark[:0]
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

// holds reports whether the line stands at its place, whole.
func (a *active) holds(line []byte, at int64) (bool, error) {
	is := make([]byte, len(line)+1)
	n, err := a.f.ReadAt(is, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n == len(is) && is[n-1] == '\n' && bytes.Equal(is[:n-1], line), nil
}

// same reports whether the last line still stands where it stood, or, before the first, whether a line ends there.
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
