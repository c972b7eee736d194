package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"kubejournal/test/bench/canned"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

// latencyKind is what is sent: it must have annotations.
const latencyKind = "pod-2KB"

// latency measures, for a raw copy and the daemon in turn, how long each event takes from being sent to being
// readable in the file. Both clocks are this machine's. The checkpoint is on, with a commit and its syncs each second.
func (b *bench) latency(ctx context.Context) error {
	kind, err := canned.Find(latencyKind)
	if err != nil {
		return err
	}
	events := int(b.rate * float64(b.seconds))
	server, err := canned.Start(canned.Load{Kind: kind.Name, Objects: 1000, Events: events, Rate: b.rate})
	if err != nil {
		return err
	}
	err = func() error {
		for range b.count {
			for _, way := range []string{"raw", "kubejournal"} {
				b.say("%d events at %g/s: %s", events, b.rate, way)
				if err := b.delay(ctx, server.URL, kind, way, events); err != nil {
					return fmt.Errorf("%s: %w", way, err)
				}
			}
		}
		return nil
	}()
	return errors.Join(err, server.Close())
}

// delay measures one way once.
func (b *bench) delay(ctx context.Context, url string, kind canned.Kind, way string, events int) (err error) {
	dir, err := b.folder("latency-")
	if err != nil {
		return err
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	watched, err := watchFolder(out)
	if err != nil {
		return err
	}
	defer watched.Close()
	path := filepath.Join(out, "lines")
	var p *program.Process
	if way == "raw" {
		p, err = job{Way: way, Host: url, Version: kind.Resource.Version, Resource: kind.Resource.Resource,
			From: "1000", Path: path}.start(dir)
	} else {
		if err := cluster.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), &rest.Config{Host: url}); err != nil {
			return err
		}
		if err := writeConfig(dir, kind.Resource.Resource, ""); err != nil {
			return err
		}
		p, err = launch(dir, b.program, nil, "run", "--config", configFile, "--kubeconfig", "kubeconfig",
			"--output", path, "--checkpoint", "checkpoint.db", "--listen", "127.0.0.1:0")
	}
	if err != nil {
		return err
	}
	defer p.End()
	sent, received, err := follow(ctx, p, watched, path, events)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("BenchmarkLatency/rate=%g/way=%s", b.rate, way)
	b.line(name, events, spread(sent)...)
	if way != "raw" {
		b.line(fmt.Sprintf("BenchmarkLatency/rate=%g/way=%s-received", b.rate, way), events, spread(received)...)
		if err := b.metric(ctx, p, events); err != nil {
			return err
		}
	}
	return p.Stop(stopLimit)
}

// follow reads lines as the process writes them, and returns how long after its sending, and where a line tells it
// after its reception, each could be read.
func follow(ctx context.Context, p *program.Process, watched *os.File, path string,
	events int) (sent, received []time.Duration, err error) {
	file := program.NewTail(path)
	defer file.Close()
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // what ends the wait for a change
		select {
		case <-p.Done():
		case <-ctx.Done():
		case <-ended:
		}
		_ = watched.SetReadDeadline(time.Unix(1, 0)) // nothing to do where it is closed
	}()
	changes := make([]byte, 64<<10)
	for len(sent) < events {
		if _, err := watched.Read(changes); err != nil {
			if !p.Alive() {
				err = p.Fault(program.ErrEnded)
			}
			return nil, nil, fmt.Errorf("wait for lines, %d of %d are there: %w", len(sent), events,
				errors.Join(err, ctx.Err()))
		}
		text, err := file.Next()
		if err != nil {
			return nil, nil, err
		}
		for line := range bytes.Lines(text) {
			now := time.Now()
			at, ok := canned.Sent(line)
			if !ok {
				continue // a SYNCED line
			}
			sent = append(sent, now.Sub(at))
			if at, ok := receivedAt(line); ok {
				received = append(received, now.Sub(at))
			}
		}
	}
	return sent, received, nil
}

// followLimit is how long all the lines of a reading may take.
const followLimit = 2 * time.Minute

// receivedAt is a journal line's field time.
func receivedAt(line []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line[:min(len(line), 200)], []byte(`"time":"`))
	if !ok {
		return time.Time{}, false
	}
	text, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	return at, err == nil
}

// spread is the figures of a reading, in milliseconds.
func spread(d []time.Duration) []figure {
	slices.Sort(d)
	at := func(q float64) float64 {
		if len(d) == 0 {
			return math.NaN()
		}
		return float64(d[min(len(d)-1, int(q*float64(len(d))))].Nanoseconds()) / 1e6
	}
	return []figure{{at(0.5), "p50-ms"}, {at(0.99), "p99-ms"}, {at(1), "max-ms"}}
}

// metric prints the same as the daemon's own histogram tells it: the upper bounds of the buckets.
func (b *bench) metric(ctx context.Context, p *program.Process, events int) error {
	text, err := p.Page(ctx, "/metrics")
	if err != nil {
		return err
	}
	buckets, err := histogram(text, "kubejournal_event_write_seconds")
	if err != nil {
		return err
	}
	b.line(fmt.Sprintf("BenchmarkLatency/rate=%g/way=kubejournal-metric", b.rate), events,
		figure{1e3 * buckets.within(0.5), "p50-ms"}, figure{1e3 * buckets.within(0.99), "p99-ms"})
	return nil
}

// bucket is one of a histogram: how many were at most that.
type bucket struct{ bound, count float64 }

type buckets []bucket

// histogram finds one without labels in the text of a metrics page.
func histogram(text, name string) (buckets, error) {
	var found buckets
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name+`_bucket{le="`)
		if !ok {
			continue
		}
		bound, count, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
		le, err1 := strconv.ParseFloat(bound, 64)
		n, err2 := strconv.ParseFloat(count, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read histogram %s: %w", name, err)
		}
		found = append(found, bucket{le, n})
	}
	if len(found) == 0 || found[len(found)-1].count == 0 {
		return nil, fmt.Errorf("read histogram %s: there is nothing in it", name)
	}
	return found, nil
}

// within is the bound that a share of all is within.
func (b buckets) within(share float64) float64 {
	all := b[len(b)-1].count
	for _, k := range b {
		if k.count >= share*all {
			return k.bound
		}
	}
	return math.Inf(1)
}
