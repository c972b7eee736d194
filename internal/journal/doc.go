// Package journal appends lines to the output, rotates it, and reads its lines back.
//
// The output is a file or a stream (stdout). Of a file the journal guarantees:
//
//   - A line is written once, at the end. What has been written never changes
//     or vanishes, but for a last line without its end (torn by a crash), which
//     ReadBack cuts off before anything is appended.
//   - One process appends to it at a time (flock; readers are not hindered). Where
//     flock does nothing, a second one is noticed before a commit counts on lines
//     that are not there (see verify.go).
//   - After a failed or partial write the next Write begins behind what is known
//     to stand, and overwrites what may stand beyond it with the same bytes, so that
//     no line ever begins in the middle of another.
//   - A line is in one segment as a whole, and seq continues from segment to segment.
//
// # The files
//
//	journal.jsonl                               active: the one appended to
//	journal-2026-11-20T16-10-22.123.jsonl       rotated, named by the time of its rotation (UTC)
//	journal-2026-11-20T16-10-22.123.jsonl.gz    the same, compressed
//	.journal-2026-11-20T16-10-22.123.jsonl.gz.tmp  being compressed; nobody reads it
//	.journal.jsonl.owner                        the id of the process that appends (see disk.Owner)
//
// Names rise with seq even where the clock goes back. Where a plain and a
// compressed file of one name exist, the compressed one is complete and the
// plain one is about to be removed.
//
// Segments lists the active and the rotated files in the order of seq, and those that
// others renamed. Reader reads the lines of any of them forward from a byte offset,
// Backward those of a plain one from its end. ReadBack, package tail and whatever
// else reads a journal use these.
//
// # Rotation, step by step
//
//  1. The active file is synced. A crash leaves it active.
//  2. It is renamed. A crash leaves no active file; the next open makes one.
//  3. A new active file is created and locked. A crash leaves it empty.
//  4. The folder is synced, at the latest before the next commit. A power cut
//     before that may undo steps 2 and 3, or only 3, and take the lines of the new
//     file with them: no commit knows of these.
//
// What was committed is known by the seq of a segment's first line and an offset
// (Mark), not by a name. ReadBack finds that segment under any name in the folder
// that begins as the journal's does, continues from there through the segments that
// follow it in seq, and so survives a crash between any two steps.
//
// # Rotation by others
//
// A file that others rename keeps its lines, and a new one is begun. One that they
// remove, replace or truncate is begun anew with the lines that were written since it
// was last checked (every 250 ms while lines are written, and before each commit) and
// can still be read. Any other line is lost, which shows as a hole in seq, and, where
// the next start finds a committed line missing, as a GAP with JournalTruncated.
//
// # Compressing and removing
//
// A goroutine of the File compresses and removes rotated files, and only
// those whose lines are all committed: the others may have to be read back. See
// tidy.go.
//
// The package knows lines as bytes that end in "\n", and the seq at their
// beginning; their meaning is known to package event.
package journal
