// Command kubejournal watches Kubernetes resources and writes a durable journal of what happens to them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx := interruptible(context.Background(), func(status int) {
		fmt.Fprintln(os.Stderr, "kubejournal: asked a second time, stopping without a commit; the next start reads back what was written")
		os.Exit(status)
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interruptible returns a context that the first SIGTERM or SIGINT ends, which asks for a clean stop. The second one
// calls exit at once, for a user who does not want to wait: what is not committed then is found again at the next
// start. The goroutine lives as long as the process.
func interruptible(parent context.Context, exit func(int)) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		<-signals
		exit(exitFault)
	}()
	return ctx
}
