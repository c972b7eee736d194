// Package checkpoint keeps what must outlive the process: for each stream its
// position and the objects that its reader has been told of, and how far the
// journal had been written when these were true. All of it is committed in one
// bbolt transaction, so that a crash leaves one consistent picture: the last
// one. Output first, position second: a commit never runs ahead of the journal
// lines that it stands for (package recorder sees to the order).
//
// A Batch collects what happened since the last commit. It is a plain log in
// memory, last entry wins, and it belongs to whoever fills it until it is given
// to Commit. Readers (Get, Range) see committed state only.
//
// # The file
//
//	meta                                  bucket
//	  schema                              uvarint, SchemaVersion; CRC-32C of it, 4 bytes
//	  sum                                 checksum of all the rest, 8 bytes (see sum.go)
//	  cluster                             uid of the namespace kube-system, absent while unknown
//	  journal                             JSON of Mark: last seq, file identity, offset
//	  lost                                there from a predecessor's loss until all streams are known again
//	streams                               bucket
//	  <stream name>                       JSON of Stream: position, gap owed, open gap, SYNCED line owed
//	forgotten                             bucket
//	  <stream name>                       there from Forget until the mark moves (see Forgotten)
//	known                                 bucket
//	  <stream name>                       bucket
//	    <namespace> 0x00 <name>           one object: flags, resourceVersion, uid (see appendKnown)
//
// Between the steps of a commit a crash leaves the last one: bbolt writes and
// syncs the changed pages, then one of two meta pages that names the root. Where
// that last sync fails, both meta pages are written again before the next commit
// (see settle).
//
// The key of a known object is its name, since two live objects never share
// one, and since servers list in this order: a first sync fills pages from left
// to right. A uid in the usual form takes 16 bytes, a numeric resourceVersion
// at most 10, so that an object costs little more than its name.
//
// # Damage
//
// Open reads everything and compares it with the sum: a file of which a byte
// has changed opens with the content that was committed last, where the byte
// carries none, or with that of the commit before, where it belongs to the
// newer of the two meta pages (what the journal holds beyond that is read back
// as after a crash), or not at all: ErrDamaged. It is never mended or written
// over; SetAside keeps it.
package checkpoint
