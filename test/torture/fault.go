package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"kubejournal/test/program"
)

// fault is something that happens to the servers. It ends with both of them well.
type fault struct {
	name   string
	weight int
	drops  bool // streams may find that the server has dropped the history they need
	do     func(ctx context.Context, b *bench, r *rand.Rand) error
}

var faults = []fault{
	{"API server killed (SIGKILL)", 4, true, func(ctx context.Context, b *bench, r *rand.Rand) error {
		if err := b.cluster.KillAPIServer(); err != nil {
			return err
		}
		pass(ctx, upTo(r, 2*time.Second))
		return b.cluster.StartAPIServer(ctx)
	}},
	{"API server restarted (SIGTERM)", 2, true, func(ctx context.Context, b *bench, _ *rand.Rand) error {
		return b.cluster.RestartAPIServer(ctx)
	}},
	{"API server paused (SIGSTOP)", 3, true, func(ctx context.Context, b *bench, r *rand.Rand) error {
		if err := b.cluster.PauseAPIServer(); err != nil {
			return err
		}
		pass(ctx, time.Second+upTo(r, 6*time.Second))
		return b.cluster.ResumeAPIServer()
	}},
	{"etcd killed (SIGKILL)", 3, true, func(ctx context.Context, b *bench, r *rand.Rand) error {
		if err := b.cluster.KillEtcd(); err != nil {
			return err
		}
		pass(ctx, upTo(r, 3*time.Second))
		return b.cluster.StartEtcd(ctx)
	}},
	{"etcd compacted", 1, true, func(ctx context.Context, b *bench, _ *rand.Rand) error {
		return b.cluster.Compact(ctx)
	}},
	{"etcd compacted, API server killed", 2, true, func(ctx context.Context, b *bench, _ *rand.Rand) error {
		if err := errors.Join(b.cluster.Compact(ctx), b.cluster.KillAPIServer()); err != nil {
			return err
		}
		return b.cluster.StartAPIServer(ctx)
	}},
}

func faultNamed(name string) fault {
	return faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == name })]
}

// disturb makes one fault and counts it.
func (b *bench) disturb(ctx context.Context, f fault, r *rand.Rand) error {
	b.trouble.begin()
	defer b.trouble.end()
	b.report.count(f.name)
	if err := f.do(ctx, b, r); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// disturbServers makes one fault after the other until ctx ends. The last one is brought to its end, unless life is
// over.
func (b *bench) disturbServers(life, ctx context.Context, r *rand.Rand) error {
	var hat []fault
	for _, f := range faults {
		for range f.weight {
			hat = append(hat, f)
		}
	}
	for pass(ctx, 2*time.Second+upTo(r, 10*time.Second)) {
		b.calm.RLock()
		err := b.disturb(life, hat[r.IntN(len(hat))], r)
		b.calm.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// disturbDaemon kills the daemon again and again, and sometimes asks it to end, until ctx ends.
func (b *bench) disturbDaemon(ctx context.Context, d *daemon, r *rand.Rand) error {
	for {
		// Often in its start, which takes a race detector's build about half a second.
		wait := upTo(r, 5*time.Second)
		if r.IntN(3) == 0 {
			wait = upTo(r, time.Second)
		}
		if !pass(ctx, wait) {
			return nil
		}
		if err := b.restart(ctx, d, r); err != nil {
			return err
		}
	}
}

// restart ends the daemon, if it has not ended by itself, and starts it again.
func (b *bench) restart(ctx context.Context, d *daemon, r *rand.Rand) error {
	b.calm.RLock()
	defer b.calm.RUnlock()
	var err error
	switch {
	case !d.process.Alive():
		err = b.excuse(d.process.Fault(program.ErrEnded), d.process)
	case r.IntN(5) == 0:
		b.report.count(daemonStopped)
		err = b.stop(d)
	default:
		err = b.kill(d)
	}
	if err != nil {
		return err
	}
	if r.IntN(3) == 0 {
		pass(ctx, upTo(r, 2*time.Second))
	}
	return d.launch()
}

// stop asks the daemon to end.
func (b *bench) stop(d *daemon) error {
	p := d.process
	d.process = nil
	err := p.Stop(stopLimit)
	if log, logErr := p.Log(); p.Killed(syscall.SIGTERM) && logErr == nil && len(log) == 0 {
		// before its main could take note of signals, and so before it did anything: a race detector's start is slow
		err = nil
	}
	return errors.Join(b.excuse(err, p), d.drain(time.Time{}))
}

// kill kills the daemon and counts what the kill met.
func (b *bench) kill(d *daemon) error {
	p := d.process
	d.process = nil
	at, err := p.Kill()
	if drainErr := d.drain(at); drainErr != nil {
		return errors.Join(err, drainErr)
	}
	if err != nil {
		return b.excuse(err, p)
	}
	t, err := toldBy(p)
	if err != nil {
		return err
	}
	left, err := d.remains()
	if err != nil {
		return err
	}
	b.report.killed(t, left)
	return nil
}

// excuse lets a daemon go that ended with status 1 because it found no server to begin with: whoever runs it, a kubelet
// or systemd, starts it again. Anything else stays an error.
func (b *bench) excuse(err error, p *program.Process) error {
	if !errors.Is(err, program.ErrEnded) {
		return err
	}
	if p.State().ExitCode() != 1 || !b.trouble.since(p.Started()) || p.Sound() != nil {
		return err
	}
	t, readErr := toldBy(p)
	if readErr != nil || t.running { // one that has come to the end of its start continues without a server
		return errors.Join(err, readErr)
	}
	b.report.count(daemonGaveUp)
	return nil
}

// pass waits for a time and reports whether it passed before ctx ended.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
