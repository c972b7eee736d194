package checkpoint

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// layout is one way to keep known objects in a bbolt file.
type layout struct {
	name    string
	options bbolt.Options
	fill    float64 // of a page at a split
	batch   int     // objects in a commit of the first sync
	entry   func(object int, version uint64) (key, value []byte)
	sync    func(*bbolt.DB) error // after each commit; nil where bbolt does it
}

// first is the layout that the others differ from in one thing. The package keeps
// it, with the pages of a list filled to the brim, and a log before it.
func first() layout {
	return layout{
		name:    "first",
		options: bbolt.Options{FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, InitialMmapSize: initialMap},
		fill:    0.95,
		batch:   20_000,
		entry: func(object int, version uint64) (key, value []byte) {
			namespace, name := pod(object)
			return appendKey(nil, namespace, name), appendKnown(nil, uuid(uint64(object)), fmt.Sprint(version))
		},
	}
}

// layouts are those that doc.go compares, each with one thing changed.
func layouts() []layout {
	with := func(name string, change func(*layout)) layout {
		l := first()
		l.name = name
		change(&l)
		return l
	}
	kept := first().entry
	return []layout{
		first(),
		with("key=uid", func(l *layout) {
			l.entry = func(object int, version uint64) (key, value []byte) {
				// The name has to be there too, for the DELETED line of a relist.
				k, v := kept(object, version)
				id := v[len(v)-16:]
				return id, append(v[:len(v)-16:len(v)-16], k...)
			}
		}),
		with("uid=text", func(l *layout) {
			l.entry = func(object int, version uint64) (key, value []byte) {
				k, v := kept(object, version)
				return k, append(v[:len(v)-16:len(v)-16], uuid(uint64(object))...)
			}
		}),
		with("value=json", func(l *layout) { l.entry = jsonEntry }),
		with("fill=50", func(l *layout) { l.fill = 0.5 }),
		with("fill=80", func(l *layout) { l.fill = 0.8 }),
		with("fill=100", func(l *layout) { l.fill = 1 }),
		with("page=1KiB", func(l *layout) { l.options.PageSize = 1 << 10 }),
		with("page=2KiB", func(l *layout) { l.options.PageSize = 2 << 10 }),
		with("page=8KiB", func(l *layout) { l.options.PageSize = 8 << 10 }),
		with("page=16KiB", func(l *layout) { l.options.PageSize = 16 << 10 }),
		with("batch=1000", func(l *layout) { l.batch = 1000 }),
		with("batch=100000", func(l *layout) { l.batch = 100_000 }),
		with("freelist=array", func(l *layout) { l.options.FreelistType = bbolt.FreelistArrayType }),
		with("freelist=written", func(l *layout) { l.options.NoFreelistSync = false }),
		with("sync=explicit", func(l *layout) {
			l.options.NoSync, l.options.NoGrowSync = true, true
			l.sync = (*bbolt.DB).Sync
		}),
		with("sync=none", func(l *layout) { l.options.NoSync, l.options.NoGrowSync = true, true }),
		with("bbolt-defaults", func(l *layout) {
			l.options, l.fill, l.entry = bbolt.Options{}, bbolt.DefaultFillPercent, jsonEntry
		}),
	}
}

// jsonEntry is what one would write by hand.
func jsonEntry(object int, version uint64) (key, value []byte) {
	namespace, name := pod(object)
	value, err := json.Marshal(map[string]string{"uid": uuid(uint64(object)), "resourceVersion": fmt.Sprint(version)})
	if err != nil {
		panic(err) // strings only
	}
	return []byte(namespace + "/" + name), value
}

// commit puts objects in one transaction.
func (l *layout) commit(db *bbolt.DB, objects []int, version uint64) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucketKnown)
		if err != nil {
			return err
		}
		b.FillPercent = l.fill
		for i, object := range objects {
			k, v := l.entry(object, version+uint64(i))
			if err := b.Put(k, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && l.sync != nil {
		err = l.sync(db)
	}
	return err
}

// firstSync puts n objects in their order.
func (l *layout) firstSync(db *bbolt.DB, n int) error {
	objects := make([]int, 0, l.batch)
	for i := range n {
		if objects = append(objects, i); len(objects) == l.batch || i == n-1 {
			if err := l.commit(db, objects, 300_000_000+uint64(i)); err != nil {
				return err
			}
			objects = objects[:0]
		}
	}
	return nil
}

// BenchmarkLayout is the table of doc.go: per layout the first sync of a million
// objects, commits of 1,000 random ones of them, and bbolt's own opening of the
// file. The commits of all layouts take turns, so that a noisy machine spoils
// them alike.
func BenchmarkLayout(b *testing.B) {
	const n, changed = 1_000_000, 1000
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "c.db")
			db, err := bbolt.Open(path, 0o600, &l.options)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { db.Close() }()
			db.AllocSize = growBy
			start, busy := time.Now(), cpuTime(b)
			if err := l.firstSync(db, n); err != nil {
				b.Fatal(err)
			}
			syncCPU, syncWall, size := (cpuTime(b) - busy).Seconds(), time.Since(start).Seconds(), float64(fileSize(b, path))
			r, objects := rand.New(rand.NewPCG(1, 2)), make([]int, changed)
			written := allocated(db)
			busy = cpuTime(b)
			for b.Loop() {
				for i := range objects {
					objects[i] = r.IntN(n)
				}
				if err := l.commit(db, objects, 400_000_000); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(syncCPU, "sync-cpu-s")
			b.ReportMetric(syncWall, "sync-s")
			b.ReportMetric(size/n, "B/object")
			b.ReportMetric(float64((cpuTime(b)-busy).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(allocated(db)-written)/float64(b.N)/1000, "written-kB/op")
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			busy = cpuTime(b)
			if db, err = bbolt.Open(path, 0o600, &l.options); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((cpuTime(b)-busy).Microseconds())/1000, "open-cpu-ms")
		})
	}
}

// allocated is how many bytes of pages transactions have written so far.
func allocated(db *bbolt.DB) int64 {
	stats := db.Stats()
	return stats.TxStats.GetPageAlloc()
}

// cpuTime is the time that this process has computed for, in user and system mode.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func fileSize(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}
