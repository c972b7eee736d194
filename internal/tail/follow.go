package tail

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
	"sort"
	"time"

	"github.com/fsnotify/fsnotify"

	"kubejournal/internal/event"
	"kubejournal/internal/journal"
)

// pollEvery is how often the file is looked at where the system does not tell of changes, or some got lost.
const pollEvery = 250 * time.Millisecond

// follow shows the active file, and those that take its place.
func (t *tail) follow(ctx context.Context) error {
	var news *news
	if t.o.Follow {
		// Before the file is read, so that nothing comes unseen in between.
		news = listen(t.path)
		defer news.close()
	}
	for ctx.Err() == nil {
		err := t.drain(ctx)
		if errors.Is(err, errRewritten) {
			t.o.notice("%s was truncated or written anew, reading it again", t.path)
			t.again()
			continue
		}
		if err != nil || !t.o.Follow {
			return errors.Join(err, t.p.Flush())
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
		if err := t.p.Flush(); err != nil {
			return err
		}
		if t.o.Gone != nil && t.o.Gone() {
			return nil
		}
		news.wait(ctx)
	}
	return t.p.Flush()
}

// drain shows what there is of the active file. Of a line without its end nothing is kept: a daemon that starts after a
// crash puts another in its place. It may do so between two reads, so a line that came with more than one, and the first,
// which stands where there was no line before, are read again and compared.
func (t *tail) drain(ctx context.Context) error {
	if t.in.f == nil {
		return nil
	}
	for ctx.Err() == nil {
		read := t.lines.Buffered()
		line, err := t.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			t.readAgain(line.Offset)
			return nil
		case errors.Is(err, errRewritten):
			return err
		case err != nil:
			return fmt.Errorf("read journal: %w", err)
		}
		if len(line.Bytes) >= read && len(line.Bytes) < event.MaxLine {
			whole, err := t.in.holds(line.Bytes, line.Offset)
			if err != nil {
				return fmt.Errorf("read journal: %w", err)
			}
			if !whole {
				t.readAgain(line.Offset)
				continue
			}
		}
		if err := t.take(ctx, line.Bytes); err != nil {
			return err
		}
		t.in.took(line.Bytes, line.Offset)
	}
	return nil
}

// readAgain reads the active file once more from offset on.
func (t *tail) readAgain(offset int64) {
	t.in.off = offset
	t.lines.Reset(&t.in, offset)
}

// again begins at the beginning of a file that does not hold any more what it did.
func (t *tail) again() {
	t.seek(0)
	t.skipping, t.reread = t.last > 0, true
}

// next opens the file that has taken the active one's place, nil where there is none. One that is empty has not yet:
// lines may still come to the one before, until the daemon has noticed what others did.
func (t *tail) next() (*os.File, error) {
	var is fs.FileInfo
	if t.in.f != nil {
		var err error
		if is, err = t.in.f.Stat(); err != nil {
			return nil, fmt.Errorf("look at journal: %w", err)
		}
		at, err := os.Stat(t.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(is, at) {
			return nil, nil
		}
	}
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	at, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("look at journal: %w", err)
	case is != nil && (os.SameFile(is, at) || at.Size() == 0):
	case !at.Mode().IsRegular():
		err = fmt.Errorf("open journal %s: not a regular file any more", t.path)
	default:
		return f, nil
	}
	_ = f.Close() // only looked at
	return nil, err
}

// turn goes on with the next file. Everything that came to the one before came before the next one's first line, so
// that it is read to its end now. A line that has no end there stands in the next one as a whole.
func (t *tail) turn(ctx context.Context, next *os.File) error {
	err := t.drain(ctx)
	for errors.Is(err, errRewritten) {
		t.again()
		err = t.drain(ctx)
	}
	if err != nil {
		_ = next.Close() // nothing was read
		return err
	}
	t.close()
	t.in.f = next
	t.again()
	t.reread = false
	return nil
}

// take shows a line of the journal, unless it was shown already. Where it begins a file, the lines that are missing in
// between are shown first.
func (t *tail) take(ctx context.Context, raw []byte) error {
	l := &t.line
	// Where others have truncated the file, zeros stand in front until the daemon notices.
	raw = bytes.TrimLeft(raw, "\x00")
	if l.Parse(raw) != nil {
		if t.reread {
			return nil
		}
		return showBad(raw, t.o, t.p)
	}
	if t.skipping {
		if l.Seq <= t.last && !l.Time.After(t.newest) {
			return nil
		}
		t.skipping, t.reread = false, false
		if l.Seq <= t.last {
			t.o.notice("the journal goes on with line %d behind line %d: it was begun anew, or lines were taken back", l.Seq, t.last)
		}
		if t.last > 0 && l.Seq > t.last+1 {
			if err := t.catchUp(ctx, l.Seq); err != nil {
				return err
			}
		}
	}
	return t.print(l)
}

// print shows a line that has not been, where it passes the filter.
func (t *tail) print(l *Line) error {
	t.last = l.Seq
	if l.Time.After(t.newest) {
		t.newest = l.Time
	}
	if !t.o.Filter.Match(l) {
		return nil
	}
	return t.p.Print(l)
}

// catchUp shows the lines between the last one and the line before, which stand in rotated files: in the last one that
// begins in front of them, and those behind it; where logrotate has made copies, perhaps in an earlier one. A file that is
// renamed or compressed while it is looked for is there at the next look.
func (t *tail) catchUp(ctx context.Context, before uint64) error {
	for more := 0; more < findAgain && ctx.Err() == nil; more++ {
		files, err := journal.Segments(t.path)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(s journal.Segment) bool { return s.Active })
		first := sort.Search(len(files), func(i int) bool { return files[i].FirstSeq > t.last+1 }) - 1
		for _, file := range files[max(first-more, 0):] {
			if file.FirstSeq >= before || t.last+1 >= before {
				break
			}
			if err := t.showMissed(ctx, file, before); err != nil {
				return err
			}
		}
		if t.last+1 >= before {
			return nil
		}
	}
	if ctx.Err() == nil {
		t.o.notice("lines %d to %d are not in the journal's files any more", t.last+1, before-1)
	}
	return nil
}

// showMissed shows the lines of a rotated file that come after the last one and before another.
func (t *tail) showMissed(ctx context.Context, file journal.Segment, before uint64) error {
	return t.readFile(ctx, file, 0, &t.otherLines, func(line journal.Line, end bool) (bool, error) {
		if end {
			return false, nil
		}
		l := &t.otherLine
		if l.Parse(line.Bytes) != nil || l.Seq <= t.last {
			return true, nil
		}
		if l.Seq >= before {
			return false, nil
		}
		return true, t.print(l)
	})
}

// news tells when there may be something new: at once where the system says so, else soon.
type news struct {
	name    string
	watcher *fsnotify.Watcher // nil where there is none
	events  chan fsnotify.Event
	errors  chan error
	ticks   *time.Ticker
}

// listen watches the folder: the file itself may go, and another come.
func listen(path string) *news {
	n := &news{name: filepath.Base(path), ticks: time.NewTicker(pollEvery)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return n // too many, for the system; looking does it too
	}
	if err := w.Add(filepath.Dir(path)); err != nil {
		_ = w.Close() // it watches nothing
		return n
	}
	n.watcher, n.events, n.errors = w, w.Events, w.Errors
	return n
}

// wait returns when there may be something new, or ctx ends.
func (n *news) wait(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ticks.C:
			return
		case e, open := <-n.events:
			if !open {
				n.events = nil
			} else if filepath.Base(e.Name) == n.name {
				return
			}
		case _, open := <-n.errors:
			if !open {
				n.errors = nil
			}
			// Some were lost; the ticks go on.
		}
	}
}

func (n *news) close() {
	n.ticks.Stop()
	if n.watcher != nil {
		_ = n.watcher.Close() // nobody waits any more
	}
}
