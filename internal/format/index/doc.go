// Package index finds the lines of a rotated segment without reading it: for each object where its lines are, and where
// the last one before the segment is of an object that was there when it began. A segment that has no index is read
// instead, with the same answers.
//
//	journal-2026-11-20T16-10-22.123.jsonl.gz      a rotated segment
//	journal-2026-11-20T16-10-22.123.jsonl.index   its index, whether it is compressed or not
//
// A Builder takes the lines of a segment in order and makes the index; Open reads one from anywhere. An index is made
// once, when its segment is complete, and does not change. What is in it follows from the lines of its segment, so that
// it can be made again at any time; damaged lines are in none. Every few segments one is full: it has the objects too
// that were there when the segment began, so that a state is found without a look at all segments before.
//
// # The file
//
// Integers are little-endian; a varint is one of encoding/binary's, a delta is a signed one; a text is its length, a
// varint, and its bytes. Times are in Unix nanoseconds.
//
//	header     0   magic "kubejournal-idx\n" (16)
//	           16  version of the format, 1 (4)
//	           20  CRC of the segment's beginning, as segment.Segment has it (4)
//	           24  seq of its first line (8)
//	           32  number of its lines (8)
//	           40  its bytes (8)
//	           48  bytes of it as gzip in the members that the directory lists, 0 where it was not compressed (8)
//	           56  where the directory begins (8), and its bytes (4)
//	           68  CRC-32C of the 68 bytes before (4)
//	blocks     each with its CRC-32C (4) after it, in this order: lines, objects, names
//	directory  a block too; it ends the file
//
// The checksum of a block begins with those of the header's bytes 0 to 56 and of the block's place in the file, so that
// no block counts elsewhere.
//
//	directory  the seq that comes after the last line; in a full index the seq from which on it has what lines say of
//	           the objects that were there when the segment began, else 0; time of the earliest and the latest line,
//	           as received; the earliest time at which a late line was written, 0 for none (5 x 8)
//	           number of earlier segments; seq of the first line of each, as varints
//	           number of streams, in the order of names, and after them one without a name, of what REMOVED lines are
//	           about, if there are any; each with name, cluster, group, version, resource and kind, which are
//	           texts from its last line, and the lines about itself (GAP and SYNCED): their number, then the index of
//	           each as a varint, from the one before; then in the same way the first lines of lists of what existed;
//	           in a full index of what was before, else 0: the type of the last line about itself (1), and the seq, a
//	           varint, with which a list of what existed has begun that is not complete, 0 for none
//	           number of writers, and each as a text: a field manager, with "/" and its subresource where it has one
//	           number of gzip members; for each the compressed and plain bytes before it, from those of the member
//	           before
//	           number of blocks of lines, and the bytes of each
//	           number of blocks of objects; for each the stream, bytes, and the namespace and name of its first object
//	           bytes of the block of names; after it the CRC-32C of the segment's bytes (4)
//	lines      1024 lines, the last block fewer. Where the first one begins and the time before it (2 varints), then for
//	           each: its bytes, end included; its time as a delta; a byte: 1 to 6 is its type, as in Types, 8 that it
//	           says when its version was written, 16 that it is not where the line before ends with the next seq, 32 that
//	           its object existed at first sight; the number of its writer among the directory's, from 1, or 0, a varint;
//	           with 8 the seconds between writing and receiving, a delta; with 16 by how much its seq and where it
//	           begins differ from that, two deltas
//	objects    objects of one stream by namespace, name and uid. The bytes of the fields and of the texts (2 varints), a text
//	           that is the uids, then the fields and after them the texts, compressed with DEFLATE (RFC 1951). A uid is a
//	           varint in the fields, and its bytes in the uids: 0 and the 16 bytes of a UUID, or one more than its length
//	           and its bytes. The fields of each object: how many bytes of namespace, a zero byte and name are those of
//	           the object before (0 for a block's first); a byte: 1 it was there before the segment, 2 it refers to
//	           others, 4 to the same ones as the object before, 8 its line before is in the segment of the last such
//	           line in the block, 16 it has lines, 32 it is known when it was created; the length of the rest of namespace
//	           and name, which is in the texts; uid; with 32 the seconds between its creation and the segment's earliest
//	           line, a delta; with 2 the number of objects it refers to (owners; what an Event is about) and the uid of
//	           each, of the latter also "Kind namespace/name" in the place of one; with 1 the last line about it before
//	           the segment: without 8 the index of its segment among the earlier ones; its seq and where it begins, two
//	           deltas to the last such line, else to the seq of the first line there and 0; with 16 the number of its
//	           lines in the segment, and the index of each, from the one before
//	names      number of CustomResourceDefinitions that lines were about, up to the segment's end; for each its name and
//	           what Names documents, both texts
//
// Where nothing is listed the number is 0. Nothing comes after the last item of a block.
package index
