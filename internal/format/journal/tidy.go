package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

const (
	// tidyRetry is the pause after a failure, and tidyEvery the time between two checks of the files' age.
	tidyRetry = 5 * time.Second
	tidyEvery = 10 * time.Minute

	copyBuffer = 256 << 10 // bytes that are written at once
)

// tidier compresses and removes rotated files, in a goroutine of its own. What there is to do it finds in the folder
// each time, so that a crash leaves nothing that the next pass does not see.
type tidier struct {
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{}  // holds one
	lister  segment.Lister // owned by the goroutine
	ready   atomic.Bool    // a commit has come, so that no file is read back any more but held ones

	bare   map[string]bool  // Rotated files of which no index can be made; owned by the goroutine
	limit  string           // by which a file was removed last; owned by the goroutine
	usages map[string]usage // of rotated files, by their plain names; owned by the goroutine
	tries  map[uint64]int   // of findSeal, by the files' first lines; owned by the goroutine

	mu        sync.Mutex
	held      map[string]uint64 // files whose lines are not all committed, with the last one's seq; guarded by mu
	err       error             // of the last pass; guarded by mu
	committed uint64            // seq up to which lines are; guarded by mu
	sealed    *uint64           // up to where files are sealed; nil until Seal has said so; guarded by mu
	seal      *line.Seal        // of the next file; nil if it is not known; guarded by mu
}

func (t *tidier) start(j *File) {
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.wake, t.held, t.bare = make(chan struct{}, 1), make(map[string]uint64), make(map[string]bool)
	t.tries = make(map[uint64]int)
	t.running.Go(func() { t.run(j) })
}

func (t *tidier) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Committed says that no line up to seq will be read back any more: files without a later one may be compressed and
// removed.
func (j *File) Committed(seq uint64) {
	t := &j.tidy
	t.mu.Lock()
	defer t.mu.Unlock()
	t.committed = seq
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

// archive is one rotated file, under one or more of its names, and its index.
type archive struct {
	name              string    // the plain one
	at                time.Time // of its rotation, at the latest
	size              int64     // bytes of all that there is
	plain, zip, index bool      // what there is
	upTo              uint64    // the last line's seq, where there is a compacted one; else 0
	replaced          []string  // compacted ones that a later one replaces
}

// file returns the name of the file that has the lines.
func (a *archive) file() string {
	switch {
	case a.upTo > 0:
		return segment.CompactedName(a.name, a.upTo)
	case a.plain:
		return a.name
	}
	return a.name + segment.Gzipped
}

// readArchives returns the rotated files of a journal in the order of their names, and what an interrupted pass has
// left over.
func readArchives(d disk.FS, dir string, names segment.Names) (all []archive, leftOver []string, err error) {
	entries, err := d.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, nil, err
	}
	shared := disk.SharedFolder(dir)
	for _, e := range entries {
		if names.LeftOver(e.Name()) {
			leftOver = append(leftOver, filepath.Join(dir, e.Name()))
			continue
		}
		name, isIndex := strings.CutSuffix(e.Name(), segment.Indexed)
		r, ok := names.Parse(name)
		if !ok || isIndex && r.Compressed || !e.Type().IsRegular() {
			continue
		}
		at := r.At
		info, err := e.Info()
		if err != nil || shared.Foreign(info) != "" {
			continue // gone, or somebody else's
		}
		// A name may lie in the future, where the clock once did.
		if changed := info.ModTime(); changed.Before(at) {
			at = changed
		}
		if len(all) == 0 || all[len(all)-1].name != r.Plain {
			all = append(all, archive{name: r.Plain, at: at})
		}
		last := &all[len(all)-1]
		last.size += info.Size()
		switch {
		case isIndex:
			last.index = true
		case r.UpTo > 0:
			if last.upTo > 0 {
				last.replaced = append(last.replaced, segment.CompactedName(r.Plain, min(last.upTo, r.UpTo)))
			}
			last.upTo = max(last.upTo, r.UpTo)
		case r.Compressed:
			last.zip = true
		default:
			last.plain = true
		}
	}
	return all, leftOver, nil
}

// Kept is what there is of a journal's rotated files.
type Kept struct {
	Files  int
	Size   int64     // bytes, with the indexes
	Oldest time.Time // when the oldest was rotated; zero where there is none
}

// Measure returns what a journal has kept, by the names of its files. Another process may write to it.
func Measure(path string) (kept Kept, err error) {
	path = disk.Real(path)
	all, _, err := readArchives(disk.OS, filepath.Dir(path), segment.NamesOf(path))
	for _, a := range all {
		if a.plain || a.zip || a.upTo > 0 {
			if kept.Files++; kept.Files == 1 {
				kept.Oldest = a.at
			}
		}
		kept.Size += a.size
	}
	return kept, err
}

// archives returns the rotated files in the order of their names, and how many of them are committed: they come first.
// It removes what an interrupted pass has left over.
func (j *File) archives() (all []archive, committed int, err error) {
	all, leftOver, err := readArchives(j.disk, filepath.Dir(j.path), j.name)
	if err != nil {
		return nil, 0, fmt.Errorf("tidy journal: %w", err)
	}
	for _, path := range leftOver {
		if err := segment.RemoveLeftOver(j.disk, path); err != nil {
			return nil, 0, err
		}
	}
	var errs []error
	all = slices.DeleteFunc(all, func(a archive) bool {
		gone := !a.plain && !a.zip && a.upTo == 0
		if gone {
			errs = append(errs, j.remove(a.name+segment.Indexed)) // a crash came after the file's removal
		}
		return gone
	})
	all, err = j.removeReplaced(all)
	errs = append(errs, err)
	// After the folder was read: a file that is in it was held before its rename.
	j.tidy.mu.Lock()
	defer j.tidy.mu.Unlock()
	committed = slices.IndexFunc(all, func(a archive) bool { _, held := j.tidy.held[a.name]; return held })
	if committed < 0 {
		committed = len(all)
	}
	return all, committed, errors.Join(errs...)
}

// tidyUp does all that there is to do now, but for files that are held and those that come after them.
func (j *File) tidyUp(now time.Time) error {
	if err := j.owned(); err != nil {
		return err
	}
	all, committed, err := j.archives()
	if err != nil {
		return err
	}
	surplus, o := 0, j.options.Load()
	if o.MaxFiles > 0 {
		surplus = len(all) - o.MaxFiles
	}
	var errs []error
	p := pass{File: j}
	defer p.close()
	stuck := false // a file could not be removed: without those after it seq would have a hole
	for i := range all[:committed] {
		a := &all[i]
		var err error
		old, many := o.MaxAge > 0 && now.Sub(a.at) > o.MaxAge, i < surplus && !o.young(a, now)
		if (many || old) && !stuck {
			limit := "maxFiles"
			if !many {
				limit = "maxAge"
			}
			err = p.remove(a, limit)
			stuck = err != nil
		} else if p.oldest == 0 {
			p.oldest, err = p.firstSeq(a)
			err = errors.Join(err, p.keep(a, o.Compress))
		} else {
			err = p.keep(a, o.Compress)
		}
		if j.tidy.ctx.Err() != nil {
			return err
		}
		errs = append(errs, err) // no reason to leave the other files as they are
	}
	if !stuck {
		errs = append(errs, j.shrink(o, now, errors.Join(errs...) == nil))
	}
	return errors.Join(errs...)
}

// young reports whether a file has lines that are not older than MinAge.
func (o *Options) young(a *archive, now time.Time) bool {
	return o.MinAge > 0 && now.Sub(a.at) < o.MinAge
}

// budget returns how many bytes all files may have, 0 for no limit, and which limit says so. Where the number of files
// alone is limited, young files may be more of them, but take no more room than that many would without compression.
func (o *Options) budget() (bytes int64, limit string) {
	switch {
	case o.MaxTotalSize > 0:
		return o.MaxTotalSize, "maxTotalSize"
	// they can be any
	case o.MaxFiles > 0 && o.MinAge > 0 && o.MaxSize > 0 && int64(o.MaxFiles) < math.MaxInt64/o.MaxSize:
		return int64(o.MaxFiles+1) * o.MaxSize, "maxFiles"
	}
	return 0, ""
}

// shrink makes room until the journal has at most the bytes that it may have. It comes after the others are compressed,
// by which that may be reached. The active file counts as the size that it can grow to, since nothing is removed until
// then.
//
//  1. The oldest files go, while they are older than MinAge.
//  2. Of younger files the lines of those go that have most of them: see compact.
//  3. Where that is not enough, the oldest files go after all.
//
// A file that is to be compressed counts once it is, unless that fails.
func (j *File) shrink(o *Options, now time.Time, compresses bool) error {
	most, limit := o.budget()
	if most == 0 {
		return nil
	}
	for _, step := range []func(*room) error{
		func(r *room) error { return r.removeOldest(func(a *archive) bool { return !o.young(a, now) }) },
		(*room).compact,
		func(r *room) error { return r.removeOldest(func(*archive) bool { return true }) },
	} {
		all, committed, err := j.archives()
		if err != nil {
			return err
		}
		total := o.MaxSize
		if active, err := j.disk.Stat(j.path); err == nil { // else it is about to be there
			total = max(total, active.Size())
		}
		for _, a := range all {
			if !a.plain || !o.Compress || !compresses {
				total += a.size
			}
		}
		if total <= most {
			break
		}
		if err := step(&room{File: j, all: all[:committed], excess: total - most, limit: limit,
			options: o}); err != nil {
			return err
		}
	}
	return nil
}

// room is what is too much, and the committed files, of which some is to go.
type room struct {
	*File
	all     []archive
	excess  int64 // bytes
	limit   string
	options *Options
}

// removeOldest removes the oldest files that may go.
func (r *room) removeOldest(may func(*archive) bool) error {
	for i := 0; i < len(r.all) && r.excess > 0 && may(&r.all[i]); i++ {
		if err := r.removeFiles(&r.all[i], r.limit); err != nil {
			return err // and those after it stay: without them seq would have a hole
		}
		r.excess -= r.all[i].size
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

// removeFiles removes a rotated file by a limit. A crash leaves some of its names, which the next pass removes.
func (j *File) removeFiles(a *archive, limit string) error {
	err := errors.Join(j.remove(a.name), j.remove(a.name+segment.Gzipped), j.remove(a.name+segment.Indexed))
	if a.upTo > 0 {
		err = errors.Join(err, j.remove(segment.CompactedName(a.name, a.upTo)))
	}
	if err == nil {
		j.log.Info("removed a rotated journal file", zap.String("name", a.name), zap.String("limit", limit))
		j.tidy.limit = limit
		j.options.Load().Removed(limit, 0)
	}
	return err
}
