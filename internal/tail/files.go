// Package tail shows journal lines to people. The lines come from package journal's Reader and Backward.
//
// File shows every line of the journal once, from the first that is asked for, in the order of seq: when the active
// file is rotated by the daemon or renamed by logrotate, when several rotations happen between two checks, when it is
// removed, truncated or replaced. Where lines went with a removed file before they could be read, a notice names them.
// A line is shown when its end is there. Until then nothing of it is kept: a daemon that starts after a crash cuts off
// a torn line and writes another in its place.
//
// seq rises by one from line to line. The first line of each further file is compared with the last one shown: lines up
// to that one, no newer than it, are what the daemon carried over; a higher seq says which lines are missing, and those
// are looked for in the rotated files. Within the active file, after each read, the last line taken must still be where
// it was; else the file was truncated or written anew and is read again from its beginning.
// A journal that begins anew under the same name has newer lines with a lower seq, and is shown from its first line. If
// the clock was set back meanwhile, it is taken for a repetition until its time passes that of the last line.
//
// Names and messages come from anybody who may write to the cluster. What does not print (control characters, those that
// turn the direction of text) is shown as an escape such as \x1b, in text and in JSON on a terminal.
//
// The memory used is bounded by the longest line, by one GAP line per stream that is held back until it is known whether
// there was a difference, and by the names that are remembered for suggestions. The object in a line is passed over, not
// checked, except where a change is in a list, whose elements' names it has.
package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"kubejournal/internal/disk"
	"kubejournal/internal/journal"
	"kubejournal/internal/line"
	"kubejournal/internal/query"
)

// tail shows one journal.
type tail struct {
	o    Options
	out  output
	path string // of the active file, no symbolic link

	files      []journal.Segment // rotated, as the start found them
	alone      bool              // the one in files was named itself
	unreadable map[string]bool   // files that a notice has named
	skip       int               // lines that pass the filter and are not shown all the same
	shown      bool              // a line was
	in         active            // in.f is nil while there is no active file

	line       line.Fields
	lines      journal.Reader
	otherLines journal.Reader // for files that are read while a line of another one waits

	last     uint64    // seq of the last line taken
	newest   time.Time // of the lines taken
	skipping bool      // a file begins: what comes now may repeat lines that were taken
	reread   bool      // and was read before
}

// output takes the lines that are to be shown.
type output interface {
	Print(l *line.Fields) error // l is valid until it returns
	showBad(raw []byte, o *Options) error
	Flush() error // there is no other line yet
}

// File shows the journal at path: lines of its files, rotated ones included, and those to come. What is no regular file
// is shown as Stream does it. A rotated file that is named itself is shown alone, to its end.
func File(ctx context.Context, path string, o Options, p *Printer) error {
	path = disk.Absolute(path)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return isDirectory(path)
		}
		f, err := os.Open(path) //nolint:gosec // the user's own
		if err != nil {
			return fmt.Errorf("open journal: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read from
		return Stream(ctx, f, o, p)
	}
	p.separate = o.Filter.separates()
	t := newTail(path, o, p)
	defer func() { t.close() }()
	if err := t.open(); err != nil {
		return err
	}
	if n := newNames(&o.Filter); n != nil {
		found, err := t.lookFor(ctx, n)
		if err == nil && !found && ctx.Err() == nil {
			err = n.fault(&t.o)
		}
		if err != nil {
			return err
		}
	}
	err := t.run(ctx)
	if err == nil && !t.shown && !t.o.Follow && t.o.Lines != 0 {
		t.o.noticeNothing()
	}
	return errors.Join(err, p.End())
}

func isDirectory(path string) error {
	return fmt.Errorf("open journal %s: is a directory; name the file in it", path)
}

func newTail(path string, o Options, out output) *tail {
	path = disk.Absolute(path)
	// Rotated files lie beside the file that a link leads to.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return &tail{o: o, out: out, path: path, unreadable: map[string]bool{}}
}

// run shows the lines of files that are open, and those to come.
func (t *tail) run(ctx context.Context) error {
	err := t.checkBegin()
	if err == nil {
		err = t.begin(ctx)
	}
	if err == nil {
		err = t.follow(ctx)
	}
	if errors.Is(err, errEnded) {
		err = nil
	}
	return err
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
	first := uint64(0)
	if f != nil {
		t.in.f = f
		var magic [2]byte
		if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read journal: %w", err)
		}
		if zipped := isGzip(magic[:]); zipped || journal.IsRotated(t.path) {
			t.close()
			t.files, t.alone, t.o.Follow = []journal.Segment{{Path: t.path, Gzip: zipped}}, true, false
			return nil
		}
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

// begin shows the lines that are there and wanted, up to the active file's.
func (t *tail) begin(ctx context.Context) error {
	file, offset, err := t.place(ctx)
	if err != nil {
		return err
	}
	for ; file < len(t.files); file++ {
		if offset == 0 && t.passes(&t.files[file]) {
			continue
		}
		t.skipping = t.last > 0
		for raw := range t.linesOf(ctx, &t.lines, t.files[file], offset) {
			if err := t.take(ctx, raw); err != nil {
				return err
			}
		}
		offset = 0
	}
	if rest := t.lines.Torn(); t.alone && len(rest) > 0 && !t.unreadable[t.path] {
		if err := t.take(ctx, rest); err != nil {
			return err
		}
	}
	t.skipping = t.last > 0 && offset == 0
	t.seek(offset)
	return nil
}

// passes reports whether no line of a rotated file is wanted, as its index says, and nothing is missing before it.
// Its lines then count as taken.
func (t *tail) passes(file *journal.Segment) bool {
	f := &t.o.Filter
	if f.Since.Time.IsZero() && f.Until.Time.IsZero() || t.last > 0 && file.FirstSeq != t.last+1 {
		return false
	}
	x, in, err := file.OpenIndex()
	if err != nil {
		return false
	}
	_ = in.Close() // it is only read
	if !f.outside(x.Oldest, x.Newest) {
		return false
	}
	if t.last = x.Next - 1; x.Newest.After(t.newest) {
		t.newest = x.Newest
	}
	return true
}

// checkBegin says where the journal begins, if that is behind what was asked for.
func (t *tail) checkBegin() error {
	if t.alone || t.o.Filter.Since.IsZero() {
		return nil
	}
	all, err := journal.Segments(t.path)
	if err == nil && len(all) > 0 && all[0].FirstSeq > 0 {
		t.o.noticeBegin(all[0].FirstSeq, all[0].FirstTime)
	}
	return err
}

// noticeBegin says that the line with that seq and time is the journal's first, if more was asked for.
func (o *Options) noticeBegin(seq uint64, at time.Time) {
	if since := o.Filter.Since; !since.IsZero() && since.Before(seq, at) {
		o.notice("the journal begins with line %d, of %s", seq, query.Moment{Time: at})
	}
}

// seek continues in the active file at offset, where a line begins.
func (t *tail) seek(offset int64) {
	t.in.seek(offset)
	t.lines.Reset(&t.in, offset)
}

// linesOf yields the lines of a rotated file from offset on. A notice names a file that cannot be read to its end. One
// that is gone has no lines: the first line of the next one shows what is missing.
func (t *tail) linesOf(ctx context.Context, r *journal.Reader, file journal.Segment, offset int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		defer r.Close()
		err := r.Open(file, offset)
		for err == nil && ctx.Err() == nil {
			var line journal.Line
			if line, err = r.Next(); err == nil && !yield(line.Bytes) {
				return
			}
		}
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) || t.unreadable[file.Path] {
			return
		}
		t.unreadable[file.Path] = true
		t.o.notice("%s cannot be read to its end: %v", file.Path, err)
	}
}

// place finds the first line to show: the index of its file, len(t.files) for the active one, and its offset there.
// It searches from the last line back, so that it costs what is shown, not what is there.
func (t *tail) place(ctx context.Context) (file int, offset int64, err error) {
	switch since := &t.o.Filter.Since; {
	case t.o.Lines < 0 && since.IsZero():
		return 0, 0, nil
	case t.o.Lines < 0 && since.Seq == 0:
		return t.placeSince(ctx)
	}
	s := search{filter: &t.o.Filter, want: t.o.Lines}
	file = len(t.files)
	if t.in.f != nil {
		offset, err = placeBackward(ctx, t.in.f, s.visit)
	}
	if t.o.Lines == 0 {
		if s.done { // what is there counts as taken
			t.last, t.newest = s.line.Seq, s.line.Time
		}
		return file, offset, err
	}
	for file > 0 && !s.done && err == nil {
		file--
		offset, err = t.placeIn(ctx, &t.files[file], &s)
	}
	return file, offset, err
}

// search counts the lines to show, going back.
type search struct {
	filter *Filter
	want   int         // still, or All
	done   bool        // nothing further back is wanted
	line   line.Fields // the last one that was looked at
}

// wants reports whether a line is wanted.
func (s *search) wants(raw []byte) bool {
	if s.line.Parse(raw) != nil {
		return s.want != 0 && s.filter.Since.Time.IsZero() // it may be older
	}
	s.done = s.want == 0 || s.filter.begun(s.line.Seq)
	return !s.done && s.filter.Match(&s.line)
}

// found counts lines that are wanted.
func (s *search) found(n int) {
	if s.want > 0 {
		s.want = max(s.want-n, 0)
		s.done = s.done || s.want == 0
	}
}

// visit looks at the line before, and reports whether it is wanted and whether nothing further back is.
func (s *search) visit(raw []byte) (wanted, done bool) {
	if wanted = s.wants(raw); wanted {
		s.found(1)
	}
	return wanted, s.done
}

// placeBackward visits the lines of a file, the last one first. It returns the offset of the first line that is wanted, as
// far as one must go back; 0 where the file was truncated meanwhile.
func placeBackward(ctx context.Context, f *os.File, visit func(raw []byte) (wanted, done bool)) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read journal %s: %w", f.Name(), err)
	}
	b := journal.NewBackward(f, info.Size())
	first := b.Offset()
	for done := false; !done && ctx.Err() == nil; {
		line, err := b.Next()
		switch {
		case errors.Is(err, io.EOF):
			return first, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return 0, nil
		case err != nil:
			return 0, fmt.Errorf("read journal: %w", err)
		}
		var wanted bool
		if wanted, done = visit(line.Bytes); wanted {
			first = b.Offset()
		}
	}
	return first, nil
}

// placeSince is place for all lines since a time: the first one of them may be in any file, since the clock may have
// been set.
func (t *tail) placeSince(ctx context.Context) (file int, offset int64, err error) {
	since := t.o.Filter.Since
	for ; file < len(t.files); file++ {
		offset, found, err := firstSince(&t.files[file], since)
		if err != nil {
			offset, found, err = t.lookSince(ctx, &t.files[file], since)
		}
		if err != nil || found {
			return file, offset, ctx.Err() // what cannot be read is said when it is shown
		}
	}
	if t.in.f == nil {
		return file, 0, nil
	}
	info, err := t.in.f.Stat()
	if err == nil {
		t.otherLines.Reset(io.NewSectionReader(t.in.f, 0, info.Size()), 0)
		offset, _, err = t.nextSince(ctx, since)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read journal %s: %w", t.path, err)
	}
	return file, offset, nil
}

// firstSince returns the offset of the first line of a rotated file since a moment, by its index; found is false
// where there is none.
func firstSince(file *journal.Segment, since query.Moment) (offset int64, found bool, err error) {
	x, in, err := file.OpenIndex()
	if err != nil {
		return 0, false, err
	}
	defer in.Close()
	if since.Seq == 0 && since.Time.After(x.Newest) {
		return x.Size, false, nil
	}
	for at := range x.Lines {
		l, err := x.Line(at)
		if err != nil {
			return 0, false, err
		}
		if !since.After(l.Seq, l.Time) {
			return l.Offset, true, nil
		}
	}
	return x.Size, false, nil
}

// lookSince is the same for a file that is read.
func (t *tail) lookSince(
	ctx context.Context, file *journal.Segment, since query.Moment,
) (offset int64, found bool, err error) {
	defer t.otherLines.Close()
	if err := t.otherLines.Open(*file, 0); err != nil {
		return 0, false, err
	}
	return t.nextSince(ctx, since)
}

// nextSince looks for it among the lines that come. Where there is none, the offset is that of the end of the last
// line.
func (t *tail) nextSince(ctx context.Context, since query.Moment) (offset int64, found bool, err error) {
	for ctx.Err() == nil {
		next, err := t.otherLines.Next()
		if errors.Is(err, io.EOF) {
			return next.Offset, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		if at := next.Time(); !at.IsZero() && !since.After(next.Seq, at) {
			return next.Offset, true, nil
		}
	}
	return 0, false, ctx.Err()
}

// placeIn is the same for a rotated file. A compressed one can be read forward only: it is shown from its beginning, but
// for the first lines that are not wanted, which are counted.
func (t *tail) placeIn(ctx context.Context, file *journal.Segment, s *search) (int64, error) {
	if s.want == All { // since a seq
		if offset, found, err := firstSince(file, s.filter.Since); err == nil {
			s.done = !found || offset > 0
			return offset, nil
		}
	}
	if !file.Gzip {
		f, err := os.Open(file.Path)
		if err == nil {
			defer f.Close() //nolint:errcheck // only read from
			return placeBackward(ctx, f, s.visit)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("open journal: %w", err)
		}
	}
	count, older := 0, false // older: a line before those that are wanted
	for raw := range t.linesOf(ctx, &t.otherLines, *file, 0) {
		if s.wants(raw) {
			count++
		}
		older = older || s.done
	}
	if s.done = older; s.want > 0 {
		t.skip = max(count-s.want, 0)
	}
	s.found(count)
	return 0, nil
}
