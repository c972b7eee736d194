// Package segment knows the files of a journal: it names and lists them, and reads their lines, plain or compressed. It
// knows lines as bytes that end in "\n", with seq at their beginning; package line knows their meaning.
//
//	journal.jsonl                                  active: the one appended to
//	journal-2026-11-20T16-10-22.123.jsonl          rotated, named by the time of its rotation (UTC)
//	journal-2026-11-20T16-10-22.123.jsonl.gz       the same, compressed
//	journal-2026-11-20T16-10-22.123.jsonl.index    its index, whether it is compressed or not: see package index
//	.journal-2026-11-20T16-10-22.123.jsonl.gz.tmp  being compressed; nobody reads it
//	journal.jsonl.audit                            who made its lines: see package audit
//	journal.jsonl.api                              what the API server served: see package apidocs
//	.journal.jsonl.owner                           the id of the process that appends (see disk.Owner)
//
// Names rise with seq even where the clock goes back. Where a plain and a compressed file of one name exist, the
// compressed one is complete and the plain one is about to be removed.
//
// List lists the active and the rotated files in the order of seq, and those that others renamed. Reader reads the
// lines of any of them forward from a byte offset, Backward those of a plain one from its end. Everything that takes
// lines from a journal uses these. Package journal appends to the active file and rotates it.
package segment
