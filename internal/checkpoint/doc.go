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
//	  journal                             JSON of Mark: last seq, file identity, offset; on stdout, those of the file before
//	  recovery                            JSON of Recovery: how far an interrupted one came; absent when none is under way
//	  lost                                there from a predecessor's loss until all streams are known again
//	streams                               bucket
//	  <stream name>                       JSON of Stream: position, gap owed, open gap, SYNCED line owed
//	forgotten                             bucket
//	  <stream name>                       there from Forget until the mark moves (see Forgotten)
//	known                                 bucket
//	  <stream name>                       bucket
//	    <namespace> 0x00 <name>           one object: flags, resourceVersion, uid (see appendKnown)
//	recent                                bucket; from schema 2 on, which a file gets with its first log
//	  <stream name>                       bucket: the stream's log (see recent.go)
//	    <number>                          one record: changes that come before what known says
//	    sweep                             how far a sweep over the log is; absent when none is under way
//	kept                                  bucket; from schema 3 on, which a file gets when a stream keeps something
//	  <stream name>                       bucket (see kept.go)
//	    0x00                              what all below has in common
//	    <namespace> 0x00 <name>           what is kept of the version that the reader was told of last
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
// A change of an object costs the page that it stands on: 1,000 changes among
// 1,000,000 objects, 1,000 pages. They are appended to a log, and a sweep puts
// them in their place in the order of their keys, some with each commit, when
// about four have come together for each page. Lists do not go to the log, nor
// do changes of a large share of a stream's objects.
//
// # What was tried
//
// A million objects with 12 bytes of namespace and 40 of name in commits of
// 20,000, then commits of 1,000 random ones of them, all straight to the tree
// (BenchmarkLayout, on two busy cores: the bytes are exact, CPU times within a
// quarter, and wall times not worth telling). Each row changes one thing of the first.
//
//	                                 bytes per  commit  commit   bbolt's   first
//	                                 object     CPU ms  kB       open ms   sync CPU s
//	name as key, 95 % full, 4 KiB    100.4      30      5,630    90        4.2
//	key: uid, the name in the value  447.6      43      7,323    262       20.9
//	uid as text                      123.8      34      5,911    105       5.8
//	value as JSON                    161.5      41      6,260    144       6.7
//	pages filled to 50 %             193.9      41      7,309    193       5.6
//	pages filled to 80 %             120.7      28      6,101    94        4.0
//	pages filled to 100 %            95.8       30      5,505    82        4.4
//	pages of 1 KiB                   112.0      34      2,526    168       5.6
//	pages of 2 KiB                   102.4      34      3,729    166       5.0
//	pages of 8 KiB                   98.4       29      8,735    62        4.5
//	pages of 16 KiB                  98.0       36      15,563   52        4.0
//	1,000 objects in a commit        99.5       26      5,630    74        3.4
//	100,000 objects in a commit      100.4      30      5,630    112       3.9
//	freelist as an array             100.4      24      5,630    74        4.5
//	freelist written                 100.4      33      5,642    1         4.5
//	NoSync, Sync after each commit   99.3       36      5,630    128       5.6
//	NoSync                           99.3       22      5,630    71        5.9
//	bbolt's defaults, JSON           304.1      36      7,814    0.4       7.6
//
// Kept: the name as key, since uids come in no order and each would cost a page
// of the first sync too. Uids as 16 bytes. Pages of a list full to the brim, and
// three quarters where objects come in between others: with every object replaced
// twice by one of another name, 0.75 gives the smallest file of 0.5, 0.75, 0.95
// and 1, about twice that of the first sync. The system's pages: smaller ones cost
// more bytes per object, larger ones more per commit. The freelist as a map and
// not written: in an array it does no better, and to write it costs a commit as
// many bytes as pages are free, 8 for each, to save a start some 60 ms. bbolt's
// own syncs: one sync behind both the pages and the page that names the root would
// let the disk write the root first, which is a file with holes after a power cut;
// and it saves nothing that shows. Batches as they come: their size matters little.
//
// None of these brings a commit of 1,000 among a million near one of 1,000 among
// 1,000, which costs 2 to 3 ms of CPU and 107 kB: 8 to 9 times the CPU. The log
// does (BenchmarkCommit, within a sweep): 1,334 kB, 3.5 times the CPU and 2.6
// times the wall time in the same run, where bbolt's defaults with JSON take 14 times the
// CPU. Its price is memory, at most 32 MiB for all streams and up to some 16 MB for one
// of a million objects that change all the time, and up to a fifth more of the file.
// The end of a sweep removes the records that it has met, which one commit bears.
//
// Open reads the file once, a page at a time, and adds up what it reads; the sum
// took a walk of its own before, and a page its own memory: 145 ms of CPU instead
// of 240 for a million objects, 60 of them bbolt's own scan for free pages; 1.3 MB
// allocated instead of 100. A file scattered by many commits is read ahead in its
// own order: from a cold disk 0.5 to 0.7 s instead of 1.0, on a busy machine.
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
