// Command person has five users write to real API servers of several versions, with an audit log of each level, and
// judges whom 'kubejournal audit' names for each line of the journal. What is true comes from the users themselves:
// each request leaves a mark of its own in what it writes, and its answer is kept; see user.go and truth.go. No code of
// the product is asked.
//
// It prints how many lines are named rightly, wrongly and not at all, by version and level and by what was done. It
// ends with status 1 where anybody is named who did not make the line, where the answers of the requests are in the log
// and nobody is named although the docs say so, and where a Secret's value is in any file or output. Then the journal,
// the log and what is true are left in a folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("person", flag.ContinueOnError)
	flags.SetOutput(stderr)
	writes := flags.Int("writes", 10000, "writes and deletions of each run that succeed")
	versions := flags.String("versions", "v1.32,v1.34,newest", "folders of test/controlplane, or newest")
	levels := flags.String("levels", "Metadata,Request,RequestResponse", "of the audit log")
	seed := flags.Uint64("seed", 1, "of what the users do; when they do it is not in it")
	keep := flags.String("keep", "", "a folder in which the journals, the logs and what is true are left; else where something is wrong")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return 2
	}
	dir, err := os.MkdirTemp("", "kubejournal-person-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err := program.Build(ctx, dir)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	var all report
	for _, version := range strings.Split(*versions, ",") {
		v := cluster.Variant{Kubernetes: version}
		if version == "newest" {
			v.Kubernetes = ""
		}
		for _, level := range strings.Split(*levels, ",") {
			r := run{binary: binary, level: level, writes: *writes, seed: *seed, keep: *keep, out: stdout}
			if err := r.do(ctx, v); err != nil {
				fmt.Fprintf(stderr, "%s, %s: %v\n", v, level, err)
				return 1
			}
			all.runs = append(all.runs, r.result)
		}
	}
	if !all.print(stdout) {
		return 1
	}
	return 0
}
