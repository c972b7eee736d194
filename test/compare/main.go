// Command compare runs kubejournal and its peers side by side, each as a process of its own, on one real control plane,
// and prints what became of the writes that the server acknowledged, as Markdown:
//
//	kill   all readers are killed by SIGKILL in the middle of the writes and come back after some seconds
//	gap    they are stopped in order, writes continue, etcd is compacted, the API server restarted, and they come back
//	taken  of two replicas of each that can have some, the one that writes is killed
//	load   each in its turn reads updates while they are made: CPU time, memory, lag
//
// In the first three, all read the same writes at the same time, and one judge (judge.go) holds each one's output
// against them. It knows nothing of the readers; only the parsing of an output is each format's own.
//
// The programs are found beside this one; make compare builds them. kubewatch and kubernetes-event-exporter, which the
// docs speak of, are not among them: the module proxy serves neither.
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
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"kubejournal/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	program  string // kubejournal
	page     string // that the tables are written to; "" is none
	rounds   int
	names    int // of config maps, of which a workload makes some and the load all
	writes   int // of the scenario kill; a third of them come before the gap of the scenario gap
	missing  int // writes in that gap
	updates  int // that are read under load
	rate     float64
	loadRate float64
	down     time.Duration // from a kill to the next start
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return 2
	}
	if err := compare(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "compare:", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.program, "program", "bin/kubejournal", "the kubejournal to compare")
	write := flags.Bool("write", false, "also write the tables to "+page)
	flags.IntVar(&o.rounds, "rounds", 3, "how often each scenario is run")
	flags.IntVar(&o.names, "names", 2000, "names of config maps")
	flags.IntVar(&o.writes, "writes", 10000, "writes around the kill")
	flags.IntVar(&o.missing, "missing", 2000, "writes in the gap")
	flags.IntVar(&o.updates, "updates", 20000, "updates under load")
	flags.Float64Var(&o.rate, "rate", 400, "writes per second around kill and gap")
	flags.Float64Var(&o.loadRate, "load-rate", 1000, "updates per second under load")
	flags.DurationVar(&o.down, "down", 5*time.Second, "from the kill to the next start")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *write {
		o.page = page
	}
	if flags.NArg() > 0 || min(o.rounds, o.missing, o.updates) < 1 || o.names < writers || o.writes < 3 ||
		min(o.rate, o.loadRate) <= 0 {
		err := fmt.Errorf("no arguments are taken, counts begin at 1, -names at %d and -writes at 3", writers)
		fmt.Fprintln(stderr, "compare:", err)
		return o, err
	}
	return o, nil
}

// bench is what the scenarios share.
type bench struct {
	options
	dir      string            // all that readers write is in folders of it
	programs map[string]string // paths
	cluster  *cluster.Cluster
	client   typed.CoreV1Interface
	marks    int // made until now
	progress io.Writer
	began    time.Time
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6s  %s\n", time.Since(b.began).Round(time.Second), fmt.Sprintf(format, args...))
}

func compare(ctx context.Context, o options, stdout, progress io.Writer) (err error) {
	if o.page != "" { // a fault of the page is told before the work
		if err := put(o.page, ""); err != nil {
			return err
		}
	}
	b := &bench{options: o, progress: progress, began: time.Now()}
	if b.programs, err = findPrograms(o.program); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "kubejournal-compare-"); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.say("starting a control plane")
	if b.cluster, err = cluster.Start(ctx, cluster.Options{TimeLimit: time.Hour}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Close()) }()
	config := b.cluster.RESTConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.Timeout = time.Minute
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	b.client = client.CoreV1()
	if err := b.namespace(ctx, markSpace); err != nil {
		return err
	}
	r := report{options: o, date: time.Now().UTC(), killed: make(map[string][]finding),
		missed: make(map[string][]finding), taken: make(map[string][]finding), costs: make(map[string][]cost)}
	server, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for version: %w", err)
	}
	if r.versions, err = b.versions(ctx, server.GitVersion); err != nil {
		return err
	}
	if err := b.measureAll(ctx, &r); err != nil {
		return err
	}
	text := r.markdown()
	fmt.Fprint(stdout, text)
	if o.page != "" {
		return put(o.page, text)
	}
	return nil
}

// measureAll runs all scenarios in turn, so that a slow minute of the machine is in all of a round.
func (b *bench) measureAll(ctx context.Context, r *report) error {
	scenarios := []struct {
		name string
		run  func(context.Context, string) (map[string]finding, error)
		into map[string][]finding
	}{{"kill", b.killed, r.killed}, {"gap", b.missed, r.missed}, {"taken", b.takenOver, r.taken}}
	for n := range b.rounds {
		for _, s := range scenarios {
			b.say("round %d: %s", n+1, s.name)
			found, err := s.run(ctx, fmt.Sprintf("%s-%d", s.name, n))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			for name, f := range found {
				s.into[name] = append(s.into[name], f)
			}
		}
	}
	if err := b.load(ctx); err != nil {
		return err
	}
	for n := range b.rounds {
		b.say("round %d: load", n+1)
		for i := range measured {
			w := measured[(i+n)%len(measured)] // nobody is always the first
			c, err := b.measure(ctx, w)
			if err != nil {
				return fmt.Errorf("load: %w", err)
			}
			r.costs[w.name] = append(r.costs[w.name], c)
		}
	}
	return nil
}

// findPrograms looks for the peers beside this program.
func findPrograms(kubejournal string) (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	found := map[string]string{"kubejournal": kubejournal}
	for _, name := range []string{"byhand", "kubectl", "otelcol"} {
		found[name] = filepath.Join(filepath.Dir(self), name)
	}
	for name, path := range found {
		if found[name], err = filepath.Abs(path); err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return nil, fmt.Errorf("find %s (make compare builds it): %w", name, err)
		}
	}
	return found, nil
}
