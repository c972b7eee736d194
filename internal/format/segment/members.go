package segment

import (
	"bufio"
	"errors"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// members reads a compressed file. It returns the bytes of a member only after it has read all of it and its checksum,
// so a reader never gets bytes that were damaged. A member that is longer than any that kubejournal writes is returned
// as it is read, and its checksum is compared at its end.
type members struct {
	z    gzip.Reader
	in   *bufio.Reader
	buf  []byte // of the member, or of the beginning of one that is too long
	at   int    // of the next byte in buf
	long bool   // the member continues after buf
	cut  bool   // the file may be cut off: what there is of its last member is returned
	err  error  // behind buf
}

// reset begins to read in, which begins with a member.
func (m *members) reset(in io.Reader, cut bool) error {
	if m.in == nil {
		m.in = bufio.NewReaderSize(nil, gzipBuffer)
	}
	m.in.Reset(in)
	m.buf, m.at, m.long, m.cut = m.buf[:0], 0, false, cut
	m.next()
	return m.err
}

// next begins the next member.
func (m *members) next() {
	if m.err = m.z.Reset(m.in); m.err == nil {
		m.z.Multistream(false)
	}
}

func (m *members) Read(p []byte) (int, error) {
	for {
		switch {
		case m.at < len(m.buf):
			n := copy(p, m.buf[m.at:])
			m.at += n
			return n, nil
		case m.err != nil:
			return 0, m.err
		case !m.long:
			m.fill()
			continue
		}
		n, err := m.z.Read(p)
		if errors.Is(err, io.EOF) {
			m.long = false
			m.next()
		} else {
			m.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// fill reads a member.
func (m *members) fill() {
	if m.at = 0; cap(m.buf) > maxKept {
		m.buf = nil
	}
	for m.buf = m.buf[:0]; len(m.buf) <= max(maxLine, memberSize); {
		m.buf = slices.Grow(m.buf, gzipBuffer)
		n, err := m.z.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			m.next()
			return
		case err != nil:
			if m.err = err; !m.cut || !errors.Is(err, io.ErrUnexpectedEOF) {
				m.buf = m.buf[:0]
			}
			return
		}
	}
	m.long = true
}
