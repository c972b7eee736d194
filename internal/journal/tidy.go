package journal

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// tidyRetry is the pause after a failure, and tidyEvery the time between two
	// looks at how old files have grown.
	tidyRetry = 5 * time.Second
	tidyEvery = 10 * time.Minute

	copyBuffer = 256 << 10 // bytes between two looks at the stop signal
)

var errStopped = errors.New("stopped")

// tidier compresses and removes rotated files, in a goroutine of its own. What
// there is to do it finds in the folder each time, so that a crash leaves
// nothing that the next pass does not see.
type tidier struct {
	once sync.Once
	stop chan struct{} // closed by end
	wake chan struct{} // holds one
	done chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	committed uint64            // guarded by mu; 0 before the first commit
	held      map[string]uint64 // rotated files with lines up to this seq, by name; guarded by mu
	err       error             // of the last pass; guarded by mu
}

func (t *tidier) start(j *File) {
	t.stop, t.wake, t.done = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	t.held = make(map[string]uint64)
	go func() {
		defer close(t.done)
		t.run(j)
	}()
}

func (t *tidier) end() {
	t.once.Do(func() { close(t.stop) })
	<-t.done
}

// hold keeps a file that is about to be rotated untouched until its last line
// is committed.
func (t *tidier) hold(name string, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[name] = last
}

// holding returns the files that are held now.
func (t *tidier) holding() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.held)
}

// renamed says that a file that was held until its rename has its name: where it
// was committed meanwhile, the pass that followed has not seen it.
func (t *tidier) renamed(name string) {
	t.mu.Lock()
	_, held := t.held[name]
	t.mu.Unlock()
	if !held {
		t.wakeUp()
	}
}

func (t *tidier) commit(seq uint64) {
	t.mu.Lock()
	news := t.committed == 0
	t.committed = seq
	for name, last := range t.held {
		if last <= seq {
			delete(t.held, name)
			news = true
		}
	}
	t.mu.Unlock()
	if news {
		t.wakeUp()
	}
}

func (t *tidier) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tidier) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *tidier) run(j *File) {
	again := time.NewTimer(tidyEvery)
	defer again.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-t.wake:
		case <-again.C:
		}
		t.mu.Lock()
		ready := t.committed > 0
		t.mu.Unlock()
		if !ready {
			continue
		}
		err := j.owned()
		if err == nil {
			err = j.tidyUp(time.Now())
		}
		if errors.Is(err, errStopped) {
			return
		}
		t.mu.Lock()
		before := t.err
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
		again.Reset(pause)
	}
}

// archive is one rotated file, under one or both of its names.
type archive struct {
	name       string    // the plain one
	at         time.Time // of its rotation, at the latest
	plain, zip bool
}

// tidyUp does all that there is to do now, but for files that are held.
func (j *File) tidyUp(now time.Time) error {
	dir := filepath.Dir(j.path)
	entries, err := j.disk.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("tidy journal: %w", err)
	}
	// Behind ReadDir: a file that this has seen was held before its rename.
	held := j.tidy.holding()
	found := make(map[string]*archive)
	for _, e := range entries {
		if j.name.leftOver(e.Name()) {
			// Of a pass that a crash or an error has ended.
			if err := j.remove(e.Name()); err != nil {
				return err
			}
			continue
		}
		at, compressed, ok := j.name.parse(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		name := strings.TrimSuffix(e.Name(), gzipped)
		info, err := e.Info()
		if err != nil {
			continue // gone
		}
		// A name may lie in the future, where the clock once did.
		if changed := info.ModTime(); changed.Before(at) {
			at = changed
		}
		if found[name] == nil {
			found[name] = &archive{name: name, at: at}
		}
		if compressed {
			found[name].zip = true
		} else {
			found[name].plain = true
		}
	}
	names := slices.Sorted(maps.Keys(found))
	surplus, o := 0, j.options.Load()
	if o.MaxFiles > 0 {
		surplus = len(names) - o.MaxFiles
	}
	var errs []error
	stuck := false // a file could not be removed: without those behind it seq would have a hole
	for i, name := range names {
		a := found[name]
		if _, is := held[name]; is {
			break // and so are all that come after it
		}
		old := o.MaxAge > 0 && now.Sub(a.at) > o.MaxAge
		switch {
		case (i < surplus || old) && !stuck:
			if err = j.drop(a); err != nil {
				stuck = true
			} else {
				j.log.Info("removed a rotated journal file", zap.String("name", name), zap.Bool("byAge", i >= surplus))
			}
		case a.plain && a.zip:
			// A crash came between step 3 and 4 of compress.
			err = j.remove(name)
		case a.plain && o.Compress:
			err = j.compress(name)
		}
		if errors.Is(err, errStopped) {
			return err
		}
		// What is wrong with one file is no reason to leave the others as they are.
		errs, err = append(errs, err), nil
	}
	return errors.Join(errs...)
}

// drop removes a rotated file. A crash between its two names leaves one, which
// the next pass removes.
func (j *File) drop(a *archive) error {
	if a.plain {
		if err := j.remove(a.name); err != nil {
			return err
		}
	}
	if a.zip {
		return j.remove(a.name + gzipped)
	}
	return nil
}

func (j *File) remove(name string) error {
	err := j.disk.Remove(filepath.Join(filepath.Dir(j.path), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove rotated journal: %w", err)
	}
	return nil
}

// compress makes a gzip file of a rotated one:
//
//  1. under a name that nobody reads, and synced: a crash leaves a file that
//     the next pass removes;
//  2. renamed, where it is complete from the first moment: a crash leaves both;
//  3. the folder is synced, so that the plain file is not the only one that a
//     power cut takes;
//  4. the plain file is removed.
func (j *File) compress(name string) error {
	dir := filepath.Dir(j.path)
	tmp := filepath.Join(dir, j.name.compressing(name))
	if err := j.writeGzip(tmp, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, j.remove(filepath.Base(tmp)))
	}
	if err := j.disk.Rename(tmp, filepath.Join(dir, name+gzipped)); err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	if err := j.disk.SyncDir(dir); err != nil {
		return err
	}
	return j.remove(name)
}

func (j *File) writeGzip(to, from string) error {
	in, err := j.disk.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	defer in.Close() //nolint:errcheck // it is only read
	out, err := j.disk.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	buffered := bufio.NewWriterSize(&offsetWriter{f: out}, copyBuffer) // gzip writes some hundred bytes at a time
	z := gzip.NewWriter(buffered)
	z.Name = filepath.Base(from)
	src := &stoppable{io.NewSectionReader(in, 0, 1<<62), j.tidy.stop}
	_, err = io.CopyBuffer(struct{ io.Writer }{z}, src, make([]byte, copyBuffer))
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	return nil
}

// offsetWriter writes a file from its beginning.
type offsetWriter struct {
	f   io.WriterAt
	off int64
}

func (w *offsetWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.off)
	w.off += int64(n)
	return n, err
}

// stoppable ends with errStopped once stop is closed.
type stoppable struct {
	r    io.Reader
	stop <-chan struct{}
}

func (s *stoppable) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		return 0, errStopped
	default:
		return s.r.Read(p)
	}
}
