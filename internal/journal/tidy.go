package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/disk"
)

const (
	// tidyRetry is the pause after a failure, and tidyEvery the time between two checks of the files' age.
	tidyRetry = 5 * time.Second
	tidyEvery = 10 * time.Minute

	copyBuffer = 256 << 10 // bytes that are compressed or written at once
)

// tidier compresses and removes rotated files, in a goroutine of its own. What there is to do it finds in the folder each
// time, so that a crash leaves nothing that the next pass does not see.
type tidier struct {
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // holds one
	heads   headReader    // owned by the goroutine
	ready   atomic.Bool   // a commit has come, so that no file is read back any more but held ones

	// The rotated files whose indexes this process has made or seen to be right; owned by the goroutine.
	indexed map[string]bool

	mu   sync.Mutex
	held map[string]uint64 // files whose lines are not all committed, with the last one's seq; guarded by mu
	err  error             // of the last pass; guarded by mu
}

func (t *tidier) start(j *File) {
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.wake, t.held, t.indexed = make(chan struct{}, 1), make(map[string]uint64), make(map[string]bool)
	t.running.Go(func() { t.run(j) })
}

func (t *tidier) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Committed says that no line up to seq will be read back any more: files without a later one may be compressed and removed.
func (j *File) Committed(seq uint64) {
	t := &j.tidy
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.held)
	maps.DeleteFunc(t.held, func(_ string, last uint64) bool { return last <= seq })
	if !t.ready.Swap(seq > 0) || len(t.held) < before {
		t.wakeUp()
	}
}

// TidyError returns why rotated files cannot be compressed or removed now, nil when they can.
func (j *File) TidyError() error {
	j.tidy.mu.Lock()
	defer j.tidy.mu.Unlock()
	return j.tidy.err
}

func (t *tidier) run(j *File) {
	again := time.NewTimer(tidyEvery)
	var before error // of the last pass
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.wake:
		case <-again.C:
		}
		if !t.ready.Load() {
			continue
		}
		err := j.tidyUp(time.Now())
		j.survey()
		if t.ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.err = err
		t.mu.Unlock()
		pause := tidyEvery
		switch {
		case err != nil:
			j.options.Load().Failed(err)
			if pause = tidyRetry; before == nil {
				j.log.Error("rotated files cannot be compressed or removed, trying again", zap.Error(err))
			}
		case before != nil:
			j.log.Info("rotated files can be compressed and removed again")
		}
		before = err
		again.Reset(pause)
	}
}

// archive is one rotated file, under one or both of its names, and its index.
type archive struct {
	name              string    // the plain one
	at                time.Time // of its rotation, at the latest
	plain, zip, index bool      // what there is
}

// archives returns the rotated files in the order of their names, and removes what an interrupted pass has left over.
func (j *File) archives() ([]archive, error) {
	entries, err := j.disk.ReadDir(filepath.Dir(j.path)) // in the order of names
	if err != nil {
		return nil, fmt.Errorf("tidy journal: %w", err)
	}
	var all []archive
	for _, e := range entries {
		if j.name.leftOver(e.Name()) {
			if err := j.remove(e.Name()); err != nil {
				return nil, err
			}
			continue
		}
		name, isIndex := strings.CutSuffix(e.Name(), indexed)
		at, compressed, ok := j.name.parse(name)
		if !ok || isIndex && compressed || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone
		}
		// A name may lie in the future, where the clock once did.
		if changed := info.ModTime(); changed.Before(at) {
			at = changed
		}
		name = strings.TrimSuffix(name, gzipped)
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, archive{name: name, at: at})
		}
		last := &all[len(all)-1]
		last.plain, last.zip, last.index = last.plain || !compressed && !isIndex, last.zip || compressed, last.index || isIndex
	}
	var errs []error
	all = slices.DeleteFunc(all, func(a archive) bool {
		gone := !a.plain && !a.zip
		if gone {
			errs = append(errs, j.remove(a.name+indexed)) // a crash came behind the file's removal
		}
		return gone
	})
	return all, errors.Join(errs...)
}

// tidyUp does all that there is to do now, but for files that are held.
func (j *File) tidyUp(now time.Time) error {
	if err := j.owned(); err != nil {
		return err
	}
	all, err := j.archives()
	if err != nil {
		return err
	}
	// Behind archives: a file that this has seen was held before its rename.
	j.tidy.mu.Lock()
	held := maps.Clone(j.tidy.held)
	j.tidy.mu.Unlock()
	surplus, o := 0, j.options.Load()
	if o.MaxFiles > 0 {
		surplus = len(all) - o.MaxFiles
	}
	var errs []error
	var before *archive // the one before
	stuck := false      // a file could not be removed: without those behind it seq would have a hole
	for i := range all {
		a := &all[i]
		if _, is := held[a.name]; is {
			break // and so are all that come after it
		}
		old := o.MaxAge > 0 && now.Sub(a.at) > o.MaxAge
		var err error
		switch {
		case (i < surplus || old) && !stuck:
			// A crash between its two names leaves one, which the next pass removes.
			err = errors.Join(j.remove(a.name), j.remove(a.name+gzipped), j.remove(a.name+indexed))
			if stuck = err != nil; !stuck {
				j.log.Info("removed a rotated journal file", zap.String("name", a.name), zap.Bool("byAge", i >= surplus))
			}
		case a.plain && a.zip:
			err = j.remove(a.name) // a crash came between step 3 and 4 of compress
		case a.plain && o.Compress:
			err = j.compress(a, before)
		case !j.isIndexed(a, before):
			err = j.indexArchive(a, before)
		}
		if before = a; err == nil {
			j.tidy.indexed[a.name] = true
		}
		if j.tidy.ctx.Err() != nil {
			return err
		}
		errs = append(errs, err) // no reason to leave the other files as they are
	}
	return errors.Join(errs...)
}

func (j *File) remove(name string) error {
	err := j.disk.Remove(filepath.Join(filepath.Dir(j.path), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove rotated journal: %w", err)
	}
	return nil
}

// compress makes a gzip file of a rotated one, and an index:
//
//  1. the gzip file under a name that nobody reads, and synced: a crash leaves a file that the next pass removes;
//  2. the index; a crash leaves the plain file with its index. Without one the file is compressed all the same;
//  3. the gzip file is renamed, where it is complete from the first moment: a crash leaves both;
//  4. the folder is synced, so that the plain file is not the only one that a power cut takes;
//  5. the plain file is removed.
func (j *File) compress(a, before *archive) error {
	dir := filepath.Dir(j.path)
	tmp := temporaryOf(a.name + gzipped)
	x, done, err := j.newIndexer(a, before)
	if err == nil {
		defer done()
		err = j.read(filepath.Join(dir, a.name), func(in disk.File) error {
			return j.writeWhole(filepath.Join(dir, tmp), func(w io.Writer) error { return zip(w, in, a.name, x) })
		})
	}
	if err != nil {
		return fmt.Errorf("compress journal: %w", errors.Join(err, j.remove(tmp)))
	}
	indexErr := j.writeIndex(a.name, x.Builder)
	if err := j.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, a.name+gzipped)); err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	if err := j.disk.SyncDir(dir); err != nil {
		return err
	}
	return errors.Join(indexErr, j.remove(a.name))
}
