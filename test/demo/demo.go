package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const (
	exitFault       = 1
	exitInterrupted = 130 // as a shell reports it
	timeLimit       = 5 * time.Minute
)

// demo is what the steps work on.
type demo struct {
	cluster *cluster.Cluster
	client  dynamic.Interface
	daemon  *daemon
	journal *journal
	out     *printer
	streams []string // of the daemon

	steps   int       // played
	seen    int       // journal lines that a step has looked at
	matched int       // of them, those that a step had to bring about
	began   time.Time // the last step
}

// run is the whole demo. Progress and faults go to stderr.
func run(ctx context.Context, stdout, stderr io.Writer) int {
	err := show(ctx, stdout, stderr)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "demo: interrupted; everything it started is down")
		return exitInterrupted
	default:
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitFault
	}
}

// show sets the stage, plays and clears away, whatever happens.
func show(ctx context.Context, stdout, stderr io.Writer) (err error) {
	root, err := program.Root()
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "demo: looking for kube-apiserver and etcd")
	binaries, err := cluster.Build(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kubejournal-demo-")
	if err != nil {
		return fmt.Errorf("make demo folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(stderr, "demo: building kubejournal")
	binary, err := program.Build(ctx, dir)
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(root, "configs", "kubejournal.yaml"))
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubejournal.yaml"), config, 0o600); err != nil {
		return fmt.Errorf("copy config: %w", err)
	}

	fmt.Fprintln(stderr, "demo: starting a control plane")
	c, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, TimeLimit: timeLimit})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client, transport, err := workload.Connect(c.RESTConfig())
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()

	d := &demo{
		cluster: c, client: client, out: newPrinter(stdout),
		daemon:  &daemon{program: binary, dir: dir, kubeconfig: c.Kubeconfig()},
		journal: &journal{tail: program.NewTail(filepath.Join(dir, "journal.jsonl"))},
	}
	defer d.journal.tail.Close()
	defer func() { d.daemon.process.End() }()
	return d.playAll(ctx)
}

func (d *demo) playAll(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	if err := d.playSteps(ctx,
		step{
			title: "Somebody deploys a web shop",
			do: d.apply(createNamespace(), createDeployment("web", 2),
				createConfigMap("web-settings", "theme", "light"), createSecret("web-login")),
			want: []string{
				"ADDED watch namespaces shop kubectl-create -",
				"ADDED watch deployments.apps shop/web kubectl-create spec.replicas=2",
				"ADDED watch configmaps shop/web-settings kubectl-create data.theme=light",
				"ADDED watch secrets shop/web-login kubectl-create data.password=REDACTED",
			},
			full: "ADDED watch secrets shop/web-login kubectl-create data.password=REDACTED",
		},
		step{
			title: "The deployment is scaled from 2 to 5, the config map edited",
			do:    d.apply(scaleDeployment("web", 5), patchConfigMap("web-settings", "theme", "dark")),
			want: []string{
				"MODIFIED watch deployments.apps shop/web kubectl-patch spec.replicas=5",
				"MODIFIED watch configmaps shop/web-settings kubectl-patch data.theme=dark",
			},
		},
		step{
			title: "While kubejournal is down, an object is deleted: the server still has the history",
			do: func(ctx context.Context) error {
				return d.whileDown(ctx,
					d.apply(remove("configmap", "web-settings", configMaps), scaleDeployment("web", 3)))
			},
			want: []string{
				"DELETED watch configmaps shop/web-settings - data.theme=dark",
				"MODIFIED watch deployments.apps shop/web kubectl-patch spec.replicas=3",
			},
		},
		d.historyGone(),
	); err != nil {
		return err
	}
	if err := d.questions(ctx); err != nil {
		return err
	}
	if err := d.playSteps(ctx, step{
		title: "Somebody deletes the wrong things",
		do: d.apply(createSecret("web-login"), remove("configmap", "web-settings", configMaps),
			remove("secret", "web-login", secrets)),
		want: []string{
			"ADDED watch secrets shop/web-login kubectl-create data.password=REDACTED",
			"DELETED watch configmaps shop/web-settings - data.theme=light",
			"DELETED watch secrets shop/web-login - data.password=REDACTED",
		},
	}); err != nil {
		return err
	}
	if err := d.playSteps(ctx, d.giveBack(d.began)); err != nil {
		return err
	}
	return d.finish()
}

// playSteps plays steps, each in another second than the one before: managedFields count in seconds, and of two writers
// within one, a stream without changes knows neither.
func (d *demo) playSteps(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if err := nextSecond(ctx); err != nil {
			return err
		}
		d.began = time.Now()
		if err := d.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the daemon on a cluster that has a few objects already. Its streams are known only then, so this step
// does not go through play.
func (d *demo) begin(ctx context.Context) error {
	fmt.Fprintln(d.out.w,
		"kubejournal on a real API server: what is done to the cluster, and the journal lines that come of it.")
	d.steps++
	d.out.title(d.steps, "kubejournal starts and writes down what is there already")
	if err := d.startDaemon(ctx); err != nil {
		return err
	}
	streams, err := d.daemon.ready(ctx)
	if err != nil {
		return err
	}
	d.streams = streams
	s := step{focus: []string{"namespaces"}}
	for _, name := range streams {
		s.want = append(s.want, "SYNCED - "+name)
	}
	return d.expect(ctx, s)
}

// historyGone is the step after which the server cannot say any more what happened: all streams have a gap.
func (d *demo) historyGone() step {
	s := step{
		title: "While kubejournal is down, objects change and the server forgets its history",
		focus: []string{"configmaps", "deployments.apps", "secrets"},
		do: func(ctx context.Context) error {
			return d.whileDown(ctx, func(ctx context.Context) error {
				changes := d.apply(remove("secret", "web-login", secrets), scaleDeployment("web", 1),
					createConfigMap("web-settings", "theme", "light"))
				if err := changes(ctx); err != nil {
					return err
				}
				d.out.note("etcd is compacted and the API server restarted: no watch can go back to before")
				if err := d.cluster.Compact(ctx); err != nil {
					return err
				}
				return d.cluster.RestartAPIServer(ctx)
			})
		},
		want: []string{
			"DELETED relist secrets shop/web-login - finalStateKnown=false",
			"MODIFIED relist deployments.apps shop/web - spec.replicas=1",
			"ADDED relist configmaps shop/web-settings - data.theme=light",
		},
	}
	counts := map[string]string{
		"deployments.apps": " - - added=0 modified=1 deleted=0 unchanged=0",
		"secrets":          " - - added=0 modified=0 deleted=1 unchanged=0",
	}
	for _, name := range d.streams {
		s.want = append(s.want, "GAP - "+name+" - - reason=Expired", "SYNCED - "+name+counts[name])
	}
	return s
}

// apply makes changes, one after the other.
func (d *demo) apply(changes ...change) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, c := range changes {
			d.out.command(c.kubectl)
			if err := c.make(ctx, d.client); err != nil {
				return fmt.Errorf("%s: %w", c.kubectl, err)
			}
		}
		return nil
	}
}

func (d *demo) whileDown(ctx context.Context, do func(context.Context) error) error {
	d.out.command(fmt.Sprintf("kill -TERM %d", d.daemon.process.PID()))
	if err := d.daemon.stop(); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	return d.startDaemon(ctx)
}

func (d *demo) startDaemon(ctx context.Context) error {
	d.out.command("kubejournal " + strings.Join(args, " ") + " &")
	return d.daemon.start(ctx)
}

// nextSecond waits for the clock's next second.
func nextSecond(ctx context.Context) error {
	now := time.Now()
	timer := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish ends the daemon, looks once more for lines that must not be there, and says where to go from here.
func (d *demo) finish() error {
	d.steps++
	d.out.title(d.steps, "The end: is everything there, once?")
	d.out.command(fmt.Sprintf("kill -TERM %d", d.daemon.process.PID()))
	if err := d.daemon.stop(); err != nil {
		return err
	}
	if err := d.journal.refresh(); err != nil {
		return err
	}
	if _, surplus := compare(nil, d.journal.lines[d.seen:]); len(surplus) > 0 {
		return mismatch(nil, surplus)
	}
	if err := d.noSecret(); err != nil {
		return err
	}
	fmt.Fprintf(d.out.w, `
   The journal holds %d lines, seq 1 to %d without a hole.
   Each of the %d lines that had to be there is there exactly once.
   The Secret's password is nowhere in the journal, the checkpoint or the log.

Everything is taken down again. To run kubejournal against a cluster of your own, see README.md; in short:

   make build
   bin/kubejournal run pods deployments             # in this terminal, nothing kept
   bin/kubejournal run --config configs/kubejournal.yaml
`, len(d.journal.lines), len(d.journal.lines), d.matched)
	return nil
}

// noSecret looks for the Secret's value in everything that the daemon has written.
func (d *demo) noSecret() error {
	files, err := os.ReadDir(d.daemon.dir)
	if err != nil {
		return fmt.Errorf("look for the secret: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(d.daemon.dir, file.Name())
		if path == d.daemon.program {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("look for the secret: %w", err)
		}
		for _, value := range []string{password, encodedPassword} {
			if bytes.Contains(content, []byte(value)) {
				return fmt.Errorf("the secret's value stands in %s", file.Name())
			}
		}
	}
	return nil
}
