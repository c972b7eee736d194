// Command daemon measures the real program as a whole process, beside baselines in processes of their own, and prints
// Go benchmark lines.
//
//	BenchmarkReal     CPU time per event of a watch from a real API server over TLS: of history, read at full speed,
//	                  and of changes while they are made
//	BenchmarkShard    CPU, bytes from the server and memory of a daemon that has one of four shards, beside one
//	                  that has all of it, with a server that selects and one that does not
//	BenchmarkStandby  CPU and memory of a leader and its standby, beside a single daemon, and what the Lease costs
//	                  the server
//	BenchmarkLatency  the time from the server's sending of an event to its line being readable in the file, with
//	                  events that come evenly one by one
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"kubejournal/test/bench/canned"
	"kubejournal/test/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	only    *regexp.Regexp // benchmarks to run, by name
	count   int            // readings of each way
	replay  int            // events of history
	live    int            // events while they are made
	rate    float64        // events per second of BenchmarkLatency
	seconds int            // that one of its readings takes
	program string         // kubejournal; "" builds it
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if asked, err := child(ctx); asked {
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	if err := measure(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "daemon:", err)
		return 1
	}
	return 0
}

// child is what this program does when it has started itself; asked is false when it has not.
func child(ctx context.Context) (asked bool, err error) {
	if asked, err = canned.Serve(); asked {
		return asked, err
	}
	return readIfAsked(ctx)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("daemon", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("bench", ".", "run the benchmarks that match this `regexp`")
	flags.IntVar(&o.count, "count", 3, "readings of each way")
	flags.IntVar(&o.replay, "replay", 25000, "events of history")
	flags.IntVar(&o.live, "live", 10000, "events that are read while they are made")
	flags.Float64Var(&o.rate, "rate", 1000, "events per second of BenchmarkLatency")
	flags.IntVar(&o.seconds, "seconds", 5, "seconds that a reading of BenchmarkLatency takes")
	flags.StringVar(&o.program, "program", "", "kubejournal to measure (default: built here)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err == nil &&
		(flags.NArg() > 0 || min(o.count, o.replay, o.live, o.seconds) < 1 || o.rate <= 0) {
		err = errors.New("no arguments are taken, and counts begin at 1")
	}
	if err != nil {
		fmt.Fprintln(stderr, "daemon:", err)
	}
	return o, err
}

func measure(ctx context.Context, o options, stdout, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "kubejournal-bench-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir, out: stdout, progress: progress, began: time.Now()}
	if o.program == "" {
		if b.program, err = program.Build(ctx, dir); err != nil {
			return err
		}
	} else if b.program, err = filepath.Abs(o.program); err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	fmt.Fprintf(stdout, "goos: %s\ngoarch: %s\npkg: kubejournal/test/bench/daemon\n", runtime.GOOS, runtime.GOARCH)
	for _, m := range []struct {
		name string
		run  func(context.Context) error
	}{{"BenchmarkLatency", b.latency}, {"BenchmarkReal", b.real}, {"BenchmarkShard", b.shards},
		{"BenchmarkStandby", b.standby}} {
		if !o.only.MatchString(m.name) {
			continue
		}
		if err := m.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// bench is what the benchmarks share.
type bench struct {
	options
	program  string
	dir      string // all that they write is in folders of it
	out      io.Writer
	progress io.Writer
	began    time.Time
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6s  %s\n", time.Since(b.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// figure is one value of a benchmark line.
type figure struct {
	value float64
	unit  string
}

// line prints a benchmark's result, of n events.
func (b *bench) line(name string, n int, figures ...figure) {
	fmt.Fprintf(b.out, "%s-%d\t%d", name, runtime.GOMAXPROCS(0), n)
	for _, f := range figures {
		fmt.Fprintf(b.out, "\t%.4g %s", f.value, f.unit)
	}
	fmt.Fprintln(b.out)
}

// folder makes one of the bench's folders.
func (b *bench) folder(pattern string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, pattern)
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return dir, nil
}
