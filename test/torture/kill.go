package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	firstKills = 10 // of a folder, which come early: most of them within its first sync
	early      = 400 * time.Millisecond
	late       = 1500 * time.Millisecond
)

// kills kills the daemon again and again while writers churn and the servers are well, from time to time in a new
// folder. There must be no GAP in any journal then.
func (b *bench) kills(ctx context.Context) error {
	for done := 0; done < b.options.kills; {
		count := min(b.options.folder, b.options.kills-done)
		p, d, err := b.volley(ctx, fmt.Sprintf("folder-%d", done), count)
		if err != nil {
			return err
		}
		done += count
		b.report.add(p)
		if p.fault != nil {
			return p.fault
		}
		b.say("%d kills: %s", done, p)
		if d.pipe {
			b.say("%d lines told again, the oldest %s before its kill", p.again, p.oldest.Round(time.Millisecond))
		}
		if err := os.RemoveAll(d.dir); err != nil {
			return fmt.Errorf("remove folder: %w", err)
		}
	}
	return nil
}

// volley kills the daemon so many times in a new folder, and proves what it has written.
func (b *bench) volley(ctx context.Context, name string, kills int) (proof, *daemon, error) {
	d, err := newDaemon(b, filepath.Join(b.dir, name), nil)
	if err != nil {
		return proof{}, nil, err
	}
	b.daemon = d
	b.Ledger.Forget()
	writers := b.churn(ctx, name, b.options.rate, b.random.Uint64())
	if d.pipe {
		err = b.begin(ctx, d)
	}
	for i := 0; i < kills && err == nil; i++ {
		err = b.shoot(ctx, d, b.moment(i))
	}
	writers.Stop()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return proof{}, nil, err
	}
	p, err := b.prove(ctx, d)
	return p, d, err
}

// begin has the daemon make its first sync undisturbed: what a reader of stdout was told in one that was killed can be
// told again only as far as it is still there.
func (b *bench) begin(ctx context.Context, d *daemon) error {
	if err := b.catchUp(ctx, d); err != nil {
		return err
	}
	return b.stop(d)
}

// moment is when the i-th kill of a folder comes, after the start of the daemon.
func (b *bench) moment(i int) time.Duration {
	longest := late
	if i < firstKills || b.random.IntN(2) == 0 {
		longest = early
	}
	if !b.options.noRace {
		longest *= 2 // the race detector makes starts slower
	}
	return upTo(b.random, longest)
}

// shoot starts the daemon and kills it after a time.
func (b *bench) shoot(ctx context.Context, d *daemon, after time.Duration) error {
	if err := d.launch(); err != nil {
		return err
	}
	if _, ok := d.wait(ctx, after); !ok {
		return ctx.Err()
	}
	return b.kill(d)
}
