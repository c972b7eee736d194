// Package recorder is the one writer behind all streams: it numbers lines,
// appends them to the journal, and then commits what they made known to the
// checkpoint.
//
//	streams --Submit--> queue --writer--> journal
//	                                 \--> pending --committer--> checkpoint
//
// The order is the whole point:
//
//  1. A batch's lines are written, completely, before its changes count as
//     pending. A failed write is tried again from the byte where it stopped.
//  2. Pending changes are frozen between two writes, together with the
//     journal's mark; the journal is synced, and looked at for lines of another
//     process; then they are committed in one transaction. While that runs the writer goes on with a new pending batch.
//     The journal learns of each commit: what it holds up to there is not read back
//     any more, and may be compressed and removed.
//  3. A commit that fails is tried again with the same batch, since it may or may
//     not have been persisted. Meanwhile pending grows up to a bound, and then
//     the writer waits, and with it the streams: nothing is dropped.
//
// A crash leaves lines in the journal that no commit knows of. Of a file they
// are read back at the next start (see Recover); on stdout they are written
// again.
//
// Who owns what: the writer goroutine owns seq, the write buffer and the
// pending batch; a committer, at most one at a time, owns the batch that it was
// given.
package recorder
