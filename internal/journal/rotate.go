package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/disk"
)

// checkEvery is how long the active file may be out of its place before a
// write notices. A Sync, and so a commit, always looks.
const checkEvery = 250 * time.Millisecond

// rotate gives the active file its lasting name and begins a new one. Each
// step that fails is begun again by the next Write; a rename that failed and
// was done all the same is found by check, as one made by others.
func (j *File) rotate() error {
	if err := j.check(); err != nil {
		return err
	}
	if j.size == 0 {
		return nil // check has begun a new file
	}
	if err := j.verifyEnd(); err != nil {
		return err
	}
	// First, so that only the last file of a journal can have a torn end. A
	// crash behind it leaves the file active.
	if err := j.syncNow(); err != nil {
		return err
	}
	name, err := j.nextName(time.Now())
	if err != nil {
		return err
	}
	last, _, err := seqBefore(j.f, j.size)
	if err != nil {
		return err
	}
	// Before the rename, behind which tidy may see the file.
	j.tidy.hold(name, last)
	// Whatever comes of it, the next Write looks before it writes: nothing may
	// be added to a file that has its lasting name.
	j.checked = time.Time{}
	// A crash behind it leaves no active file: the next open makes one.
	if err := j.disk.Rename(j.path, filepath.Join(filepath.Dir(j.path), name)); err != nil {
		return fmt.Errorf("rotate journal: %w", err)
	}
	j.newName = true
	j.tidy.renamed(name)
	j.log.Info("rotated the journal", zap.String("to", name), zap.Uint64("firstSeq", j.firstSeq), zap.Uint64("lastSeq", last))
	return j.begin(nil)
}

// syncNow syncs the active file before it loses its name. It waits for a Sync
// that runs on it: the system tells of a failure once, and one of the two would
// not hear of it.
func (j *File) syncNow() error {
	j.awaitSync()
	if err := syncFile(j.f, j.synced, j.size, j.failedSync); err != nil {
		j.failedSync = true
		return err
	}
	j.unsynced, j.failedSync, j.synced = false, false, j.size
	return nil
}

// awaitSync waits until no Sync uses the active file.
func (j *File) awaitSync() {
	for j.syncing {
		j.idle.Wait()
	}
}

// nextName is the name for a file rotated now: later than all there are.
func (j *File) nextName(now time.Time) (string, error) {
	entries, err := j.disk.ReadDir(filepath.Dir(j.path))
	if err != nil {
		return "", fmt.Errorf("rotate journal: %w", err)
	}
	now = now.UTC().Truncate(time.Millisecond)
	for _, e := range entries {
		if at, _, ok := j.name.parse(e.Name()); ok && !at.Before(now) {
			now = at.Add(time.Millisecond)
		}
	}
	return j.name.rotated(now), nil
}

// begin makes a new active file, with carry as its first bytes, and lets go of
// the one before. A crash on the way leaves an empty file or a torn line.
func (j *File) begin(carry []byte) error {
	f, err := j.disk.OpenFile(j.path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return fmt.Errorf("begin journal: %w", err)
	}
	if err := j.beginIn(f, carry); err != nil {
		_ = f.Close() // nothing of value is in it
		return err
	}
	return nil
}

func (j *File) beginIn(f disk.File, carry []byte) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("begin journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("begin journal %s: not a regular file", j.path)
	}
	if err := j.lock(f); err != nil {
		return err
	}
	if info.Size() > 0 {
		// A carry that an earlier attempt has written in part; or somebody
		// else's, and not ours to write over.
		b := make([]byte, min(info.Size(), int64(len(carry))))
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || int64(len(b)) < info.Size() || string(b) != string(carry[:len(b)]) {
			return fmt.Errorf("begin journal %s: another file has taken its place, which is not empty; move it away", j.path)
		}
	}
	if len(carry) > 0 {
		if _, err := f.WriteAt(carry, 0); err != nil {
			return fmt.Errorf("begin journal: %w", err)
		}
	}
	j.awaitSync()
	_ = j.f.Close() // synced, or without a name
	j.f = f
	j.firstSeq, j.size, j.lineEnd, j.synced, j.failedSync = 0, 0, 0, 0, false
	j.unsynced, j.newName = len(carry) > 0, true
	j.began(carry)
	j.checked, j.safe = time.Now(), 0
	return nil
}

// began takes note of a file's first bytes.
func (j *File) began(carry []byte) {
	j.end.restart(int64(len(carry)))
	j.firstSeq, _ = lineSeq(carry)
	j.size = int64(len(carry))
	j.lineEnd = int64(bytes.LastIndexByte(carry, '\n') + 1)
}

// check looks whether the active file still stands under its name, with what
// was written to it, and begins a new one where others have taken it away:
//
//   - renamed (logrotate): it keeps its lines;
//   - removed, or replaced: what has been written since it was last seen in its
//     place stands nowhere any more, and becomes the beginning of the new one;
//   - truncated in place (copytruncate): what was written since goes to the
//     front. Lines that came between the copying and the truncating are lost:
//     nobody can know them. seq shows it.
//
// A line that stands there in part is completed first, unless the file has no
// name any more.
func (j *File) check() error {
	if j.reading {
		return nil
	}
	now := time.Now()
	if err := j.owned(); err != nil {
		return err
	}
	j.ownedAt = now
	if j.again != nil {
		return j.beginAgain()
	}
	at, err := j.disk.Stat(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at journal: %w", err)
	}
	inPlace := err == nil
	is, err := j.f.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	inPlace = inPlace && os.SameFile(at, is)
	torn := j.lineEnd < j.size
	switch {
	case removed(is):
		return j.replace(min(j.safe, j.lineEnd))
	case torn:
		return nil
	case inPlace:
		return j.checkContent(is)
	}
	// Renamed. It is synced like one that we have rotated, without what a write
	// that failed may have left behind: that line will stand in the new file.
	if is.Size() > j.size {
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("cut unfinished line: %w", err)
		}
		j.unsynced = true
	}
	if err := j.syncNow(); err != nil {
		return err
	}
	return j.replace(j.size)
}

// removed tells whether a file has no name any more.
func removed(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}

// replace begins a new file in the place of one that was taken away, with what
// that holds from the offset from on.
func (j *File) replace(from int64) error {
	carry := make([]byte, j.size-from)
	if _, err := j.f.ReadAt(carry, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read journal: %w", err)
	}
	first := j.firstSeq
	if err := j.begin(carry); err != nil {
		return err
	}
	j.log.Warn("the journal file was not in its place any more, began a new one", zap.String("path", j.path),
		zap.Uint64("firstSeqThere", first), zap.Int("bytesCarriedOver", len(carry)))
	return nil
}

// checkContent looks whether the active file was truncated by others.
func (j *File) checkContent(info fs.FileInfo) error {
	first := []byte{lineHead[0]}
	if j.size > 0 {
		if _, err := j.f.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read journal: %w", err)
		}
	}
	if info.Size() >= j.lineEnd && first[0] == lineHead[0] {
		j.checked, j.safe = time.Now(), j.lineEnd
		return nil
	}
	from := min(j.safe, j.lineEnd)
	carry := make([]byte, max(0, min(info.Size(), j.size)-from))
	if _, err := j.f.ReadAt(carry, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read journal: %w", err)
	}
	carry = bytes.TrimLeft(carry, "\x00")
	if !bytes.HasPrefix(carry, lineHead) {
		// The end of a line that began before, or another's.
		carry = carry[bytes.IndexByte(carry, '\n')+1:]
	}
	if !bytes.HasPrefix(carry, lineHead) {
		carry = nil
	}
	if info.Size() < j.lineEnd {
		carry = carry[:bytes.LastIndexByte(carry, '\n')+1] // cut within a line
	}
	j.log.Warn("the journal file was truncated by another process; lines may be missing, seq shows it",
		zap.String("path", j.path), zap.Uint64("firstSeqThere", j.firstSeq), zap.Int("bytesKept", len(carry)))
	j.again = append([]byte{}, carry...)
	return j.beginAgain()
}

// beginAgain begins a file anew that others have truncated. A crash in between
// leaves lines out that no commit knows of. Until it has succeeded nothing else
// is written.
func (j *File) beginAgain() error {
	j.checked = time.Time{}
	j.awaitSync()
	if err := j.f.Truncate(0); err != nil {
		return fmt.Errorf("begin journal again: %w", err)
	}
	if _, err := j.f.WriteAt(j.again, 0); err != nil {
		return fmt.Errorf("begin journal again: %w", err)
	}
	j.began(j.again)
	j.again, j.synced, j.unsynced = nil, 0, true
	j.checked, j.safe = time.Now(), j.lineEnd
	return nil
}
