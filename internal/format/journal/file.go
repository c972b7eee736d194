// Package journal writes the output: it appends lines, rotates the file, compresses and removes rotated ones, and at a
// start continues where the last commit was. Package segment knows the files, and reads their lines.
//
// The output is a file or a stream (stdout). Of a file the journal guarantees:
//
//   - A line is written once, at the end. What has been written never changes or vanishes, but for a last line without
//     its end (torn by a crash), which ReadBack cuts off before anything is appended.
//   - One process appends to it at a time (flock; readers are not hindered). Where flock does nothing, a second one is
//     noticed before a commit counts on lines that are not there (see verify.go).
//   - After a failed or partial write the next Write begins after what is known to be in the file, and overwrites what
//     may be there beyond it with the same bytes, so that no line ever begins in the middle of another.
//   - A line is in one segment as a whole, and seq continues from segment to segment.
//
// What is read back is read as any other reader does; check (rotate.go) and verify.go compare bytes of the active file.
//
// # Rotation, step by step
//
//  1. The active file is synced. A crash leaves it active.
//  2. It is renamed. A crash leaves no active file; the next open makes one.
//  3. A new active file is created and locked. A crash leaves it empty.
//  4. The folder is synced, at the latest before the next commit. A power cut before that may undo steps 2 and 3, or
//     only 3, and take the lines of the new file with them: no commit knows of these.
//
// What was committed is known by the seq of a segment's first line and an offset (Mark), not by a name. ReadBack finds
// that segment under any name that segment.List lists, continues from there through the segments that follow it in seq,
// and so survives a crash between any two steps. For files that others rotate see check in rotate.go, for compressing
// and removing tidy.go.
package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

var (
	// ErrNotJournal says that the file holds something else.
	ErrNotJournal = errors.New("not a journal of kubejournal")
	// ErrDamaged says that the journal cannot be read where it was not being appended to.
	ErrDamaged = errors.New("damaged")
	// ErrBadLine is for ReadBack's callback: the line is not one of ours.
	ErrBadLine = errors.New("not a journal line")
)

// Mark is a place between two lines of a journal file.
type Mark struct {
	FirstSeq uint64 // seq of the file's first line, 0 while there is none
	Offset   int64  // bytes from the file's beginning
}

// Options configures a File. SetLimits changes the first seven.
type Options struct {
	// bytes above which the active file is rotated; 0 is never. Only a single longer line makes it larger
	MaxSize  int64
	MaxAge   time.Duration // how long ago a file may have been rotated before it is removed; 0 is for ever
	MaxFiles int           // Rotated files that are kept, and all that are younger than MinAge; 0 is all
	// MinAge is how long ago a line must have been written at least before it is removed, as long as its namespace is
	// not the one that takes most room: see compact.go.
	MinAge time.Duration
	// MaxTotalSize is how many bytes all files may have, with their indexes; 0 is no limit. A rotated file counts as
	// what it is compressed to.
	MaxTotalSize int64
	Compress     bool // makes gzip files of rotated ones
	Seal         bool // has the tidier find out what is to be said of rotated files, for File.Seal

	Disk   disk.FS     // default disk.OS
	Log    *zap.Logger // default none
	Failed func(error) // is called for each failure to compress or remove, which is retried; default none
	// Removed is called for each file that is removed by a limit, and with the number of lines where only those of one
	// namespace are; default none.
	Removed func(limit string, lines int)
}

// RotationError is an error of Write where not the write failed, but the rotation before it.
type RotationError struct{ Err error }

func (e *RotationError) Error() string { return e.Err.Error() }

func (e *RotationError) Unwrap() error { return e.Err }

// File is a journal file with its rotated predecessors. Its methods are safe for concurrent use, but one goroutine
// writes.
type File struct {
	path    string // of the active file, no symbolic link
	name    segment.Names
	disk    disk.FS
	options atomic.Pointer[Options]
	log     *zap.Logger
	owner   owner
	reading reading
	tidy    tidier
	extent  atomic.Pointer[Extent]

	strangers sync.Map // paths of files of others, by which each is logged once

	mu      sync.Mutex
	active  active    // guarded by mu, and so is all below
	carry   []byte    // what the active file must begin with before anything else is written to it; nil for nothing
	newName bool      // the folder holds names that are not synced yet
	syncing bool      // a Sync runs on active.f, beside mu; the file stays open and active until it ends
	idle    sync.Cond // for syncing to become false
	checked time.Time // when the owner and the active file's place were last checked
}

// active is the file that lines are appended to.
type active struct {
	f        disk.File
	firstSeq uint64 // of its first line, 0 where there is none
	size     int64  // bytes
	lineEnd  int64  // where its last complete line ends
	seen     int64  // its size when it was last seen in its place
	expected expected

	unsynced   bool  // something was written since the last successful Sync
	synced     int64 // up to where a successful Sync has surely brought the file
	failedSync bool  // what follows synced may have to be written again
}

// endsAt sets the end to size and assumes that everything up to there is whole lines, which need no verifying.
func (a *active) endsAt(size int64) {
	a.size, a.lineEnd, a.seen = size, size, size
	a.expected = expected{from: size, last: a.expected.last[:0]}
}

// adopt assumes that an earlier process wrote whole lines only. ours reports whether it can be the beginning of a
// journal.
func (a *active) adopt() (ours bool, err error) {
	info, err := a.f.Stat()
	if err != nil {
		return false, fmt.Errorf("look at journal: %w", err)
	}
	a.endsAt(info.Size())
	// What a killed predecessor wrote may not be on disk yet.
	a.unsynced = a.unsynced || a.size > 0
	var head segment.Segment
	if err := head.ReadHead(a.f); err != nil {
		return false, fmt.Errorf("read journal: %w", err)
	}
	a.firstSeq = head.FirstSeq
	return head.Unread == nil, nil
}

// OpenFile opens or creates the journal file at path, in an existing folder: disk.ErrLocked where another process has
// it.
func OpenFile(path string, o Options) (*File, error) {
	o.Disk, o.Log = cmp.Or(o.Disk, disk.OS), cmp.Or(o.Log, zap.NewNop())
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Removed == nil {
		o.Removed = func(string, int) {}
	}
	path = disk.Absolute(path)
	if err := disk.CheckLink(path); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	f, err := o.Disk.OpenFile(path, os.O_RDWR|os.O_CREATE, segment.FileMode)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	// Rotated files lie beside the file that a link leads to.
	path = disk.Real(path)
	j := &File{path: path, name: segment.NamesOf(path), disk: o.Disk, log: o.Log, active: active{f: f}}
	j.options.Store(&o)
	j.reading.lister.Disk, j.tidy.lister.Disk = o.Disk, o.Disk
	j.idle.L = &j.mu
	if err := j.open(); err != nil {
		_ = f.Close() // nothing was written
		if j.owner.file != nil {
			j.owner.file.Release()
		}
		return nil, err
	}
	j.extent.Store(new(Extent))
	j.survey()
	j.tidy.start(j)
	return j, nil
}

func (j *File) open() error {
	if _, err := j.lock(j.active.f); err != nil {
		return err
	}
	// From here on a process that the lock has not kept away cannot commit what it appends. What it has appended is
	// read back.
	var err error
	if j.owner.file, err = disk.Claim(j.disk, j.path); err != nil {
		j.log.Warn(err.Error(), zap.String("path", j.path))
	}
	j.owner.since, j.owner.suspect = time.Now(), j.owner.file.Inherited
	j.checked = j.owner.since
	if err := j.CheckLimits(*j.options.Load()); err != nil {
		return fmt.Errorf("open journal %s: %w", j.path, err)
	}
	// Otherwise a power cut could take the name of a new file and keep the checkpoint that counts on its lines.
	if err := j.disk.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	ours, err := j.active.adopt()
	if err == nil && !ours { // else ReadBack would cut it off as a torn line
		return fmt.Errorf("open journal %s: %w; name another file, or move this one away", j.path, ErrNotJournal)
	}
	return err
}

// CheckLimits returns why a file cannot be kept within the limits of o.
func (j *File) CheckLimits(o Options) error {
	if o.MaxSize > 0 && unix.Access(filepath.Dir(j.path), unix.W_OK) != nil {
		return errors.New("the folder cannot be written, so the file could not be rotated; let it be written, or set " +
			"output.maxSize: 0")
	}
	return nil
}

// SetLimits changes when files are rotated, compressed and removed, from the next write and the next pass of the tidier
// on.
func (j *File) SetLimits(o Options) {
	now := j.options.Load()
	o.Disk, o.Log, o.Failed, o.Removed = now.Disk, now.Log, now.Failed, now.Removed
	j.options.Store(&o)
	j.tidy.wakeUp()
}

// lock locks a file that is to become the active one, and returns its size.
func (j *File) lock(f disk.File) (int64, error) {
	if err := f.Lock(); errors.Is(err, disk.ErrLocked) {
		return 0, fmt.Errorf("open journal %s: %w", j.path, err)
	} else if err != nil {
		return 0, fmt.Errorf("lock journal %s: %w", j.path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("open journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("open journal %s: not a regular file; use - for stdout", j.path)
	}
	if err := disk.CheckForeign(j.path, info); err != nil {
		return 0, fmt.Errorf("open journal: %w", err)
	}
	return info.Size(), nil
}

// Path returns the active file's path.
func (j *File) Path() string { return j.path }

// Mark returns the place after all that has been written.
func (j *File) Mark() Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Mark{FirstSeq: j.active.firstSeq, Offset: j.active.size}
}

// Write appends a part of p: all of it, or as many whole lines as the active file takes before it must be rotated.
// After an error the first n bytes of p are in the file. In both cases the caller continues with the rest.
func (j *File) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.checked) >= checkEvery {
		if err := j.check(); err != nil {
			return 0, err
		}
	}
	n := j.fits(p)
	for n == 0 && len(p) > 0 {
		if err := j.rotate(); err != nil {
			return 0, &RotationError{err}
		}
		n = j.fits(p)
	}
	return j.append(p[:n])
}

// fits returns how many bytes of p go into the active file: whole lines, or the rest of one that is there in part; 0
// where the file has to be rotated before. An empty file takes one line of any length.
func (j *File) fits(p []byte) int {
	a, most := &j.active, j.options.Load().MaxSize
	room := most - a.size
	if most <= 0 || int64(len(p)) <= room {
		return len(p)
	}
	if i := bytes.LastIndexByte(p[:max(0, room)], '\n'); i >= 0 {
		return i + 1
	}
	if a.size > 0 && a.lineEnd == a.size {
		return 0
	}
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		return i + 1
	}
	return len(p)
}

// append writes p after what the active file holds. A crash leaves a torn line, or some of its lines and a torn one.
func (j *File) append(p []byte) (int, error) {
	a := &j.active
	a.unsynced = true
	n, err := a.f.WriteAt(p, a.size)
	if a.size == 0 && n > 0 {
		a.firstSeq, _ = segment.SeqOf(p)
		j.began(p[:n])
	}
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		a.lineEnd = a.size + int64(i) + 1
	}
	a.expected.append(p, n, a.size, j.owner.suspect)
	a.size += int64(n)
	if err != nil {
		j.tidy.wakeUp() // a file that is due to be removed may be what fills the disk
		return n, fmt.Errorf("write journal: %w", err)
	}
	return n, nil
}

// Close closes the file, unsynced. It does not wait for a write that is blocked.
func (j *File) Close() error {
	j.tidy.stop()
	j.tidy.running.Wait()
	if !j.mu.TryLock() {
		return nil
	}
	defer j.mu.Unlock()
	if err := j.active.f.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	j.owner.file.Release()
	return nil
}
