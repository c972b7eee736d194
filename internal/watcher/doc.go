// Package watcher is one Stream: it lists and watches one resource and hands its lines to a recorder.
//
// # What a stream guarantees
//
// Replayed in order, a stream's lines give the server's live objects. While the
// server still has the history every watch event becomes one line, in the
// server's order, across restarts of either side. When the server has dropped
// the history, a GAP line says so, the difference between what the reader was
// told and what a complete list shows becomes lines, and a SYNCED line closes it.
//
// # The states of a stream
//
//	          no position, or a reason for a GAP
//	Starting ----------------------------------------> Listing
//	   |                                                |   ^
//	   | position                        list complete  |   | 410, or position
//	   v                                                v   | ahead or refused
//	Watching <----------------------------------------------+
//	   |  ^
//	   |  | pause
//	   v  |
//	Retrying                 404, 403, 405: the stream ends as pending;
//	                         package manager tries again
//
// A position is a resourceVersion up to which everything is in the journal. It
// moves with each event and bookmark of a watch, and at the end of a complete
// list; never within a list, whose objects do not come in the order of versions.
// Every watched event moves it and changes what is known, also one that a filter
// keeps out of the journal. docs/design.md has the rest: relists, pauses, and
// what a crash leaves behind.
//
// # Files
//
//	stream.go    one stream: its sessions, one after the other
//	watch.go     one watch session
//	list.go      one list: streamed initial events, or pages
//	relist.go    what a list comes to: GAP, the difference, SYNCED
//	position.go  the position; besides relist.go, nothing else moves it
//	state.go     what a stream shows of itself
//	diff.go      what an object of a list means, given what is known
//	seen.go      which objects a list has shown
//	encode.go    what an event comes to: a line, and what of it is stored
//	unusable.go  objects that no line can hold
//	select.go    which events are written
//	catchup.go   stores the versions that the next ones are compared with
//	classify.go  an error -> retry, relist, pending or stop
package watcher
