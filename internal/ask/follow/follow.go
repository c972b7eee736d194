package follow

import (
	"bytes"
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
)

const (
	// of a line that identify it: with seq and time in it, no other line has the same
	markBytes = 128
	pollEvery = 100 * time.Millisecond // how often a file that is followed is checked, which takes four system calls
	// how often a rotated file is looked for that was compressed or renamed meanwhile
	findAgain = 5
)

// errRewritten says that a file does not hold any more what was read from it.
var errRewritten = errors.New("file was truncated or rewritten")

// active reads a file that is appended to, and makes sure that it is still the same.
type active struct {
	f   *os.File
	off int64 // of the next byte to read

	// The last line that was taken: where it begins, and its first bytes. Before the first one it is the end of the
	// line in front of it.
	markAt int64
	mark   []byte

	check [32 << 10]byte // scratch
}

// seek continues at off, where a line begins.
func (a *active) seek(off int64) {
	a.off, a.markAt, a.mark = off, 0, a.mark[:0]
	if off > 0 {
		a.took([]byte{'\n'}, off-1)
	}
}

// took remembers a line.
func (a *active) took(line []byte, at int64) {
	a.markAt, a.mark = at, append(a.mark[:0], line[:min(len(line), markBytes)]...)
}

// Read compares the last line after reading, so that what was read belongs to the same file content as that line.
func (a *active) Read(p []byte) (int, error) {
	n, err := a.f.ReadAt(p, a.off)
	same, failed := a.holds(a.mark, a.markAt)
	if failed != nil {
		return 0, failed
	}
	if !same {
		return 0, errRewritten
	}
	a.off += int64(n)
	return n, err
}

// holds reports whether the file has b at an offset.
func (a *active) holds(b []byte, at int64) (bool, error) {
	for part := range slices.Chunk(b, len(a.check)) {
		n, err := a.f.ReadAt(a.check[:len(part)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if !bytes.Equal(a.check[:n], part) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}

// follow shows the active file, and those that take its place.
func (t *tail) follow(ctx context.Context) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for ctx.Err() == nil {
		if err := t.drain(ctx); err != nil || !t.o.Follow {
			return err
		}
		next, err := t.next()
		if err != nil {
			return err
		}
		if next != nil {
			if err := t.turn(ctx, next); err != nil {
				return err
			}
			continue
		}
		if err := t.out.Flush(); err != nil {
			return err
		}
		if t.o.Gone != nil && t.o.Gone() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		}
	}
	return nil
}

// drain shows what there is of the active file. Of a line without its end nothing is kept: a daemon that starts after a
// crash writes another one there, maybe between two reads. So a line that took several reads, and the first line after
// a read that found none, are compared with the file again.
func (t *tail) drain(ctx context.Context) error {
	for t.in.f != nil && ctx.Err() == nil {
		read := t.lines.Buffered()
		line, err := t.lines.Next()
		same := true
		if err == nil && len(line.Bytes) >= read {
			same, err = t.in.holds(line.Bytes, line.Offset)
		}
		ended := errors.Is(err, io.EOF)
		switch {
		case ended || err == nil && !same:
			t.in.off = line.Offset
			t.lines.Reset(&t.in, line.Offset)
			if ended {
				return nil
			}
			continue
		case errors.Is(err, errRewritten):
			t.o.notice("%s was truncated or rewritten, reading it again", t.path)
			t.seek(0)
			t.skipping, t.reread = t.last > 0, true
			continue
		case err != nil:
			return fmt.Errorf("read journal: %w", err)
		}
		if err := t.take(ctx, line.Bytes); err != nil {
			return err
		}
		t.in.took(line.Bytes, line.Offset)
	}
	return nil
}

// next opens the file that has taken the active one's place, nil where there is none. An empty one has not yet: lines
// may still come to the one before, until the daemon has noticed what others did.
func (t *tail) next() (*os.File, error) {
	at, err := os.Stat(t.path)
	if err == nil && t.in.f != nil {
		is, err := t.in.f.Stat()
		if err != nil {
			return nil, fmt.Errorf("look at journal: %w", err)
		}
		if os.SameFile(is, at) || at.Size() == 0 {
			return nil, nil
		}
	}
	if err == nil && !at.Mode().IsRegular() {
		return nil, fmt.Errorf("open journal %s: not a regular file any more", t.path)
	}
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return f, nil
}

// turn continues with the next file. Everything that came to the one before came before the next one's first line, so
// that it is read to its end now. A line that has no end there is in the next one as a whole.
func (t *tail) turn(ctx context.Context, next *os.File) error {
	err := t.drain(ctx)
	t.close()
	t.in.f = next
	t.seek(0)
	t.skipping, t.reread = t.last > 0, false
	return err
}

// take shows a line of the journal, unless it was shown already. Where it begins a file, the lines that are missing in
// between are shown first.
func (t *tail) take(ctx context.Context, raw []byte) error {
	l := &t.line
	// Where others have truncated the file, zeros are in front until the daemon notices.
	raw = bytes.TrimLeft(raw, "\x00")
	if l.Parse(raw) != nil {
		if t.reread {
			return nil
		}
		return t.out.showBad(raw, &t.o)
	}
	if t.skipping {
		if l.Seq <= t.last && !l.Time.After(t.newest) {
			return nil
		}
		t.skipping, t.reread = false, false
		if l.Seq <= t.last {
			t.o.notice("the journal continues with line %d after line %d: it was started over, or lines were taken back",
				l.Seq, t.last)
		}
		if t.last > 0 {
			if err := t.catchUp(ctx, l.Seq); err != nil {
				return err
			}
		}
	} else if t.last > 0 {
		t.missing(l.Seq)
	}
	return t.print(l)
}

// print shows a line that was not shown yet, if it passes the filter.
func (t *tail) print(l *line.Fields) error {
	t.last = l.Seq
	if l.Time.After(t.newest) {
		t.newest = l.Time
	}
	if !t.match.Match(l) {
		return nil
	}
	return t.out.Print(l)
}

// catchUp shows the lines between the last one and the line before. A file that is renamed or compressed while it is
// looked for is there at the next attempt; what is missing at the last one is named.
func (t *tail) catchUp(ctx context.Context, before uint64) error {
	for try := 1; try <= findAgain && t.last+1 < before && ctx.Err() == nil; try++ {
		if err := t.showMissed(ctx, before, try == findAgain); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		t.missing(before)
	}
	return nil
}

// missing names the lines between the last one and the line before, where there are any.
func (t *tail) missing(before uint64) {
	if t.last+1 < before {
		t.o.notice("lines %d to %d are not in the journal's files any more", t.last+1, before-1)
	}
}

// showMissed shows the lines that come after the last one and before another, up to a hole unless it is the last
// attempt.
func (t *tail) showMissed(ctx context.Context, before uint64, lastly bool) error {
	j, err := archive.Open(t.path, func(text string) {
		if lastly {
			t.o.notice("%s", text)
		}
	})
	if err != nil {
		if lastly {
			t.o.notice("%v", err)
		}
		return nil
	}
	defer j.Close()
	between := argument.Filter{Since: argument.Moment{Seq: t.last + 1}, Until: argument.Moment{Seq: before - 1}}
	for l, err := range question.Of(j).Last(ctx, &between, All) {
		if err != nil && lastly && ctx.Err() == nil {
			t.o.notice("%v", err)
		}
		if err != nil || l.Seq > t.last+1 && !lastly {
			return nil
		}
		if l.Seq <= t.last {
			continue
		}
		t.missing(l.Seq)
		if err := t.print(l); err != nil {
			return err
		}
	}
	return nil
}
