package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/kube/client"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

// shardCount is how many shards the one that is measured is of.
const shardCount = 4

// shards measures whole processes that read one history of pods of 2 KB from a real API server over TLS: a raw copy, a
// daemon that journals all of it, and one that journals a shard. They do it once more with a server that selects.
// Figures are by the events of the whole history, so that those of all shards add up, and without what a process takes
// to start and to end. How much of the history is the shard's differs from run to run, since a shard goes by the uid.
func (b *bench) shards(ctx context.Context) error {
	for _, selects := range []bool{false, true} {
		err := b.withServer(ctx, cluster.Options{FeatureGates: map[string]bool{"ShardedListAndWatch": selects}},
			func(r *realServer) error { return r.shards(ctx, selects) })
		if err != nil {
			return fmt.Errorf("server selects %t: %w", selects, err)
		}
	}
	return nil
}

// shardWay is a way to read the history.
type shardWay struct {
	name, as string
	shard    bool // reads a shard
}

func (r *realServer) shards(ctx context.Context, selects bool) error {
	ways := []shardWay{{"raw", "raw", false}, {"whole", "kubejournal", false}, {"shard", "kubejournal", true}}
	name := "BenchmarkShard/selects=daemon/way="
	if selects {
		name = "BenchmarkShard/selects=server/way="
	}
	total, err := r.makePods(ctx)
	if err != nil {
		return err
	}
	own, err := r.ownPods(ctx)
	if err != nil {
		return err
	}
	// Two starts, each for the whole and for the shard: before the history, and before its last event, which is one of
	// the shard.
	var starts [2]map[bool]start
	begin := r.changes.Load()
	for i := range starts {
		starts[i] = make(map[bool]start)
		for _, r.shard = range []bool{false, true} {
			if starts[i][r.shard], err = r.synced(ctx); err != nil {
				return err
			}
		}
		if i == 0 {
			if err := r.write(ctx, total); err != nil {
				return err
			}
		}
		for i == 0 && !own[podName(r.changes.Load())] {
			if err := r.write(ctx, 1); err != nil {
				return err
			}
		}
	}
	if err := r.write(ctx, 1); err != nil {
		return err
	}
	events := map[bool]int{}
	for n := begin; n < r.changes.Load(); n++ {
		events[false]++
		if own[podName(n)] {
			events[true]++
		}
	}
	for range r.count {
		for _, way := range ways {
			idle, err := r.shardOnce(ctx, way, starts[1][way.shard], 1)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			used, err := r.shardOnce(ctx, way, starts[0][way.shard], events[way.shard])
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			per := func(used, idle int64) float64 { return float64(used-idle) / float64(events[false]-1) }
			r.line(name+way.name, events[false],
				figure{per(used.cpu, idle.cpu) / 1e3, "cpu-us/event"},
				figure{per(used.read, idle.read), "read-B/event"},
				figure{float64(used.memory) / (1 << 20), "rss-MiB"},
				figure{100 * float64(events[way.shard]) / float64(events[false]), "%-of-events"})
		}
	}
	return nil
}

// ownPods are the names of those in the shard.
func (r *realServer) ownPods(ctx context.Context) (map[string]bool, error) {
	list, err := r.pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	shard, own := client.Shard{Count: shardCount}, make(map[string]bool)
	for _, pod := range list.Items {
		own[pod.GetName()] = shard.Has([]byte(pod.GetUID()))
	}
	return own, nil
}

// taken is what a process has taken: CPU in ns, bytes that it has read, and the most that was resident.
type taken struct{ cpu, read, memory int64 }

// shardOnce is one reading.
func (r *realServer) shardOnce(ctx context.Context, way shardWay, from start, events int) (t taken, err error) {
	r.shard = way.shard
	one, err := r.read(way.as, from, events)
	if err != nil {
		return t, err
	}
	defer one.End()
	if err := awaitLines(ctx, one.Process, one.path, one.line, one.before+events); err != nil {
		return t, err
	}
	if t.read, err = bytesRead(one.Process); err != nil {
		return t, err
	}
	m, err := one.Memory("VmHWM")
	if err != nil {
		return t, err
	}
	cpu, err := stop(one.Process)
	t.memory, t.cpu = m[0], cpu.Nanoseconds()
	return t, err
}

// bytesRead is what a process has read until now: of its connections, and of its few files.
func bytesRead(p *program.Process) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	line, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("rchar: ")), []byte("\n"))
	n, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	return n, nil
}
