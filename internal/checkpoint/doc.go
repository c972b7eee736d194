// Package checkpoint keeps what must outlive the process: for each stream its
// position and the objects that its reader has been told of, and how far the
// journal had been written when these were true. All of it is committed in one
// bbolt transaction, so that a crash leaves one consistent picture: the last
// one. Output first, position second: a commit never runs ahead of the journal
// lines that it stands for (package recorder sees to the order).
//
// # The file
//
//	meta                                  bucket
//	  schema                              uvarint, schemaVersion
//	  cluster                             uid of the namespace kube-system, absent while unknown
//	  journal                             JSON of Mark: last seq, file identity, offset
//	  lost                                there when a predecessor was lost
//	streams                               bucket
//	  <stream name>                       JSON of Stream: position, gap owed, open gap
//	known                                 bucket
//	  <stream name>                       bucket
//	    <namespace> 0x00 <name>           one object: flags, resourceVersion, uid (see encodeKnown)
//
// The key of a known object is its name, since two live objects never share
// one, and since servers list in this order: a first sync fills pages from left
// to right. A uid in the usual form takes 16 bytes, a numeric resourceVersion
// at most 10, so that an object costs little more than its name.
//
// A Batch collects what happened since the last commit. It is a plain log in
// memory, last entry wins, and it belongs to whoever fills it until it is given
// to Commit. Readers (Get, Range) see committed state only.
package checkpoint
