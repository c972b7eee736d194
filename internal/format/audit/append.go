package audit

import (
	"errors"
	"fmt"
	"time"

	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/format/segment"
)

const (
	smallBlock = 4 << 10 // bytes; a full block is larger: checksums of ids do not compress
	mostSmall  = 256     // blocks that are smaller, above which Append writes the file anew
)

// Append is Merge for entries that mostly come after those that the file has: then it appends blocks, and syncs.
// Otherwise, and to put small blocks together, to drop the entries of lines before oldest, and where an append before
// has left a torn end, it merges.
//
// After a crash the last blocks may be incomplete or, after a power cut, have other bytes than were written: then their
// checksum does not match. Readers skip both, and the next Append removes an incomplete one.
func Append(path string, oldest uint64, add []Entry) error {
	if len(add) == 0 {
		return nil
	}
	appended, err := appendTo(segment.AuditPath(path), oldest, add)
	if err != nil {
		return fmt.Errorf("write %s: %w", segment.AuditPath(path), err)
	}
	if !appended {
		_, err = Merge(path, oldest, add)
	}
	return err
}

// appendTo appends entries, if the file is such that they can be.
func appendTo(path string, oldest uint64, add []Entry) (appended bool, err error) {
	f, err := lock(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it is synced
	old, err := scan(f)
	if err != nil || old.Damaged != nil || len(old.blocks) == 0 {
		return false, err
	}
	small, gone := 0, 0
	for _, b := range old.blocks {
		if b.size < smallBlock {
			small++
		}
		if b.last < oldest {
			gone++
		}
	}
	last := old.blocks[len(old.blocks)-1]
	if small > mostSmall || gone > len(old.blocks)/4 || add[0].Seq <= last.last {
		return false, nil
	}
	end := last.at + int64(last.size)
	w := &writer{w: f, end: end}
	for _, e := range add {
		w.entry(e)
	}
	w.flush()
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil { // what was not synced must not look as if it were
		return false, errors.Join(w.err, f.Truncate(end))
	}
	return true, nil
}

// Last returns the seq of the last entry of the side file of the journal whose active file is at path; 0 where there is
// none. A last block that a power cut has left damaged does not count.
func Last(path string) (uint64, error) {
	x, err := Open(path)
	if err != nil || x == nil {
		return 0, err
	}
	defer x.Close()
	for n := len(x.blocks) - 1; n >= 0; n-- {
		if all, err := x.entries(n); err == nil && len(all) > 0 {
			return all[len(all)-1].Seq, nil
		}
	}
	return 0, nil
}

// Time returns when a line of an audit log was written, zero where it is no event.
func Time(line []byte) time.Time {
	for key, v := range rawjson.Members(rawjson.TrimSpace(line)) {
		if string(key) == "stageTimestamp" {
			return instant(v)
		}
	}
	return time.Time{}
}
