// Command incident plays the bad day of a small shop on a real control plane, with controllers and a scheduler, and
// holds what kubejournal wrote of it against what was done.
//
// It leaves a folder: the journal (rotated, too), ledger.json with what each step changed, tail.txt with the journal as
// a terminal of 100 columns shows it, and status.txt, page.html and page.png as they were in the middle of an outage.
// It ends with an error unless each change of the ledger has its line at its time, and the journal its invariants. Who
// made a change, and when, is counted; with -strict a wrong answer is a fault.
//
//	story.go     the steps, in their order
//	ledger.go    what the steps did
//	stage.go     the control plane, the controllers, kubejournal, and the door between them
//	kubelet.go   what says that pods run, or fail
//	check.go     ledger against journal
//	picture.go   what a person sees: terminal, status, page
//	manifests/   what is applied, and kubejournal's config
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := flag.String("out", "bin/incident", "`folder` that is made anew, with what the incident leaves")
	strict := flag.Bool("strict", false, "a wrong manager or time is a fault")
	binary := flag.String("program", "", "kubejournal `binary`; without it, it is built")
	flag.Parse()
	err := run(ctx, *out, *binary, *strict)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "incident: %v\n", err)
		os.Exit(1)
	}
}

// run plays the incident and clears away all but the folder.
func run(ctx context.Context, out, binary string, strict bool) (err error) {
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	x := &incident{out: out, program: binary}
	defer func() { err = errors.Join(err, x.clear()) }()
	if err := x.setUp(ctx); err != nil {
		return err
	}
	for i, s := range x.story() {
		began := time.Now()
		x.ledger.begin(s.name)
		err := s.do(ctx)
		x.ledger.end()
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		fmt.Printf("%2d. %-64s %3d changes %6.1f s\n", i+1, s.name, len(x.ledger.last().Changes), time.Since(began).Seconds())
	}
	return x.finish(ctx, strict)
}

// finish lets everything come to rest, ends kubejournal and checks what it wrote.
func (x *incident) finish(ctx context.Context, strict bool) error {
	x.stopControllers()
	if err := x.atRest(ctx); err != nil {
		return err
	}
	if err := x.daemon.Stop(patience); err != nil {
		return err
	}
	since := x.ledger.Steps[1].From.UTC().Format(time.RFC3339Nano) // what was there before is long
	if err := errors.Join(
		x.ledger.write(filepath.Join(x.out, "ledger.json")),
		x.onTerminal("tail.txt", "tail -N all --no-follow --since "+since+" journal.jsonl"),
	); err != nil {
		return err
	}
	report, err := x.check(strict)
	fmt.Printf("\n%s\nThe journal, and what was seen of it: %s\n", report, x.out)
	return err
}
