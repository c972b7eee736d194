package follow

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Options say which lines to show, and how long to wait for more.
type Options struct {
	Lines  int // of the last lines that pass the filter, this many are shown first; All is every one
	Filter argument.Filter
	Follow bool // continue with lines that come later, until ctx ends
	// Notice gets a sentence without a full stop about the files, not the cluster: lines that are gone. Default none.
	Notice func(string)
	// Doubt gets why lines of the time that is asked for may be missing, if one is; its error ends a tail that does not
	// follow. Default: nothing is said.
	Doubt func([]question.Doubt) error
	// Gone reports whether nobody reads the output any more; it is called while there is nothing to show. Default
	// never.
	Gone func() bool

	ends    bool // a stream does, as a file
	doubted error
}

// All is every line.
const All = -1

// Stream shows the lines of r until it ends, or ctx does, through the same filter as a journal's. gzip is read too. The
// last lines, where the options ask for those alone, are known at the end only and held in memory until then.
// Where r blocks when ctx ends, the goroutine that reads it is left behind; it does nothing any more.
func Stream(ctx context.Context, r io.Reader, o Options, p *Printer) error {
	ended := make(chan error, 1)
	go func() { ended <- stream(ctx, r, o, p) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func stream(ctx context.Context, r io.Reader, o Options, p *Printer) error {
	in := bufio.NewReaderSize(flushing{ctx, r, p}, flushAt)
	var from io.Reader = in
	if magic, err := in.Peek(2); err == nil && isGzip(magic) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("read lines: %w", err)
		}
		from = z
	}
	o.Follow, p.separate = false, separates(&o.Filter)
	o.Filter.Objects = slices.Clone(o.Filter.Objects) // which short names become the resources of
	var (
		lines segment.Reader
		line  line.Fields
		begun bool
		last  [][]byte
		match = &argument.Matcher{Filter: &o.Filter}
		seen  = archive.NewSeen(&o.Filter.Selection)
	)
	lines.Reset(from, 0)
	var ended error
	for ended == nil {
		var next segment.RawLine
		next, ended = lines.Next()
		raw := next.Bytes
		if errors.Is(ended, io.EOF) { // a last line without an end is one all the same: nothing more will come
			raw = lines.Torn()
		}
		if ended != nil && len(raw) == 0 {
			break
		}
		good := line.Parse(raw) == nil
		if good && !begun {
			begun = true
			o.noticeBegin(line.Seq, line.Time)
		}
		if good && seen != nil {
			if err := look(seen, match, &line); err != nil {
				return err
			}
		}
		if good && !o.ends && passed(&o.Filter.Until, &line) {
			ended = io.EOF
			break
		}
		switch {
		case good && !match.Match(&line):
		case o.Lines < 0:
			if err := p.showParsed(&line, raw, good, &o); err != nil {
				return err
			}
		default:
			last = append(last, bytes.Clone(raw))
			last = last[max(len(last)-o.Lines, 0):]
		}
	}
	for _, raw := range last {
		if err := p.showParsed(&line, raw, line.Parse(raw) == nil, &o); err != nil {
			return err
		}
	}
	err := p.End()
	if !errors.Is(ended, io.EOF) {
		return errors.Join(fmt.Errorf("read lines: %w", ended), err)
	}
	if seen != nil {
		err = errors.Join(err, o.unknown(ctx, seen))
	}
	return err
}

// look looks for names in a line.
func look(seen *archive.Seen, match *argument.Matcher, l *line.Fields) error {
	renamed, err := seen.Add(l)
	if renamed {
		match.Forget()
	}
	return err
}

// unknown returns an error for a name that no line is about. What may still come, where a file is followed, gets a
// notice.
func (o *Options) unknown(ctx context.Context, seen *archive.Seen) error {
	if err := seen.Resolve(ctx); err != nil {
		return o.unwatched(err)
	}
	o.noticeUnknown()
	return o.covered()
}

// showParsed shows a line that was parsed, good or not.
func (p *Printer) showParsed(l *line.Fields, raw []byte, good bool, o *Options) error {
	if !good {
		return p.showBad(raw, o)
	}
	return p.Print(l)
}

// showBad shows, as text, a line that is none of a journal. Where a program reads JSON, a notice names it.
func (p *Printer) showBad(raw []byte, o *Options) error {
	if p.style.JSON {
		o.notice("not a journal line: %s", describeBad(nil, raw))
		return nil
	}
	return p.bad(raw)
}

// noticeNothing says why the screen is empty.
func (o *Options) noticeNothing() {
	text := "no line of the journal passes the filters"
	if o.Filter.IsZero() {
		text = "the journal has no line"
	}
	if o.Follow {
		text += " yet; waiting for one"
	}
	o.notice("%s", text)
}

func (o *Options) notice(format string, args ...any) {
	if o.Notice != nil {
		o.Notice(fmt.Sprintf(format, args...))
	}
}

func isGzip(b []byte) bool { return string(b) == "\x1f\x8b" }

// flushing shows what there is before it waits for more.
type flushing struct {
	ctx context.Context // of the one call of Stream
	r   io.Reader
	p   *Printer
}

func (f flushing) Read(b []byte) (int, error) {
	if err := f.p.Flush(); err != nil {
		return 0, err
	}
	n, err := f.r.Read(b)
	if f.ctx.Err() != nil {
		return 0, io.EOF
	}
	return n, err
}

// streamSlack is how far the clock may be set back for a line of a stream to be shown with --until all the same: a
// stream may never end, so that one must stop somewhere.
const streamSlack = time.Minute

// passed reports whether no line of a stream that comes after one is taken to be wanted.
func passed(until *argument.Moment, l *line.Fields) bool {
	if until.Seq > 0 {
		return l.Seq > until.Seq
	}
	return !until.Time.IsZero() && l.Time.After(until.Time.Add(streamSlack))
}
