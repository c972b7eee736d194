package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
)

// ErrDamaged says that a file of the journal cannot be read as its index says.
var ErrDamaged = errors.New("damaged journal file")

// Journal answers questions from the files of a journal, as they were when it was opened; a daemon may be writing to them.
// It is for one goroutine.
type Journal struct {
	path     string       // of the active file; none of several journals
	dir      string       // to be removed: of several journals
	lock     *os.File     // of dir
	empty    bool         // of several journals: there is no line in any of them
	defs     []definition // of several journals, where only selected lines are there
	ends     []End        // of several journals
	order    *merge.Order // of these
	segments []*segment
	notice   func(string)
	unread   []journal.Segment // that are not among segments: they cannot be read
	reader   reader            // of a history
	second   reader            // of lines that are read beside those
	late     ends              // of the versions of a history

	aside     aside
	record    *coverage.Record        // loaded before the segments were listed
	coverage  []coverage.Stream       // once asked for
	uncovered error                   // why there is none
	lostFiles []Doubt                 // see LostFiles
	confirmed map[string]confirmation // of several journals, see confirmedByReplicas
}

// segment is one file of the journal.
type segment struct {
	journal.Segment
	x       *index.Index // nil until it is asked for
	in      io.Closer    // of the index's file; nil where it was made in memory
	bounds  *bounds      // nil until they are asked for
	hole    string       // the lines that are missing before it, of several journals
	damaged bool         // the index beside it
}

// reader reads lines, of one segment after the other.
type reader struct {
	of     *segment // nil where lines is not at the beginning of a line
	lines  journal.Reader
	at     int64 // offset of what comes next
	parsed line.Fields
}

// Open opens the journal whose active file is at path. notice gets sentences without a full stop about its files: an index
// that is damaged, for example.
func Open(path string, notice func(string)) (*Journal, error) {
	path = disk.Absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // rotated files lie beside the file that a link leads to
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("open journal %s: is a directory; name the file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("open journal %s: not a regular file; a stream of lines can be followed with 'kubejournal tail', not asked", path)
	}
	j := &Journal{path: path, notice: notice}
	j.aside = findAside(path)
	j.record, j.uncovered = coverage.Load(path) // before the lines, so that it claims none that are not there
	all, err := journal.Snapshot(path)
	if err == nil && len(all) == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open journal %s: no such file", path)
	}
	var torn []journal.Segment
	for _, s := range all {
		switch {
		case s.FirstSeq > 0 && s.HasLine():
			j.segments = append(j.segments, &segment{Segment: s})
		case s.FirstSeq > 0 && s.Active: // its first line is being written, or torn: then the daemon cuts it off
			_ = s.Release() // it was only read
		case s.FirstSeq > 0:
			s.Unread = errNoWholeLine
			torn = append(torn, s)
		case s.Unread != nil:
			j.unread = append(j.unread, s)
		}
	}
	for _, s := range j.unread {
		denied := errors.Is(s.Unread, fs.ErrPermission)
		switch {
		case s.Active && denied || len(j.segments) == 0 && !s.Active:
			j.Close()
			return nil, fmt.Errorf("open journal %s: %v", s.Path, s.Unread) //nolint:errorlint // ErrNoLine is of the active file
		case len(j.segments) == 0:
			j.Close()
			return nil, fmt.Errorf("open journal %s: %w; name the journal's active file", s.Path, s.Unread)
		}
	}
	j.unread = slices.Concat(torn, j.unread) // which are no reason to have no answer
	for _, s := range j.unread {
		notice(cannotRead(&s))
	}
	j.noticeStrangers()
	return j, err
}

// errNoWholeLine says that a file begins with a line and has neither its end nor another one.
var errNoWholeLine = errors.New("it has no whole line")

// cannotRead says of which file no line is in an answer.
func cannotRead(s *journal.Segment) string {
	return fmt.Sprintf("%s cannot be read: %v", s.Path, s.Unread)
}

// cutOff says of which file the last lines are in no answer.
func cutOff(s *journal.Segment) string {
	return fmt.Sprintf("%s cannot be read to its end: %v", s.Path, s.Unread)
}

// Close closes the journal's files.
func (j *Journal) Close() {
	j.reader.lines.Close()
	j.second.lines.Close()
	for _, s := range j.segments {
		_ = s.Release() // as below
		if s.in != nil {
			_ = s.in.Close() // it is only read
		}
	}
	if j.dir != "" {
		_ = os.RemoveAll(j.dir) // what is left is in the system's folder for such files
		_ = j.lock.Close()      // nothing was written
	}
}

// Empty reports whether there is no line.
func (j *Journal) Empty() bool {
	if j.path == "" {
		return j.empty
	}
	return len(j.segments) == 0
}

// index returns the index of a segment: the one beside it, or one that is made now by reading it.
func (j *Journal) index(ctx context.Context, i int) (*index.Index, error) {
	s := j.segments[i]
	if s.x != nil {
		return s.x, nil
	}
	if s.indexed() {
		x, in, err := s.OpenIndex()
		if err == nil {
			s.x, s.in = x, in
			return x, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			j.notice(fmt.Sprintf("%s cannot be used: %v; its file is read instead", journal.IndexPath(s.Path), err))
		}
	}
	x, err := s.MakeIndex(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Path, err)
	}
	if s.Unread != nil {
		j.notice(cutOff(&s.Segment))
	}
	if s.Long != nil {
		j.notice(fmt.Sprintf("%s: %v", s.Path, s.Long))
	}
	s.x = x
	return x, nil
}

// indexed reports whether there should be an index beside a segment, and none that is damaged was found.
func (s *segment) indexed() bool { return s.Ours && !s.Active && !s.damaged }

// base returns the segment with whose index, and those of the segments up to another one, it is known what was there: the
// last one with a full index that knows the lines of all segments before, or the first.
func (j *Journal) base(ctx context.Context, i int) (int, error) {
	for ; i > 0; i-- {
		x, err := j.index(ctx, i)
		if err != nil || x.Since > 0 && x.Since <= j.segments[0].FirstSeq {
			return i, err
		}
	}
	return 0, nil
}

// heal reports whether an answer failed because of a damaged index that is not used any more from now on: the segment is
// read instead.
func (j *Journal) heal(err error) bool {
	if !errors.Is(err, index.ErrDamaged) {
		return false
	}
	healed := false
	for _, s := range j.segments {
		if s.in == nil || s.x.Check() == nil {
			continue
		}
		j.notice(fmt.Sprintf("%s is damaged; its file is read instead", journal.IndexPath(s.Path)))
		_ = s.in.Close() // it is only read
		s.x, s.in, s.bounds, s.damaged, healed = nil, nil, nil, true, true
	}
	return healed
}

// again calls fn, and once more for each time that an index was found to be damaged.
func again[T any](j *Journal, fn func() (T, error)) (T, error) {
	for {
		v, err := fn()
		if err == nil || !j.heal(err) {
			return v, err
		}
	}
}

// newest returns the indexes that together have all that is known at the end, the last one first.
func (j *Journal) newest(ctx context.Context) (all []*index.Index, err error) {
	last := len(j.segments) - 1
	first, err := j.base(ctx, last)
	for i := last; i >= first && err == nil; i-- {
		var x *index.Index
		x, err = j.index(ctx, i)
		all = append(all, x)
	}
	return all, err
}

// streams returns the streams that may have selected objects, in the order of their names.
func (j *Journal) streams(ctx context.Context, s *Selection) ([]string, error) {
	newest, err := j.newest(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range newest {
		for _, p := range s.picks(x) {
			if name := x.Streams[p.stream].Name; s.mayHave(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// read reads a line of a segment whose index is there. It is valid until the next call.
func (r *reader) read(s *segment, seq uint64, offset int64) (*line.Fields, error) {
	err := r.seek(s, offset)
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
		return nil, fmt.Errorf("read %s: line %d is not where the index says: %w; 'kubejournal index --verify' finds out more", s.Path, seq, ErrDamaged)
	}
	return &r.parsed, nil
}

// seek makes lines begin at an offset of a segment.
func (r *reader) seek(s *segment, offset int64) error {
	const far = 256 << 10 // a plain file is entered anew after so many bytes
	if r.of == s && offset >= r.at {
		if _, member := s.x.Member(offset); s.Gzip && member <= r.at || !s.Gzip && offset-r.at < far {
			return r.lines.Skip(offset - r.at)
		}
	}
	return r.lines.Open(s.Segment, offset)
}

// segmentOf returns the index of the segment whose first line has that seq, -1 where it is gone.
func (j *Journal) segmentOf(first uint64) int {
	for i, s := range j.segments {
		if s.FirstSeq == first || s.x != nil && s.x.FirstSeq == first { // the first line may be damaged
			return i
		}
	}
	return -1
}

// segmentWith returns the index of the segment that has the line with a seq, if any has.
func (j *Journal) segmentWith(seq uint64) int {
	i := len(j.segments) - 1
	for i > 0 && j.segments[i].FirstSeq > seq {
		i--
	}
	return i
}

// text returns the inside of a member as it reads, which most are already.
func text(inside []byte) string {
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	return strings.ToValidUTF8(string(unquote(inside)), "\uFFFD")
}
