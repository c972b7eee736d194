package segment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
)

// Segment is one file of a journal.
type Segment struct {
	Path string
	// of its first line; 0 where it has none, which only the active one may have, or one with Unread
	FirstSeq  uint64
	FirstTime time.Time // of the same line; zero where it cannot be read
	Head      uint32    // CRC-32C of its first 64 bytes of lines, which have the first line's seq and time
	Size      int64     // bytes on disk
	Gzip      bool
	Active    bool   // lines are appended to it
	Ours      bool   // it has the name of a file that kubejournal rotated
	UpTo      uint64 // of a compacted one: its last line's seq. It replaces all files that begin up to there; else 0
	Unread    error  // why its first line cannot be read; nil too where there is none yet
	Long      error  // of MakeIndex: which line is longer than one can be, and was passed over; nil where none is

	// where it is open already, whatever its name is now; Size bytes of it are read, and nobody closes it
	File  disk.File
	disk  disk.FS      // default disk.OS
	index *index.Index // of OpenIndex or MakeIndex
}

// List returns the segments of the journal at path in the order of seq, the active one last: rotated files, files
// that others renamed or copied under names such as logrotate gives, and the file at path. What others made may repeat
// lines of another segment. A file that is renamed or compressed during the call may be missing: a reader that finds a
// hole in seq calls it again.
func List(path string) ([]Segment, error) { return new(Lister).List(path) }

// Lister lists the segments of one journal, several times. What compressed ones begin with never changes, so it is
// remembered; what a decompressor allocates is reused. The zero Lister is ready.
type Lister struct {
	Disk  disk.FS            // default disk.OS
	known map[string]Segment // compressed ones, by path
	z     gzip.Reader
}

// List is the function List.
func (l *Lister) List(path string) ([]Segment, error) {
	all, err := l.list(path)
	return slices.DeleteFunc(all, func(s Segment) bool { return s.FirstSeq == 0 && !s.Active }), err
}

// list returns the rotated files that cannot be read too.
func (l *Lister) list(path string) ([]Segment, error) {
	dir, n := filepath.Dir(path), NamesOf(path)
	entries, err := cmp.Or(l.Disk, disk.OS).ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	maps.DeleteFunc(l.known, func(path string, _ Segment) bool { return !names[filepath.Base(path)] })
	var all []Segment
	for _, e := range entries {
		name := e.Name()
		s := Segment{Path: filepath.Join(dir, name), Active: name == n.active}
		if !s.Active && !n.related(name) || !e.Type().IsRegular() {
			continue
		}
		plain, compressed := strings.CutSuffix(name, Gzipped)
		if s.Gzip = compressed && !s.Active; s.Gzip && names[plain] {
			continue // the same lines
		}
		var r Rotation
		if r, s.Ours = n.Parse(name); s.Ours && r.UpTo > 0 {
			// A stranger's would hide the files of this journal.
			if info, err := e.Info(); err == nil && disk.SharedFolder(dir).Foreign(info) == "" {
				s.UpTo = r.UpTo
			}
		}
		if err := l.Look(&s); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		if s.FirstSeq > 0 || s.Active || s.Ours && s.Unread != nil {
			all = append(all, s)
		}
	}
	all = slices.DeleteFunc(all, func(s Segment) bool {
		return s.Ours && slices.ContainsFunc(all, func(by Segment) bool { return by.replaces(&s) })
	})
	rank := map[bool]int{true: 1}
	slices.SortFunc(all, func(a, b Segment) int {
		return cmp.Or(rank[a.Active]-rank[b.Active], cmp.Compare(a.FirstSeq, b.FirstSeq),
			rank[b.Ours]-rank[a.Ours], rank[a.Gzip]-rank[b.Gzip], strings.Compare(a.Path, b.Path))
	})
	return all, nil
}

// replaces reports whether a compacted segment was made of another one, which is about to be removed.
func (s *Segment) replaces(o *Segment) bool {
	return s.UpTo > 0 && s.FirstSeq > 0 && s.FirstSeq <= o.FirstSeq && o.FirstSeq <= s.UpTo && s.Path != o.Path &&
		(o.UpTo == 0 || o.UpTo < s.UpTo || o.FirstSeq > s.FirstSeq)
}

// errBusy says that files were renamed each time that they were listed.
var errBusy = errors.New("its files change faster than they can be listed")

// Snapshot returns the segments as List does, those that cannot be read too, all of one moment, and the active one
// open: whatever becomes of its name, what it has now is read of it. A rotated file may be compressed later, and is
// then read so. Release must follow for each.
func Snapshot(path string) ([]Segment, error) { return new(Lister).snapshot(path) }

func (l *Lister) snapshot(path string) ([]Segment, error) {
	const most = 100 // tries
	before, err := l.list(path)
	if err != nil {
		return nil, err
	}
	for range most {
		held, err := holdActive(before)
		if err != nil {
			return nil, err
		}
		// What a rename has hidden from one list is in the next one.
		all, err := l.list(path)
		if err != nil {
			return nil, errors.Join(err, held.Release())
		}
		same := slices.EqualFunc(before, all, func(a, b Segment) bool {
			return a.FirstSeq == b.FirstSeq && a.Head == b.Head && a.Active == b.Active
		})
		switch n := len(all) - 1; {
		case same && held.File == nil:
			return all, nil
		case same && held.FirstSeq == all[n].FirstSeq && held.Head == all[n].Head:
			all[n].File, all[n].Size = held.File, held.Size
			return all, nil
		}
		if err := held.Release(); err != nil {
			return nil, err
		}
		before = all
	}
	return nil, fmt.Errorf("read journal: %w", errBusy)
}

// holdActive opens the active one of some segments, and reads what it begins with; nothing is open if it is gone or
// empty.
func holdActive(all []Segment) (s Segment, err error) {
	n := len(all) - 1
	if n < 0 || !all[n].Active || all[n].FirstSeq == 0 {
		return s, nil
	}
	f, err := all[n].disk.OpenFile(all[n].Path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read journal: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return s, errors.Join(err, f.Close())
	}
	_ = s.ReadHead(f) // what cannot be read is not what was listed
	s.File, s.Size = f, info.Size()
	return s, nil
}

// HasLine reports whether the segment has a whole line, as far as it can be read: what it begins with, by which
// FirstSeq is known, may have no end yet, or be damaged.
func (s *Segment) HasLine() bool {
	if s.Ours && !s.Active {
		if _, err := os.Stat(IndexPath(s.Path)); err == nil {
			return true // an index is made of a file that has one
		}
	}
	var r Reader
	err := r.Open(*s, 0)
	defer r.Close()
	for err == nil {
		var next RawLine
		var fields line.Fields
		if next, err = r.Next(); err == nil && fields.Parse(next.Bytes) == nil {
			return true
		}
	}
	return !errors.Is(err, io.EOF) // its reader reports why it cannot be read
}

// Release closes what Snapshot has opened.
func (s *Segment) Release() error {
	if s.File == nil {
		return nil
	}
	return s.File.Close()
}

// open opens the segment's file, which may have been compressed since it was listed.
func (s *Segment) open() (disk.File, error) {
	d := cmp.Or(s.disk, disk.OS)
	f, err := d.OpenFile(s.Path, os.O_RDONLY, 0)
	if err == nil && s.UpTo > 0 && s.Size > 0 {
		return s.same(f)
	}
	if !errors.Is(err, fs.ErrNotExist) || s.Gzip {
		return f, err
	}
	s.Path, s.Gzip = s.Path+Gzipped, true
	if f, err = d.OpenFile(s.Path, os.O_RDONLY, 0); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.Size = info.Size()
	return f, nil
}

// same returns a file that was opened by the segment's name. A compacted one that was compacted again has the same
// name, and its lines are elsewhere: then the one that was listed is gone.
func (s *Segment) same(f disk.File) (disk.File, error) {
	info, err := f.Stat()
	if err == nil && info.Size() != s.Size {
		err = &fs.PathError{Op: "open", Path: s.Path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ErrNoLine says that a file holds something else.
var ErrNoLine = errors.New("it does not begin with a line of a journal")

// Look reads the size and first line of the file at a segment's path. FirstSeq is 0 where it is gone, or cannot be read
// as Unread says.
func (l *Lister) Look(s *Segment) error {
	s.disk = cmp.Or(l.Disk, disk.OS)
	f, err := s.open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		s.Unread = fs.ErrPermission
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s.Size = info.Size(); s.Gzip {
		l.unzipHead(s, f)
	} else if err := s.ReadHead(f); s.FirstSeq == 0 && err != nil {
		s.Unread = err
	}
	return nil
}

// ReadHead reads what a plain segment begins with. Unread is ErrNoLine where that is no line, nor part of one.
func (s *Segment) ReadHead(f io.ReaderAt) error {
	var head [headSize]byte
	n, err := f.ReadAt(head[:], 0)
	if s.setHead(head[:n]); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// setHead notes what the segment begins with.
func (s *Segment) setHead(b []byte) {
	if seq, ok := SeqOf(b); ok {
		s.FirstSeq, s.FirstTime, s.Head = seq, TimeOf(b), crc32.Checksum(b, castagnoli)
	} else if !tornHead(b) {
		s.Unread = ErrNoLine
	}
}

// LineHead is what each line begins with.
var LineHead = []byte(`{"seq":`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unzipHead is ReadHead of a compressed file.
func (l *Lister) unzipHead(s *Segment, f io.ReaderAt) {
	if known, ok := l.known[s.Path]; ok {
		s.FirstSeq, s.FirstTime, s.Head = known.FirstSeq, known.FirstTime, known.Head
		return
	}
	if s.Unread = l.z.Reset(io.NewSectionReader(f, 0, math.MaxInt64)); s.Unread != nil {
		return
	}
	var head [headSize]byte
	n, err := io.ReadFull(&l.z, head[:]) // a damaged file ends early
	switch s.setHead(head[:n]); {
	case s.FirstSeq > 0:
		if l.known == nil {
			l.known = make(map[string]Segment)
		}
		l.known[s.Path] = *s
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		s.Unread = err
	}
}

// Forget forgets what a file begins with, which was replaced.
func (l *Lister) Forget(path string) { delete(l.known, path) }

// headSize is how many bytes of a file are read to see its first line's seq and time.
const headSize = 64

// SeqOf returns the number after {"seq": at the beginning of a line.
func SeqOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, LineHead)
	if !ok {
		return 0, false
	}
	for end, c := range rest {
		if !isDigit(c) {
			seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
			return seq, err == nil && seq > 0
		}
	}
	return 0, false
}

// TimeOf returns the time after the seq, and the term, at the beginning of a line, zero where there is none.
func TimeOf(line []byte) (t time.Time) {
	rest, ok := bytes.CutPrefix(line, LineHead)
	if !ok {
		return t
	}
	rest = bytes.TrimLeft(rest, "0123456789")
	if term, ok := bytes.CutPrefix(rest, []byte(`,"term":`)); ok {
		rest = bytes.TrimLeft(term, "0123456789")
	}
	rest, ok = bytes.CutPrefix(rest, []byte(`,"time":"`))
	if end := bytes.IndexByte(rest, '"'); ok && end > 0 {
		t, _ = time.Parse(time.RFC3339Nano, string(rest[:end])) // zero with an error
	}
	return t
}

// tornHead reports whether a file that begins with b ends before its first seq does; a power cut may have left zeros.
func tornHead(b []byte) bool {
	b = bytes.TrimRight(b, "\x00")
	if len(b) <= len(LineHead) {
		return bytes.HasPrefix(LineHead, b)
	}
	_, ok := SeqOf(append(b[:len(b):len(b)], ','))
	return ok
}
