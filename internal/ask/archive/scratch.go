package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kubejournal/internal/host/disk"
)

// Merged lines are in a folder of their own in TMPDIR, whose lock is held until it is removed. A run that is killed
// leaves it, without the lock, and the next one that merges removes it.
const scratchPrefix = "kubejournal-merge-"

// scratchAge is how old a folder without a lock is that is removed: a younger one may be about to be locked.
const scratchAge = time.Minute

// newScratch creates and locks a folder.
func newScratch() (dir string, lock *os.File, err error) {
	removeScratches()
	if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
		return "", nil, err
	}
	disk.NoteTemporary(dir) // until the process ends: a folder that is gone is no matter
	if lock, err = os.Open(dir); err == nil {
		_ = disk.Lock(lock) // where the volume has no locks, nobody else gets it either
		return dir, lock, nil
	}
	return "", nil, errors.Join(err, os.Remove(dir))
}

// removeScratches removes what runs that were killed have left.
func removeScratches() {
	entries, _ := os.ReadDir(os.TempDir()) // what is there stays
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) ||
			time.Since(info.ModTime()) < scratchAge {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		lock, err := os.Open(dir)
		if err != nil {
			continue // gone, or not ours
		}
		if disk.Lock(lock) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close() // nothing was written
	}
}
