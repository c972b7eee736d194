package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"kubejournal/test/program"
)

// finding is what a scenario's round found of one reader.
type finding struct {
	verdict
	broken      int
	gap, logged bool
	silent      time.Duration // from the end of the one that wrote until the next one's first line
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
func (b *bench) scenario(ctx context.Context, namespace string,
	act func(group, *workload) (int, error)) (map[string]finding, error) {
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
		f := finding{verdict: judge(w.ledger.writes[:before], w.ledger.writes[before:], told.changes),
			broken: told.broken, gap: told.gap, logged: logged}
		found[r.name] = f
		b.say("  %s: %+v", r.name, f)
	}
	return found, b.clear(ctx, namespace)
}

// takenOver: of two replicas the one that writes is killed in the middle of the writes, and stays down.
func (b *bench) takenOver(ctx context.Context, namespace string) (map[string]finding, error) {
	ctx, cancel := context.WithCancel(ctx) // ends writers that a fault leaves behind
	defer cancel()
	if err := b.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	ways := slices.Clone(replicated)
	for i := range ways {
		ways[i].config = fmt.Sprintf(ways[i].config, fmt.Sprint(namespace, "-", i))
	}
	var of [2]group // the one that leads first, and the next one
	defer func() {
		for _, g := range of {
			g.remove()
		}
	}()
	for i := range of {
		var err error
		if of[i], err = b.newGroup(ways); err != nil {
			return nil, err
		}
		if err := of[i].start(b); err != nil {
			return nil, err
		}
		if i == 0 {
			if err := of[i].caughtUp(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	w := b.newWorkload(namespace)
	written := make(chan error, 1)
	go func() { written <- w.write(ctx, b.writes) }()
	if err := b.reached(ctx, w, b.writes/5, written); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := of[0].signal(syscall.SIGKILL); err != nil {
		return nil, err
	}
	silent, err := of[1].firstLines(ctx, began)
	if err == nil {
		err = <-written
	}
	if err == nil {
		err = of[1].caughtUp(ctx, b)
	}
	if err == nil {
		err = of[1].signal(syscall.SIGTERM)
	}
	if err != nil {
		return nil, err
	}
	found := make(map[string]finding)
	for i, way := range ways {
		var all output
		for _, g := range of {
			told, _, err := g[i].told()
			if err != nil {
				return nil, err
			}
			told = told.in(namespace)
			all.changes, all.broken, all.gap = append(all.changes, told.changes...), all.broken+told.broken,
				all.gap || told.gap
		}
		f := finding{verdict: judge(w.ledger.writes, nil, all.changes), broken: all.broken, gap: all.gap,
			silent: silent[i]}
		found[way.name] = f
		b.say("  %s: %+v", way.name, f)
	}
	return found, b.clear(ctx, namespace)
}

// firstLines waits until each reader has written something, and returns how long that took.
func (g group) firstLines(ctx context.Context, began time.Time) ([]time.Duration, error) {
	const patience = 2 * time.Minute
	silent := make([]time.Duration, len(g))
	return silent, program.Eventually(ctx, patience, "take over", func() error {
		var behind error
		for i, r := range g {
			if silent[i] > 0 {
				continue
			}
			info, err := os.Stat(r.out())
			switch {
			case err == nil && info.Size() > 0:
				silent[i] = time.Since(began)
			case !r.Alive():
				return program.Final(r.fault("has ended by itself"))
			default:
				behind = errors.New(r.name + " has written nothing")
			}
		}
		return behind
	})
}
