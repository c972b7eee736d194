package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubejournal/internal/kube/client"
	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// TestShards has four daemons that share the streams of a fifth, one of which is killed, on a server that sends everything to
// each, and on one that sends what is its own. Together they write what the fifth does.
func TestShards(t *testing.T) { eachWay(t, testShards) }

// eachWay runs a test on the server as it comes, which sends everything to each shard, and, where that has the feature, on one
// that sends what is its own.
func eachWay(t *testing.T, test func(*testing.T, *server)) {
	v, err := cluster.ChosenVariant()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("daemon selects", func(t *testing.T) { test(t, own.get(t)) })
	if v.Kubernetes != "" { // an older one
		return
	}
	t.Run("server selects", func(t *testing.T) {
		s := own.get(t)
		if err := s.SetFeatureGates(t.Context(), map[string]bool{"ShardedListAndWatch": true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.SetFeatureGates(context.WithoutCancel(t.Context()), nil); err != nil {
				t.Error(err)
			}
		})
		test(t, s)
	})
}

// selectsShards reports whether the server does.
func (s *server) selectsShards(t *testing.T) bool {
	t.Helper()
	selector := client.Shard{Count: 2}.Selector()
	list, err := s.client.Resource(configMaps.Resource).List(t.Context(), metav1.ListOptions{Limit: 1, ShardSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedString(list.Object, "metadata", "shardInfo", "selector")
	if err != nil {
		t.Fatal(err)
	}
	return got == selector
}

// newShards makes daemons, one for each shard, that do not run yet.
func newShards(t *testing.T, s *server, count int) []*daemon {
	t.Helper()
	shards := make([]*daemon, count)
	for i := range shards {
		d := newDaemon(t, s.Kubeconfig(), nil)
		d.rewrite(d.content(s.Kubeconfig(), workload.Configs(every()), object{"shard": object{"index": i, "count": count}}))
		shards[i] = d
	}
	return shards
}

func testShards(t *testing.T, s *server) {
	const count = 4
	ns := s.namespaces(t, 2)
	sc := play(t, s, every())
	shards := newShards(t, s, count)
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
				if !(client.Shard{Index: i, Count: count}).Has([]byte(l.UID)) {
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
		others := d.metrics()[`kubejournal_other_shards_events_total{group="",resource="configmaps"}`]
		if selects := s.selectsShards(t); selects != (others == 0) {
			t.Errorf("shard %d has received %g objects of others; the server selects: %t", i, others, selects)
		}
		d.stop()
		lines, err := invariant.Read(d.journal())
		if err = errors.Join(err, invariant.All(lines, invariant.Options{})); err != nil {
			t.Errorf("shard %d: %v", i, err)
		}
		t.Logf("shard %d: %d lines; streams %v", i, len(lines), slices.Sorted(maps.Keys(streamsOf(lines))))
	}
}

// TestChangeShards changes the count of shards from 1 to 2 to 3 while objects are written. The new daemons start beside the old
// ones, which stop when the new ones are ready.
func TestChangeShards(t *testing.T) { eachWay(t, testChangeShards) }

func testChangeShards(t *testing.T, s *server) {
	ns := s.namespaces(t, 2)
	sc := play(t, s, every())
	shards := []*daemon{sc.daemon}
	sc.daemon.start() // before the first write, so that each one is an event
	all := slices.Clone(shards)
	writers := sc.churn(t, ns...)
	for count := 2; count <= 3; count++ {
		writers.more(150)
		more := newShards(t, s, count)
		for _, d := range more {
			d.launch()
		}
		for _, d := range more {
			d.ready()
		}
		writers.more(50)
		for _, d := range shards {
			d.stop()
		}
		shards, all = more, append(all, more...)
	}
	writers.more(150)
	writers.Stop()
	is, err := sc.live()
	if err != nil {
		t.Fatal(err)
	}
	var lines []invariant.Line
	eventually(t, later, "the shards have written all", func() error {
		if lines, err = join(all); err != nil {
			t.Fatal(err)
		}
		told, err := invariant.Replay(lines)
		return errors.Join(err, invariant.Compare(told, is), invariant.Writes(lines, sc.Ledger.Writes()))
	})
	for i, d := range all {
		if d.process.Alive() {
			d.stop()
		}
		lines, err := invariant.Read(d.journal())
		if err = errors.Join(err, invariant.All(lines, invariant.Options{})); err != nil {
			t.Errorf("daemon %d: %v", i, err)
		}
		noGap(t, lines)
		if t.Logf("daemon %d: %d lines", i, len(lines)); len(lines) < 50 {
			t.Error("they prove nothing")
		}
	}
}

// join joins the journals of daemons that have followed each other in the way of docs/operations.md: without lines whose ids came
// before, and without the snapshots of all but the first, in the order of the versions.
func join(daemons []*daemon) (all []invariant.Line, err error) {
	ids, versions := make(map[string]*invariant.Line), make(map[string]bool)
	var snapshots []*invariant.Line
	for i, d := range daemons {
		lines := d.tell()
		for n := range lines {
			l := &lines[n]
			switch before := ids[l.ID]; {
			case l.UID == "":
			case i > 0 && l.Origin == invariant.FromSnapshot:
				snapshots = append(snapshots, l)
			case before == nil:
				ids[l.ID], versions[l.UID+"/"+l.ResourceVersion] = l, true
				all = append(all, *l)
				all[len(all)-1].Stream, _, _ = strings.Cut(l.Stream, "?")
			case !bytes.Equal(before.Object, l.Object):
				return nil, fmt.Errorf("%s of daemon %d is not %s: %s", l.Where, i, before.Where, l.ID)
			}
		}
	}
	for _, l := range snapshots {
		if !versions[l.UID+"/"+l.ResourceVersion] {
			return nil, fmt.Errorf("only the snapshot of %s has %s", l.Stream, l.ID)
		}
	}
	slices.SortStableFunc(all, func(a, b invariant.Line) int {
		v, errV := strconv.ParseUint(a.ResourceVersion, 10, 64)
		w, errW := strconv.ParseUint(b.ResourceVersion, 10, 64)
		err = errors.Join(err, errV, errW)
		return cmp.Compare(v, w)
	})
	return all, err
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
