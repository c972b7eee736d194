// Package generate writes the journal of a day in a cluster that does not exist: some thousand deployments that are
// rolled out, jobs, crashing containers, and what controllers, kubelets and the scheduler write about it. Lines are
// made by package object, changes by package changes, files by packages journal and coverage. What happens follows from
// the Options alone.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Options of a journal.
type Options struct {
	Bytes    int64 // of lines
	Segments int   // rotated files
	Pods     int   // that run at a time
	Compress bool  // compresses rotated files
}

// Done is what was written.
type Done struct {
	Lines    uint64
	Bytes    int64
	From, To time.Time
}

const (
	writeBytes  = 1 << 20  // are written at once
	commitBytes = 32 << 20 // are committed at once
)

// Journal writes the journal whose active file is path, which must not exist; its folder is made. It returns when all
// rotated files are compressed and have their indexes.
func Journal(ctx context.Context, path string, o Options) (Done, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Done{}, err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return Done{}, fmt.Errorf("%s exists", path)
	}
	file, err := journal.OpenFile(path,
		journal.Options{MaxSize: o.Bytes / int64(max(1, o.Segments)), Compress: o.Compress})
	if err != nil {
		return Done{}, err
	}
	w := newWorld(o)
	watched, err := coverage.Open(path, coverage.Options{Now: func() time.Time { return w.now }})
	if err != nil {
		return Done{}, errors.Join(err, file.Close())
	}
	err = w.run(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return w.flush(file, watched)
	})
	watched.Close(err == nil)
	if err == nil {
		err = await(ctx, file, o.Compress)
	}
	return Done{Lines: w.seq, Bytes: w.bytes, From: w.from, To: w.received}, errors.Join(err, file.Close())
}

// flush writes the lines that were made since the last call, and commits them now and then.
func (w *world) flush(file *journal.File, watched *coverage.File) error {
	for rest := w.lines; len(rest) > 0; {
		n, err := file.Write(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	w.uncommitted += len(w.lines)
	w.lines = w.lines[:0]
	if w.uncommitted < commitBytes && !w.due {
		return nil
	}
	w.uncommitted, w.due = 0, false
	if err := file.Sync(); err != nil {
		return err
	}
	file.Committed(w.seq)
	watched.Committed(w.seq, file.Mark().FirstSeq, w.progress())
	return nil
}

// progress yields up to when each stream is watched.
func (w *world) progress() iter.Seq2[string, coverage.Progress] {
	return func(yield func(string, coverage.Progress) bool) {
		for _, s := range w.streams {
			p := coverage.Progress{Since: s.since.UnixNano(), Confirmed: w.now.UnixNano(), Differences: s.differences}
			if s.lost {
				p.Confirmed, p.Lost = s.lostAt.UnixNano(), string(line.Expired)
			}
			if !w.back.IsZero() {
				p.Late = w.back.UnixNano()
			}
			if !yield(s.Stream, p) {
				return
			}
		}
	}
}

// await waits until each rotated file is compressed, if it is to be, and has an index.
func await(ctx context.Context, file *journal.File, compress bool) error {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		all, err := segment.List(file.Path())
		if err != nil {
			return err
		}
		left := 0
		for _, s := range all {
			_, err := os.Stat(segment.IndexPath(s.Path))
			if !s.Active && (err != nil || compress && !s.Gzip || strings.HasSuffix(s.Path, ".tmp")) {
				left++
			}
		}
		if left == 0 {
			return file.TidyError()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}
