package watcher_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/event/eventtest"
	"kubejournal/internal/journal"
	"kubejournal/internal/metrics"
	"kubejournal/internal/recorder"
	"kubejournal/internal/watcher"
)

// BenchmarkWire reads one canned watch of pods over plain HTTP, from a server
// in a process of its own, in three ways side by side:
//
//	raw          the response's bytes copied to a file: the physical limit
//	kubejournal  a Stream, the recorder, a journal file and a checkpoint
//	dynamic      the usual dynamic watch, json.Marshal of each object, a file
//
// cpu-us/event is user and system time of this process. x-raw is that figure
// divided by raw's of the same size in the same run; x-less how many times less
// than dynamic's it is. Times differ from machine to machine, the two ratios
// hardly do.
func BenchmarkWire(b *testing.B) {
	for _, size := range []int{2 << 10, 3400, 6 << 10, 60 << 10} {
		var cpu [3]float64
		for i, way := range []struct {
			name string
			read func(testing.TB, *rest.Config, int)
		}{
			{"raw", readRaw}, {"dynamic", readDynamic}, {"kubejournal", readJournal},
		} {
			b.Run(fmt.Sprintf("size=%d/%s", size, way.name), func(b *testing.B) {
				events := min(20000, 120<<20/size)
				url := serveCanned(b, events, size)
				config := &rest.Config{Host: url, QPS: -1}
				b.ReportAllocs()
				b.ResetTimer()
				before := cpuTime(b)
				for range b.N {
					way.read(b, config, events)
				}
				per := float64((cpuTime(b) - before).Microseconds()) / float64(b.N*events)
				b.StopTimer()
				cpu[i] = per
				b.ReportMetric(per, "cpu-us/event")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*events), "wall-us/event")
				if i > 0 && cpu[0] > 0 {
					b.ReportMetric(per/cpu[0], "x-raw")
				}
				if i == 2 && cpu[1] > 0 {
					b.ReportMetric(cpu[1]/per, "x-less")
				}
			})
		}
	}
}

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func readRaw(tb testing.TB, config *rest.Config, _ int) {
	resp, err := http.Get(config.Host + "/api/v1/pods?watch=true")
	must(tb, err)
	defer resp.Body.Close()
	f := tempFile(tb)
	defer f.Close()
	_, err = io.Copy(struct{ io.Writer }{f}, resp.Body)
	must(tb, err)
}

func readDynamic(tb testing.TB, config *rest.Config, events int) {
	client, err := dynamic.NewForConfig(config)
	must(tb, err)
	w, err := client.Resource(podResource).Watch(context.Background(), metav1.ListOptions{ResourceVersion: "1"})
	must(tb, err)
	defer w.Stop()
	f := tempFile(tb)
	defer f.Close()
	out := bufio.NewWriterSize(f, 64<<10)
	for range events {
		e := <-w.ResultChan()
		line, err := json.Marshal(e.Object.(*unstructured.Unstructured).Object)
		must(tb, err)
		out.Write(line)
		out.WriteByte('\n')
	}
	must(tb, out.Flush())
}

func readJournal(tb testing.TB, config *rest.Config, events int) {
	dir := tb.TempDir()
	out, err := journal.OpenFile(filepath.Join(dir, "journal.jsonl"), journal.Options{})
	must(tb, err)
	store, err := checkpoint.Open(filepath.Join(dir, "checkpoint.db"))
	must(tb, err)
	seed := checkpoint.NewBatch()
	seed.Add("pods", &checkpoint.Changes{State: &checkpoint.Stream{ResourceVersion: "1"}})
	must(tb, store.Commit(seed))
	client, err := watcher.NewClient(config)
	must(tb, err)
	m := metrics.New("", "")
	rec := recorder.New(out, store, recorder.Config{Metrics: m, Log: zap.NewNop()})
	written := make(chan error, 1)
	go func() { written <- rec.Run(context.Background()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := watcher.NewStream(watcher.Spec{
		Name: "pods", Kind: "Pod", Target: watcher.Target{Resource: podResource},
		Shape: event.Shape{Drop: []string{"metadata.managedFields"}},
	}, client, store, stopAfter{rec, cancel, &events}, m, zap.NewNop())
	must(tb, err)
	must(tb, stream.Run(ctx))
	rec.Close()
	must(tb, <-written)
	must(tb, store.Close())
	must(tb, out.Close())
	if events > 0 {
		tb.Fatalf("%d events were not written", events)
	}
}

// stopAfter ends a stream once it has submitted a number of lines.
type stopAfter struct {
	*recorder.Recorder
	stop context.CancelFunc
	left *int
}

func (s stopAfter) Submit(ctx context.Context, b *recorder.Batch) error {
	n := b.Len()
	if err := s.Recorder.Submit(ctx, b); err != nil {
		return err
	}
	if *s.left -= n; *s.left <= 0 {
		s.stop()
	}
	return nil
}

// The canned server: this test binary, started again with the number and size
// of the events, so that its own cost is not counted.
const cannedEnv = "KUBEJOURNAL_BENCH_SERVE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(cannedEnv); spec != "" {
		if err := canned(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// canned serves a list of one version and the canned watch until stdin ends.
func canned(spec string) error {
	n, size, ok := strings.Cut(spec, "x")
	events, err1 := strconv.Atoi(n)
	bytes, err2 := strconv.Atoi(size)
	if err := errors.Join(err1, err2); err != nil || !ok {
		return fmt.Errorf("parse %s: %w", spec, err)
	}
	stream := eventtest.WatchStream(events, bytes)
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99999999"},"items":[]}`)
			return
		}
		w.Write(stream)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	fmt.Println("http://" + l.Addr().String())
	io.Copy(io.Discard, os.Stdin)
	return server.Close()
}

func serveCanned(tb testing.TB, events, size int) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%dx%d", cannedEnv, events, size))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(tb, err)
	out, err := cmd.StdoutPipe()
	must(tb, err)
	must(tb, cmd.Start())
	tb.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	must(tb, err)
	return strings.TrimSpace(url)
}

func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func tempFile(tb testing.TB) *os.File {
	f, err := os.CreateTemp(tb.TempDir(), "")
	must(tb, err)
	return f
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
