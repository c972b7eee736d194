// Package apidocs has the file that says what the API server served at which time: discovery and OpenAPI, as it
// answered them. A reader of the journal can then answer as the server did at any moment of the past.
//
//	journal.jsonl        the journal's active file
//	journal.jsonl.api    this file, which the daemon writes; output to stdout has none
//
// # What is claimed
//
// A moment is a set of documents and the time from Since to Until: at both ends, and each time the server was asked
// between them, it served these. It is asked again after at most maxApart; a change that is undone between two requests
// is not noticed. Between two moments nothing is claimed, also where both have the same documents.
//
// # The file
//
// Integers are little-endian, times in Unix nanoseconds, checksums CRC-32C.
//
//	0       header     magic "kubejournal-api\n" (16), version (4)
//	512     slot       number of the last moment (8), its Until (8), checksum (4)
//	1024    slot       the same; a write goes to one, and the next write to the other
//	1536    records, appended
//
// A record is a header of 16 bytes and a content:
//
//	0       length of the content (4)
//	4       kind (4): 1 chunks, 2 document, 3 moment
//	8       checksum of the content (4)
//	12      checksum of the 12 bytes before (4)
//
//	chunks      how many (4); for each its key (16) and length (4); the chunks, compressed with DEFLATE (RFC 1951)
//	document    SHA-256 (32); size (8); the keys of its chunks (16 each)
//	moment      number (8); Since (8); Until (8), as of its write; Until of the moment before (8); SHA-256 of its
//	            manifest (32)
//
// The key of a chunk is the first half of its SHA-256. Documents are cut where their content says so (see cut): where
// two have the same bytes, they have the same chunks, which are stored once. So a change of one custom resource adds a
// few chunks of two large documents. A manifest is a document too: the JSON of type Manifest.
//
// # Crash discipline
//
// A record counts only where its checksums fit, and a moment names what was appended before it, by its SHA-256: a
// document is right or cannot be read. A crash leaves an incomplete record at the end, which readers pass over and the
// next writer cuts off. A slot of a moment that is not in the file does not count; a crash or a power cut leaves an
// older one, which claims less. Tidy writes the file under another name and renames it.
package apidocs
