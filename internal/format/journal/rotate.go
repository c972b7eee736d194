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

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// checkEvery is how long the active file may be out of its place before a write notices. A Sync always checks.
const checkEvery = 250 * time.Millisecond

// rotate gives the active file its lasting name and begins a new one. Each step that fails is retried by the next
// Write; a rename that was reported as failed and was done is found by check, as one made by others.
func (j *File) rotate() error {
	if err := j.check(); err != nil {
		return err
	}
	if j.active.size == 0 {
		return nil // check has begun a new file
	}
	if err := j.verifyEnd(); err != nil {
		return err
	}
	// First, so that only the last file of a journal can have a torn end. A crash after it leaves the file active.
	if err := j.syncNow(); err != nil {
		return err
	}
	name, err := j.nextName(time.Now())
	if err != nil {
		return err
	}
	last, err := segment.NewBackward(j.active.f, j.active.size).Next()
	if err != nil {
		return fmt.Errorf("rotate journal: %w", err)
	}
	// Before the rename, after which the tidier may see the file.
	j.tidy.mu.Lock()
	j.tidy.held[name] = last.Seq
	j.tidy.mu.Unlock()
	// Whatever comes of it, the next Write checks first: nothing may be added to a file that has its lasting name.
	j.checked = time.Time{}
	// A crash after it leaves no active file: the next open makes one.
	if err := j.disk.Rename(j.path, filepath.Join(filepath.Dir(j.path), name)); err != nil {
		return fmt.Errorf("rotate journal: %w", err)
	}
	j.newName = true
	j.tidy.wakeUp() // its lines may be committed already
	j.log.Info("rotated the journal", zap.String("to", name), zap.Uint64("firstSeq", j.active.firstSeq),
		zap.Uint64("lastSeq", last.Seq))
	return j.begin(nil)
}

// nextName returns the name for a file rotated now: later than all there are.
func (j *File) nextName(now time.Time) (string, error) {
	entries, err := j.disk.ReadDir(filepath.Dir(j.path))
	if err != nil {
		return "", fmt.Errorf("rotate journal: %w", err)
	}
	now = now.UTC().Truncate(time.Millisecond)
	dir := filepath.Dir(j.path)
	shared := disk.SharedFolder(dir)
	for _, e := range entries {
		// A stranger's could be of the year 9999, after which no name is one.
		if r, ok := j.name.Parse(e.Name()); ok && !r.At.Before(now) &&
			!j.foreign(shared, filepath.Join(dir, e.Name())) {
			now = r.At.Add(time.Millisecond)
		}
	}
	return j.name.Rotated(now), nil
}

// begin makes a new active file that begins with carry. A crash on the way leaves an empty file or a torn line.
func (j *File) begin(carry []byte) error {
	// Whoever may write to the folder may have put a link there since.
	f, err := j.disk.OpenFile(j.path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, segment.FileMode)
	if err != nil {
		return fmt.Errorf("begin journal: %w", err)
	}
	size, err := j.lock(f)
	if size > 0 {
		err = fmt.Errorf("begin journal %s: another file has taken its place, which is not empty; move it away", j.path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	return j.restart(f, carry)
}

// restart makes f the active file, which is to begin with carry; nil is for a file that is empty already.
func (j *File) restart(f disk.File, carry []byte) error {
	j.awaitSync()
	if f != j.active.f {
		_ = j.active.f.Close() // synced, or without a name
		j.newName = true
	}
	// That a file was truncated is to be on disk too before the next commit.
	j.active = active{f: f, unsynced: carry != nil}
	j.active.firstSeq, _ = segment.SeqOf(carry)
	j.active.endsAt(int64(len(carry)))
	j.active.seen = 0 // no check has found it under its name yet
	j.active.lineEnd = int64(bytes.LastIndexByte(carry, '\n') + 1)
	j.carry, j.checked = carry, time.Time{}
	return j.writeCarry()
}

// writeCarry writes what the active file is to begin with, before anything else. The next check retries it.
func (j *File) writeCarry() error {
	if j.carry == nil {
		return nil
	}
	err := j.active.f.Truncate(0)
	if err == nil && len(j.carry) > 0 {
		_, err = j.active.f.WriteAt(j.carry, 0)
	}
	if err != nil {
		return fmt.Errorf("begin journal: %w", err)
	}
	j.carry = nil
	return nil
}

// check makes sure that no other process has begun to append to the journal, and that the active file is in its place
// and not truncated. Where others have done something to it, the journal continues:
//
//   - Renamed: it keeps its lines, and a new one is begun. Lines written before that was noticed went with it.
//   - Removed, replaced or truncated: it is started over with the lines that were written since the last check and can
//     still be read. Any other line is lost, which shows as a hole in seq; and where a start finds a committed one
//     missing, in a GAP with JournalTruncated.
//
// A line that is there in part is completed first, by the next Write, unless the file has no name any more: its blocks
// may be what fills the disk.
func (j *File) check() error {
	if j.reading.running.Load() {
		return nil
	}
	now, a := time.Now(), &j.active
	if err := j.owned(); err != nil {
		return err
	}
	if j.carry != nil {
		return j.writeCarry()
	}
	there, err := j.disk.Stat(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at journal: %w", err)
	}
	is, err := a.f.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	truncated, err := a.truncated(is.Size())
	if err != nil {
		return err
	}
	switch stat, _ := is.Sys().(*syscall.Stat_t); {
	case stat.Nlink == 0: // removed
		return j.beginAnew(min(a.seen, a.lineEnd))
	case a.lineEnd < a.size:
		return nil
	case !os.SameFile(there, is): // also where nothing is there
		return j.beginBehind(is.Size())
	case a.size > 0 && truncated:
		return j.beginAgain(is.Size())
	}
	a.seen, j.checked = a.lineEnd, now
	return nil
}

// truncated reports whether others have truncated the file to size, also where later writes left zeros at its
// beginning.
func (a *active) truncated(size int64) (bool, error) {
	var first [1]byte
	if _, err := a.f.ReadAt(first[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read journal: %w", err)
	}
	return size < a.lineEnd || first[0] != segment.LineHead[0], nil
}

// beginBehind begins a new file after the active one, which others have renamed. The old one is synced as
// after our own Rotation, and cut where a failed write left part of a line: that line goes to the new file.
func (j *File) beginBehind(size int64) error {
	if size > j.active.size {
		if err := j.active.f.Truncate(j.active.size); err != nil {
			return fmt.Errorf("cut unfinished line: %w", err)
		}
		j.active.unsynced = true
	}
	if err := j.syncNow(); err != nil {
		return err
	}
	return j.beginAnew(j.active.size)
}

// beginAnew begins a new file with what the active one, which is not in its place, holds from the offset from on.
func (j *File) beginAnew(from int64) error {
	carry, err := j.readActive(from, j.active.size)
	if err != nil {
		return err
	}
	first := j.active.firstSeq
	if err := j.begin(carry); err != nil {
		return err
	}
	j.log.Warn("the journal file was not in its place any more, began a new one", zap.String("path", j.path),
		zap.Uint64("firstSeqThere", first), zap.Int("bytesCarriedOver", len(carry)))
	return nil
}

// beginAgain begins the active file again, which others have truncated, with the whole lines that were written since
// the last check and can be read. A crash in between leaves lines out that no commit knows of.
func (j *File) beginAgain(size int64) error {
	carry, err := j.readActive(min(j.active.seen, j.active.lineEnd), min(size, j.active.size))
	if err != nil {
		return err
	}
	// Zeros are where the file was truncated before the last writes.
	if carry = bytes.TrimLeft(carry, "\x00"); !bytes.HasPrefix(carry, segment.LineHead) {
		_, carry, _ = bytes.Cut(carry, []byte{'\n'}) // the end of a line that began before
	}
	if !bytes.HasPrefix(carry, segment.LineHead) {
		carry = nil // another's
	}
	carry = append([]byte{}, carry[:bytes.LastIndexByte(carry, '\n')+1]...) // not nil
	j.log.Warn("the journal file was truncated by another process; lines may be missing, seq shows it",
		zap.String("path", j.path), zap.Uint64("firstSeqThere", j.active.firstSeq), zap.Int("bytesKept", len(carry)))
	return j.restart(j.active.f, carry)
}

// readActive reads what the active file holds between two offsets, as far as it reaches.
func (j *File) readActive(from, to int64) ([]byte, error) {
	b := make([]byte, max(0, to-from))
	if _, err := j.active.f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return b, nil
}
