package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"kubejournal/internal/kubeclient"
	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// TestShards has four daemons that share the streams of a fifth, one of which is killed, on a server that sends everything to
// each, and on one that sends what is its own. Together they write what the fifth does.
func TestShards(t *testing.T) {
	for _, helps := range []bool{false, true} {
		t.Run(fmt.Sprintf("server selects %t", helps), func(t *testing.T) { testShards(t, helps) })
	}
}

func testShards(t *testing.T, helps bool) {
	const count = 4
	s := own.get(t)
	if err := s.SetFeatureGates(t.Context(), map[string]bool{"ShardedListAndWatch": helps}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.SetFeatureGates(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
	ns := s.namespaces(t, 2)
	sc := play(t, s, every())
	shards := make([]*daemon, count)
	for i := range shards {
		d := newDaemon(t, s.Kubeconfig(), nil)
		d.rewrite(d.content(s.Kubeconfig(), workload.Configs(every()), object{"shard": object{"index": i, "count": count}}))
		shards[i] = d
	}
	sc.daemon.start()
	for _, d := range shards {
		d.start()
	}
	writers := sc.churn(t, ns...)
	writers.more(150)
	shards[1].kill()
	writers.more(50)
	shards[1].start()
	writers.more(150)
	writers.Stop()
	want := objectIDs(sc.verify(false))
	got := make(map[string]int)
	eventually(t, later, "the shards have written all", func() error {
		clear(got)
		for i, d := range shards {
			for id, l := range objectIDs(d.tell()) {
				if !(kubeclient.Shard{Index: i, Count: count}).Has([]byte(l.UID)) {
					t.Fatalf("%s is not in shard %d", l.Where, i)
				}
				got[id]++
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d of %d", len(got), len(want))
		}
		return nil
	})
	for id, n := range got {
		if want[id] == nil || n != 1 {
			t.Errorf("%s is in %d shards, in the whole: %t", id, n, want[id] != nil)
		}
	}
	for i, d := range shards {
		d.stop()
		lines, err := invariant.Read(d.journal())
		if err = errors.Join(err, invariant.All(lines, invariant.Options{})); err != nil {
			t.Errorf("shard %d: %v", i, err)
		}
		t.Logf("shard %d: %d lines; streams %v", i, len(lines), slices.Sorted(maps.Keys(streamsOf(lines))))
	}
}

// objectIDs has the lines about objects by their ids.
func objectIDs(lines []invariant.Line) map[string]*invariant.Line {
	ids := make(map[string]*invariant.Line)
	for i := range lines {
		if l := &lines[i]; l.UID != "" {
			ids[l.ID] = l
		}
	}
	return ids
}

func streamsOf(lines []invariant.Line) map[string]bool {
	streams := make(map[string]bool)
	for i := range lines {
		streams[lines[i].Stream] = true
	}
	return streams
}
