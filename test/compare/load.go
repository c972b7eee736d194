package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cost is what one reading took.
type cost struct {
	cpu      float64 // seconds per 10,000 events
	rss      float64 // MB at its most
	p50, p99 float64 // ms from a write's sending until the output has it
	bytes    float64 // of output per event
	rate     float64 // writes per second that the server took
}

// median is that of each figure for itself.
func median(costs []cost) cost {
	of := func(figure func(cost) float64) float64 {
		var all []float64
		for _, c := range costs {
			all = append(all, figure(c))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return cost{
		of(func(c cost) float64 {
			return c.cpu
		}), of(func(c cost) float64 { return c.rss }), of(func(c cost) float64 { return c.p50 }),
		of(func(c cost) float64 { return c.p99 }), of(func(c cost) float64 { return c.bytes }),
		of(func(c cost) float64 { return c.rate }),
	}
}

// loadSpace is the namespace of the config maps whose updates are read.
const loadSpace = "load"

// load makes the config maps that are updated.
func (b *bench) load(ctx context.Context) error {
	if err := b.namespace(ctx, loadSpace); err != nil {
		return err
	}
	return b.each(ctx, b.names, b.loadRate, func(ctx context.Context, n int) error {
		if _, err := b.client.ConfigMaps(loadSpace).Create(ctx, configMap(loadName(n)),
			metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create config map: %w", err)
		}
		return nil
	})
}

func loadName(n int) string { return fmt.Sprintf("load-%05d", n) }

// measure lets one reader read updates while they are made, alone.
func (b *bench) measure(ctx context.Context, w way) (c cost, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends writers that a fault leaves behind
	defer cancel()
	g, err := b.newGroup([]way{w})
	if err != nil {
		return c, err
	}
	defer g.remove()
	r := g[0]
	if err := g.start(b); err != nil {
		return c, err
	}
	if err := g.caughtUp(ctx, b); err != nil {
		return c, err
	}
	before, err := os.Stat(r.out())
	if err != nil {
		return c, fmt.Errorf("read output of %s: %w", r.name, err)
	}
	used, err := r.CPU()
	if err != nil {
		return c, err
	}
	written := make(chan error, 1)
	began := time.Now()
	go func() {
		written <- b.each(ctx, b.updates, b.loadRate, func(ctx context.Context, n int) error {
			if _, err := b.client.ConfigMaps(loadSpace).Update(ctx, configMap(loadName(n%b.names)),
				metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("update config map: %w", err)
			}
			return nil
		})
	}()
	lags, err := b.follow(ctx, r, began, written)
	if err != nil {
		return c, err
	}
	took := time.Since(began)
	until, err := r.CPU()
	if err != nil {
		return c, err
	}
	rss, err := r.Memory("VmHWM") // what wait4 tells would be this program's own where that is more
	if err != nil {
		return c, err
	}
	after, err := os.Stat(r.out())
	if err != nil {
		return c, fmt.Errorf("read output of %s: %w", r.name, err)
	}
	slices.Sort(lags)
	events := float64(len(lags))
	ms := func(quantile float64) float64 { return float64(lags[int(quantile*(events-1))].Microseconds()) / 1e3 }
	c = cost{
		cpu: (until - used).Seconds() / events * 10000, rss: float64(rss[0]) / 1e6, p50: ms(0.5), p99: ms(0.99),
		bytes: float64(after.Size()-before.Size()) / events, rate: events / took.Seconds(),
	}
	b.say("  %s: %+v", r.name, c)
	return c, g.signal(syscall.SIGTERM)
}

// follow waits until the reader has told of every update, and returns how long each took. What was sent before began
// is of others.
func (b *bench) follow(ctx context.Context, r *reader, began time.Time, written chan error) ([]time.Duration, error) {
	const patience, poll = time.Minute, time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	seen := make(map[int64]bool) // an update that is told twice took as long as until the first
	var (
		lags  []time.Duration
		limit <-chan time.Time
	)
	for len(lags) < b.updates {
		text, err := r.tail.read(len(sentPrefix) + sentDigits)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for _, sent := range numbers(text, sentPrefix, sentDigits) {
			if sent < began.UnixNano() || seen[sent] {
				continue
			}
			seen[sent] = true
			lags = append(lags, now.Sub(time.Unix(0, sent)))
		}
		select {
		case <-tick.C:
		case err := <-written:
			if err != nil {
				return nil, err
			}
			written, limit = nil, time.After(patience)
		case <-limit:
			return nil, r.fault(fmt.Sprintf("told of %d of %d updates", len(lags), b.updates))
		case <-r.Done():
			return nil, r.fault("has ended by itself")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if written != nil {
		return lags, <-written
	}
	return lags, nil
}
