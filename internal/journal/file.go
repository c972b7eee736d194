package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// Options is what a File may be told. SetLimits changes the first four.
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
	// Failed is called for each failure to compress or remove; it is tried
	// again. Default none.
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

	mu       sync.Mutex
	f        disk.File // the active file; guarded by mu, and so is all below
	firstSeq uint64    // of its first line, 0 when there is none
	size     int64     // bytes
	lineEnd  int64     // where its last complete line ends
	unsynced bool      // something was written since the last successful Sync
	// synced is up to where the last successful Sync has surely brought the
	// file; after a failed one, what follows it may have to be written again.
	synced     int64
	failedSync bool
	newName    bool      // the folder holds names that are not synced yet
	syncing    bool      // a Sync runs on f, beside mu; f stays open and active until it ends
	idle       sync.Cond // for syncing to become false
	checked    time.Time // when the active file was last seen in its place
	safe       int64     // its size then
	again      []byte    // what a truncated file is to begin with; nil when there is nothing to mend
	reading    bool      // ReadBack runs: the files stay as they are
	end        end       // what Verify expects
	ownedAt    time.Time // when no other process had begun to append to it
	lastSeq    uint64    // of the last line, as ReadBack found it

	at            *Position    // ReadBack's own
	passed, total atomic.Int64 // bytes, of what ReadBack reads

	owner  *disk.Owner
	opened time.Time // and owned from then on
	alone  bool      // no process writes any more that had the file before
	tidy   tidier
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
	j := &File{path: path, name: namingOf(path), disk: o.Disk, log: o.Log, f: f}
	j.options.Store(&o)
	j.idle.L = &j.mu
	if err := j.open(); err != nil {
		_ = f.Close() // nothing was written
		if j.owner != nil {
			j.owner.Release()
		}
		return nil, err
	}
	j.tidy.start(j)
	return j, nil
}

func (j *File) open() error {
	info, err := j.f.Stat()
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open journal %s: not a regular file; use - for stdout", j.path)
	}
	if err := j.lock(j.f); err != nil {
		return err
	}
	// From here on a process that the lock has not kept away appends nothing that it
	// could commit, and what it has appended until now is read back.
	if j.owner, err = disk.Claim(j.disk, j.path); err != nil {
		j.log.Warn(err.Error(), zap.String("path", j.path))
	}
	j.opened, j.ownedAt = time.Now(), time.Now()
	j.alone = !j.owner.Inherited()
	if info, err = j.f.Stat(); err != nil {
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
	j.size, j.lineEnd, j.safe, j.checked = info.Size(), info.Size(), info.Size(), time.Now()
	j.end.young = !j.alone
	j.end.restart(j.size)
	if j.size == 0 {
		return nil
	}
	// What a killed predecessor wrote may not be on disk yet.
	j.unsynced = true
	var ours bool
	j.firstSeq, ours, err = headOf(j.f)
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

// CheckLimits tells why a file cannot be kept within the limits of o.
func (j *File) CheckLimits(o Options) error {
	if o.MaxSize > 0 && unix.Access(filepath.Dir(j.path), unix.W_OK) != nil {
		return errors.New("the folder cannot be written, so the file could not be rotated; let it be written, or set output.maxSize: 0")
	}
	return nil
}

// SetLimits changes when files are rotated, compressed and removed, from the next
// write and the next look at them on.
func (j *File) SetLimits(o Options) {
	now := *j.options.Load()
	if now.MaxSize == o.MaxSize && now.MaxAge == o.MaxAge && now.MaxFiles == o.MaxFiles && now.Compress == o.Compress {
		return
	}
	now.MaxSize, now.MaxAge, now.MaxFiles, now.Compress = o.MaxSize, o.MaxAge, o.MaxFiles, o.Compress
	j.options.Store(&now)
	j.tidy.wakeUp()
}

func (j *File) lock(f disk.File) error {
	if err := f.Lock(); errors.Is(err, ErrLocked) {
		return fmt.Errorf("open journal %s: %w", j.path, ErrLocked)
	} else if err != nil {
		return fmt.Errorf("lock journal %s: %w", j.path, err)
	}
	return nil
}

// headOf returns the seq of a file's first line, 0 when that ends before its
// seq does. ours tells whether it can be the beginning of a journal.
func headOf(r io.ReaderAt) (seq uint64, ours bool, err error) {
	var head [64]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false, fmt.Errorf("read journal: %w", err)
	}
	seq, ours = lineSeq(head[:n])
	return seq, ours || tornHead(head[:n]), nil
}

// lineSeq returns the number after {"seq": at the beginning of a line.
func lineSeq(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, lineHead)
	if !ok {
		return 0, false
	}
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	if end == 0 || end == len(rest) {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil && seq > 0
}

// tornHead tells whether b, the beginning of a file, is that of a first line
// which ends before its seq does. A power cut may leave zeros where blocks were
// never written.
func tornHead(b []byte) bool {
	if zero := bytes.IndexByte(b, 0); zero >= 0 && len(bytes.Trim(b[zero:], "\x00")) == 0 {
		b = b[:zero]
	}
	if len(b) <= len(lineHead) {
		return bytes.HasPrefix(lineHead, b)
	}
	_, ok := lineSeq(append(b[:len(b):len(b)], ','))
	return ok
}

// LastSeq is the seq of the last line that ReadBack found, 0 when there is
// none. Where it is lower than the last committed one, lines were taken away
// from outside.
func (j *File) LastSeq() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastSeq
}

// Path is the active file's path.
func (j *File) Path() string { return j.path }

// Fresh tells whether there is no line yet, in any of the journal's files.
func (j *File) Fresh() (bool, error) {
	all, err := j.segments()
	return err == nil && len(all) == 1 && j.size == 0, err
}

// Mark is the place after all that has been written.
func (j *File) Mark() Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Mark{FirstSeq: j.firstSeq, Offset: j.size}
}

// Write appends a part of p: all of it, or as many whole lines as the active
// file takes before it must be rotated. After an error the first n bytes of p
// stand in the file. In both cases the caller goes on with the rest.
func (j *File) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.checked) >= checkEvery || time.Since(j.ownedAt) >= checkEvery {
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
	j.unsynced = true
	n, err := j.f.WriteAt(p, j.size)
	if j.size == 0 && n > 0 {
		j.firstSeq, _ = lineSeq(p)
	}
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		j.lineEnd = j.size + int64(i) + 1
	}
	j.end.append(p, n, j.size)
	j.size += int64(n)
	if err != nil {
		j.tidy.wakeUp() // a file that is due to be removed may be what fills the disk
		return n, fmt.Errorf("write journal: %w", err)
	}
	return n, nil
}

// full tells whether the active file has to be rotated before p.
func (j *File) full(p []byte) bool {
	most := j.options.Load().MaxSize
	if most <= 0 || j.size == 0 || j.lineEnd < j.size {
		return false
	}
	return j.size+lineLength(p) > most
}

// fits is how many bytes of p go into the active file: whole lines, but for
// the rest of a line that stands there in part; one line at least.
func (j *File) fits(p []byte) int {
	most := j.options.Load().MaxSize
	if most <= 0 || j.size+int64(len(p)) <= most {
		return len(p)
	}
	n := lineLength(p)
	if room := most - j.size; room > n {
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

// TidyError is why rotated files cannot be compressed or removed now, nil when
// they can.
func (j *File) TidyError() error { return j.tidy.failure() }

// Close closes the file, unsynced. A write that is blocked is left behind.
func (j *File) Close() error {
	j.tidy.end()
	if !j.mu.TryLock() {
		return nil
	}
	defer j.mu.Unlock()
	if err := j.f.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	j.owner.Release()
	return nil
}
