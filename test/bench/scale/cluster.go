package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/kube/client"
)

// load is what happens in a cluster of so many nodes, in proportion to the largest that Kubernetes supports, with
// figures that others have published; docs/scale.md names them. All of it comes as one resource.
type load struct{ nodes int }

// Of the largest supported cluster.
const (
	supportedNodes = 5000
	podStarts      = 10 // per second, and as many ends: together the churn of a steady cluster
	startEvents    = 9  // Events about a pod of two containers that starts
	endEvents      = 2  // about one that ends
	startChanges   = 5  // of the pod: made, bound, three times its status
	endChanges     = 3  // of the pod: marked, its last status, gone
	ownerChanges   = 3  // of others, by start and by end: ReplicaSet, Deployment, EndpointSlice
	eventLife      = time.Hour
	nodeObjects    = 50 // objects by node, Events apart
)

// share is a part of the changes.
type share struct {
	size int     // of an object in the watch, in bytes
	rate float64 // changes per second
}

// shares are the changes by the size of their objects.
func (l load) shares() []share {
	nodes, of := float64(l.nodes), float64(l.nodes)/supportedNodes
	return []share{
		{1 << 10, nodes/10 + 2*of*podStarts*(startEvents+endEvents)}, // Leases; Events, each made and expired
		{6 << 10, of * podStarts * (startChanges + endChanges + 2*ownerChanges)},
		{30 << 10, nodes / 300}, // the nodes' status
	}
}

// rate is that of all changes per second.
func (l load) rate() (rate float64) {
	for _, s := range l.shares() {
		rate += s.rate
	}
	return rate
}

// objects is how many there are, with the Events that have not expired.
func (l load) objects() int {
	return l.nodes*nodeObjects + l.nodes*podStarts*(startEvents+endEvents)*int(eventLife.Seconds())/supportedNodes
}

// changes calls each for every change of so long a time, in order.
func (l load) changes(over time.Duration, each func(i, size int) error) error {
	shares, rate := l.shares(), l.rate()
	due := make([]float64, len(shares))
	for i := range int(rate * over.Seconds()) {
		next := 0
		for s := range shares {
			if due[s] += shares[s].rate / rate; due[s] > due[next] {
				next = s
			}
		}
		due[next]--
		if err := each(i, shares[next].size); err != nil {
			return err
		}
	}
	return nil
}

// target is the number of the object that the ith change is of, among so many.
func target(i, objects int) int { return i * versionStep % objects }

// steady sends the changes of a cluster, each by itself when it is due, once the bench has asked for them.
func (s *server) steady(ctx context.Context, out *flushing, shard client.Shard) error {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	var frame []byte
	began, rate := time.Now(), s.load.rate()
	err := s.load.changes(s.steadyFor, func(i, size int) error {
		if err := pause(ctx, time.Until(began.Add(time.Duration(float64(i)/rate*float64(time.Second))))); err != nil {
			return err
		}
		o := object{number: target(i, s.world.objects)}
		if shard.Count > 1 && !shard.Has([]byte(o.uid())) {
			return nil
		}
		frame = append(frame[:0], `{"type":"MODIFIED","object":`...)
		frame = s.world.append(frame, o, true, s.world.version()+uint64(i)+1, size)
		frame = append(frame, "}\n"...)
		if _, err := out.Write(frame); err != nil {
			return err
		}
		return out.flush()
	})
	s.steadySent.Store(err == nil)
	return err
}

// shardOf is the shard that a request asks for, where the server selects: of those that the bench asks for, the first
// of some.
func (s *server) shardOf(q url.Values) client.Shard {
	if !s.selects || q.Get("shardSelector") == "" {
		return client.Shard{}
	}
	return client.Shard{Count: s.shards}
}

// clusters measures a daemon under the changes of whole clusters, and one of several shards of it.
func (b *bench) clusters(ctx context.Context, name string) error {
	for _, nodes := range b.options.nodes {
		for _, count := range b.options.shards {
			for _, selects := range []bool{false, true} {
				if count == 1 && selects {
					continue
				}
				way := "whole"
				if count > 1 {
					way = fmt.Sprintf("shard%d", count)
				}
				if selects {
					way += "-selected"
				}
				if err := b.cluster(ctx, fmt.Sprintf("%s-%d-%s", name, nodes, way), way, load{nodes}, count,
					selects); err != nil {
					return fmt.Errorf("%d nodes, %s: %w", nodes, way, err)
				}
			}
		}
	}
	return nil
}

// cluster is one reading: a first sync, then the changes.
func (b *bench) cluster(ctx context.Context, folder, way string, l load, count int, selects bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*runLimit)
	defer cancel()
	d, err := b.newDaemon(folder)
	if err != nil {
		return err
	}
	d.shards = count
	w, shard := worldOf(l.objects()), client.Shard{Count: count}
	s, err := b.serve(d.dir,
		append(w.flags(true), "-nodes", strconv.Itoa(l.nodes), "-steady", b.options.steady.String(),
			"-shards", strconv.Itoa(count), "-selects="+strconv.FormatBool(selects))...)
	if err != nil {
		return err
	}
	defer s.end()
	p, err := d.start(nil)
	if err != nil {
		return err
	}
	defer p.end()
	if err := awaitSynced(ctx, p, 1); err != nil {
		return err
	}
	synced := time.Since(p.Started())
	known, own := 0, 0
	for number := range w.objects {
		if shard.Has([]byte(object{number: number}.uid())) {
			known++
		}
	}
	_ = l.changes(b.options.steady, func(i, _ int) error { // returns what that does
		if shard.Has([]byte(object{number: target(i, w.objects)}.uid())) {
			own++
		}
		return nil
	})
	before, err := s.reading(ctx, p)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.get(ctx, s.address+"/begin", func(io.Reader) error { return nil }); err != nil {
		return err
	}
	if err := pause(ctx, b.options.steady); err != nil {
		return err
	}
	var after reading
	err = p.Wait(ctx, runLimit, "wait for changes", func() error {
		if err := pause(ctx, b.options.steady/100); err != nil {
			return err
		}
		if after, err = s.reading(ctx, p); err == nil && (!after.sent || after.changes < own) {
			err = fmt.Errorf("%d of %d are written", after.changes, own)
		}
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	r := newReplay(w)
	if err := r.files(d.journal); err != nil {
		return err
	}
	if r.lines["ADDED"] != known || r.lines["MODIFIED"] != own || r.lines["SYNCED"] != 1 || len(r.lines) != 3 {
		return fmt.Errorf("the journal has lines %v where %d ADDED, %d MODIFIED and a SYNCED should be",
			r.lines, known, own)
	}
	checkpoint, err := os.Stat(d.checkpoint())
	if err != nil {
		return fmt.Errorf("measure checkpoint: %w", err)
	}
	seconds := b.options.steady.Seconds()
	b.line(fmt.Sprintf("run=cluster/nodes=%d/way=%s", l.nodes, way),
		l.rate(), "events/s", float64(known), "objects", 100*(after.cpu-before.cpu).Seconds()/took.Seconds(), "cpu-%",
		mebibytes(after.wire-before.wire)/seconds, "wire-MiB/s", mebibytes(after.journal-before.journal)/seconds,
		"journal-MiB/s", mebibytes(p.peaks().anon), "rss-anon-MiB", mebibytes(after.anon), "rss-anon-now-MiB",
		mebibytes(checkpoint.Size()), "checkpoint-MiB", synced.Seconds(), "sync-s",
		(took - b.options.steady).Seconds(), "behind-s")
	if b.options.keep {
		return nil
	}
	return os.RemoveAll(d.dir)
}

// reading is what a daemon and its server have done until now.
type reading struct {
	cpu           time.Duration
	wire, journal int64 // bytes
	anon          int64 // bytes of memory
	changes       int   // that are written
	sent          bool  // all of them
}

func (s *running) reading(ctx context.Context, p *process) (r reading, err error) {
	cpu, err1 := p.CPU()
	st, err2 := s.stats(ctx)
	metrics, err3 := p.Metrics(ctx)
	used, err4 := p.usage()
	r = reading{cpu: cpu, wire: st.Sent, journal: int64(metrics["kubejournal_output_bytes_total"]), anon: used.anon,
		sent: st.Steady}
	for name, value := range metrics {
		if strings.HasPrefix(name, "kubejournal_events_total{") && strings.Contains(name, `type="MODIFIED"`) {
			r.changes += int(value)
		}
	}
	return r, errors.Join(err1, err2, err3, err4)
}
