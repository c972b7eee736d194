// Package follow shows journal lines to people: those that a history has, as package question has them, and those that
// come.
//
// Lines that come are shown once, in the order of seq: when the active file is rotated by the daemon or renamed by
// logrotate, when several rotations happen between two checks, when it is removed, truncated or replaced. Where lines
// went with a removed file before they could be read, a notice names them. A line is shown when its end is there. Until
// then nothing of it is kept: a daemon that starts after a crash cuts off a torn line and writes another in its place.
//
// seq rises by one from line to line. The first line of each further file is compared with the last one shown: lines up
// to that one, no newer than it, are what the daemon carried over; a higher seq says which lines are missing, and those
// are looked for in the rotated files. Within the active file, after each read, the last line taken must still be where
// it was; else the file was truncated or rewritten and is read again from its beginning.
// A journal that starts over under the same name has newer lines with a lower seq, and is shown from its first line. If
// the clock was set back meanwhile, it is taken for a repetition until its time passes that of the last line.
//
// Names and messages come from anybody who may write to the cluster. What does not print (control characters, those
// that turn the direction of text) is shown as an escape such as \x1b, in text and in JSON on a terminal.
//
// While lines are followed, the memory used is bounded by the longest line, by one GAP line per stream that is held
// back until it is known whether there was a difference, and by the ids that are remembered of several journals. The
// object in a line is passed over, not checked, except where a change is in a list, whose elements' names it has.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// ErrNotCovered says that nobody watched what is asked for, or not all the time. It was said.
var ErrNotCovered = errors.New("not covered")

// Files shows a journal, or several as one: the lines that a history has, and those to come. What is no regular file is
// shown as Stream does it, and so is a rotated file that is named itself: alone, to its end.
func Files(ctx context.Context, paths []string, o Options, p *Printer) error {
	alone, err := openAlone(paths)
	if err != nil {
		return err
	}
	if alone != nil {
		defer alone.Close() //nolint:errcheck // only read from
		info, err := alone.Stat()
		o.ends = err == nil && info.Mode().IsRegular()
		return Stream(ctx, alone, o, p)
	}
	err = o.files(ctx, paths, p)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, p.End())
}

// resolved returns where a path leads to: rotated files lie there.
func resolved(path string) string {
	return disk.Real(disk.Absolute(path))
}

// openAlone opens what is shown as a stream; nil for active files of journals, which several paths must be.
func openAlone(paths []string) (*os.File, error) {
	path, regular := "", true
	for i := 0; i < len(paths) && regular; i++ {
		path = resolved(paths[i])
		info, err := os.Stat(path)
		regular = err != nil || info.IsDir() || info.Mode().IsRegular() // package archive says what is wrong
	}
	if len(paths) > 1 {
		if !regular {
			return nil, fmt.Errorf("open journal %s: not a regular file; a stream of lines can only be shown alone",
				path)
		}
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	var magic [2]byte
	if regular {
		_, _ = f.ReadAt(magic[:], 0) // as above
	}
	if regular && !isGzip(magic[:]) && !segment.IsRotated(path) {
		return nil, f.Close()
	}
	return f, nil
}

func (o *Options) files(ctx context.Context, paths []string, p *Printer) error {
	p.separate = separates(&o.Filter)
	var several *several
	if len(paths) > 1 && o.Follow {
		several = newSeveral(o, p)
	}
	ends, shown, err := o.past(ctx, paths, p, several)
	if err != nil {
		return err
	}
	foreign := len(ends) == 1 && ends[0].Seq == 0 // what is there, if anything, does not begin with a journal line
	if !shown && o.Lines != 0 && !foreign {
		o.noticeNothing()
	}
	switch {
	case several != nil:
		return several.follow(ctx, ends)
	case !o.Follow && !foreign:
		return o.covered()
	}
	t := newTail(ends[0].Path, *o, p)
	defer t.close()
	if foreign {
		err = t.openForeign(ctx)
	} else {
		err = t.open(&ends[0])
	}
	if err != nil {
		return err
	}
	return t.follow(ctx)
}

// past shows the lines that a history has, and returns where their journals end.
func (o *Options) past(
	ctx context.Context, paths []string, p *Printer, several *several,
) (ends []archive.End, shown bool, err error) {
	s := &o.Filter.Selection
	s.Objects, s.Wait = slices.Clone(s.Objects), o.Follow
	opened, err := archive.OpenAll(ctx, paths, s, archive.SelectedLines, func(text string) { o.notice("%s", text) })
	if opened != nil {
		defer opened.Close()
	}
	j := question.Of(opened)
	if len(paths) == 1 && errors.Is(err, segment.ErrNoLine) {
		return []archive.End{{Path: resolved(paths[0])}}, false, nil
	}
	if err != nil {
		return nil, false, o.unknownName(ctx, j, err)
	}
	o.noticeUnknown()
	if ends, err = j.Ends(ctx); err != nil {
		return nil, false, err
	}
	begin := slices.MinFunc(ends, func(a, b archive.End) int { return a.Begin.Time.Compare(b.Begin.Time) }).Begin
	if begin.Seq > 0 {
		o.noticeBegin(begin.Seq, begin.Time)
	}
	var remarks *Remarks
	from := uint64(0)
	for l, err := range j.Last(ctx, &o.Filter, o.Lines) {
		switch {
		case err != nil:
		case l.Seq == 0:
			err = p.showBad(l.Raw, o)
		case p.style.JSON:
			err = p.Print(l)
		default:
			if remarks == nil {
				remarks = o.remarks(p, j, l.Time)
			}
			err = remarks.print(ctx, l)
		}
		if err != nil {
			return nil, false, err
		}
		if shown = true; from == 0 {
			from = l.Seq
		}
	}
	if err := remarks.End(); err != nil {
		return nil, false, err
	}
	if err := o.missing(ctx, j, from); err != nil {
		return nil, false, err
	}
	if several != nil {
		err = several.remember(ctx, j)
	}
	return ends, shown, errors.Join(err, o.doubt(ctx, j))
}

// missing says which lines are not in the files any more after the first one that was shown, or that is the
// journal's first where no line was. doubt says it where a time is asked for.
func (o *Options) missing(ctx context.Context, j *question.Journal, from uint64) error {
	if f := &o.Filter; o.Doubt == nil || o.Lines == 0 || !f.Since.IsZero() || !f.Until.IsZero() {
		return nil
	}
	doubts, err := j.Missing(ctx, from)
	if err == nil && len(doubts) > 0 {
		if o.Doubt(doubts) != nil && !o.Follow {
			o.doubted = ErrNotCovered
		}
	}
	return err
}

// doubt says why lines of the time that is asked for may be missing.
func (o *Options) doubt(ctx context.Context, j *question.Journal) error {
	f := &o.Filter
	if o.Doubt == nil || f.Since.IsZero() && f.Until.IsZero() {
		return nil
	}
	doubts, err := j.Uncovered(ctx, &f.Selection, f.Since, f.Until)
	if err != nil {
		return err
	}
	said := func(d question.Doubt) bool {
		return slices.ContainsFunc(f.Unwatched, func(u *argument.UnknownError) bool { return u.Text == d.Reason })
	}
	if err := o.Doubt(slices.DeleteFunc(doubts, said)); err != nil && !o.Follow {
		o.doubted = ErrNotCovered
	}
	return nil
}

// remarks returns the remarks of lines that begin with one of a time.
func (o *Options) remarks(p *Printer, j *question.Journal, first time.Time) *Remarks {
	since := o.Filter.Since
	if since.IsZero() {
		since = argument.Moment{Time: first}
	}
	return NewRemarks(p, j, &o.Filter.Selection, since, o.Filter.Until)
}

// unwatched returns an error, in the place of one for a resource that nobody watched ErrNotCovered.
func (o *Options) unwatched(err error) error {
	if u, ok := errors.AsType[*argument.UnknownError](err); ok && u.Unwatched {
		o.notice("%v", u)
		return ErrNotCovered
	}
	return err
}

// unknownName says why a name may have been there that no line is about. It returns ErrNotCovered where there is a
// reason, else the error.
func (o *Options) unknownName(ctx context.Context, j *question.Journal, err error) error {
	u, ok := errors.AsType[*argument.UnknownError](err)
	if !ok || u.Unwatched {
		return o.unwatched(err)
	}
	if streams, covered := j.Coverage(&o.Filter.Selection); o.Doubt == nil || covered == nil && len(streams) == 0 {
		return err // there is no such resource
	}
	doubts, failed := j.Uncovered(ctx, &o.Filter.Selection, o.Filter.Since, o.Filter.Until)
	if failed != nil {
		return failed
	}
	if !slices.ContainsFunc(doubts, func(d question.Doubt) bool { return !d.AsOf }) {
		return err
	}
	o.notice("%v", u)
	_ = o.Doubt(doubts) // it says what is returned here
	return ErrNotCovered
}

// covered returns ErrNotCovered where nobody watched some of what is asked for, unless it is waited for.
func (o *Options) covered() error {
	if len(o.Filter.Unwatched) > 0 && !o.Follow {
		return ErrNotCovered
	}
	return o.doubted
}

// noticeUnknown says what is not there, and may still come.
func (o *Options) noticeUnknown() {
	waiting := ""
	if o.Follow {
		waiting = "; waiting for one"
	}
	for _, u := range slices.Concat(o.Filter.Unwatched, o.Filter.Absent) {
		o.notice("%v%s", u, waiting)
	}
}

// noticeBegin says that the line with that seq and time is the journal's first, if more was asked for.
func (o *Options) noticeBegin(seq uint64, at time.Time) {
	if since := o.Filter.Since; !since.IsZero() && since.Before(seq, at) {
		o.notice("the journal begins with line %d, of %s", seq, argument.Moment{Time: at})
	}
}

// tail follows one journal.
type tail struct {
	o     Options
	match *argument.Matcher
	out   output
	path  string // of the active file, no symbolic link

	in active // in.f is nil while there is no active file

	line  line.Fields
	lines segment.Reader

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

func newTail(path string, o Options, out output) *tail {
	t := &tail{o: o, out: out, path: path}
	t.match = &argument.Matcher{Filter: &t.o.Filter}
	return t
}

func (t *tail) close() {
	t.lines.Close()
	if t.in.f != nil {
		_ = t.in.f.Close() // only read from
		t.in.f = nil
	}
}

// open opens the active file where the lines end that were shown. If it is another one meanwhile, it is read from its
// beginning, and what came between is found as after each rotation.
func (t *tail) open(e *archive.End) error {
	t.last, t.newest = e.Seq, e.Time
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	t.in.f = f
	var head segment.Segment
	switch err := head.ReadHead(f); {
	case err != nil:
		return fmt.Errorf("read journal: %w", err)
	case head.FirstSeq == e.FirstSeq && head.FirstSeq > 0:
		t.seek(e.Offset)
	default:
		t.seek(0)
		t.skipping = t.last > 0
	}
	return nil
}

// seek continues in the active file at offset, where a line begins.
func (t *tail) seek(offset int64) {
	t.in.seek(offset)
	t.lines.Reset(&t.in, offset)
}

// openForeign opens a file that does not begin with a journal line at the first of the last lines that are wanted.
func (t *tail) openForeign(ctx context.Context) error {
	if err := t.open(&archive.End{}); err != nil || t.in.f == nil {
		return err
	}
	info, err := t.in.f.Stat()
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	b, seen, want := segment.NewBackward(t.in.f, info.Size()), archive.NewSeen(&t.o.Filter.Selection), t.o.Lines
	offset := b.Offset()
	for (want != 0 || seen != nil) && ctx.Err() == nil {
		raw, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		good := t.line.Parse(raw.Bytes) == nil
		if good && seen != nil {
			if err := look(seen, t.match, &t.line); err != nil {
				return err
			}
		}
		if want != 0 && (!good || t.match.Match(&t.line)) {
			offset = b.Offset()
			want--
		}
	}
	if want == t.o.Lines && want != 0 {
		t.o.noticeNothing()
	}
	if t.seek(offset); seen != nil {
		return t.o.unknown(ctx, seen)
	}
	return nil
}
