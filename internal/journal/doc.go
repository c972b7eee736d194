// Package journal appends lines to the output, rotates it, and reads back its
// tail.
//
// The output is a file or a stream (stdout). Of a file the journal guarantees:
//
//   - a line is written once, at the end; what has been written never changes
//     or vanishes, but for a last line without its end (torn by a crash), which
//     ReadBack cuts off before anything is appended;
//   - one process appends to it at a time (flock; readers are not hindered); where
//     flock does nothing, a second one is found out before a commit counts on lines
//     that are not there (see Verify);
//   - after a failed or partial write the next Write begins behind what is known
//     to stand, over what may stand beyond it with the same bytes, so that no
//     line ever begins in the middle of another;
//   - a line stands in one file as a whole, and seq goes on from file to file.
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
// plain one about to go.
//
// # Rotation, step by step
//
//  1. The active file is synced. A crash leaves it active.
//  2. It is renamed. A crash leaves no active file; the next open makes one.
//  3. A new active file is created and locked. A crash leaves it empty.
//  4. The folder is synced, at the latest before the next commit. A power cut
//     before that may take steps 2 and 3 back, or only 3, and the lines of the new
//     file with them: no commit knows of these.
//
// What was committed is known by the seq of a file's first line and an offset
// (Mark), not by a name. ReadBack finds that file under any name in the folder
// that begins as the journal's does, goes on from there through the files that
// follow it in seq, and so survives a crash between any two steps, and a rename by
// others (logrotate).
//
// # Compressing and removing
//
// A goroutine of the File's own compresses and removes rotated files, and only
// those whose lines are all committed: the others may have to be read back. See
// tidy.go.
//
// The package knows lines as bytes that end in "\n", and the seq at their
// beginning; what they mean is package event's.
package journal
