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
//	   v                                                v   | ahead or refused
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
// The difference is taken against the checkpoint's known objects. Where a GAP is
// due, its line is written first, with the version that the server has just told
// (unless the server is still at the position: then in front of the first
// difference, or not at all);
// then each difference as it is read, the DELETED of an object in front of the
// ADDED of another one that has its name now; and behind a complete list, and
// only there, a DELETED for each object that it has not shown. SYNCED names the
// list's version.
//
// A list that breaks off, or a crash, leaves a GAP without its SYNCED. The next
// attempt, of this process or the next, lists again, against what was written
// until then, and goes on behind the same GAP: so between the two an object may
// have more than one line. Once all lines are written, the position is committed
// together with what the SYNCED line is to say, and only then that line is
// written: a crash between the two costs a SYNCED line that stdout sees twice, and
// no list.
//
// Whether lists are streamed or read in pages is decided by what works: see
// listForm.
//
// # What is told
//
// A stream knows every object that its selectors come to, and moves its position
// with every event. Which of them become lines is decided behind that, and what a
// line says: an event that is held back changes what is known like any other. A
// stream that says what changed, or ignores some of it, keeps the version that the
// next one is compared with in the checkpoint, with the line that it belongs to. A
// crash leaves it as far as lines can be read back; what is missing makes a line say
// less, and nothing waits for it.
//
// # Memory
//
// No list is ever held whole. While one is read, what it has shown until then is
// kept as 24 bytes per object (see seen.go), and goes when it ends; nothing
// else of a stream grows with the objects. What a server sends while the output
// blocks waits in bounded buffers: the recorder's, 128 KiB or an object of each
// stream, and the receive window of each answer (see client.go).
//
// # Silence
//
// The server sends a bookmark about once a minute to a watch that asks for them,
// as ours do. So a watch that has had one and then brings nothing for three
// minutes is dead, whatever its connection looks like, and is opened again where
// it stood; that writes nothing and loses nothing. But silence proves nothing
// where none was sent yet: some resources are served without a watch cache, and
// without bookmarks; and the server sends none before its version has moved past
// that of the watch's beginning. Such a watch is left to the end that it was
// given when it was opened (5 to 10 minutes; the one behind a streamed list is
// given up after the same time). A restart for silence takes the knowledge of
// bookmarks back, until one comes, so that a server that has stopped to send them
// costs one restart and not one every three minutes.
//
// What such a watch has not missed shows elsewhere: when it is opened again, the
// server's version is the position; or the server has ended it in good order. Both
// count as progress.
//
// With HTTP/2, client-go's pings find a dead connection in 45 s, for all the
// watches on it together; the above is for HTTP/1.1, and for a proxy that answers
// pings on behalf of a server that is gone.
//
// # A server in trouble
//
// No stream repeats a request without a pause, unless the session before had
// lasted: 0.8 s doubling to 30 s, with as much again at random, and at least what
// a Retry-After says. A relist waits until twice the time has passed that the
// last one took, so that a server that forgets its history again and again spends
// at most a third of its time on our lists. Over all streams, lists and watches
// are limited to 50 a second each. What that comes to in each kind of trouble is
// measured by TestTrouble.
//
// # Another config
//
// The goroutine of Manager.Run owns which streams run. Apply hands it other
// options; it compares what each stream is to be (Spec) with what it is, and
// touches those that differ: a stream is stopped, and the one in its place takes
// the position from the checkpoint, once that has all that was submitted. It is
// the same as a restart of the daemon, for that stream alone. Before the first
// one is stopped, all that can be wrong was looked for.
//
// What the server serves changes by itself. That only ever adds streams. The watch
// of a resource that goes away brings its objects' deletions and ends with a 404,
// and then the stream is dropped or pending. While something is pending because
// the server does not have it, or an entry has a wildcard, a watch of the
// definitions of custom resources tells when to ask again.
//
// # Credentials
//
// Tokens, certificates, the server's authority, its address and the proxy on the
// way are read again after a request that got no answer or a 401, and when Look
// is called. New ones are used once they are known to lead to the same cluster; a
// position means nothing to another.
//
// # Files
//
//	manager.go   which streams run; pending entries
//	apply.go     another config, by difference
//	definitions.go  custom resources that come and go
//	status.go    how the streams stand, for people
//	stream.go    one stream's state machine; the only file that moves a position
//	watch.go     one watch session
//	list.go      one list: streamed initial events, or pages
//	relist.go    what a list comes to: GAP, the difference, SYNCED
//	diff.go      what an object of a list means, given what is known
//	seen.go      which objects a list has shown
//	encode.go    what an event comes to: a line, and what of it is stored
//	unusable.go  objects that no line can hold
//	select.go    which events are written
//	catchup.go   stores the versions that the next ones are compared with
//	classify.go  an error -> retry, relist, pending or stop
//	backoff.go   the pauses between sessions
//	client.go    requests; raw.go: the decoder that does not decode
//	credential.go  the way to the server, and its changes
//	cluster.go   makes sure that it leads to one cluster
package watcher
