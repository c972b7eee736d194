// Package checkpoint stores what must survive the process: for each stream its
// position and the objects that its reader knows, and how far the journal was
// written at that point. All of it is committed in one bbolt transaction, so that
// a crash leaves one consistent state: the last one. Output first, position
// second: a commit never runs ahead of the journal lines that it stands for
// (package recorder keeps the order).
//
// A Batch collects what happened since the last commit: a log in memory of which
// the last entry of a key wins. It belongs to its producer until it is passed to
// Commit. Readers (Get, Range) see committed state only.
//
// # The file
//
//	meta                                  bucket
//	  schema                              uvarint, SchemaVersion; CRC-32C of it, 4 bytes
//	  sum                                 checksum of everything else, 8 bytes (see sum.go)
//	  cluster                             uid of the namespace kube-system, absent while unknown
//	  journal                             JSON of Mark: last seq, file identity, offset; on stdout, those of the file before
//	  recovery                            JSON of Recovery: how far an interrupted one came; absent otherwise
//	  lost                                present from the loss of a predecessor until all streams are known again
//	streams                               bucket
//	  <stream name>                       JSON of Stream: position, gap owed, open gap, SYNCED line owed
//	forgotten                             bucket
//	  <stream name>                       present from Forget until the mark moves (see Forgotten)
//	known                                 bucket
//	  <stream name>                       bucket: the stream's tree
//	    <namespace> 0x00 <name>           one object: flags, resourceVersion, uid (see appendKnown)
//	recent                                bucket; from schema 2 on, which a file gets with its first delta log
//	  <stream name>                       bucket: the stream's delta log (see deltalog.go)
//	    <number>                          one record: changes that override what the tree says
//	    sweep                             how far a compaction of the log is; absent when none is under way
//	kept                                  bucket; from schema 3 on, which a file gets when a stream stores versions
//	  <stream name>                       bucket (see kept.go)
//	    0x00                              header of all values below
//	    <namespace> 0x00 <name>           the version that the reader knows, to compare with
//
// A crash between the steps of a commit leaves the commit before: bbolt writes and
// syncs the changed pages, then one of two meta pages that names the root. Where
// that last sync fails, both meta pages are written again before the next commit
// (see settle).
//
// The key of a known object is its name: two live objects never share one, and
// servers list in this order, so that a first sync fills pages from left to right.
// A uid in the usual form takes 16 bytes, a numeric resourceVersion at most 10. The
// other layouts that were measured are in layout_bench_test.go.
//
// # Damage
//
// Open reads everything and compares it with the sum. A file in which a byte has
// changed opens with the content that was committed last, where the byte carries
// none, or with that of the commit before, where it belongs to the newer of the two
// meta pages (what the journal holds beyond that is read back as after a crash), or
// not at all: ErrDamaged. Such a file is never repaired or overwritten; SetAside
// keeps it.
package checkpoint
