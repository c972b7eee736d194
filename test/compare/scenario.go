package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"kubejournal/test/program"
)

// finding is what a scenario's round found of one reader.
type finding struct {
	verdict
	broken      int
	gap, logged bool
}

// kill -9 in the middle of acknowledged writes, back after a while.
func (b *bench) killed(ctx context.Context, namespace string) (map[string]finding, error) {
	return b.scenario(ctx, namespace, func(g group, w *workload) (before int, err error) {
		written := make(chan error, 1)
		go func() { written <- w.write(ctx, b.writes) }()
		if err := b.reached(ctx, w, b.writes/2, written); err != nil {
			return 0, err
		}
		if err := g.signal(syscall.SIGKILL); err != nil {
			return 0, err
		}
		select {
		case <-time.After(b.down):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if err := g.start(b); err != nil {
			return 0, err
		}
		return 0, <-written
	})
}

// reached waits until so many writes are acknowledged, or the writers end before it.
func (b *bench) reached(ctx context.Context, w *workload, n int, written <-chan error) error {
	return program.Eventually(ctx, time.Hour, "wait for writes", func() error { // ctx is what ends it
		select {
		case err := <-written:
			return program.Final(errors.Join(errors.New("writers ended before the kill"), err))
		default:
		}
		if is := w.ledger.count.Load(); is < int64(n) {
			return fmt.Errorf("%d of %d", is, n)
		}
		return nil
	})
}

// missed: stopped in order, then writes, etcd compacted, the API server restarted, and back.
func (b *bench) missed(ctx context.Context, namespace string) (map[string]finding, error) {
	return b.scenario(ctx, namespace, func(g group, w *workload) (before int, err error) {
		if err := w.write(ctx, b.writes/3); err != nil {
			return 0, err
		}
		before = len(w.ledger.writes)
		if err := g.caughtUp(ctx, b); err != nil {
			return 0, err
		}
		if err := g.signal(syscall.SIGTERM); err != nil {
			return 0, err
		}
		if err := w.write(ctx, b.missing); err != nil {
			return 0, err
		}
		if err := b.cluster.Compact(ctx); err != nil {
			return 0, err
		}
		if err := b.cluster.RestartAPIServer(ctx); err != nil {
			return 0, err
		}
		return before, g.start(b)
	})
}

// scenario lets all readers read the same writes at the same time, and judges each. act ends with all readers running;
// it returns how many writes were made before a gap.
func (b *bench) scenario(ctx context.Context, namespace string, act func(group, *workload) (int, error)) (map[string]finding, error) {
	ctx, cancel := context.WithCancel(ctx) // ends writers that a fault leaves behind
	defer cancel()
	if err := b.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	g, err := b.newGroup(keepers)
	if err != nil {
		return nil, err
	}
	defer g.remove()
	if err := g.start(b); err != nil {
		return nil, err
	}
	if err := g.caughtUp(ctx, b); err != nil {
		return nil, err
	}
	w := b.newWorkload(namespace)
	before, err := act(g, w)
	if err != nil {
		return nil, err
	}
	if err := g.caughtUp(ctx, b); err != nil {
		return nil, err
	}
	if err := g.signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	found := make(map[string]finding)
	for _, r := range g {
		told, logged, err := r.told()
		if err != nil {
			return nil, err
		}
		told = told.in(namespace)
		f := finding{judge(w.ledger.writes[:before], w.ledger.writes[before:], told.changes), told.broken, told.gap, logged}
		found[r.name] = f
		b.say("  %s: %+v", r.name, f)
	}
	return found, b.clear(ctx, namespace)
}
