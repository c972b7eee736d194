package checkpoint

import (
	"fmt"
	"path/filepath"
	"testing"
)

// pod is the object number i as a server would list it: 12 bytes of namespace, 40
// of name.
func pod(i int) (namespace, name string) {
	return fmt.Sprintf("shop-%07d", i/1000), fmt.Sprintf("storefront-checkout-6d4cf56db6-%09d", i)
}

// many makes a checkpoint with n known objects and closes it.
func many(b *testing.B, n int) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "c.db")
	s := mustOpen(b, path)
	var c Changes
	batch := NewBatch()
	for i := range n {
		namespace, name := pod(i)
		put(&c, Known{Namespace: namespace, Name: name, UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(100_000_000 + i)})
		if i%20_000 == 19_999 || i == n-1 {
			batch.Add("pods", &c)
			c.Reset()
			mustCommit(b, s, batch)
			batch = NewBatch()
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkOpen is what a start waits for: all of the file is read and checked.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			path := many(b, n)
			for b.Loop() {
				s, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommit changes 1,000 of 1,000,000 objects, far apart.
func BenchmarkCommit(b *testing.B) {
	const n, changed = 1_000_000, 1000
	s := mustOpen(b, many(b, n))
	version := 0
	for b.Loop() {
		version++
		var c Changes
		for i := range changed {
			namespace, name := pod(i*(n/changed) + version%(n/changed))
			put(&c, Known{Namespace: namespace, Name: name, UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(200_000_000 + version)})
		}
		batch := NewBatch()
		batch.Add("pods", &c)
		mustCommit(b, s, batch)
	}
}

// BenchmarkForget forgets a stream of 1,000,000 objects.
func BenchmarkForget(b *testing.B) {
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
}
