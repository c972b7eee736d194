package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"kubejournal/internal/format/object"
)

// logAlways sends all changes to the log, which is compacted from so many entries on.
func logAlways(entries int) policy {
	return policy{entries: entries, batch: 1 << 20, total: 1 << 30}
}

// numbered is object i at a version.
func numbered(i, version int) object.Known {
	return object.Known{Namespace: fmt.Sprint("n", i%7), Name: fmt.Sprintf("o%04d", i), UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(version)}
}

// withTree opens a checkpoint with n objects in the tree, version 1.
func withTree(t testing.TB, path string, n int) *Store {
	t.Helper()
	s := mustOpen(t, path)
	s.policy = policy{}
	var c Changes
	for i := range n {
		put(&c, numbered(i, 1))
	}
	b := NewBatch()
	b.Add("pods", &c)
	mustCommit(t, s, b)
	if len(s.logOf("pods").order) > 0 {
		t.Fatal("a list went to the log")
	}
	return s
}

// TestLogFailedCommit fails commits, with nothing written and with all of it
// written: readers see what was committed before or after, the same batch again
// is right, and so is the file.
func TestLogFailedCommit(t *testing.T) {
	const n = 120
	for _, persisted := range []bool{false, true} {
		t.Run(fmt.Sprint("persisted=", persisted), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			s := withTree(t, path, n)
			r := rand.New(rand.NewPCG(3, 4))
			want := make(map[string]object.Known)
			for i := range n {
				want[numbered(i, 1).Name] = numbered(i, 1)
			}
			compacting := 0
			for version := 2; version < 60; version++ {
				s.policy = logAlways(10 + r.IntN(30))
				var c Changes
				before := make(map[string]object.Known)
				for name, k := range want {
					before[name] = k
				}
				for range 1 + r.IntN(12) {
					k := numbered(r.IntN(n), version)
					if r.IntN(4) == 0 {
						c.Delete([]byte(k.Namespace), []byte(k.Name))
						delete(want, k.Name)
					} else {
						put(&c, k)
						want[k.Name] = k
					}
				}
				b := NewBatch()
				b.Add("pods", &c)
				injected := errors.New("no more disk")
				_, err := s.transact(func(w *writer) error {
					if err := s.commitStream(w, "pods", b.streams["pods"]); err != nil || persisted {
						return err
					}
					return injected
				})
				if persisted != (err == nil) {
					t.Fatal(err)
				}
				s.roots = nil
				for _, k := range ranged(t, s, "pods") {
					if k != want[k.Name] && k != before[k.Name] {
						t.Fatalf("version %d: after the failure %+v, want %+v or %+v", version, k, before[k.Name], want[k.Name])
					}
					if got, ok, err := s.Get("pods", k.Namespace, k.Name); err != nil || !ok || got != k {
						t.Fatalf("version %d: Get = %+v, %v, %v, Range gave %+v", version, got, ok, err, k)
					}
				}
				if persisted && r.IntN(2) == 0 { // others may commit first
					k := numbered(r.IntN(n), version)
					var c Changes
					put(&c, k)
					want[k.Name] = k
					b = NewBatch()
					b.Add("pods", &c)
				}
				mustCommit(t, s, b)
				if s.logOf("pods").until != 0 {
					compacting++
				}
				if version%5 == 0 {
					s.Close()
					s = mustOpen(t, path)
				}
				got := make(map[string]object.Known)
				for _, k := range ranged(t, s, "pods") {
					got[k.Name] = k
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("version %d (-want +got):\n%s", version, diff)
				}
			}
			if compacting == 0 {
				t.Error("never within a compaction")
			}
		})
	}
}

// TestLogReaders reads while commits log and compact: no object is ever missing,
// none goes back to an earlier version.
func TestLogReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const n, versions = 150, 150
	s := withTree(t, filepath.Join(t.TempDir(), "c.db"), n)
	s.policy = logAlways(20)
	var done atomic.Bool
	errs := make(chan error, 2)
	check := func(last map[string]int, k object.Known, ok bool) error {
		version, err := strconv.Atoi(k.ResourceVersion)
		if err != nil || !ok || version < last[k.Name] {
			return fmt.Errorf("%+v, %v, %w, version %d was there before", k, ok, err, last[k.Name])
		}
		last[k.Name] = version
		return nil
	}
	go func() {
		last := make(map[string]int)
		for i := 0; !done.Load(); i++ {
			o := numbered(i%n, 0)
			k, ok, err := s.Get("pods", o.Namespace, o.Name)
			if err := errors.Join(err, check(last, k, ok)); err != nil {
				errs <- fmt.Errorf("Get: %w", err)
				return
			}
		}
		errs <- nil
	}()
	go func() {
		last := make(map[string]int)
		for !done.Load() {
			seen := 0
			err := s.Range("pods", func(k object.Known) error { seen++; return check(last, k, true) })
			if err != nil || seen != n {
				errs <- fmt.Errorf("Range: %w after %d objects", err, seen)
				return
			}
		}
		errs <- nil
	}()
	r := rand.New(rand.NewPCG(5, 6))
	for version := 2; version < versions; version++ {
		var c Changes
		for range 8 {
			put(&c, numbered(r.IntN(n), version))
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
	}
	done.Store(true)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestLogReadersBehind: readers may have the tree of a commit and the log of the one before.
// What they then find of a key is not later than the log says, to which the next reader
// would go back.
func TestLogReadersBehind(t *testing.T) {
	const n = 150
	s := withTree(t, filepath.Join(t.TempDir(), "c.db"), n)
	s.policy = logAlways(20)
	r := rand.New(rand.NewPCG(5, 6))
	merged := 0
	for version := 2; version < 200; version++ {
		before := s.logOf("pods")
		var c Changes
		for range 8 {
			put(&c, numbered(r.IntN(n), version))
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
		err := s.viewStream(bucketKnown, "pods", func(tree *bbolt.Bucket) error {
			for i := range before.order {
				e := before.at(i)
				var logged, k object.Known
				if err := errors.Join(decodeKnown(e.key, e.value, &logged), decodeKnown(e.key, tree.Get(e.key), &k)); err != nil {
					return err
				}
				if k == logged {
					merged++
				}
				if k.ResourceVersion == strconv.Itoa(version) {
					t.Errorf("%s: version %d is in the tree, the log before has %s", k.Name, version, logged.ResourceVersion)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if merged == 0 {
		t.Error("nothing was merged")
	}
}

// TestLogBounded: however many changes come, the log stays about as long as the
// policy says, in memory and in the file.
func TestLogBounded(t *testing.T) {
	const n, limit = 5000, 500
	s := withTree(t, filepath.Join(t.TempDir(), "c.db"), n)
	s.policy = policy{entries: 1 << 20, share: n / limit, batch: 1 << 12, total: 1 << 20}
	r := rand.New(rand.NewPCG(7, 8))
	compactions, within := 0, false
	for version := range 200 {
		var c Changes
		for range 50 {
			put(&c, numbered(r.IntN(n), 10+version))
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
		log := s.logOf("pods")
		if within && log.until == 0 {
			compactions++
		}
		within = log.until != 0
		inFile := 0
		err := s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketRecent).Bucket([]byte("pods")).ForEach(func(_, v []byte) error { inFile += len(v); return nil })
		})
		const entry = 60 // bytes, at most
		if err != nil || len(log.order) > limit+100 || len(log.arena) > 2*limit*entry+100*entry || inFile > len(log.arena)+limit*entry {
			t.Fatalf("commit %d: %d entries, %d bytes in memory, %d in the file, %v", version, len(log.order), len(log.arena), inFile, err)
		}
	}
	if compactions < 5 {
		t.Errorf("%d compactions", compactions)
	}
	if err := s.Forget("pods"); err != nil || len(s.logOf("pods").order) > 0 {
		t.Errorf("after Forget: %v, %v", s.logOf("pods"), err)
	}
}

// TestLogOfFewKeys: the same keys over and over leave its order short, and still make
// it no longer than others.
func TestLogOfFewKeys(t *testing.T) {
	const n, limit = 5000, 500
	s := withTree(t, filepath.Join(t.TempDir(), "c.db"), n)
	s.policy = policy{entries: 1 << 20, share: n / limit, batch: 1 << 12, total: 1 << 20}
	compactions, before := 0, 0
	for version := range 200 {
		var c Changes
		for i := range 50 {
			put(&c, numbered(i, 10+version))
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
		log := s.logOf("pods")
		if len(log.arena) < before {
			compactions++
		}
		before = len(log.arena)
		if len(log.arena) > (2*limit+100)*entrySize {
			t.Fatalf("commit %d: %d entries, %d bytes in memory", version, len(log.order), len(log.arena))
		}
	}
	if compactions < 3 {
		t.Errorf("%d compactions", compactions)
	}
}

// TestLogRefusesKey: what the tree could not take must not reach the log.
func TestLogRefusesKey(t *testing.T) {
	s := withTree(t, filepath.Join(t.TempDir(), "c.db"), 10)
	s.policy = logAlways(1)
	var c Changes
	put(&c, object.Known{Name: strings.Repeat("a", bbolt.MaxKeySize)})
	b := NewBatch()
	b.Add("pods", &c)
	if err := s.Commit(b); err == nil || !strings.Contains(err.Error(), "stream pods") {
		t.Errorf("Commit = %v", err)
	}
	if got := len(ranged(t, s, "pods")); got != 10 {
		t.Errorf("%d objects", got)
	}
}

// TestListGoesToTree: a list that comes in small commits fills the tree, also
// behind what is there.
func TestListGoesToTree(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	s := newStore(t)
	for at := 0; at < 20_000; at += 100 {
		objects := make([]int, 100)
		for i := range objects {
			objects[i] = at + i
		}
		mustCommit(t, s, podChanges(objects, 300_000_000))
	}
	if r := s.logOf("pods"); len(r.order) > 0 {
		t.Errorf("%d entries in the log", len(r.order))
	}
	if per := float64(usedBytes(t, s)) / 20_000; per > maxBytesPerObject {
		t.Errorf("%.1f bytes per known object", per)
	}
}

// TestOpenMemory: what Open and Forget allocate does not follow the objects.
func TestOpenMemory(t *testing.T) {
	const n = 100_000 // in 9.6 MB
	path := many(t, n)
	allocated := func(fn func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	var s *Store
	opened := allocated(func() { s = mustOpen(t, path) })
	forgotten := allocated(func() {
		if err := s.Forget("pods"); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("Open allocates %d bytes, Forget %d", opened, forgotten)
	if most := uint64(n * 10); opened > most || forgotten > most {
		t.Errorf("Open allocates %d bytes and Forget %d, want at most %d", opened, forgotten, most)
	}
}
