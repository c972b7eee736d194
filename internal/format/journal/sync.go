package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"kubejournal/internal/host/disk"
)

// rewriteChunk is how much of a file is rewritten at once, in bytes.
const rewriteChunk = 1 << 20

// ErrUnsynced says that lines were lost on their way to the disk: the system could not write them, and does not have
// them any more. The next start reads the journal up to them, and the server sends them again.
var ErrUnsynced = errors.New("lines written before could not be brought to the disk")

// Sync makes everything written before the call outlast a power cut, the names of the files too. It does nothing when
// nothing was written since. It may run beside Write.
//
// After a failed sync the operating system may count the pages as written all the same, and report no error the next
// time (fsync(2); PostgreSQL's "fsyncgate" of 2018). So what was written since the last good sync is written once more
// before the next attempt.
func (j *File) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.check(); err != nil {
		return err
	}
	if j.newName {
		// Lines must not count before the name that they have does.
		if err := j.disk.SyncDir(filepath.Dir(j.path)); err != nil {
			return err
		}
		j.newName = false
	}
	if !j.active.unsynced {
		return nil
	}
	before := j.active
	j.active.unsynced, j.syncing = false, true

	j.mu.Unlock()
	err := before.sync()
	j.mu.Lock()

	j.syncing = false
	j.idle.Broadcast()
	j.active.endSync(before.size, err)
	return err
}

// syncNow syncs the active file before it loses its name, after a Sync that runs on it: the system reports a failure
// once.
func (j *File) syncNow() error {
	j.awaitSync()
	j.active.unsynced = false
	err := j.active.sync()
	j.active.endSync(j.active.size, err)
	return err
}

// awaitSync waits until no Sync uses the active file.
func (j *File) awaitSync() {
	for j.syncing {
		j.idle.Wait()
	}
}

// endSync notes the result of a sync of the file's first size bytes.
func (a *active) endSync(size int64, err error) {
	if a.failedSync = err != nil; a.failedSync {
		a.unsynced = true
	} else {
		a.synced = size
	}
}

// sync brings the file to the disk, after what a failed one left to write again. A crash in between leaves the same
// bytes.
func (a *active) sync() (err error) {
	if a.failedSync {
		err = rewrite(a.f, a.synced, a.size)
	}
	if err == nil {
		err = a.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// rewrite writes the bytes [from, to) of f to the same place. A journal only grows, and its lines have no zero bytes:
// where there are some, the page was dropped.
func rewrite(f disk.File, from, to int64) error {
	b := make([]byte, min(to-from, rewriteChunk))
	for from < to {
		b = b[:min(to-from, int64(len(b)))]
		if _, err := f.ReadAt(b, from); err != nil {
			return err
		}
		if bytes.IndexByte(b, 0) >= 0 {
			return ErrUnsynced
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}
