package coverage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

const (
	fileMode   = 0o640
	firstSlots = 64
	// compactAt is how large the log grows, in bytes, before the file is made again without what retention has removed;
	// the next time it is twice what was left.
	compactAt = 256 << 10
	// maxIntervals is how many intervals a file is made with, the latest ones: 13 MB.
	maxIntervals = 200_000
	// syncEvery is how often the file is synced while it changes, so that a power cut takes no more than that.
	syncEvery = time.Minute
)

// writing is the file as it is on disk.
type writing struct {
	f     disk.File // nil: to be made again
	salt  uint32
	slots int   // in each table
	table int   // 0 or 1: which is written next
	end   int64 // of the log
	large int64 // end at which the file is made again
	fault error // of the last write

	synced time.Time

	before *content // what belongs before the slots in the first file; nil once there is one
}

// change is what a write brings to the file.
type change struct {
	names  []string
	named  int // number of the first one
	begins []segmentRecord
	ended  []numbered
	dirty  [2]int
	slots  []interval // those of dirty
}

// changed returns what has changed since the last write; all of it for a file that is made again. done or undo follows.
func (f *File) changed(all bool) change {
	f.mu.Lock()
	defer f.mu.Unlock()
	if all {
		f.named, f.dirty = 0, [2]int{0, len(f.names)}
	}
	c := change{names: f.names[f.named:], named: f.named, begins: slices.Clone(f.begins), ended: f.ended,
		dirty: f.dirty}
	c.slots = make([]interval, c.dirty[1]-c.dirty[0])
	for n := range c.slots {
		c.slots[n] = f.streams[f.names[c.dirty[0]+n]].interval
	}
	f.dirty, f.dropped = [2]int{}, 0
	return c
}

// done notes that a change is in the file.
func (f *File) done(c *change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named, f.begins, f.ended = c.named+len(c.names), f.begins[len(c.begins):],
		f.ended[max(0, len(c.ended)-f.dropped):]
}

// undo notes that a change is still to be written.
func (f *File) undo(c *change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.dirty == [2]int{}:
		f.dirty = c.dirty
	case c.dirty != [2]int{}:
		f.dirty = [2]int{min(f.dirty[0], c.dirty[0]), max(f.dirty[1], c.dirty[1])}
	}
}

func (c *change) empty() bool {
	return len(c.names) == 0 && len(c.begins) == 0 && len(c.ended) == 0 && c.dirty[0] == c.dirty[1]
}

// appendLog appends what goes to the log.
func (c *change) appendLog(dst []byte, salt uint32) []byte {
	for n, name := range c.names {
		dst = appendName(dst, salt, uint32(c.named+n), name)
	}
	for n := range c.begins {
		dst = appendSegment(dst, salt, &c.begins[n])
	}
	for n := range c.ended {
		dst = appendInterval(dst, salt, uint32(c.ended[n].stream), &c.ended[n].interval)
	}
	return dst
}

// appendSlots appends the slots of dirty.
func (c *change) appendSlots(dst []byte, salt uint32) []byte {
	for n := range c.slots {
		dst = appendInterval(dst, salt, uint32(c.dirty[0]+n), &c.slots[n])
	}
	return dst
}

// run writes what has changed, until Close.
func (f *File) run() {
	defer close(f.ran)
	for {
		select {
		case <-f.wake:
			f.note(f.write())
		case <-f.stop:
			err := f.write()
			if f.f != nil {
				err = errors.Join(err, f.f.Sync(), f.f.Close())
			}
			f.note(err)
			return
		}
	}
}

// note logs and counts a failure.
func (f *File) note(err error) {
	switch {
	case err != nil && f.fault == nil:
		f.log.Error("coverage cannot be written, trying again with each commit; no line is affected",
			zap.String("path", f.path), zap.Error(err))
	case err == nil && f.fault != nil:
		f.log.Info("coverage can be written again", zap.String("path", f.path))
	}
	if f.fault = err; err != nil {
		f.failed()
	}
}

// write brings to the file what has changed. A crash leaves some of the records, in any order, and of the others the
// versions before.
func (f *File) write() error {
	if !f.inPlace() {
		return f.renew()
	}
	c := f.changed(false)
	if c.empty() {
		return nil
	}
	if c.named+len(c.names) > f.slots || f.end > f.large {
		f.undo(&c)
		err := f.renew()
		if err == nil || c.named+len(c.names) > f.slots {
			return err
		}
		f.note(err)
		f.large = 2 * f.end // there may be space in the file
		c = f.changed(false)
	}
	err := f.readHeads(c.begins)
	// The log first: a slot must not take the place of an interval that is nowhere else.
	log := c.appendLog(nil, f.salt)
	if err == nil && len(log) > 0 {
		_, err = f.f.WriteAt(log, f.end)
	}
	if err == nil && len(c.slots) > 0 {
		at := tableStart + (f.table*f.slots+c.dirty[0])*recordSize
		_, err = f.f.WriteAt(c.appendSlots(nil, f.salt), int64(at))
	}
	if err != nil {
		f.undo(&c)
		return fmt.Errorf("write: %w", err)
	}
	f.end, f.table = f.end+int64(len(log)), 1-f.table
	f.done(&c)
	if time.Since(f.synced) < syncEvery {
		return nil
	}
	f.synced = time.Now()
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// inPlace reports whether there is a file, under its name.
func (f *File) inPlace() bool {
	if f.f == nil {
		return false
	}
	is, err := f.f.Stat()
	at, atErr := f.disk.Stat(f.path)
	return err == nil && atErr == nil && os.SameFile(is, at)
}

// renew rewrites the file with what it has, which retention may have removed since.
func (f *File) renew() error {
	old := f.before
	if f.f != nil {
		var err error
		if old, err = parse(f.f); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		there, err := segment.List(f.journal)
		if err != nil {
			return err
		}
		old.retire(there)
	}
	return f.replace(old)
}

// replace rewrites the file, with old before what is in memory. A crash leaves the file before or, from the rename on,
// this one, and possibly a temporary file that the next call overwrites.
func (f *File) replace(old *content) (err error) {
	c := f.changed(true)
	defer func() {
		if err != nil {
			f.undo(&c)
			err = fmt.Errorf("write again: %w", err)
		}
	}()
	if err := f.readHeads(c.begins); err != nil {
		return err
	}
	old.limitTo(maxIntervals)
	w := writing{salt: rand.Uint32(), slots: max(firstSlots, (len(c.names)*3/2+sector-1)/sector*sector), fault: f.fault,
		synced: time.Now()}
	b := header(uint32(w.slots), w.salt)
	for range 2 {
		end := len(b) + w.slots*recordSize
		b = append(c.appendSlots(b, w.salt), make([]byte, end-len(b)-len(c.slots)*recordSize)...)
	}
	for n := range old.segments {
		b = appendSegment(b, w.salt, &old.segments[n])
	}
	for _, stream := range slices.Sorted(maps.Keys(old.intervals)) {
		for n := range old.intervals[stream] {
			b = appendInterval(b, w.salt, stream, &old.intervals[stream][n])
		}
	}
	b = c.appendLog(b, w.salt)
	w.end = int64(len(b))
	w.large = max(compactAt, 2*w.end)
	if w.f, err = f.create(b); err != nil {
		return err
	}
	if f.f != nil {
		_ = f.f.Close() // it has no name any more
	}
	f.writing = w
	f.done(&c)
	return nil
}

// create puts a file with this content in the place of the one before.
func (f *File) create(b []byte) (disk.File, error) {
	dir, base := filepath.Split(f.path)
	tmp := filepath.Join(dir, "."+base+".tmp")
	out, err := disk.WriteTemporary(f.disk, tmp, fileMode, func(w io.WriterAt) error {
		_, err := w.WriteAt(b, 0)
		return err
	})
	if out == nil {
		return nil, err
	}
	if err == nil {
		err = f.disk.Rename(tmp, f.path)
	}
	if err == nil {
		err = f.disk.SyncDir(filepath.Dir(f.path))
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// readHeads reads the beginnings of segments.
func (f *File) readHeads(begins []segmentRecord) error {
	if len(begins) == 0 {
		return nil
	}
	for range 2 { // one that is renamed during a listing may be missing
		there, err := segment.List(f.journal)
		if err != nil {
			return err
		}
		missing := false
		for n := range begins {
			s := &begins[n]
			at := slices.IndexFunc(there, func(t segment.Segment) bool { return t.FirstSeq == s.first })
			if s.gone = at < 0; s.gone {
				missing = true
			} else {
				s.head = there[at].Head
			}
		}
		if !missing {
			break
		}
	}
	return nil
}
