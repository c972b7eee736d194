// Package takeover is all of high availability: several replicas journal the same streams, and one of them writes.
//
// The guarantee: each event is in the journal of at least one replica. Within a term, from one takeover to the next, it
// is there once. Two terms can have watch events in common, with the same ids: those that the old leader wrote after
// its last published position. A list, from its GAP to its SYNCED, is written by one replica.
//
//	lease.go       who leads: the Lease, and until when that is certain
//	annotation.go  the positions in the Lease, and what is left out where they do not fit
//	term.go        a term and a position, the two things that are passed on
//	replica.go     what this replica publishes, and what others have
//	next.go        a stream asks: may I continue, must I adopt a position, must I list, and write every object?
//	held.go        the recorder asks: is this batch to be written, and what does a standby hold?
//
// It decides, and writes nothing itself. docs/design.md tells takeovers as numbered scenes.
package takeover
