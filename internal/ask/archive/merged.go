package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// mergedFiles are the files of a merged journal.
type mergedFiles struct {
	j        *Journal
	next     uint64 // seq
	hole     string // before the next line
	late     map[string][]coverage.Span
	relisted map[string][]coverage.Span

	f      *os.File
	w      *bufio.Writer
	at     int64 // where the next line begins, in all files
	size   int64 // of f
	begins []int64
	open   map[int]*os.File // for Read: of the files that have ended
	buf    []byte
	read   line.Fields
}

// mergedSize is how large a file is: one is indexed if the answer needs it.
const mergedSize = 64 << 20

// maxOpenMerged is how many files that have ended are held open for what is read back.
const maxOpenMerged = 64

func (m *mergedFiles) Next() uint64 { return m.next }

func (m *mergedFiles) Late(stream string, told, later time.Time) {
	if later.Sub(told) <= coverage.LateAfter {
		return
	}
	if m.late == nil {
		m.late = make(map[string][]coverage.Span)
	}
	// What it was told of had happened before.
	m.late[stream] = append(m.late[stream], coverage.Span{From: told.Add(-coverage.LateAfter), To: later})
}

func (m *mergedFiles) Relisted(stream string, from, to time.Time) {
	if m.relisted == nil {
		m.relisted = make(map[string][]coverage.Span)
	}
	m.relisted[stream] = append(m.relisted[stream], coverage.Span{From: from, To: to})
}

func (m *mergedFiles) Hole(source string, count, seq uint64) error {
	what := fmt.Sprintf("%d lines of %s are missing before its line %d", count, source, seq)
	if count == 1 {
		what = fmt.Sprintf("a line of %s is missing before its line %d", source, seq)
	}
	if m.hole != "" {
		what = m.hole + "; " + what
	}
	m.hole = what
	m.next += count
	return m.end()
}

// end ends a file.
func (m *mergedFiles) end() error {
	if m.f == nil {
		return nil
	}
	err := errors.Join(m.w.Flush(), m.f.Close())
	m.f = nil
	return err
}

func (m *mergedFiles) Write(l []byte) (int64, error) {
	if m.size+int64(len(l)) > mergedSize {
		if err := m.end(); err != nil {
			return 0, err
		}
	}
	if m.f == nil {
		if err := m.begin(l); err != nil {
			return 0, err
		}
	}
	_, err := m.w.Write(l)
	if err == nil {
		err = m.w.WriteByte('\n')
	}
	at := m.at
	size := int64(len(l)) + 1
	m.at, m.size, m.next = m.at+size, m.size+size, m.next+1
	m.j.Segments[len(m.j.Segments)-1].Size = m.size
	return at, err
}

// begin begins a file with a line.
func (m *mergedFiles) begin(l []byte) (err error) {
	var first line.Fields
	if err := first.Parse(l); err != nil {
		return err
	}
	path := filepath.Join(m.j.dir, fmt.Sprintf("%d.jsonl", len(m.j.Segments)))
	if m.f, err = os.Create(path); err != nil {
		return err
	}
	if m.size = 0; m.w == nil {
		m.w = bufio.NewWriterSize(nil, 256<<10)
	}
	m.w.Reset(m.f)
	m.j.Segments = append(m.j.Segments, &Segment{
		Segment: segment.Segment{Path: path, FirstSeq: m.next, FirstTime: first.Time}, Hole: m.hole,
	})
	m.begins = append(m.begins, m.at)
	m.hole = ""
	return nil
}

// Read returns the line at a place. It is valid until the next call.
func (m *mergedFiles) Read(at int64) (*line.Fields, error) {
	i, is := slices.BinarySearch(m.begins, at)
	if !is {
		i--
	}
	f, err := m.file(i)
	if err != nil {
		return nil, err
	}
	if m.buf == nil {
		m.buf = make([]byte, 16<<10)
	}
	for have := 0; ; {
		n, err := f.ReadAt(m.buf[have:], at-m.begins[i]+int64(have))
		if end := bytes.IndexByte(m.buf[have:have+n], '\n'); end >= 0 {
			return &m.read, m.read.Parse(m.buf[:have+end])
		}
		have += n
		switch {
		case err == nil:
			m.buf = append(m.buf, make([]byte, len(m.buf))...)
		case errors.Is(err, io.EOF) && f == m.f && m.w.Buffered() > 0: // the rest is still to be written
			if err := m.w.Flush(); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
	}
}

// file returns a file to read from.
func (m *mergedFiles) file(i int) (*os.File, error) {
	if m.f != nil && i == len(m.begins)-1 {
		return m.f, nil
	}
	if f := m.open[i]; f != nil {
		return f, nil
	}
	f, err := os.Open(m.j.Segments[i].Path)
	if err != nil {
		return nil, err
	}
	for n, other := range m.open {
		if len(m.open) < maxOpenMerged {
			break
		}
		_ = other.Close() // it is only read
		delete(m.open, n)
	}
	if m.open == nil {
		m.open = make(map[int]*os.File)
	}
	m.open[i] = f
	return f, nil
}

// close closes what is open.
func (m *mergedFiles) close() {
	for _, f := range m.open {
		_ = f.Close() // it is only read
	}
	m.open = nil
	if m.f != nil {
		_ = m.f.Close() // the merge has failed
		m.f = nil
	}
}
