package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// options are the command line.
type options struct {
	length time.Duration // of the torture
	round  time.Duration // of churn and faults between two proofs
	kills  int           // of the daemon, instead of the torture
	// takeovers are ends of a leader's term, instead of the torture.
	takeovers int
	folder    int  // kills until the daemon begins in a new folder
	stdout    bool // the journal goes to a pipe
	seed      uint64
	noRace    bool // the program is built without the race detector
	faults    []proxyFault

	rate     float64       // writes per second, of all writers
	ballast  int           // objects that only a first sync and a relist tell of
	maxSize  string        // output.maxSize
	interval time.Duration // checkpoint.interval
}

// defaultOptions are also those of the tests.
func defaultOptions() options {
	return options{
		length: 5 * time.Minute, round: 3 * time.Minute, folder: 100,
		rate: 80, ballast: 300, maxSize: "64KiB", interval: 200 * time.Millisecond,
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := defaultOptions()
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.length, "for", o.length, "how long to torture")
	flags.DurationVar(&o.round, "round", o.round, "time between two proofs")
	flags.IntVar(&o.kills, "kills", o.kills, "kill the daemon so many times, and nothing else")
	flags.IntVar(&o.folder, "folder", o.folder, "with -kills: begin in a new folder after so many")
	flags.IntVar(&o.takeovers, "takeovers", o.takeovers,
		"end the term of one of two replicas so many times, and nothing else")
	output := flags.String("output", "file", "with -kills: file or stdout")
	flags.Uint64Var(&o.seed, "seed", 0, "of what happens when; 0 chooses one")
	proxied := flags.String("proxy", "all", "faults of a proxy between daemon and API server: all, none, or some of\n"+
		strings.Join(faultKeys(), ","))
	flags.BoolVar(&o.noRace, "norace", false,
		"build the daemon without the race detector (with -kills and -takeovers it always is)")
	flags.Float64Var(&o.rate, "rate", o.rate, "writes per second")
	flags.StringVar(&o.maxSize, "max-size", o.maxSize, "the daemon's output.maxSize")
	flags.DurationVar(&o.interval, "interval", o.interval, "the daemon's checkpoint.interval")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.stdout = *output == "stdout"
	var fault error
	o.faults, fault = choose(*proxied)
	switch {
	case fault != nil:
	case flags.NArg() > 0:
		fault = fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *output != "file" && *output != "stdout":
		fault = fmt.Errorf("-output is file or stdout, not %q", *output)
	case o.stdout && o.kills == 0:
		fault = errors.New("-output stdout needs -kills")
	case o.kills > 0 && o.takeovers > 0:
		fault = errors.New("-kills and -takeovers do not go together")
	case o.kills < 0 || o.takeovers < 0 || o.folder < 1 || o.length <= 0 || o.round <= 0 || o.rate <= 0 ||
		o.interval <= 0:
		fault = errors.New("a number is out of range")
	}
	if fault != nil {
		fmt.Fprintf(stderr, "torture: %v\n", fault)
		return o, fault
	}
	if o.seed == 0 {
		o.seed = uint64(rand.Uint32())
	}
	if o.kills > 0 || o.takeovers > 0 { // as many as can be had in the time
		o.noRace, o.faults = true, nil
	}
	return o, nil
}

// command returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	klog.SetLogger(klog.Logger{}) // to nowhere: what client-go says of requests that die with the server is no news
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "torture: %v\n", err)
		return 1
	}
	switch {
	case o.takeovers > 0:
		err = b.takeovers(ctx)
	case o.kills > 0:
		err = b.kills(ctx)
	default:
		err = b.torment(ctx)
	}
	b.report.finish(b.Ledger, &b.meter)
	if ctx.Err() != nil {
		err = errInterrupted
	} else {
		b.report.print(stdout)
	}
	if err = b.close(err); err != nil {
		fmt.Fprintf(stderr, "torture: %v\n", err)
		return 1
	}
	return 0
}

var errInterrupted = errors.New("interrupted before the proof")
