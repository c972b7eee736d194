// Command build builds the control plane that tests and the demo run against and prints the paths of its programs,
// one per line. An argument names another folder under test/ to build from, as controlplane/v1.32.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"kubejournal/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 {
		fmt.Fprintln(stderr, "usage: build [FOLDER]")
		return 2
	}
	var binaries cluster.Binaries
	var err error
	if len(args) == 1 {
		binaries, err = cluster.BuildFrom(ctx, args[0])
	} else {
		binaries, err = cluster.Build(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stdout, binaries.APIServer)
	fmt.Fprintln(stdout, binaries.Etcd)
	return 0
}
