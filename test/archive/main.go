// Command archive writes a journal such as a daemon leaves behind after a day in a large cluster, rotated, compressed
// and indexed by the product's own code. The same flags give the same lines.
//
//	go run ./test/archive -gb 10 -segments 100 /tmp/archive/journal.jsonl
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"kubejournal/test/archive/generate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("archive", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: archive [flags] JOURNAL")
		flags.PrintDefaults()
	}
	gb := flags.Float64("gb", 10, "`size` of the lines in GB (10^9 bytes)")
	segments := flags.Int("segments", 100, "rotated files")
	pods := flags.Int("pods", 20000, "pods that run at a time")
	compress := flags.Bool("compress", true, "compress rotated files")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		if err == nil {
			flags.Usage()
		}
		return 2
	}
	start := time.Now()
	done, err := generate.Journal(ctx, flags.Arg(0), generate.Options{
		Bytes: int64(*gb * 1e9), Segments: *segments, Pods: *pods, Compress: *compress,
	})
	if err != nil {
		fmt.Fprintln(stderr, "archive:", err)
		return 1
	}
	fmt.Fprintf(stderr, "archive: %d lines, %.2f GB, %s to %s, in %.0f s\n", done.Lines, float64(done.Bytes)/1e9,
		done.From.Format(time.RFC3339), done.To.Format(time.RFC3339), time.Since(start).Seconds())
	return 0
}
