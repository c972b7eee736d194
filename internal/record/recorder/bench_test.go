package recorder

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/metrics"
	"kubejournal/test/eventtest"
)

const (
	benchJournal = 2 << 30   // bytes of lines
	benchSegment = 100 << 20 // bytes of each file, but for the active one
	benchPods    = 20_000
	benchCluster = "16b2cc15-62ff-42a7-a3f9-69ac56d63392"
	benchPod     = 3900 // bytes, that is 3 KB of a line
)

// BenchmarkRecover reads a whole journal back in the place of a lost checkpoint:
// lines of 3 KB about 20,000 pods, in files as they are and compressed.
func BenchmarkRecover(b *testing.B) {
	for _, form := range []string{"plain", "gzip"} {
		b.Run("files="+form, func(b *testing.B) {
			dir := b.TempDir()
			path := filepath.Join(dir, "journal.jsonl")
			lines := writeBenchJournal(b, path, form == "gzip")
			b.SetBytes(benchJournal)
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				db := filepath.Join(dir, "checkpoint.db")
				if err := os.RemoveAll(db); err != nil {
					b.Fatal(err)
				}
				store, err := checkpoint.Open(db)
				if err != nil {
					b.Fatal(err)
				}
				if err := store.SetCluster(benchCluster); err != nil {
					b.Fatal(err)
				}
				j, err := journal.OpenFile(path, journal.Options{})
				if err != nil {
					b.Fatal(err)
				}
				before := cpuTime(b)
				b.StartTimer()
				found, err := Recover(b.Context(), j, store)
				b.StopTimer()
				cpu += cpuTime(b) - before
				if err != nil || found.Lines != lines || !found.Lost {
					b.Fatalf("Recover = %+v, %v, want %d lines", found, err, lines)
				}
				j.Close()
				store.Close()
				b.StartTimer()
			}
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// writeBenchJournal writes a journal and returns how many lines it has.
func writeBenchJournal(b *testing.B, path string, compress bool) (lines int) {
	b.Helper()
	render, err := object.NewRenderer(object.Source{Stream: "pods", Cluster: "prod-eu1", ClusterUID: benchCluster, Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{Drop: []string{"metadata.managedFields"}})
	if err != nil {
		b.Fatal(err)
	}
	var (
		o      object.Object
		bodies [][]byte // of the lines, without seq
	)
	for i := range benchPods {
		if err := render.Scan(eventtest.Pod(benchPod, i), &o); err != nil {
			b.Fatal(err)
		}
		body, err := render.AppendLine(nil, object.Line{Type: line.Modified, Origin: line.FromWatch, Received: received}, &o)
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	bodies[0] = render.AppendSynced(nil, received, "1", line.Count{})
	var raw []byte
	for total := 0; total < benchJournal; {
		name := fmt.Sprintf("journal-2026-11-20T16-10-%06.3f.jsonl", float64(total>>20)/1000)
		last := total+benchSegment >= benchJournal
		switch {
		case last:
			name = filepath.Base(path)
		case compress:
			name += ".gz"
		}
		f, err := os.Create(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			b.Fatal(err)
		}
		w := bufio.NewWriterSize(f, 1<<20)
		var out io.Writer = w
		z := gzip.NewWriter(w)
		if compress && !last {
			out = z
		}
		for size := 0; size < benchSegment && total < benchJournal; {
			raw = append(line.AppendSeq(raw[:0], uint64(lines+1)), bodies[lines%len(bodies)]...)
			if _, err := out.Write(raw); err != nil {
				b.Fatal(err)
			}
			lines++
			size += len(raw)
			total += len(raw)
		}
		if compress && !last {
			err = z.Close()
		}
		if err != nil || w.Flush() != nil || f.Close() != nil {
			b.Fatal("the journal cannot be written")
		}
	}
	return lines
}

// BenchmarkCommit is a commit of a line and the positions of 300 streams, with coverage and without.
func BenchmarkCommit(b *testing.B) {
	const streams = 300
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("streams=%d/coverage=%v", streams, with), func(b *testing.B) {
			dir := b.TempDir()
			path := filepath.Join(dir, "journal.jsonl")
			file, err := journal.OpenFile(path, journal.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			store, err := checkpoint.Open(filepath.Join(dir, "c.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			cfg := Config{Interval: time.Hour, Metrics: metrics.New("", ""), Log: zap.NewNop()}
			if with {
				f, err := coverage.Open(path, coverage.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close(true)
				cfg.Coverage = f
			}
			rec := New(file, store, cfg)
			done := make(chan error, 1)
			go func() { done <- rec.Run(b.Context()) }()
			var producers []*Producer
			for n := range streams {
				producers = append(producers, newProducer(fmt.Sprintf("deployments.apps?namespace=ns-%d", n)))
			}
			since, before := time.Now().UnixNano(), cpuTime(b)
			for rv := 1; b.Loop(); rv++ {
				for n, p := range producers {
					batch := p.Batch()
					if n == 0 {
						batch.AddLine(watched(b, batch.Lines(), "pods", rv, &batch.Changes), line.Added, line.FromWatch, received, nil)
					}
					batch.Changes.State = &checkpoint.Stream{ResourceVersion: versionOf(rv), Coverage: checkpoint.Coverage{Since: since, Confirmed: time.Now().UnixNano()}}
					if err := rec.Submit(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				if err := rec.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
			rec.Close()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}
