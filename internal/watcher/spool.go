package watcher

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kubejournal/internal/event"
)

// spoolMemory is how many bytes of lines a spool holds before it takes to a
// file. Most lists after a gap stay below.
const spoolMemory = 1 << 20

// spooled is one line that waits, with what it makes known.
type spooled struct {
	typ                           event.Type
	received                      time.Time
	namespace, name, uid, version []byte
	line                          []byte // without its seq
	withheld                      bool   // as in telling, like kept
	kept                          []byte
}

// spool holds lines until their list is complete. Not for concurrent use. What
// it holds is shaped and redacted already.
type spool struct {
	dir  string // for the file; "" is the system's
	buf  []byte
	file *os.File // has no name: nothing is left of it after a crash
	size int64
}

// add appends a line.
func (s *spool) add(e *spooled) error {
	s.buf = appendBytes(s.buf, []byte(e.typ))
	s.buf = binary.AppendVarint(s.buf, e.received.UnixNano())
	if s.buf = append(s.buf, 0); e.withheld {
		s.buf[len(s.buf)-1] = 1
	}
	for _, b := range [][]byte{e.namespace, e.name, e.uid, e.version, e.line, e.kept} {
		s.buf = appendBytes(s.buf, b)
	}
	if len(s.buf) < spoolMemory {
		return nil
	}
	return s.spill()
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// spill moves what is in memory to the file.
func (s *spool) spill() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, ".kubejournal-relist-*")
		if err != nil {
			return fmt.Errorf("create spool: %w", err)
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(fmt.Errorf("create spool: %w", err), f.Close())
		}
		s.file = f
	}
	n, err := s.file.WriteAt(s.buf, s.size)
	if err != nil {
		return fmt.Errorf("write spool: %w", err)
	}
	s.size += int64(n)
	s.buf = s.buf[:0]
	return nil
}

// replay calls fn with each line, in the order in which they were added. What
// it is given is valid until fn returns.
func (s *spool) replay(fn func(*spooled) error) error {
	if s.file != nil {
		if err := s.spill(); err != nil {
			return err
		}
		return replay(bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.size), 1<<18), fn)
	}
	return replay(bufio.NewReader(bytes.NewReader(s.buf)), fn)
}

func replay(r *bufio.Reader, fn func(*spooled) error) error {
	var (
		e      spooled
		typ    []byte
		fields = []*[]byte{&e.namespace, &e.name, &e.uid, &e.version, &e.line, &e.kept}
	)
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		err := readBytes(r, &typ)
		if err != nil {
			return err
		}
		e.typ = event.Type(typ)
		nano, err := binary.ReadVarint(r)
		if err != nil {
			return fmt.Errorf("read spool: %w", err)
		}
		e.received = time.Unix(0, nano)
		withheld, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("read spool: %w", err)
		}
		e.withheld = withheld != 0
		for _, f := range fields {
			if err := readBytes(r, f); err != nil {
				return err
			}
		}
		if err := fn(&e); err != nil {
			return err
		}
	}
}

func readBytes(r *bufio.Reader, dst *[]byte) error {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	if uint64(cap(*dst)) < n {
		*dst = make([]byte, n)
	}
	*dst = (*dst)[:n]
	if _, err := io.ReadFull(r, *dst); err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	return nil
}

// close gives the spool's memory and disk space back.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // nobody reads it any more, whatever became of it
	}
	s.buf, s.file, s.size = nil, nil, 0
}
