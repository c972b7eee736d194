// Package kubefake is a Kubernetes API server in the process, for tests.
//
// What it promises: everything that a reader of the API can see of history is
// there and behaves as in the real server. Every write gets the next version of
// one counter, as in etcd; lists, pages and watches are answered out of that
// numbered history and never out of a separate picture of "now". Two lower
// bounds decide what has been forgotten:
//
//	compacted   what etcd has thrown away: lists at an older version and
//	            continue tokens answer 410
//	window      where the watch cache begins, per resource: watches from
//	            before answer 410, even while etcd still has the history
//
// A restart moves the window to the current version; that is why 410 is the
// usual answer after any restart. Events have no watch cache, as in the real
// server: for them only compaction counts.
//
// The conformance suite in test/conformance runs on this package and on a real
// control plane. Where the two differ, this package is wrong. What is
// deliberately not imitated: admission (any namespace can be written to),
// validation of kinds, graceful deletion of pods, subresources, strategic merge
// (done as a plain merge patch), server-side apply, and every encoding but
// JSON.
//
// The server runs on a real loopback listener or in memory over net.Pipe. It
// has no global state, uses package time only, and leaves no goroutine after
// Close, so that thousands of them can live inside testing/synctest bubbles.
package kubefake
