package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"kubejournal/internal/disk"
)

const fileMode = 0o640

var (
	// ErrLocked says that another process appends to the file.
	ErrLocked = disk.ErrLocked
	// ErrTakenOver says that another process has begun to append to the file, on a
	// volume where locks do nothing.
	ErrTakenOver = disk.ErrTakenOver
	// ErrNotJournal says that the file holds something else.
	ErrNotJournal = errors.New("not a journal of kubejournal")
	// ErrDamaged says that the journal cannot be read where it was not being
	// appended to.
	ErrDamaged = errors.New("damaged")
	// ErrBadLine is for ReadBack's callback: the line is not one of ours.
	ErrBadLine = errors.New("not a journal line")

	lineHead = []byte(`{"seq":`)
)

// Mark is a place between two lines of a journal file.
type Mark struct {
	FirstSeq uint64 // seq of the file's first line, 0 while there is none
	Offset   int64  // bytes from the file's beginning
}

// Options configures a File. SetLimits changes the first four.
type Options struct {
	// MaxSize is the size in bytes above which the active file is rotated; 0 is
	// never. Only a single longer line makes a file larger.
	MaxSize int64
	// MaxAge is how long ago a file may have been rotated before it is removed;
	// 0 is for ever.
	MaxAge time.Duration
	// MaxFiles is how many rotated files are kept; 0 is all.
	MaxFiles int
	// Compress makes gzip files of rotated ones.
	Compress bool

	Disk disk.FS     // default disk.OS
	Log  *zap.Logger // default none
	// Failed is called for each failure to compress or remove, which is retried.
	// Default none.
	Failed func(error)
}

// File is a journal file with its rotated predecessors. Its methods are safe
// for concurrent use; but one goroutine writes, so that Mark and Write belong
// together.
type File struct {
	path    string // of the active file, no symbolic link
	name    naming
	disk    disk.FS
	options atomic.Pointer[Options]
	log     *zap.Logger
	owner   owner
	reading reading
	tidy    tidier

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

	unsynced bool // something was written since the last successful Sync
	// synced is up to where the last successful Sync has surely brought the
	// file; after a failed one, what follows it may have to be written again.
	synced     int64
	failedSync bool
}

// endsAt takes what stands up to size for whole lines that need no verifying.
func (a *active) endsAt(size int64) {
	a.size, a.lineEnd, a.seen = size, size, size
	a.expected.restart(size)
}

// OpenFile opens the journal file at path for appending, and creates it when
// there is none (its folder must exist). A file that another process appends
// to is ErrLocked.
func OpenFile(path string, o Options) (*File, error) {
	if o.Disk == nil {
		o.Disk = disk.OS
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	f, err := o.Disk.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	// Rotated files lie beside the file that a link leads to.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	j := &File{path: path, name: namingOf(path), disk: o.Disk, log: o.Log, active: active{f: f}}
	j.options.Store(&o)
	j.idle.L = &j.mu
	if err := j.open(); err != nil {
		_ = f.Close() // nothing was written
		j.owner.release()
		return nil, err
	}
	j.tidy.start(j)
	return j, nil
}

func (j *File) open() error {
	if err := j.lock(j.active.f); err != nil {
		return err
	}
	// From here on a process that the lock has not kept away appends nothing that it
	// could commit, and what it has appended until now is read back.
	if err := j.owner.claim(j.disk, j.path); err != nil {
		j.log.Warn(err.Error(), zap.String("path", j.path))
	}
	j.checked = j.owner.since
	info, err := j.active.f.Stat()
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if err := j.CheckLimits(*j.options.Load()); err != nil {
		return fmt.Errorf("open journal %s: %w", j.path, err)
	}
	// The file may be new, or made by a predecessor that was killed: without
	// this a power cut could take its name and keep the checkpoint that counts
	// on its lines.
	if err := j.disk.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	j.active.endsAt(info.Size())
	if info.Size() == 0 {
		return nil
	}
	// What a killed predecessor wrote may not be on disk yet.
	j.active.unsynced = true
	var ours bool
	j.active.firstSeq, ours, err = headOf(j.active.f)
	if err != nil {
		return err
	}
	// Whatever is not ours is refused here, before ReadBack could take it for
	// a torn line and cut it.
	if !ours {
		return fmt.Errorf("open journal %s: %w; name another file, or move this one away", j.path, ErrNotJournal)
	}
	return nil
}

// CheckLimits returns why a file cannot be kept within the limits of o.
func (j *File) CheckLimits(o Options) error {
	if o.MaxSize > 0 && unix.Access(filepath.Dir(j.path), unix.W_OK) != nil {
		return errors.New("the folder cannot be written, so the file could not be rotated; let it be written, or set output.maxSize: 0")
	}
	return nil
}

// SetLimits changes when files are rotated, compressed and removed, from the next
// write and the next pass of the tidier on.
func (j *File) SetLimits(o Options) {
	now := *j.options.Load()
	if now.MaxSize == o.MaxSize && now.MaxAge == o.MaxAge && now.MaxFiles == o.MaxFiles && now.Compress == o.Compress {
		return
	}
	now.MaxSize, now.MaxAge, now.MaxFiles, now.Compress = o.MaxSize, o.MaxAge, o.MaxFiles, o.Compress
	j.options.Store(&now)
	j.tidy.wakeUp()
}

// lock locks a file that is to become the active one.
func (j *File) lock(f disk.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open journal %s: not a regular file; use - for stdout", j.path)
	}
	if err := f.Lock(); errors.Is(err, ErrLocked) {
		return fmt.Errorf("open journal %s: %w", j.path, ErrLocked)
	} else if err != nil {
		return fmt.Errorf("lock journal %s: %w", j.path, err)
	}
	return nil
}

// Path returns the active file's path.
func (j *File) Path() string { return j.path }

// Mark returns the place after all that has been written.
func (j *File) Mark() Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Mark{FirstSeq: j.active.firstSeq, Offset: j.active.size}
}

// Write appends a part of p: all of it, or as many whole lines as the active
// file takes before it must be rotated. After an error the first n bytes of p
// stand in the file. In both cases the caller continues with the rest.
func (j *File) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.checked) >= checkEvery {
		if err := j.check(); err != nil {
			return 0, err
		}
	}
	if j.full(p) {
		if err := j.rotate(); err != nil {
			return 0, err
		}
	}
	return j.append(p[:j.fits(p)])
}

// append writes p behind what stands. A crash leaves a torn line, or some of
// its lines and a torn one.
func (j *File) append(p []byte) (int, error) {
	a := &j.active
	a.unsynced = true
	n, err := a.f.WriteAt(p, a.size)
	if a.size == 0 && n > 0 {
		a.firstSeq, _ = lineSeq(p)
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

// full reports whether the active file has to be rotated before p.
func (j *File) full(p []byte) bool {
	most := j.options.Load().MaxSize
	if most <= 0 || j.active.size == 0 || j.active.lineEnd < j.active.size {
		return false
	}
	return j.active.size+lineLength(p) > most
}

// fits returns how many bytes of p go into the active file: whole lines, but for
// the rest of a line that stands there in part; one line at least.
func (j *File) fits(p []byte) int {
	most := j.options.Load().MaxSize
	if most <= 0 || j.active.size+int64(len(p)) <= most {
		return len(p)
	}
	n := lineLength(p)
	if room := most - j.active.size; room > n {
		n = int64(bytes.LastIndexByte(p[:room], '\n') + 1)
	}
	return int(n)
}

func lineLength(p []byte) int64 {
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		return int64(i) + 1
	}
	return int64(len(p))
}

// Committed says that no line up to seq will be read back any more: files that
// hold no later one may be compressed and removed.
func (j *File) Committed(seq uint64) { j.tidy.commit(seq) }

// TidyError returns why rotated files cannot be compressed or removed now, nil when
// they can.
func (j *File) TidyError() error {
	j.tidy.mu.Lock()
	defer j.tidy.mu.Unlock()
	return j.tidy.err
}

// Close closes the file, unsynced. It does not wait for a write that is blocked.
func (j *File) Close() error {
	j.tidy.end()
	if !j.mu.TryLock() {
		return nil
	}
	defer j.mu.Unlock()
	if err := j.active.f.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	j.owner.release()
	return nil
}
