// Command demo shows what kubejournal does, on a real control plane that it builds, starts and takes down again.
//
// It runs the daemon on a copy of configs/kubejournal.yaml, changes a few objects as a user of kubectl would, and
// prints for each step what was done and the journal lines that came of it. It ends with an error unless every line
// that a step must bring about stands in the journal exactly once, and no other line about the demo's objects does.
//
//	demo.go     the steps
//	step.go     one step: act, wait for its lines, check them
//	ask.go      questions, and what was deleted given back
//	object.go   changes to objects, as kubectl would make them
//	daemon.go   the kubejournal process
//	journal.go  journal lines, as far as the demo looks at them
//	print.go    what people see
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
