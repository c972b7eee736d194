package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// A lock keeps two processes from one journal. On some volumes it does nothing (NFS
// without a lock daemon, some FUSE file systems): then each would write over the
// other's lines. The note of disk.Owner tells of the other one, before something is
// cut off or renamed, before a commit, and before a write that comes after a pause.
// What the other may have written until it found out is read back, since ReadBack waits for
// that long where the last process has left its note; and what comes later still, in a write
// that took its time, is seen by Verify.
//
// A process that is stopped between its look at the note and its write, for as long as
// the other one takes to open the files and to commit, can still write over lines.
// Only a lock that works keeps it from that.

const (
	// youth is how long after the file was opened all that was written to it is read once
	// more before it counts, where another process had the file before. That one begins no
	// write later than checkEvery after it was opened, but one may take its time.
	youth = 20 * checkEvery

	// lastBytes is how much of the file's end is read afterwards.
	lastBytes = 64
)

// end is what is known of the bytes at a file's end. All of it is guarded by the
// File's mu.
type end struct {
	young bool   // another process had the file, and no Verify came later than youth
	from  int64  // the offset behind which nothing was verified yet
	sum   uint32 // CRC-32C of what follows it, while young
	last  []byte // of the last write, at most lastBytes; empty when nothing was written
	reach int64  // up to where a write that has failed may have come
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// append notes that the first n bytes of p stand at off; what follows them may stand
// behind them or not.
func (e *end) append(p []byte, n int, off int64) {
	if e.young {
		e.sum = crc32.Update(e.sum, crcTable, p[:n])
	}
	if n > 0 {
		e.last = append(e.last[:0], p[max(0, n-lastBytes):n]...)
	}
	if n < len(p) {
		e.reach = max(e.reach, off+int64(len(p)))
	}
}

// restart notes that a file ends at size, with bytes that need no verifying.
func (e *end) restart(size int64) {
	e.from, e.sum, e.last, e.reach = size, 0, e.last[:0], 0
}

// owned returns ErrTakenOver once another process has begun to append to the
// journal.
func (j *File) owned() error {
	if err := j.owner.Check(); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// settle waits until every earlier owner must have seen the owner file, and takes
// what it has written for a part of the file. It is for the time before the first
// write.
func (j *File) settle() error {
	if j.alone {
		return nil
	}
	if rest := checkEvery - time.Since(j.opened); rest > 0 {
		<-time.After(rest)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	info, err := j.f.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	j.size, j.lineEnd, j.safe = info.Size(), info.Size(), info.Size()
	j.end.restart(j.size)
	if j.firstSeq, _, err = headOf(j.f); err != nil {
		return err
	}
	j.unsynced = j.unsynced || j.size > 0
	j.alone = true
	return nil
}

// Verify makes sure that what was written stands in the file and that no other process
// has begun to append to it; else it returns ErrTakenOver, and what was written
// since the last commit must not be committed. It is to be called behind Sync.
func (j *File) Verify() error {
	j.mu.Lock()
	err := j.verifyEnd()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.owned()
}

// verifyEnd looks at the active file's end.
func (j *File) verifyEnd() error {
	info, err := j.f.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	if info.Size() < j.lineEnd {
		return j.truncated()
	}
	intact := info.Size() <= max(j.size, j.end.reach)
	if intact {
		if intact, err = j.intact(); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
	}
	if !intact {
		first := []byte{0}
		if _, err := j.f.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read journal: %w", err)
		}
		if first[0] != lineHead[0] {
			return j.truncated()
		}
		return fmt.Errorf("journal %s does not end as it was written: %w", j.path, ErrTakenOver)
	}
	j.end.from, j.end.sum = j.size, 0
	j.end.young = j.end.young && time.Since(j.opened) < youth
	return nil
}

// truncated is the error for a file that others have truncated since check saw it last:
// the next Sync mends it.
func (j *File) truncated() error {
	return fmt.Errorf("journal %s was truncated by another process", j.path)
}

// intact reports whether what was written stands in the file.
func (j *File) intact() (bool, error) {
	if !j.end.young {
		b := make([]byte, len(j.end.last))
		_, err := j.f.ReadAt(b, j.size-int64(len(b)))
		return bytes.Equal(b, j.end.last), err
	}
	sum := crc32.New(crcTable)
	_, err := io.Copy(sum, io.NewSectionReader(j.f, j.end.from, j.size-j.end.from))
	return sum.Sum32() == j.end.sum, err
}
