// Package archive opens the files of a journal, or of several as one, finds what the arguments of a question name, and
// reads lines by their indexes.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// ErrDamaged says that a file of the journal cannot be read as its index says.
var ErrDamaged = errors.New("damaged journal file")

// Journal is the files of a journal, as they were when it was opened; a daemon may be writing to them.
// It is for one goroutine.
type Journal struct {
	// Segments are its files, in order. Unread are those that are not among them: they cannot be read.
	Segments []*Segment
	Unread   []segment.Segment
	Aside    Aside // the last damaged coverage file

	path   string       // of the active file; none of several journals
	dir    string       // to be removed: of several journals
	lock   *os.File     // of dir
	empty  bool         // of several journals: there is no line in any of them
	defs   []definition // of several journals, where only selected lines are there
	ends   []End        // of several journals
	order  *merge.Order // of these
	each   []*Journal   // of several journals, with EachJournal
	notice func(string)
	reader Reader      // of a history
	second Reader      // of lines that are read beside those
	people *audit.File // who made the lines, of one journal
	named  bool        // somebody is named, of any

	record    *coverage.Record        // loaded before the segments were listed
	coverage  []coverage.Stream       // once asked for
	uncovered error                   // why there is none
	lostFiles []string                // see LostFiles
	confirmed map[string]confirmation // of several journals, see confirmedByReplicas
}

// Segment is one file of the journal.
type Segment struct {
	segment.Segment
	Hole string // the lines that are missing before it, of several journals

	x       *index.Index // nil until it is asked for
	in      io.Closer    // of the index's file; nil where it was made in memory
	bounds  *Bounds      // nil until they are asked for
	damaged bool         // the index beside it
}

// Open opens the journal whose active file is at path. notice gets sentences without a full stop about its files: an
// index that is damaged, for example.
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
		return nil, fmt.Errorf(
			"open journal %s: not a regular file; a stream of lines can be followed with 'kubejournal tail', not asked",
			path,
		)
	}
	j := &Journal{path: path, notice: notice}
	j.Aside = findAside(path)
	j.openPeople()
	j.record, j.uncovered = coverage.Load(path) // before the lines, so that it claims none that are not there
	all, err := segment.Snapshot(path)
	if err == nil && len(all) == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open journal %s: no such file", path)
	}
	var torn []segment.Segment
	for _, s := range all {
		switch {
		case s.FirstSeq > 0 && s.HasLine():
			j.Segments = append(j.Segments, &Segment{Segment: s})
		case s.FirstSeq > 0 && s.Active: // its first line is being written, or torn: then the daemon cuts it off
			_ = s.Release() // it was only read
		case s.FirstSeq > 0:
			s.Unread = errNoWholeLine
			torn = append(torn, s)
		case s.Unread != nil:
			j.Unread = append(j.Unread, s)
		}
	}
	for _, s := range j.Unread {
		denied := errors.Is(s.Unread, fs.ErrPermission)
		switch {
		case s.Active && denied || len(j.Segments) == 0 && !s.Active:
			j.Close()
			//nolint:errorlint // ErrNoLine is of the active file
			return nil, fmt.Errorf("open journal %s: %v", s.Path, s.Unread)
		case len(j.Segments) == 0:
			j.Close()
			return nil, fmt.Errorf("open journal %s: %w; name the journal's active file", s.Path, s.Unread)
		}
	}
	j.Unread = slices.Concat(torn, j.Unread) // which are no reason to have no answer
	for _, s := range j.Unread {
		notice(CannotRead(&s))
	}
	j.noticeStrangers()
	return j, err
}

// openPeople opens the file that says who made the lines, if there is one.
func (j *Journal) openPeople() {
	var err error
	if j.people, err = audit.Open(j.path); err != nil {
		j.notice(fmt.Sprintf("no person is named: %v", err))
	}
	j.reader.persons, j.second.persons, j.named = j.people, j.people, j.people != nil
}

// Named reports whether it is known of some lines who made them, as an audit log says.
func (j *Journal) Named() bool { return j.named }

// errNoWholeLine says that a file begins with a line and has neither its end nor another one.
var errNoWholeLine = errors.New("it has no whole line")

// CannotRead says of which file no line is in an answer.
func CannotRead(s *segment.Segment) string {
	return fmt.Sprintf("%s cannot be read: %v", s.Path, s.Unread)
}

// CutOff says of which file the last lines are in no answer.
func CutOff(s *segment.Segment) string {
	return fmt.Sprintf("%s cannot be read to its end: %v", s.Path, s.Unread)
}

// Close closes the journal's files.
func (j *Journal) Close() {
	j.reader.Close()
	j.second.Close()
	if j.people != nil && j.people.Damaged != nil {
		of := segment.AuditPath(j.path)
		j.notice(fmt.Sprintf("%s: %v; of its lines there, no person is named", of, j.people.Damaged))
	}
	j.people.Close()
	for _, one := range j.each {
		one.Close()
	}
	for _, s := range j.Segments {
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

// Path returns the path of the active file; of several journals there is none.
func (j *Journal) Path() string { return j.path }

// Merged reports whether it is several journals that were merged.
func (j *Journal) Merged() bool { return j.path == "" }

// Notice passes on a sentence about the journal's files, as Open says.
func (j *Journal) Notice(text string) { j.notice(text) }

// Empty reports whether there is no line.
func (j *Journal) Empty() bool {
	if j.Merged() {
		return j.empty
	}
	return len(j.Segments) == 0
}

// Index returns the index of a segment: the one beside it, or one that is made now by reading it.
func (j *Journal) Index(ctx context.Context, i int) (*index.Index, error) {
	s := j.Segments[i]
	if s.x != nil {
		return s.x, nil
	}
	if s.Indexed() {
		x, in, err := s.OpenIndex()
		if err == nil {
			s.x, s.in = x, in
			return x, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			j.notice(fmt.Sprintf("%s cannot be used: %v; its file is read instead", segment.IndexPath(s.Path), err))
		}
	}
	x, err := s.MakeIndex(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Path, err)
	}
	if s.Unread != nil {
		j.notice(CutOff(&s.Segment))
	}
	if s.Long != nil {
		j.notice(fmt.Sprintf("%s: %v", s.Path, s.Long))
	}
	s.x = x
	return x, nil
}

// Indexed reports whether the segment has an index that need not be made: it is in use, or should be beside it, and is
// not known to be damaged.
func (s *Segment) Indexed() bool { return s.x != nil || s.Ours && !s.Active && !s.damaged }

// Base returns the segment with whose index, and those of the segments up to another one, it is known what was there:
// the last one with a full index that knows the lines of all segments before, or the first.
func (j *Journal) Base(ctx context.Context, i int) (int, error) {
	for ; i > 0; i-- {
		x, err := j.Index(ctx, i)
		if err != nil || x.Since > 0 && x.Since <= j.Segments[0].FirstSeq {
			return i, err
		}
	}
	return 0, nil
}

// heal reports whether an answer failed because of a damaged index that is not used any more from now on: the segment
// is read instead.
func (j *Journal) heal(err error) bool {
	if !errors.Is(err, index.ErrDamaged) {
		return false
	}
	healed := false
	for _, s := range j.Segments {
		if s.in == nil || s.x.Check() == nil {
			continue
		}
		j.notice(fmt.Sprintf("%s is damaged; its file is read instead", segment.IndexPath(s.Path)))
		_ = s.in.Close() // it is only read
		s.x, s.in, s.bounds, s.damaged, healed = nil, nil, nil, true, true
	}
	return healed
}

// Again calls fn, and once more for each time that an index was found to be damaged.
func Again[T any](j *Journal, fn func() (T, error)) (T, error) {
	for {
		v, err := fn()
		if err == nil || !j.heal(err) {
			return v, err
		}
	}
}

// Newest returns the indexes that together have all that is known at the end, the last one first.
func (j *Journal) Newest(ctx context.Context) (all []*index.Index, err error) {
	last := len(j.Segments) - 1
	first, err := j.Base(ctx, last)
	for i := last; i >= first && err == nil; i-- {
		var x *index.Index
		if x, err = j.Index(ctx, i); err == nil {
			all = append(all, x)
		}
	}
	return all, err
}

// StreamNames returns the streams that may have selected objects, in the order of their names.
func (j *Journal) StreamNames(ctx context.Context, s *argument.Selection) ([]string, error) {
	newest, err := j.Newest(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range newest {
		for _, p := range s.Picks(x) {
			if name := x.Streams[p.Stream].Name; s.MayHave(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// SegmentOf returns the index of the segment whose first line has that seq, -1 where it is gone.
func (j *Journal) SegmentOf(first uint64) int {
	for i, s := range j.Segments {
		if s.FirstSeq == first || s.x != nil && s.x.FirstSeq == first { // the first line may be damaged
			return i
		}
	}
	return -1
}

// SegmentWith returns the index of the segment that has the line with a seq, if any has.
func (j *Journal) SegmentWith(seq uint64) int {
	i := len(j.Segments) - 1
	for i > 0 && j.Segments[i].FirstSeq > seq {
		i--
	}
	return i
}
