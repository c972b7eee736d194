package checkpoint

import (
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"kubejournal/internal/format/object"
)

// pod is the object number i as a server would list it: 12 bytes of namespace, 40
// of name.
func pod(i int) (namespace, name string) {
	return fmt.Sprintf("shop-%07d", i/1000), fmt.Sprintf("storefront-checkout-6d4cf56db6-%09d", i)
}

// shared holds the checkpoints that several benchmarks begin with, in a folder
// that TestMain removes.
var shared struct {
	sync.Mutex
	dir string
}

func removeShared() {
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
}

// build makes the file name once, and returns a copy of it, which is on disk.
func build(tb testing.TB, name string, fill func(path string)) (path string) {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir == "" {
		dir, err := os.MkdirTemp("", "checkpoint-bench-*")
		if err != nil {
			tb.Fatal(err)
		}
		shared.dir = dir
	}
	from := filepath.Join(shared.dir, name)
	if _, err := os.Stat(from); err != nil {
		fill(from)
	}
	path = filepath.Join(tb.TempDir(), name)
	in, err := os.Open(from)
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		tb.Fatal(err)
	}
	if err := out.Sync(); err != nil {
		tb.Fatal(err)
	}
	return path
}

// many is a checkpoint with n known objects, as a first sync leaves it.
func many(tb testing.TB, n int) (path string) {
	tb.Helper()
	return build(tb, fmt.Sprintf("ours-%d.db", n), func(path string) {
		s := mustOpen(tb, path)
		defer s.Close()
		objects := make([]int, 0, 20_000)
		for i := range n {
			if objects = append(objects, i); len(objects) == cap(objects) || i == n-1 {
				mustCommit(tb, s, podChanges(objects, 300_000_000+i))
				objects = objects[:0]
			}
		}
	})
}

// podChanges is a batch that tells of objects at a version.
func podChanges(objects []int, version int) *Batch {
	var c Changes
	for _, i := range objects {
		namespace, name := pod(i)
		put(&c, object.Known{Namespace: namespace, Name: name, UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(version)})
	}
	batch := NewBatch()
	batch.Add("pods", &c)
	return batch
}

// BenchmarkOpen is what a start waits for: all of the file is read and checked.
// way=verify is that without bbolt's own scan for free pages, way=cursor the same sum
// over bbolt's cursors, which would not survive every damage; way=read reads the bytes
// from beginning to end, with a CRC over them.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		open := func(path string) {
			s, err := Open(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
		read := func(path string) {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			sum := crc32.New(crcTable)
			if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
				b.Fatal(err)
			}
		}
		verify := func(path string) {
			s, err := OpenReadOnly(path)
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
		cursor := func(path string) {
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			var sum uint64
			err = db.View(func(tx *bbolt.Tx) error {
				known := tx.Bucket(bucketKnown)
				return known.ForEachBucket(func(stream []byte) error {
					crc := bucketCRC(bucketKnown, stream)
					return known.Bucket(stream).ForEach(func(k, v []byte) error { sum += entrySum(crc, k, v); return nil })
				})
			})
			if err != nil || sum == 0 {
				b.Fatal(sum, err)
			}
		}
		for _, way := range []struct {
			name string
			run  func(string)
		}{{"kubejournal", open}, {"verify", verify}, {"cursor", cursor}, {"read", read}} {
			b.Run(fmt.Sprintf("objects=%d/way=%s", n, way.name), func(b *testing.B) {
				path := many(b, n)
				b.ReportAllocs()
				busy := cpuTime(b)
				for b.Loop() {
					way.run(path)
				}
				b.ReportMetric(float64((cpuTime(b)-busy).Microseconds())/float64(b.N), "cpu-us/op")
				b.ReportMetric(float64(fileSize(b, path))/float64(n), "B/object")
			})
		}
	}
}

// BenchmarkCommit changes 1,000 random objects of those that are known; of many,
// during a compaction, which is most of the time and the more expensive part of it.
// way=tree is the same without the delta log, way=plain with bbolt's defaults and
// JSON values.
func BenchmarkCommit(b *testing.B) {
	const changed = 1000
	var few, fewBusy time.Duration // per commit among 1,000
	for _, n := range []int{1000, 100_000, 1_000_000} {
		r := rand.New(rand.NewPCG(1, 2))
		objects := make([]int, changed)
		draw := func() {
			for i := range objects {
				objects[i] = r.IntN(n)
			}
		}
		ours := func(b *testing.B, p policy) {
			s := mustOpen(b, many(b, n))
			s.policy = p
			version := 400_000_000
			var took, busy time.Duration // the batches not
			commit := func() {
				draw()
				version++
				batch := podChanges(objects, version)
				start, computed := time.Now(), cpuTime(b)
				mustCommit(b, s, batch)
				took += time.Since(start)
				busy += cpuTime(b) - computed
			}
			commit()
			for p.total > 0 && n > changed && s.logOf("pods").until == 0 {
				commit()
			}
			took, busy = 0, 0
			written := allocated(s.db)
			for b.Loop() {
				commit()
			}
			took, busy = took/time.Duration(b.N), busy/time.Duration(b.N)
			b.ReportMetric(float64(took.Microseconds())/1000, "commit-ms")
			b.ReportMetric(float64(allocated(s.db)-written)/float64(b.N)/1000, "written-kB/op")
			b.ReportMetric(float64(busy.Microseconds()), "cpu-us/op")
			if n == changed {
				few, fewBusy = took, busy
			} else if few > 0 {
				b.ReportMetric(float64(took)/float64(few), "x-few")
				b.ReportMetric(float64(busy)/float64(fewBusy), "x-few-cpu")
			}
		}
		b.Run(fmt.Sprintf("known=%d/way=kubejournal", n), func(b *testing.B) { ours(b, usualPolicy) })
		if n > changed {
			b.Run(fmt.Sprintf("known=%d/way=tree", n), func(b *testing.B) { ours(b, policy{batch: usualPolicy.batch}) })
		}
		b.Run(fmt.Sprintf("known=%d/way=plain", n), func(b *testing.B) {
			plain := layout{fill: bbolt.DefaultFillPercent, batch: 20_000, entry: jsonEntry}
			fill := func(path string) {
				db, err := bbolt.Open(path, 0o600, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				if err := plain.firstSync(db, n); err != nil {
					b.Fatal(err)
				}
			}
			db, err := bbolt.Open(build(b, fmt.Sprintf("plain-%d.db", n), fill), 0o600, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			busy := cpuTime(b)
			for b.Loop() {
				draw()
				if err := plain.commit(db, objects, 400_000_000); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-busy).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkForget forgets a stream of 1,000,000 objects.
func BenchmarkForget(b *testing.B) {
	b.Run("objects=1000000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			s := mustOpen(b, many(b, 1_000_000))
			b.StartTimer()
			if err := s.Forget("pods"); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.Close()
			b.StartTimer()
		}
	})
}

// BenchmarkRange reads 1,000,000 known objects.
func BenchmarkRange(b *testing.B) {
	b.Run("objects=1000000", func(b *testing.B) {
		s := mustOpen(b, many(b, 1_000_000))
		for b.Loop() {
			if err := s.Range("pods", func(object.Known) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
