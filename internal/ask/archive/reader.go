package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Reader reads lines, of one segment after the other.
type Reader struct {
	of     *Segment // nil where lines is not at the beginning of a line
	lines  segment.Reader
	at     int64 // offset of what comes next
	parsed line.Fields

	persons *audit.File // who made the lines; nil where nothing says
	buf     []byte      // of a line that has a person
}

// Open makes Next begin at an offset of a segment.
func (r *Reader) Open(s *Segment, offset int64) error {
	r.of = nil
	return r.lines.Open(s.Segment, offset)
}

// Next returns the next line, as segment.Reader has it.
func (r *Reader) Next() (segment.RawLine, error) { return r.lines.Next() }

// Close closes the file that is read.
func (r *Reader) Close() { r.lines.Close() }

// Read reads a line of a segment, which has an index. It is valid until the next call.
func (r *Reader) Read(s *Segment, x *index.Index, seq uint64, offset int64) (*line.Fields, error) {
	err := r.seek(s, x, offset)
	r.of = nil
	if err != nil {
		return nil, err
	}
	l, err := r.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrDamaged
		}
		return nil, fmt.Errorf("read %s: %w", s.Path, err)
	}
	r.of, r.at = s, offset+int64(len(l.Bytes))+1
	if r.parsed.Parse(l.Bytes) != nil || r.parsed.Seq != seq {
		return nil, fmt.Errorf(
			"read %s: line %d is not where the index says: %w; 'kubejournal index --verify' finds out more", s.Path,
			seq, ErrDamaged,
		)
	}
	r.addPerson(&r.parsed)
	return &r.parsed, nil
}

// addPerson adds who made a line, if that is known. The line is then valid until the next call.
func (r *Reader) addPerson(l *line.Fields) {
	person := r.persons.Of(l.Seq, l.Text(line.FieldID))
	if person == nil {
		return
	}
	if text, err := json.Marshal(person); err == nil {
		r.buf = l.AddPerson(r.buf, text)
	}
}

// seek makes lines begin at an offset of a segment.
func (r *Reader) seek(s *Segment, x *index.Index, offset int64) error {
	const far = 256 << 10 // a plain file is entered again after so many bytes
	if r.of == s && offset >= r.at {
		if _, member := x.Member(offset); s.Gzip && member <= r.at || !s.Gzip && offset-r.at < far {
			return r.lines.Skip(offset - r.at)
		}
	}
	return r.lines.Open(s.Segment, offset)
}
