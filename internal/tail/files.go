package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kubejournal/internal/journal"
)

const (
	// clockSlack is how far the clock may have been set back for lines since a time to be found all the same.
	clockSlack = time.Minute
	// findAgain is how often a rotated file is looked for that was compressed or renamed while it was looked for.
	findAgain = 5
)

// tail shows one journal.
type tail struct {
	o    Options
	p    *Printer
	path string // of the active file, no symbolic link

	files []journal.Segment // rotated, as the start found them
	alone bool              // the one in files was named itself
	// unreadable are the files that a notice has named.
	unreadable map[string]bool
	skip       int    // lines that pass the filter and are not shown all the same
	in         active // in.f is nil while there is no active file

	line       Line
	lines      journal.Reader
	otherLines journal.Reader // for files that are read while a line of another one waits

	last   uint64    // seq of the last line taken
	newest time.Time // of the lines taken
	// skipping says that what comes now may repeat lines that were taken: a file begins. reread says that it is one
	// that was read before.
	skipping, reread bool
}

// File shows the journal at path: lines of its files, rotated ones included, and those to come. What is no regular file
// is shown as Stream does it. A rotated file that is named itself is shown alone, to its end.
func File(ctx context.Context, path string, o Options, p *Printer) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("open journal %s: is a directory; name the file in it", path)
		}
		f, err := os.Open(path) //nolint:gosec // the user's own
		if err != nil {
			return fmt.Errorf("open journal: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read from
		return Stream(ctx, f, o, p)
	}
	// Rotated files lie beside the file that a link leads to.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	t := &tail{o: o, p: p, path: path, unreadable: map[string]bool{}}
	defer func() { t.close() }()
	if err := t.open(); err != nil {
		return err
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	return t.follow(ctx)
}

func (t *tail) close() {
	t.lines.Close()
	t.otherLines.Close()
	if t.in.f != nil {
		_ = t.in.f.Close() // only read from
		t.in.f = nil
	}
}

// open finds the journal's files. The active one is opened first: if it is rotated meanwhile, it is among the others too,
// where its first seq identifies it.
func (t *tail) open() error {
	f, err := os.Open(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open journal: %w", err)
	}
	if f != nil {
		zipped, err := startsAsGzip(f)
		if t.alone = zipped || journal.IsRotated(t.path); t.alone || err != nil {
			_ = f.Close() // it is opened again by its name
			t.files = []journal.Segment{{Path: t.path, Gzip: zipped}}
			t.o.Follow = false
			return err
		}
	}
	first := uint64(0)
	if f != nil {
		t.in.f = f
		if first, err = journal.FirstSeq(f); err != nil {
			return err
		}
	}
	all, err := journal.Segments(t.path)
	if f == nil && (err != nil || len(all) == 0) {
		return fmt.Errorf("open journal %s: no such file", t.path)
	}
	for _, s := range all {
		if !s.Active && (first == 0 || s.FirstSeq < first) {
			t.files = append(t.files, s)
		}
	}
	return err
}

func startsAsGzip(f *os.File) (bool, error) {
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read journal: %w", err)
	}
	return isGzip(magic[:]), nil
}

// begin shows the lines that are there and wanted, up to the active file's.
func (t *tail) begin(ctx context.Context) error {
	file, offset, err := t.place(ctx)
	if err != nil {
		return err
	}
	for i := file; i < len(t.files); i++ {
		t.skipping = t.last > 0
		if err := t.showFile(ctx, t.files[i], offset); err != nil {
			return err
		}
		offset = 0
	}
	t.skipping = t.last > 0 && offset == 0
	t.seek(offset)
	return nil
}

// seek continues in the active file at offset, where a line begins.
func (t *tail) seek(offset int64) {
	t.in.seek(offset)
	t.lines.Reset(&t.in, offset)
}

// place finds the first line to show: the index of its file, len(t.files) for the active one, and its offset there.
// Lines are looked through from the last one back, so that it costs what is shown, not what is there.
func (t *tail) place(ctx context.Context) (file int, offset int64, err error) {
	if t.o.Lines < 0 && t.o.Filter.Since.IsZero() {
		return 0, 0, nil
	}
	s := search{o: &t.o, want: t.o.Lines}
	file = len(t.files)
	if t.in.f == nil && s.want == 0 {
		return file, 0, nil
	}
	if t.in.f != nil {
		if offset, err = t.placeInActive(ctx, &s); err != nil || s.done {
			return file, offset, err
		}
	}
	for file > 0 && !s.done {
		file--
		if offset, err = t.placeIn(ctx, t.files[file], &s); err != nil {
			return 0, 0, err
		}
	}
	return file, offset, nil
}

// search counts the lines to show.
type search struct {
	o     *Options
	want  int // still, or All
	line  Line
	found bool // a line of the journal, the last one
	done  bool // nothing further back is wanted
	seq   uint64
	time  time.Time
}

// take counts one line, going back, and reports whether it is wanted.
func (s *search) take(raw []byte) bool {
	if s.line.Parse(raw) == nil {
		if !s.found {
			s.found, s.seq, s.time = true, s.line.Seq, s.line.Time
		}
		if since := s.o.Filter.Since; !since.IsZero() && s.line.Time.Before(since.Add(-clockSlack)) {
			s.done = true
			return false
		}
		if !s.o.Filter.Match(&s.line) {
			return false
		}
	}
	if s.want > 0 {
		s.want--
		s.done = s.want == 0
	}
	return true
}

func (t *tail) placeInActive(ctx context.Context, s *search) (int64, error) {
	if s.want != 0 {
		return placeBackward(ctx, t.in.f, s)
	}
	info, err := t.in.f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	b := journal.NewBackward(t.in.f, info.Size())
	// What is there counts as taken.
	end := b.Offset()
	for line, err := b.Next(); err == nil && ctx.Err() == nil; line, err = b.Next() {
		if s.take(line.Bytes); s.found {
			t.last, t.newest = s.seq, s.time
			break
		}
	}
	s.done = true
	return end, nil
}

// placeBackward returns the offset of the first line that is wanted, as far as one must go back; 0 where the file was
// truncated meanwhile.
func placeBackward(ctx context.Context, f *os.File, s *search) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read journal %s: %w", f.Name(), err)
	}
	b := journal.NewBackward(f, info.Size())
	first := b.Offset()
	for !s.done && ctx.Err() == nil {
		line, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
		if s.take(line.Bytes) {
			first = b.Offset()
		}
	}
	return first, nil
}

// placeIn is the same for a rotated file. A compressed one can be read forward only: it is shown from its beginning, but
// for the first lines that are not wanted, which are counted.
func (t *tail) placeIn(ctx context.Context, file journal.Segment, s *search) (int64, error) {
	if !file.Gzip {
		f, err := os.Open(file.Path)
		if err == nil {
			defer f.Close() //nolint:errcheck // only read from
			return placeBackward(ctx, f, s)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("open journal: %w", err)
		}
	}
	all, count := *s, 0
	err := t.otherLines.Open(file, 0)
	for err == nil && ctx.Err() == nil {
		var line journal.Line
		if line, err = t.otherLines.Next(); err != nil {
			break // also where the file is damaged: showing it says so
		}
		all.want, all.done = All, false
		if all.take(line.Bytes) {
			count++
		}
		s.done = s.done || all.done // an older line than any wanted stands before it
	}
	if s.want > 0 {
		t.skip = max(count-s.want, 0)
		s.want = max(s.want-count, 0)
		s.done = s.done || s.want == 0
	}
	return 0, nil
}

// showFile shows a rotated file from offset on.
func (t *tail) showFile(ctx context.Context, file journal.Segment, offset int64) error {
	return t.readFile(ctx, file, offset, &t.lines, func(line journal.Line, end bool) (bool, error) {
		if !end {
			return true, t.take(ctx, line.Bytes)
		}
		if rest := t.lines.Torn(); t.alone && len(rest) > 0 {
			return false, show(&t.line, rest, t.o, t.p)
		}
		return false, nil
	})
}

// readFile calls fn with each line of a rotated file, and at last with end, until it returns false. What cannot be read
// of the file is a notice, not an error. One that is gone has no lines: the first line of the next one shows what is
// missing.
func (t *tail) readFile(ctx context.Context, file journal.Segment, offset int64, lines *journal.Reader, fn func(line journal.Line, end bool) (more bool, err error)) error {
	bad := lines.Open(file, offset)
	if errors.Is(bad, fs.ErrNotExist) {
		return nil
	}
	defer lines.Close()
	for bad == nil && ctx.Err() == nil {
		var line journal.Line
		if line, bad = lines.Next(); bad != nil && !errors.Is(bad, io.EOF) {
			break
		}
		if more, err := fn(line, bad != nil); !more || err != nil {
			return err
		}
	}
	if bad != nil && !t.unreadable[file.Path] {
		t.unreadable[file.Path] = true
		t.o.notice("%s cannot be read to its end: %v", file.Path, bad)
	}
	return nil
}
