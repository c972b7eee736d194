// Package audit reads audit logs of API servers, and has the side file that says who made the lines of a journal.
//
//	journal.jsonl          the journal's active file
//	journal.jsonl.audit    the side file, which 'kubejournal audit' and a daemon with audit.paths write
//
// # What is read
//
// Events of audit.k8s.io/v1, one a line, plain or gzip; a list of them; and the records in which clouds wrap them, over
// one or several lines: see Read. Of an event, the named members alone are kept. Of the objects in it nothing is but
// uid, resourceVersion, the name that the server gave, and the times in managedFields: the values of a Secret never
// leave Read.
//
// # The side file
//
// Integers are little-endian. Merge writes the file under another name, syncs it, and renames it: a crash leaves the
// old one or the new one. Append appends blocks and syncs: a crash leaves those from before, and perhaps a torn one. A
// reader passes over blocks whose checksum does not fit, and over what follows one whose length cannot be right. Both
// take the file's lock.
//
//	0     magic "kubejournal-who\n" (16)
//	16    blocks, in the order of seq; none overlaps another
//
// A block has up to 1,000 entries:
//
//	0     length of the content (4)
//	4     CRC-32C of the next 16 bytes and the content (4)
//	8     seq of the first entry (8)
//	16    seq of the last one (8)
//	24    content: entries as JSON lines, in the order of seq, compressed with DEFLATE (RFC 1951)
//
// An entry is the JSON of type Entry. Its member line is the CRC-32C of the id of the line that it is about, so that
// no entry counts for a line of another journal with the same seq. An entry without a user says that several requests
// fit: it keeps a later run, with fewer logs, from naming one of them.
package audit
