package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubejournal/test/bench/baseline"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const (
	realPods    = 500              // that are changed in turn, each made first
	realPad     = 560              // bytes of an annotation that make a pod 2 KB on the wire, managedFields included
	realWriters = 8                // requests under way at a time
	realSpare   = 100              // events of others
	realSlow    = 5                // the ways that decode read that much less of history
	realLimit   = 20 * time.Minute // the control plane is killed then at the latest
)

// real measures whole processes on a watch of pods of 2 KB from a real API server, over TLS and HTTP/2.
func (b *bench) real(ctx context.Context) error {
	return b.withServer(ctx, cluster.Options{}, func(r *realServer) error {
		if err := r.history(ctx); err != nil {
			return err
		}
		return r.follow(ctx)
	})
}

// withServer starts a control plane for measurements.
func (b *bench) withServer(ctx context.Context, o cluster.Options, measure func(*realServer) error) (err error) {
	b.say("starting a control plane")
	o.TimeLimit = realLimit
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client, transport, err := workload.Connect(c.RESTConfig())
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	pods := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default")
	return measure(&realServer{bench: b, cluster: c, config: c.RESTConfig(), pods: pods})
}

// realServer is the control plane and what was done to it.
type realServer struct {
	*bench
	cluster *cluster.Cluster
	config  *rest.Config
	pods    dynamic.ResourceInterface
	changes atomic.Int64
	shard   bool // daemons have one
}

// start is where readers begin: a version, and a folder with the daemon's files at it.
type start struct {
	version string
	dir     string
}

// synced lets the daemon take note of all that exists, and stops it.
func (r *realServer) synced(ctx context.Context) (start, error) {
	dir, err := r.folder("synced-")
	if err != nil {
		return start{}, err
	}
	p, err := r.daemon(dir)
	if err != nil {
		return start{}, err
	}
	defer p.End()
	if err := awaitLines(ctx, p, filepath.Join(dir, journalFile), `"type":"SYNCED"`, 1); err != nil {
		return start{}, err
	}
	if err := p.Stop(stopLimit); err != nil {
		return start{}, err
	}
	version, err := r.version(ctx)
	return start{version, dir}, err
}

const journalFile = "journal.jsonl"

// daemon starts kubejournal on what is in dir.
func (r *realServer) daemon(dir string) (*program.Process, error) {
	more := ""
	if r.shard {
		more = fmt.Sprintf("shard: {index: 0, count: %d}\n", shardCount)
	}
	if err := writeConfig(dir, "pods", more); err != nil {
		return nil, err
	}
	return launch(dir, r.program, nil, "run", "--config", configFile, "--kubeconfig", r.cluster.Kubeconfig(),
		"--output", journalFile, "--checkpoint", "checkpoint.db", "--listen", "")
}

// read starts a way's process at a start.
func (r *realServer) read(way string, from start, events int) (*reader, error) {
	dir, err := r.folder(way + "-")
	if err != nil {
		return nil, err
	}
	one := &reader{way: way, path: filepath.Join(dir, journalFile), line: `"object":`}
	if way == "kubejournal" {
		if err := copyFiles(dir, from.dir); err != nil {
			return nil, err
		}
		// The lines that are there already do not count.
		one.line = `"origin":"watch"`
		if one.before, err = countLines(one.path, one.line); err != nil {
			return nil, err
		}
		one.Process, err = r.daemon(dir)
		return one, err
	}
	if way != "raw" {
		one.line = `"metadata":`
	}
	one.Process, err = job{
		Way: way, Host: r.config.Host, Token: r.config.BearerToken, CA: r.config.CAFile,
		Version: "v1", Resource: "pods", From: from.version, Events: events, Path: one.path,
	}.start(dir)
	return one, err
}

// reader is the process of one way.
type reader struct {
	*program.Process
	way, path string
	line      string // what every line about an event contains
	before    int    // lines that were there at the start
}

// finish waits until the reader has written its events, ends it and returns its CPU time.
func (r *reader) finish(ctx context.Context, events int) (time.Duration, error) {
	if r.way == "raw" || r.way == "kubejournal" {
		if err := awaitLines(ctx, r.Process, r.path, r.line, r.before+events); err != nil {
			return 0, fmt.Errorf("%s: %w", r.way, err)
		}
	} else {
		if _, err := r.Exit(baseline.Patience); err != nil {
			return 0, fmt.Errorf("%s: %w", r.way, err)
		}
		if n, err := countLines(r.path, r.line); err != nil || n != events {
			return 0, errors.Join(fmt.Errorf("%s: %d lines, want %d", r.way, n, events), err)
		}
	}
	cpu, err := stop(r.Process)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.way, err)
	}
	return cpu, nil
}

var realWays = []string{"raw", "kubejournal", "informer", "reflector"}

// history makes changes and then lets every way read them, one process after the other.
func (r *realServer) history(ctx context.Context) error {
	total, err := r.makePods(ctx)
	if err != nil {
		return err
	}
	from, err := r.synced(ctx)
	if err != nil {
		return err
	}
	if err := r.write(ctx, total); err != nil {
		return err
	}
	// A process's start and end alone: one event to read.
	last, err := r.synced(ctx)
	if err != nil {
		return err
	}
	if err := r.write(ctx, 1); err != nil {
		return err
	}
	for range r.count {
		for _, way := range realWays {
			idle, err := r.once(ctx, way, last, 1)
			if err != nil {
				return err
			}
			events := total
			if way == "informer" || way == "reflector" {
				events = max(1, events/realSlow)
			}
			cpu, err := r.once(ctx, way, from, events)
			if err != nil {
				return err
			}
			r.report("replay", way, events, cpu, idle)
		}
	}
	return nil
}

// makePods makes those that are changed, and returns how many changes of them to make: as many as the server will keep.
func (r *realServer) makePods(ctx context.Context) (events int, err error) {
	began := time.Now()
	if err := r.write(ctx, realPods); err != nil {
		return 0, err
	}
	rate := realPods / time.Since(began).Seconds()
	events = min(r.replay, kept(rate)-realSpare)
	r.say("writing %d events, at some %.0f per second", events, rate)
	return events, nil
}

// kept is how many events the API server's watch cache will hold that come at a rate per second: a full one doubles
// itself where its oldest event is younger than 75 s, up to 102,400 events, and keeps what it has until new ones come.
func kept(rate float64) int {
	const first, most, fresh = 100, 102400, 75.0 // k8s.io/apiserver, pkg/storage/cacher/watch_cache.go
	const margin = 0.8                           // the rate will not stay the same
	n := first
	for n < most && float64(n)/rate < margin*fresh {
		n *= 2
	}
	return n
}

// once is one reading of history.
func (r *realServer) once(ctx context.Context, way string, from start, events int) (time.Duration, error) {
	one, err := r.read(way, from, events)
	if err != nil {
		return 0, err
	}
	defer one.End()
	return one.finish(ctx, events)
}

// follow lets all ways read at the same time what is being written.
func (r *realServer) follow(ctx context.Context) error {
	from, err := r.synced(ctx)
	if err != nil {
		return err
	}
	r.say("writing %d events while they are read", r.live)
	var readers []*reader
	defer func() {
		for _, one := range readers {
			one.End()
		}
	}()
	for _, way := range realWays {
		one, err := r.read(way, from, r.live)
		if err != nil {
			return err
		}
		readers = append(readers, one)
	}
	// All of them have opened their watch before the flood.
	if err := r.write(ctx, 1); err != nil {
		return err
	}
	for _, one := range readers {
		if one.way != "raw" && one.way != "kubejournal" {
			continue // they buffer
		}
		if err := awaitLines(ctx, one.Process, one.path, one.line, one.before+1); err != nil {
			return err
		}
	}
	if err := r.write(ctx, r.live-1); err != nil {
		return err
	}
	for _, one := range readers {
		cpu, err := one.finish(ctx, r.live)
		if err != nil {
			return err
		}
		r.report("live", one.way, r.live, cpu, 0)
	}
	return nil
}

// report prints a process's CPU time. What the start of a way costs was measured apart; it is within the other figure.
func (r *realServer) report(history, way string, events int, cpu, idle time.Duration) {
	figures := []figure{{float64(cpu.Nanoseconds()) / 1e3 / float64(events), "cpu-us/event"}}
	if idle > 0 {
		figures = append(figures, figure{float64(idle.Nanoseconds()) / 1e6, "start-cpu-ms"})
	}
	r.line(fmt.Sprintf("BenchmarkReal/history=%s/way=%s", history, way), events, figures...)
}

// write makes that many events: the first of each pod creates it, the others change an annotation.
func (r *realServer) write(ctx context.Context, events int) error {
	return r.pace(ctx, events, math.Inf(1))
}

// pace is write at a rate per second.
func (r *realServer) pace(ctx context.Context, events int, rate float64) error {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for w := range min(realWriters, events) {
		share := (events - w + realWriters - 1) / realWriters
		if events < realWriters {
			share = 1
		}
		group.Go(func() error {
			for i := range share {
				if err := pause(ctx,
					time.Until(began.Add(time.Duration(float64(w+i*realWriters)/rate*float64(time.Second))))); err !=
					nil {
					return err
				}
				if err := r.change(ctx, r.changes.Add(1)-1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// podName is that of the pod that the nth change is of.
func podName(n int64) string { return fmt.Sprintf("web-6d4cf56db6-%05d", n%realPods) }

func (r *realServer) change(ctx context.Context, n int64) error {
	name := podName(n)
	if n >= realPods {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/round":"%08d"}}}`, n)
		_, err := r.pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	annotations := map[string]any{"example.com/round": fmt.Sprintf("%08d", n),
		"example.com/build": strings.Repeat("b7", realPad/2)}
	_, err := r.pods.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{"app": "web", "pod-template-hash": "6d4cf56db6"},
			"annotations": annotations,
		},
		"spec": map[string]any{
			"automountServiceAccountToken": false,
			"containers": []any{map[string]any{
				"name": "web", "image": "registry.example.com/shop/web:1.4",
				"env": []any{map[string]any{"name": "SHOP_SETTING", "value": "value of shop setting"}},
			}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// version is the server's present one for pods.
func (r *realServer) version(ctx context.Context) (string, error) {
	list, err := r.pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// copyFiles copies the files of one folder into another.
func copyFiles(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy folder: %w", err)
	}
	return nil
}

// countLines counts the lines of a file that contain what.
func countLines(path, what string) (int, error) {
	file := program.NewTail(path)
	defer file.Close()
	return countNext(file, what)
}
