package journal

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"kubejournal/internal/host/disk"
)

// A lock keeps two processes from one journal. On some volumes it does nothing (NFS without a lock daemon, some FUSE
// file systems): there each would write over the other's lines. The owner file (disk.Owner) shows that there is another
// one. It is checked before anything is cut off or renamed, before a commit, and before a write that comes checkEvery
// after the last check. Where an owner file was left behind, ReadBack first waits until the earlier process must have
// noticed, so its last lines are read. A slow write that lands even later is found by Verify.
//
// A process that is suspended between its check and its write, for as long as the other one takes to open the files and
// to commit, can still write over lines. Only a lock that works prevents that.

const (
	// suspectFor is how long after the file was opened all that was written to it is read once more before it counts,
	// where another process had it before: that one begins no write later than checkEvery after it, but a write may
	// take its time.
	suspectFor = 20 * checkEvery

	lastBytes = 64 // of the file's end that are read afterwards
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// owner is this process's claim to the journal.
type owner struct {
	file    *disk.Owner // nil before the file is locked
	since   time.Time
	suspect bool // another process had the file, and no Verify came later than suspectFor
}

// owned returns disk.ErrTakenOver once another process has begun to append to the journal.
func (j *File) owned() error {
	if err := j.owner.file.Check(); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// settle waits until every earlier owner must have seen the owner file, and adopts what it wrote. No write may come
// before.
func (j *File) settle() error {
	if !j.owner.suspect {
		return nil
	}
	<-time.After(checkEvery - time.Since(j.owner.since))
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err := j.active.adopt()
	return err
}

// expected is what Verify expects at the end of the active file.
type expected struct {
	from  int64  // the offset after which nothing was verified yet
	sum   uint32 // CRC-32C of what follows it, while the owner is suspect
	last  []byte // of the last write, at most lastBytes; empty when nothing was written
	reach int64  // up to where a write that has failed may have come
}

// append notes that the first n bytes of p are at offset; what follows them may be behind them or not.
func (e *expected) append(p []byte, n int, offset int64, sum bool) {
	if sum {
		e.sum = crc32.Update(e.sum, castagnoli, p[:n])
	}
	if n > 0 {
		e.last = append(e.last[:0], p[max(0, n-lastBytes):n]...)
	}
	if n < len(p) {
		e.reach = max(e.reach, offset+int64(len(p)))
	}
}

// Verify makes sure that the file holds what was written and that no other process has begun to append to it. Otherwise
// it returns disk.ErrTakenOver, and what was written since the last commit must not be committed. It must come after
// Sync.
func (j *File) Verify() error {
	j.mu.Lock()
	err := j.verifyEnd()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.owned()
}

// verifyEnd compares the active file's end with what was written.
func (j *File) verifyEnd() error {
	a := &j.active
	info, err := a.f.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	intact, err := a.intact(info.Size(), j.owner.suspect)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if intact {
		a.expected.from, a.expected.sum = a.size, 0
		j.owner.suspect = j.owner.suspect && time.Since(j.owner.since) < suspectFor
		return nil
	}
	// It was truncated since the last check; the next Sync begins it again.
	if truncated, err := a.truncated(info.Size()); truncated || err != nil {
		return cmp.Or(err, fmt.Errorf("journal %s was truncated by another process", j.path))
	}
	return fmt.Errorf("journal %s does not end as it was written: %w", j.path, disk.ErrTakenOver)
}

// intact reports whether the file of size bytes holds what was written: all since the last time, or else its end.
func (a *active) intact(size int64, all bool) (bool, error) {
	if size < a.lineEnd || size > max(a.size, a.expected.reach) {
		return false, nil
	}
	if !all {
		b := make([]byte, len(a.expected.last))
		_, err := a.f.ReadAt(b, a.size-int64(len(b)))
		return bytes.Equal(b, a.expected.last), err
	}
	sum := crc32.New(castagnoli)
	_, err := io.Copy(sum, io.NewSectionReader(a.f, a.expected.from, a.size-a.expected.from))
	return sum.Sum32() == a.expected.sum, err
}
