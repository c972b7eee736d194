package watcher_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/encode"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/watcher"
	"kubejournal/test/bench/baseline"
	"kubejournal/test/bench/canned"
	"kubejournal/test/loggingtest"
)

// What one reading of BenchmarkWire is of: enough to make the start of a way
// not count, little enough for the slow ways.
const (
	wireEvents     = 20000
	wireBytes      = 240 << 20
	wireSlow       = 8   // the ways that decode read that much less
	wireSlowLeast  = 100 // but this many
	wireObjects    = 100
	wireFromBefore = "1000"
)

// BenchmarkWire reads a canned watch over plain HTTP, from a server in a
// process of its own, and writes a file, in four ways side by side:
//
//	raw          the response's bytes copied: the physical limit
//	kubejournal  a Stream, the recorder, a journal file and a checkpoint with its syncs
//	informer     a dynamic informer that marshals each object
//	reflector    a client-go Reflector likewise
//
// and of one load also with each of the things that an entry may ask for.
//
// The watch is MODIFIED events that go round 100 objects; of the kind with
// "-each" after it, every event is of another object, which makes the
// checkpoint and the informer's cache grow by each.
//
// cpu-us/event is user and system time of this process, start and end of a way
// included. allocs/event and B/event are of all its goroutines, commits
// included, from the moment when everything is set up. Times differ from machine
// to machine, the ratios between the ways hardly do.
func BenchmarkWire(b *testing.B) {
	type load struct {
		kind    canned.Kind
		objects int
		name    string
	}
	var loads []load
	for _, k := range canned.Kinds() {
		loads = append(loads, load{k, wireObjects, k.Name})
		if k.Name == "pod-6KB" {
			loads = append(loads, load{k, wireEvents, k.Name + "-each"})
		}
	}
	for _, l := range loads {
		events := min(wireEvents, wireBytes/len(l.kind.Object(0)))
		b.Run("object="+l.name, func(b *testing.B) {
			server, err := canned.Start(canned.Load{Kind: l.kind.Name, Objects: l.objects, Events: events})
			must(b, err)
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1}
			few := max(wireSlowLeast, events/wireSlow)
			ways := []way{
				{"raw", events, readBaseline(baseline.Raw)},
				{"kubejournal", events, readJournal(nil)},
				{"informer", few, readBaseline(baseline.Informer)},
				{"reflector", few, readBaseline(baseline.Reflector)},
			}
			if l.name == "pod-6KB" {
				ways = append(ways, onTop(events)...)
			}
			for _, way := range ways {
				b.Run("way="+way.name, func(b *testing.B) {
					w := baseline.Watch{Config: config, Resource: l.kind.Resource, From: wireFromBefore, Events: way.events}
					runtime.GC() // what the way before has left
					cpu := cpuTime(b)
					var used memory
					n := 0
					for b.Loop() {
						way.read(b, l.kind, w, &used)
						n += way.events
					}
					cpu = cpuTime(b) - cpu
					per := func(total float64) float64 { return total / float64(n) }
					b.ReportMetric(per(float64(cpu.Nanoseconds())/1e3), "cpu-us/event")
					b.ReportMetric(per(float64(b.Elapsed().Nanoseconds())/1e3), "wall-us/event")
					b.ReportMetric(per(float64(used.allocs)), "allocs/event")
					b.ReportMetric(per(float64(used.bytes)), "B/event")
				})
			}
		})
	}
}

// way is one way to read a watch.
type way struct {
	name   string
	events int
	read   func(testing.TB, canned.Kind, baseline.Watch, *memory)
}

// onTop is kubejournal with what an entry may ask for on top. Every event is
// written all the same, but with ignoreFields none: nothing but the version changes
// in these; and with a shard of four, which the server does not select, a fourth.
func onTop(events int) []way {
	var ways []way
	for _, o := range []struct {
		name string
		ask  func(*watcher.Spec)
	}{
		{"changes", func(s *watcher.Spec) { s.Changes = true }},
		{"changes-only", func(s *watcher.Spec) { s.Changes, s.Payload = true, object.NoObject }},
		{"ignoreFields", func(s *watcher.Spec) { s.IgnoreFields = []string{"spec.nodeSelector"} }},
		{"filter", func(s *watcher.Spec) { s.Selection.Filter = `object.status.phase != "Failed"` }},
		{"shard", func(s *watcher.Spec) { s.Target.Shard = client.Shard{Count: 4} }},
		{"types", func(s *watcher.Spec) { s.Selection.Types = []string{"MODIFIED"} }},
	} {
		ways = append(ways, way{"kubejournal+" + o.name, events, readJournal(o.ask)})
	}
	return ways
}

// memory is what was allocated between begin and end, over all readings.
type memory struct {
	allocs, bytes uint64
	before        runtime.MemStats
}

func (m *memory) begin() { runtime.ReadMemStats(&m.before) }

func (m *memory) end() {
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	m.allocs += after.Mallocs - m.before.Mallocs
	m.bytes += after.TotalAlloc - m.before.TotalAlloc
}

func readBaseline(way func(context.Context, baseline.Watch, io.Writer) error) func(testing.TB, canned.Kind, baseline.Watch, *memory) {
	return func(tb testing.TB, _ canned.Kind, w baseline.Watch, used *memory) {
		ctx, cancel := context.WithTimeout(context.Background(), baseline.Patience)
		defer cancel()
		f, err := os.Create(filepath.Join(tb.TempDir(), "out"))
		must(tb, err)
		used.begin()
		must(tb, way(ctx, w, f))
		used.end()
		must(tb, f.Close())
	}
}

func readJournal(ask func(*watcher.Spec)) func(testing.TB, canned.Kind, baseline.Watch, *memory) {
	return func(tb testing.TB, kind canned.Kind, w baseline.Watch, used *memory) {
		tb.Helper()
		spec := watcher.Spec{
			Name: kind.Resource.Resource, Kind: kind.Kind, Target: client.Target{Resource: kind.Resource},
			Options: encode.Options{Shape: object.Shape{Drop: []string{"metadata.managedFields"}}},
		}
		if ask != nil {
			ask(&spec)
		}
		readStream(tb, spec, w, used)
	}
}

func readStream(tb testing.TB, spec watcher.Spec, w baseline.Watch, used *memory) {
	dir := tb.TempDir()
	out, err := journal.OpenFile(filepath.Join(dir, "journal.jsonl"), journal.Options{})
	must(tb, err)
	store, err := checkpoint.Open(filepath.Join(dir, "checkpoint.db"))
	must(tb, err)
	seed := checkpoint.NewBatch()
	seed.Add(spec.Name, &checkpoint.Changes{State: &checkpoint.Stream{ResourceVersion: w.From}})
	must(tb, store.Commit(seed))
	api, err := client.New(w.Config)
	must(tb, err)
	m := metrics.New("", "")
	rec := recorder.New(out, store, recorder.Config{Metrics: m, Log: zap.NewNop()})
	written := make(chan error, 1)
	go func() { written <- rec.Run(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), baseline.Patience)
	defer cancel()
	left := w.Events
	from, err := strconv.Atoi(w.From)
	must(tb, err)
	last := strconv.Itoa(from + w.Events)
	stream, err := watcher.NewStream(spec, api, store, stopAfter{rec, cancel, &left, last}, outage.New(zap.NewNop()), m, zap.NewNop())
	must(tb, err)
	used.begin()
	must(tb, stream.Run(ctx))
	rec.Close()
	must(tb, <-written)
	used.end()
	must(tb, store.Close())
	must(tb, out.Close())
	if left > 0 {
		tb.Fatalf("%d events were not written", left)
	}
}

// stopAfter ends a stream once it has submitted a number of lines, or has come past
// as many versions: the canned ones rise by one from event to event.
type stopAfter struct {
	*recorder.Recorder
	stop context.CancelFunc
	left *int
	last string
}

func (s stopAfter) Submit(ctx context.Context, b *recorder.Batch) error {
	n, state := b.Len(), b.Changes.State
	if err := s.Recorder.Submit(ctx, b); err != nil {
		return err
	}
	*s.left -= n
	if state != nil && state.ResourceVersion == s.last {
		*s.left = 0
	}
	if *s.left <= 0 {
		s.stop()
	}
	return nil
}

// TestMain is also the canned server's process, started by BenchmarkWire.
func TestMain(m *testing.M) {
	served, err := canned.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !served {
		os.Exit(loggingtest.Hold(m).Run())
	}
}

func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
