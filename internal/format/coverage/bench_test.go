package coverage

import (
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkCommit is a commit that has moved some of the streams: what the commit waits for, and the write after it.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ streams, moved int }{{300, 5}, {300, 300}, {3000, 300}, {3000, 3000}} {
		b.Run(fmt.Sprintf("streams=%d/moved=%d", c.streams, c.moved), func(b *testing.B) {
			f, err := Open(filepath.Join(b.TempDir(), "journal.jsonl"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			f.Close(false) // this goroutine writes
			if f.f, err = f.create(nil); err != nil {
				b.Fatal(err)
			}
			defer f.f.Close()
			f.synced = time.Now().Add(time.Hour)
			names := make([]string, c.streams)
			for n := range names {
				names[n] = fmt.Sprintf("deployments.apps?namespace=ns-%d", n)
			}
			since := time.Now().UnixNano()
			moved := func(n int) iter.Seq2[string, Progress] {
				return func(yield func(string, Progress) bool) {
					for i := range n {
						now := time.Now().UnixNano()
						if !yield(names[i*len(names)/n], Progress{Since: since, Confirmed: now}) {
							return
						}
					}
				}
			}
			f.Committed(1, 1, moved(c.streams))
			if err := f.replace(&content{}); err != nil {
				b.Fatal(err)
			}
			var writing time.Duration
			for n := uint64(2); b.Loop(); n++ {
				f.Committed(n, 1, moved(c.moved))
				b.StopTimer()
				began := time.Now()
				if err := f.write(); err != nil {
					b.Fatal(err)
				}
				writing += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(writing.Microseconds())/float64(b.N), "write-us/op")
		})
	}
}
