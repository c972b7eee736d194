package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const markPatience = 3 * time.Second // until another object is made to catch up by

// torment runs rounds in one folder until the time is over. In each, writers churn while the daemon and the servers die
// side by side; then all rest, the daemon catches up, and the whole journal is proven from its first line.
func (b *bench) torment(ctx context.Context) error {
	d, err := newDaemon(b, filepath.Join(b.dir, "daemon"), nil)
	if err != nil {
		return err
	}
	b.daemon = d
	end := time.Now().Add(b.options.length)
	for n := uint64(1); time.Now().Before(end); n++ {
		length := b.options.round
		if left := time.Until(end); left < length*3/2 { // no round is so short that little happens in it
			length = left
		}
		if err := b.round(ctx, d, n, length); err != nil {
			return err
		}
		p, err := b.prove(ctx, d)
		if err != nil {
			return err
		}
		b.report.proofs++
		b.report.proven = p // of the whole journal, so that the last one counts
		if p.fault != nil {
			return p.fault
		}
		b.say("round %d: %s", n, p)
	}
	return nil
}

func (b *bench) round(ctx context.Context, d *daemon, n uint64, length time.Duration) error {
	if err := d.launch(); err != nil {
		return err
	}
	writers := b.churn(ctx, fmt.Sprintf("r%d", n), b.options.rate, b.options.seed+n)
	limited, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	group, limited := errgroup.WithContext(limited)
	group.Go(func() error { return b.disturbServers(ctx, limited, rand.New(rand.NewPCG(b.options.seed+n, 11))) })
	group.Go(func() error { return b.disturbDaemon(limited, d, rand.New(rand.NewPCG(b.options.seed+n, 12))) })
	group.Go(func() error { return b.disturbProxy(ctx, limited, d, rand.New(rand.NewPCG(b.options.seed+n, 13))) })
	err := group.Wait()
	_, _, tooMany := b.meter.result()
	writers.Stop()
	return errors.Join(err, tooMany, ctx.Err())
}

// prove lets the daemon catch up, stops it, and verifies what it has written. The writers are at rest and the servers
// are well. The error says that it could not be proven; what a proof finds is in it.
func (b *bench) prove(ctx context.Context, d *daemon) (proof, error) {
	if err := b.catchUp(ctx, d); err != nil {
		return proof{}, err
	}
	if err := b.stop(d); err != nil {
		return proof{}, err
	}
	return b.verify(ctx, d)
}

// catchUp has the daemon follow once it is known what was written.
func (b *bench) catchUp(ctx context.Context, d *daemon) error {
	if err := eventually(ctx, "settle", func() error { return b.Settle(ctx) }); err != nil {
		return err
	}
	return b.follow(ctx, d)
}

// follow makes an object for each stream and waits until the watch has told of all of them: a stream tells everything
// in order, so it has told what came before. Where a list tells of one, SYNCED may be still to come; so another is made
// from time to time, and the first one told counts, since a daemon may be behind by more than that for as long as the
// writers continue. The error is context.DeadlineExceeded where the daemon runs and is behind.
// Of several daemons one tells.
func (b *bench) follow(ctx context.Context, daemons ...*daemon) error {
	for _, d := range daemons {
		if err := d.skipRotated(); err != nil {
			return err
		}
	}
	var (
		marks = make(map[string]workload.Source) // of streams that have yet to tell, by what to look for
		open  = b.Ledger.Sources
		made  time.Time
	)
	return eventually(ctx, "catch up", func() error {
		for _, d := range daemons {
			if err := b.keepUp(d); err != nil {
				return program.Final(err)
			}
		}
		if time.Since(made) > markPatience {
			if err := b.mark(ctx, open, marks); err != nil {
				return program.Final(err)
			}
			made = time.Now()
		}
		for _, d := range daemons {
			if err := d.strike(marks); err != nil {
				return err
			}
		}
		behind := slices.Collect(maps.Values(marks))
		open = slices.DeleteFunc(slices.Clone(open), func(s workload.Source) bool {
			return !slices.ContainsFunc(behind, func(b workload.Source) bool { return b.Stream() == s.Stream() })
		})
		if len(open) > 0 {
			return fmt.Errorf("%d streams are behind, %s among them", len(open), open[0].Stream())
		}
		return nil
	})
}

// mark makes an object for each of the streams, and adds what to look for to the marks.
func (b *bench) mark(ctx context.Context, streams []workload.Source, marks map[string]workload.Source) error {
	for _, s := range streams {
		o := workload.Object{Kind: s.Kind, Namespace: s.Namespace, App: "web"}
		if o.Namespace == "" {
			o.Namespace = namespaces[0]
		}
		err := eventually(ctx, "make mark", func() error {
			b.marks++
			o.Name = fmt.Sprintf("mark-%d", b.marks)
			return b.Create(ctx, &o, b.marks)
		})
		if err != nil {
			return err
		}
		marks[`"id":"`+o.UID+"/"] = s
	}
	return nil
}

// keepUp starts the daemon if it does not run. One that ended by itself needs an excuse: it may have begun before the
// servers were well again.
func (b *bench) keepUp(d *daemon) error {
	switch {
	case d.process == nil:
		return d.launch()
	case d.process.Alive():
		return nil
	}
	if err := b.excuse(d.process.Fault(program.ErrEnded), d.process); err != nil {
		return err
	}
	return d.launch()
}
