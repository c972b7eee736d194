// Command scale shows what kubejournal costs where there is much of everything: a first sync and a relist of a million
// objects, a start with a million known ones, hundreds of idle streams, an output that nobody reads, the changes of
// whole clusters, lists with and without compression. It prints Go benchmark lines, to be read by benchstat and the
// like.
//
//	go run ./test/bench/scale [-objects 1000000] [-run REGEXP]
//
// The server is synthetic and a process of its own: it makes each object from its number when it sends it, so that a
// million of them cost it no memory. It speaks TLS and HTTP/2 as the real one does. The program that is measured is the
// real one, built from this module, with its journal and checkpoint in files. Memory is RssAnon of the whole process in
// /proc, read every 10 ms: anonymous memory, without the page cache behind bbolt's map of its file. So Linux only.
//
// A run whose outcome is wrong fails: the journal is read back after each, every line of it, and must lead to the
// server's objects (see replay.go).
//
//	run.go       the runs
//	cluster.go   the run with the changes of clusters, for docs/scale.md
//	definitions.go  the run with CustomResourceDefinitions, on a real API server
//	option.go    the command line
//	bench.go     what a run needs: certificates, the program, folders
//	daemon.go    one run of the program
//	process.go   a child, and its memory from /proc
//	replay.go    the journal read back
//	world.go     the objects, made from their number
//	server.go    the synthetic API server; request.go: what it is asked
//	informer.go  the baseline: a dynamic informer
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
