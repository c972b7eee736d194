// Command incident plays the bad day of a small shop on a real control plane, with controllers and a scheduler, and
// holds what kubejournal wrote of it against what was done.
//
// It leaves a folder: the journal (rotated, too), the API server's audit log of all writes with the objects that were
// answered, ledger.json with the steps, summary.txt and writers.txt with what the journal says of writers beside the
// truth, why.txt with how often kubejournal why is right, tail.txt with the journal as a terminal of 100 columns shows
// it, and status.txt, page.html and page.png as they were in the middle of an outage; and questions that people have
// after such a day, each with its answer, in a file of its own. It ends with an error unless each write has its line,
// with its object and at its time, the journal its invariants, each cause that is certain is true, and of the likely
// ones 98 %. With -strict, a wrong manager, subresource or writtenAt is an error too, and so is a way to write whose
// writer should be known and is not.
//
//	story.go     the steps, in their order
//	load.go      more of the same, for -load
//	stage.go     the control plane, the controllers, kubejournal, and the door between them
//	kubelet.go   what says that pods run, or fail
//	ledger.go    which steps there were, and when
//	check.go     the journal against the audit log
//	writers.go   what it says of who wrote, and when
//	picture.go   what a person sees: terminal, status, page
//	endings.go   more steps: how objects end, and pods fail
//	why.go       what kubejournal why says of each, against the audit log
//	whyrules.go  what has to be true of a link, by its rule
//	persons.go   whom kubejournal audit names, at each level of the audit log
//	ask.go       asks kubejournal, and reads its answers
//	moments.go   what the API server answers at some moments, and kubejournal serve of them
//	questions.go what is asked, what the answers have to be, and the restore of what was deleted
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

	"kubejournal/test/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := flag.String("out", "bin/incident", "`folder` that is made anew, with what the incident leaves")
	strict := flag.Bool("strict", false, "a wrong manager, subresource or time is an error")
	load := flag.Int("load", 0, "have controllers busy until the journal has so many `lines`")
	only := flag.Bool("endings", false, "the endings alone, and no question but why")
	judge := flag.Bool("judge", false, "hold what why and serve say against the folder that a run left")
	moments := flag.Int("moments", 3, "compare serve with the API server at N `moments`")
	binary := flag.String("program", "", "kubejournal `binary`; without it, it is built")
	flag.Parse()
	err := run(ctx, &incident{out: *out, program: *binary, only: *only, moments: *moments}, *load, *strict, *judge)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "incident: %v\n", err)
		os.Exit(1)
	}
}

// run plays the incident and clears away all but the folder.
func run(ctx context.Context, x *incident, load int, strict, judge bool) (err error) {
	if x.out, err = filepath.Abs(x.out); err != nil {
		return err
	}
	if judge {
		return x.judgeAgain(ctx)
	}
	defer func() { err = errors.Join(err, x.clear()) }()
	if err := x.setUp(ctx); err != nil {
		return err
	}
	steps := x.endings()
	if !x.only {
		steps = append(x.story(), steps...)
	}
	for i, s := range steps {
		began := time.Now()
		x.ledger.begin(s.name)
		err := s.do(ctx)
		x.ledger.end()
		took := time.Since(began)
		if err == nil && x.chosen(i, len(steps)) {
			err = x.record(ctx, s.name)
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		fmt.Printf("%2d. %-70s %6.1f s\n", i+1, s.name, took.Seconds())
	}
	if load > 0 {
		x.ledger.begin("Load")
		err := x.load(ctx, load)
		x.ledger.end()
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	return x.finish(ctx, strict)
}

// judgeAgain asks about what another run has left.
func (x *incident) judgeAgain(ctx context.Context) (err error) {
	if x.work, err = os.MkdirTemp("", "kubejournal-incident-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(x.work)) }()
	if x.program == "" {
		if x.program, err = program.Build(ctx, x.work); err != nil {
			return err
		}
	}
	return errors.Join(x.why(ctx), x.persons(ctx), x.judgeMoments(ctx))
}

// finish lets everything come to rest, ends kubejournal and checks what it wrote.
func (x *incident) finish(ctx context.Context, strict bool) error {
	x.stopControllers()
	if err := x.atRest(ctx); err != nil {
		return err
	}
	var answered error
	if !x.only {
		answered = x.ask()
	}
	if err := x.daemon.Stop(patience); err != nil {
		return err
	}
	since := x.ledger.Steps[1].From.UTC().Format(time.RFC3339Nano) // what was there before is long
	audit, err := os.ReadFile(x.cluster.AuditLog())
	if err := errors.Join(err, os.WriteFile(filepath.Join(x.out, "audit.log"), audit, 0o600),
		x.ledger.write(filepath.Join(x.out, "ledger.json")), x.keepMoments()); err != nil {
		return err
	}
	if x.only {
		return errors.Join(x.why(ctx), x.judgeMoments(ctx))
	}
	if err := x.onTerminal("tail.txt", "tail -N all --no-follow --since "+since+" journal.jsonl",
		3); err != nil { // there is a gap
		return err
	}
	kinds, examples, err := x.check(strict)
	fmt.Printf("\n%s\nThe journal, and what was seen of it: %s\n", kinds, x.out)
	return errors.Join(err, answered, x.why(ctx), x.persons(ctx), x.judgeMoments(ctx), x.giveBack(ctx),
		os.WriteFile(filepath.Join(x.out, "summary.txt"), []byte(kinds), 0o600),
		os.WriteFile(filepath.Join(x.out, "writers.txt"), []byte(examples), 0o600))
}
