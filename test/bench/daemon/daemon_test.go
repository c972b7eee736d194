package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	asked, err := child(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !asked {
		os.Exit(m.Run())
	}
}

// TestBenchmarks runs all of it once, on little.
func TestBenchmarks(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-count", "1", "-replay", "200", "-live", "40", "-rate", "200", "-seconds", "1"}
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d\n%s%s", status, stdout.String(), stderr.String())
	}
	for _, want := range []string{
		`^BenchmarkLatency/rate=200/way=raw-\d+\t200\t\S+ p50-ms\t\S+ p99-ms\t\S+ max-ms$`,
		`^BenchmarkLatency/rate=200/way=kubejournal-\d+\t200\t`,
		`^BenchmarkLatency/rate=200/way=kubejournal-received-\d+\t200\t`,
		`^BenchmarkLatency/rate=200/way=kubejournal-metric-\d+\t200\t`,
		`^BenchmarkReal/history=replay/way=raw-\d+\t200\t\S+ cpu-us/event\t\S+ start-cpu-ms$`,
		`^BenchmarkReal/history=replay/way=kubejournal-\d+\t200\t`,
		`^BenchmarkReal/history=replay/way=informer-\d+\t40\t`,
		`^BenchmarkReal/history=replay/way=reflector-\d+\t40\t`,
		`^BenchmarkShard/selects=daemon/way=raw-\d+\t2\d\d\t\S+ cpu-us/event\t\S+ read-B/event\t\S+ rss-MiB\t100 %-of-events$`,
		`^BenchmarkShard/selects=daemon/way=whole-\d+\t2\d\d\t`,
		`^BenchmarkShard/selects=daemon/way=shard-\d+\t2\d\d\t.*\t[1-4]\d(\.\d+)? %-of-events$`,
		`^BenchmarkShard/selects=server/way=whole-\d+\t2\d\d\t`,
		`^BenchmarkShard/selects=server/way=shard-\d+\t2\d\d\t.*\t[1-4]\d(\.\d+)? %-of-events$`,
		`^BenchmarkStandby/way=single-\d+\t40\t\S+ cpu-us/event\t\S+ cpu-s\t\S+ rss-MiB$`,
		`^BenchmarkStandby/way=leader-\d+\t40\t.*\t\S+ lease-writes/retry\t\S+ lease-reads/retry$`,
		`^BenchmarkStandby/way=standby-\d+\t40\t.*\t\S+ more-rss-MiB$`,
		`^BenchmarkReal/history=live/way=raw-\d+\t40\t\S+ cpu-us/event$`,
		`^BenchmarkReal/history=live/way=kubejournal-\d+\t40\t`,
		`^BenchmarkReal/history=live/way=informer-\d+\t40\t`,
		`^BenchmarkReal/history=live/way=reflector-\d+\t40\t`,
	} {
		if !regexp.MustCompile("(?m)" + want).Match(stdout.Bytes()) {
			t.Errorf("no line is %s in\n%s", want, stdout.String())
		}
	}
}

func TestFaultyFlags(t *testing.T) {
	for _, args := range [][]string{{"-count", "0"}, {"-rate", "0"}, {"-bench", "("}, {"words"}, {"-no-such-flag"}} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, &stdout, &stderr); status != 2 || stderr.Len() == 0 {
			t.Errorf("run(%q) = %d, says %q", args, status, stderr.String())
		}
	}
}

func TestHistogram(t *testing.T) {
	const text = `# TYPE kubejournal_event_write_seconds histogram
kubejournal_event_write_seconds_bucket{le="0.0001"} 50
kubejournal_event_write_seconds_bucket{le="0.0004"} 98
kubejournal_event_write_seconds_bucket{le="0.0016"} 100
kubejournal_event_write_seconds_bucket{le="+Inf"} 100
kubejournal_event_write_seconds_sum 0.01
`
	h, err := histogram(text, "kubejournal_event_write_seconds")
	if err != nil {
		t.Fatal(err)
	}
	for share, want := range map[float64]float64{0.5: 0.0001, 0.98: 0.0004, 0.99: 0.0016} {
		if got := h.within(share); got != want {
			t.Errorf("%g are within %g, want %g", share, got, want)
		}
	}
	if _, err := histogram(text, "kubejournal_other_seconds"); err == nil {
		t.Error("a histogram that is not there was read")
	}
}

func TestSpread(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Millisecond)
	}
	if got, want := fmt.Sprint(spread(d)), "[{101 p50-ms} {199 p99-ms} {200 max-ms}]"; got != want {
		t.Errorf("spread is %s, want %s", got, want)
	}
}

// TestKept compares with what the cache does, event by event.
func TestKept(t *testing.T) {
	for _, rate := range []float64{5, 142, 171, 500, 2000, 5000} {
		capacity := 100
		for n := 1; n <= 200_000; n++ {
			if full := n%capacity == 0; full && capacity < 102_400 && float64(capacity)/rate < 75 {
				capacity *= 2
			}
		}
		if got := kept(rate); got > capacity || got < capacity/2 {
			t.Errorf("at %g events per second %d are kept, the cache holds %d", rate, got, capacity)
		}
	}
}

func TestReceivedAt(t *testing.T) {
	at, ok := receivedAt([]byte(`{"seq":1,"time":"2026-11-20T16:10:22.000000001Z","type":"ADDED"`))
	if want := time.Date(2026, 11, 20, 16, 10, 22, 1, time.UTC); !ok || !at.Equal(want) {
		t.Errorf("time is %s (%t)", at, ok)
	}
	if _, ok := receivedAt([]byte(`{"seq":1}`)); ok {
		t.Error("a time was found where there is none")
	}
}
