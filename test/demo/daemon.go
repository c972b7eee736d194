package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"kubejournal/test/program"
)

const (
	startTimeout = time.Minute // on a busy machine; a second is usual
	stopTimeout  = 15 * time.Second
)

// daemon is the kubejournal program and, while it runs, its process.
type daemon struct {
	program    string
	dir        string // it runs there, so that the paths of its config are the demo's own
	kubeconfig string
	process    *program.Process // the latest
}

// args are the arguments as a user would give them, in the daemon's own folder.
var args = []string{"run", "--config", "kubejournal.yaml", "--output", "journal.jsonl", "--listen", "127.0.0.1:0"}

// start starts the daemon and waits until it listens. What it logs is appended to one file.
func (d *daemon) start(ctx context.Context) (err error) {
	cmd := exec.Command(d.program, args...)
	cmd.Dir, cmd.Env = d.dir, program.Environ(d.dir, "KUBECONFIG="+d.kubeconfig)
	if d.process, err = program.Start(cmd, filepath.Join(d.dir, "kubejournal.log")); err != nil {
		return err
	}
	return d.wait(ctx, "wait until it listens", startTimeout, func() error {
		_, err := d.process.Address()
		return err
	})
}

// ready waits until the daemon says so and returns the names of its streams.
func (d *daemon) ready(ctx context.Context) (names []string, err error) {
	var streams []program.Stream
	err = d.wait(ctx, "wait until it is ready", startTimeout, func() error {
		if err := d.process.Ready(ctx); err != nil {
			return err
		}
		if streams, err = d.process.Streams(ctx); err == nil && len(streams) == 0 {
			err = fmt.Errorf("it has no streams")
		}
		return err
	})
	for _, s := range streams {
		if s.State == program.Pending {
			return nil, fmt.Errorf("stream %s is pending: %s", s.Stream, s.Reason)
		}
		names = append(names, s.Stream)
	}
	return names, err
}

// stop asks the daemon to end, as kubelet or systemd would, and demands exit status 0.
func (d *daemon) stop() error { return d.process.Stop(stopTimeout) }

// wait waits until check returns nil, as long as the daemon runs.
func (d *daemon) wait(ctx context.Context, what string, limit time.Duration, check func() error) error {
	err := d.process.Wait(ctx, limit, what, check)
	if err != nil && d.process.Alive() {
		err = d.process.Fault(err)
	}
	return err
}
