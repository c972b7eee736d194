package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options is the command line.
type options struct {
	objects  int // of the large runs
	informer int // objects of the baseline, which would not fit into memory else
	streams  int // of the idle run
	blocked  int // streams of the run whose output nobody reads
	// definitions is how many CustomResourceDefinitions a real server has in their run; 0 leaves it out.
	definitions int
	gzip        int            // objects of the lists with and without compression
	nodes       []int          // of the clusters
	shards      []int          // ways to split them; 1 is not at all
	steady      time.Duration  // how long a cluster's changes come
	starts      int            // how often a start is measured
	idle        time.Duration  // how long idle streams are looked at
	settle      time.Duration  // how long nothing may move before the output counts as blocked
	run         *regexp.Regexp // which runs
	program     string         // the program to measure; "" builds it
	dir         string         // where journals go; "" is the system's temporary folder
	keep        bool           // leave the folder
}

func defaultOptions() options {
	return options{
		objects: 1_000_000, informer: 100_000, streams: 300, blocked: 100, gzip: 100_000, starts: 3,
		nodes: []int{1000, 5000, 15000}, shards: []int{1, 4, 16}, steady: 10 * time.Second,
		idle: 30 * time.Second, settle: 3 * time.Second, run: regexp.MustCompile(""),
	}
}

// The program runs itself in these roles.
const (
	roleServe  = "serve"
	roleInform = "inform"
)

// command is the program without its process.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == roleServe:
		err = serve(ctx, args[1:], stdout)
	case len(args) > 0 && args[0] == roleInform:
		err = inform(ctx, args[1:], stdout)
	default:
		var o options
		if o, err = parse(args, stderr); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return 0
			}
			return 2
		}
		err = measure(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := defaultOptions()
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.objects, "objects", o.objects, "objects of the large runs, at most 9999999")
	f.IntVar(&o.informer, "informer", o.informer, "objects of the informer baseline")
	f.IntVar(&o.streams, "streams", o.streams, "idle streams")
	f.IntVar(&o.blocked, "blocked", o.blocked, "streams of the run with a blocked output")
	f.IntVar(&o.gzip, "gzip", o.gzip, "objects of the lists with and without compression")
	f.IntVar(&o.definitions, "definitions", o.definitions,
		"definitions of a real server, e.g. 1000; 0 leaves that run out")
	f.IntVar(&o.starts, "starts", o.starts, "how often a start is measured")
	f.DurationVar(&o.idle, "idle", o.idle, "how long idle streams are looked at")
	f.DurationVar(&o.settle, "settle", o.settle, "how long nothing may move before an output counts as blocked")
	f.Func("nodes", "nodes of the clusters, with commas between them (default 1000,5000,15000)", numbers(&o.nodes))
	f.Func("shards", "into how many shards clusters are split, likewise (default 1,4,16)", numbers(&o.shards))
	f.DurationVar(&o.steady, "steady", o.steady, "how long a cluster's changes come")
	f.StringVar(&o.program, "program", o.program, "the kubejournal to measure; default: built from this module")
	f.StringVar(&o.dir, "dir", o.dir,
		"where journals go: some 1.5 KB per object; default: the system's temporary folder")
	f.BoolVar(&o.keep, "keep", o.keep, "leave journals, checkpoints and logs")
	f.Func("run", "only the runs whose name matches this regular expression", func(s string) (err error) {
		o.run, err = regexp.Compile(s)
		return err
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, nil
}

// numbers parses a list.
func numbers(list *[]int) func(string) error {
	return func(s string) error {
		*list = nil
		for _, text := range strings.Split(s, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number from 1 on", text)
			}
			*list = append(*list, n)
		}
		return nil
	}
}
