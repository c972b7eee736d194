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
			return appendKey(nil, namespace, name), appendKnown(nil, 0, []byte(uuid(uint64(object))), fmt.Append(nil, version))
		},
	}
}

// layouts are those of the table below, each with one thing changed.
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

// BenchmarkLayout compares layouts: per layout the first sync of a million objects
// with 12 bytes of namespace and 40 of name in commits of 20,000, commits of 1,000
// random ones of them, all straight to the tree, and bbolt's own opening of the
// file. On two busy cores (the bytes are exact, CPU times within a quarter); each
// row changes one thing of the first:
//
//	                                 bytes per  commit  commit   bbolt's   first
//	                                 object     CPU ms  kB       open ms   sync CPU s
//	name as key, 95 % full, 4 KiB    100.4      30      5,630    90        4.2
//	key: uid, the name in the value  447.6      43      7,323    262       20.9
//	uid as text                      123.8      34      5,911    105       5.8
//	value as JSON                    161.5      41      6,260    144       6.7
//	pages filled to 50 %             193.9      41      7,309    193       5.6
//	pages filled to 80 %             120.7      28      6,101    94        4.0
//	pages filled to 100 %            95.8       30      5,505    82        4.4
//	pages of 1 KiB                   112.0      34      2,526    168       5.6
//	pages of 2 KiB                   102.4      34      3,729    166       5.0
//	pages of 8 KiB                   98.4       29      8,735    62        4.5
//	pages of 16 KiB                  98.0       36      15,563   52        4.0
//	1,000 objects in a commit        99.5       26      5,630    74        3.4
//	100,000 objects in a commit      100.4      30      5,630    112       3.9
//	freelist as an array             100.4      24      5,630    74        4.5
//	freelist written                 100.4      33      5,642    1         4.5
//	NoSync, Sync after each commit   99.3       36      5,630    128       5.6
//	NoSync                           99.3       22      5,630    71        5.9
//	bbolt's defaults, JSON           304.1      36      7,814    0.4       7.6
//
// Used: the name as key, since uids come in no order and each would cost a page of
// the first sync too. Uids as 16 bytes. Pages of a list full to the brim, and three
// quarters where objects come in between others: with every object replaced twice by
// one of another name, 0.75 gives the smallest file of 0.5, 0.75, 0.95 and 1, about
// twice that of the first sync. The system's page size: smaller pages cost more bytes
// per object, larger ones more per commit. The freelist as a map and not written: an
// array is no faster, and writing it costs a commit 8 bytes for each free page, to
// save a start some 60 ms. bbolt's own syncs: a single sync after both the pages and
// the page that names the root would let the disk write the root first, which is a
// file with holes after a power cut; and it saves nothing measurable. Batches of any
// size: it matters little.
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
