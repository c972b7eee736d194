// Package invariant proves a journal: what the contract promises of every journal, whatever happened while it was
// written. Each check takes the lines in order and returns an error that names the lines which break it, or nil.
//
//	Sequence     seq has no hole
//	Shape        each line has what its type calls for, and nothing empty
//	Unique       no event stands there twice
//	Objects      the order of what happens to one object, and of the objects under one name
//	Streams      GAP, net difference, SYNCED; watch events in the server's order
//	Replay       the objects that a reader of the journal believes in; Compare lays them beside the server's
//	Writes       every write that the server acknowledged is there
//
// Several replicas' journals are merged as kubejournal's readers do (Merge), and then proved as one.
//
// # Epochs
//
// A server restored from a backup counts its versions from an earlier one again. What a stream's lines say before and
// after that can be compared only in parts, so lines and writes have an epoch: the number of GAP lines with the reason
// PositionAheadOfServer that the stream has after it.
package invariant
