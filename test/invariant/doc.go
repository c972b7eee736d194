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
// Replicas proves the journals of several daemons of which one writes at a time, as they were written:
//
//	Terms         each is one replica's, none falls, and nothing is written after the next one began
//	Once          no event stands twice in a journal
//	Again         what another term has again was written last, shortly before a term's end, and comes in order
//	Acknowledged  every write is in one of them at least
//	Follow        what a reader makes of them that has the rule of docs/operations.md alone
//	Merged        what kubejournal's readers show of them: all of it, once, in order, and nothing else
//
// No check calls code of kubejournal. Package test/replicas makes the merged journal, and has the cuts of one journal.
//
// # Epochs
//
// A server restored from a backup counts its versions from an earlier one again. What a stream's lines say before and
// after that can be compared only in parts, so lines and writes have an epoch: the number of GAP lines with the reason
// PositionAheadOfServer that the stream has after it.
package invariant
