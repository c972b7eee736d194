// Package watcher reads resources from an API server: one Stream per resource
// (and namespace, and pair of selectors), kept running by a Manager.
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
//	   v                                                v   | ahead of the server
//	Watching <----------------------------------------------+
//	   |  ^
//	   |  | pause
//	   v  |
//	Retrying                 404, 403, 405: the stream ends as pending;
//	                         the Manager tries again
//
// A position is a resourceVersion up to which everything is in the journal. It
// moves with each event and bookmark of a watch, and at the end of a complete
// list; never within a list, whose objects do not come in the order of versions.
// Before a watch starts, the server is asked for its current version: a watch
// from a version that the server has yet to reach would be accepted and stay
// silent (an etcd restored from a backup).
//
// # A list
//
// The difference is taken against the checkpoint's known objects. The GAP line
// comes first in the journal but names the list's version, which the server
// tells last; and a deletion that a list shows must come before an object
// created again under the same name. So a list with known objects writes
// nothing until it is complete: the lines wait in a spool, in memory up to a
// bound and then in a file without a name. Hence a list that breaks off leaves
// no trace, and nothing is concluded from half of one. A first sync has nothing
// to compare with and writes as it reads.
//
// A crash while the lines go from the spool to the journal leaves a GAP without
// its SYNCED. The next start lists again, against what was written until then,
// with a GAP of its own (RelistInterrupted) from where the first one ended.
//
// # Files
//
//	manager.go   which streams run; pending entries
//	stream.go    one stream's state machine; the only file that moves a position
//	watch.go     one watch session
//	list.go      one list: streamed initial events, or pages
//	diff.go      what an object of a list means, given what is known
//	spool.go     lines that wait for their list to be complete
//	classify.go  an error -> retry, relist, pending or stop
//	client.go    requests; raw.go: the decoder that does not decode
package watcher
