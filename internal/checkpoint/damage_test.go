package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"kubejournal/internal/format/object"
)

// openDamaged opens a damaged file: it must be refused and untouched, or open
// with one of the contents that had been committed.
func openDamaged(t *testing.T, what string, b []byte, allowed ...content) (opened bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.db")
	write(t, path, b)
	defer os.Remove(path)
	s, err := Open(path)
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerSchema) {
			t.Errorf("%s: Open = %v", what, err)
		}
		if !bytes.Equal(read(t, path), b) {
			t.Errorf("%s: the file was touched", what)
		}
		return false
	}
	defer s.Close()
	got := contentOf(t, s, "pods", "configmaps")
	for _, c := range allowed {
		if cmp.Equal(c, got) {
			return true
		}
	}
	t.Errorf("%s: opened with another content", what)
	return true
}

func TestOpenTruncated(t *testing.T) {
	want, whole := filled(t, filepath.Join(t.TempDir(), "c.db"))
	page := os.Getpagesize()
	lengths := []int{1, 7, 100, page - 1, page, page + 1, 2*page - 1}
	for n := 2 * page; n < len(whole); n += page {
		lengths = append(lengths, n, n+1, n+page/2, n+page-1)
	}
	for _, n := range lengths {
		openDamaged(t, fmt.Sprintf("cut to %d of %d bytes", n, len(whole)), whole[:min(n, len(whole))], want)
	}
	if !openDamaged(t, "whole", whole, want) {
		t.Error("the whole file does not open")
	}
}

// TestOpenFlippedMeta flips bytes of the two meta pages. One good page is
// enough; it may be the older one, whose commit is then the last.
func TestOpenFlippedMeta(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	path := filepath.Join(t.TempDir(), "c.db")
	old, _ := filled(t, path)
	s := mustOpen(t, path)
	if err := s.SetCluster("c-2"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	now := old
	now.Cluster = "c-2"
	whole := read(t, path)
	whole = whole[:min(len(whole), 1<<20)]
	page := os.Getpagesize()
	damaged := 0
	for at := 0; at < 100; at += 3 { // page header and meta
		for _, both := range []bool{false, true} {
			for which := range 2 {
				b := bytes.Clone(whole)
				b[which*page+at] ^= 0xff
				if both {
					b[(1-which)*page+16+at%64] ^= 0x55
				}
				if !openDamaged(t, fmt.Sprintf("byte %d of meta %d, both %v", at, which, both), b, old, now) {
					damaged++
				}
			}
		}
	}
	if damaged == 0 {
		t.Error("nothing of it was found damaged")
	}
}

// TestOpenDamagedPages overwrites pages of data as a whole.
func TestOpenDamagedPages(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	want, whole := filled(t, filepath.Join(t.TempDir(), "c.db"))
	page := os.Getpagesize()
	damaged := 0
	for n := 2 * page; n+page <= len(whole); n += page {
		for name, fill := range map[string]byte{"zeros": 0, "ones": 0xff} {
			b := bytes.Clone(whole)
			copy(b[n:n+page], bytes.Repeat([]byte{fill}, page))
			if !openDamaged(t, fmt.Sprintf("page %d of %s", n/page, name), b, want) {
				damaged++
			}
		}
		// The end of a page that a power cut never wrote: in the middle of values.
		b := bytes.Clone(whole)
		clear(b[n+16 : n+page])
		openDamaged(t, fmt.Sprintf("page %d without its entries", n/page), b, want)
	}
	if damaged == 0 {
		t.Error("nothing of it was found damaged")
	}
}

// usedBytes is the size of the file without what it has grown by in advance.
func usedBytes(t testing.TB, s *Store) (n int64) {
	t.Helper()
	if err := s.db.View(func(tx *bbolt.Tx) error { n = tx.Size(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// small makes a checkpoint with pages of each kind, as few as can be, whose last
// commit is one of a single value.
func small(t *testing.T, path string) (before, now content) {
	t.Helper()
	s := mustOpen(t, path)
	b := NewBatch()
	for name, n := range map[string]int{"pods": 60, "configmaps": 3} {
		var c Changes
		for i := range n {
			put(&c, object.Known{Namespace: "default", Name: fmt.Sprintf("%s-%04d", name, i), UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(1000 + i)})
		}
		c.State = &Stream{ResourceVersion: "1200", PendingGap: "Expired", Open: &Gap{ResourceVersion: "7"}}
		c.KeepHeader([]byte("header"))
		c.Keep([]byte("default"), []byte("a"), []byte("kept"))
		b.Add(name, &c)
	}
	b.SetMark(Mark{Seq: 123, FirstSeq: 1, Offset: 45678})
	mustCommit(t, s, b)
	// A log, with a compaction under way.
	s.policy = policy{entries: 8, batch: 1 << 12, total: 1 << 20}
	for version, n := range []int{8, 4} {
		var c Changes
		for i := range n {
			name := fmt.Sprintf("pods-%04d", 6*i+version)
			if i%3 == 2 {
				c.Delete([]byte("default"), []byte(name))
				continue
			}
			put(&c, object.Known{Namespace: "default", Name: name, UID: uuid(uint64(6*i + version)), ResourceVersion: fmt.Sprint(1100 + version)})
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
	}
	if r := s.logOf("pods"); len(r.order) < 3 || r.until == 0 || len(r.from) == 0 {
		t.Fatalf("the log is %+v", r)
	}
	for _, err := range []error{s.Forget("secrets"), s.SetLost(), s.SetCluster("c-1")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before = contentOf(t, s, "pods", "configmaps")
	if err := s.SetCluster("c-2"); err != nil {
		t.Fatal(err)
	}
	now = contentOf(t, s, "pods", "configmaps")
	used := usedBytes(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, used); err != nil {
		t.Fatal(err)
	}
	return before, now
}

// TestOpenAnyByte changes each byte of a file in turn, by one bit, and where it is
// not 0 by all. It opens with what was committed last, or is damaged. Only a byte of the newer
// meta page may bring back the commit before, in whole. All of that shows when it
// is opened to be read, which is the first half of every Open. Under the race detector it is each seventh byte.
func TestOpenAnyByte(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	path := filepath.Join(t.TempDir(), "c.db")
	before, now := small(t, path)
	whole := read(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stride := 1
	if raced {
		stride = 7 // not a divisor of 8: the bit changes too
	}
	var damaged, same, older int
	for at := 0; at < len(whole); at += stride {
		for _, mask := range []byte{1 << (at % 8), 0xff} {
			if mask == 0xff && whole[at] == 0 {
				continue
			}
			if _, err := f.WriteAt([]byte{whole[at] ^ mask}, int64(at)); err != nil {
				t.Fatal(err)
			}
			s, err := OpenReadOnly(path)
			if err != nil {
				if damaged++; !errors.Is(err, ErrDamaged) {
					t.Fatalf("byte %d ^ %#x: OpenReadOnly = %v", at, mask, err)
				}
				continue
			}
			got := contentOf(t, s, "pods", "configmaps")
			lost, err := s.Lost()
			forgotten, err2 := s.Forgotten()
			if kept(t, s, "pods", "a") != "kept" {
				t.Fatalf("byte %d ^ %#x: something else is kept", at, mask)
			}
			if err := errors.Join(err, err2, s.Close()); err != nil {
				t.Fatal(err)
			}
			switch {
			case !lost || len(forgotten) != 1 || !forgotten["secrets"]:
				t.Fatalf("byte %d ^ %#x: lost %v, forgotten %v", at, mask, lost, forgotten)
			case reflect.DeepEqual(now, got): // cmp.Equal would take most of the time
				same++
			case reflect.DeepEqual(before, got) && at < 2*os.Getpagesize():
				older++
			default:
				t.Fatalf("byte %d ^ %#x: another content (-want +got):\n%s", at, mask, cmp.Diff(now, got))
			}
		}
		if _, err := f.WriteAt(whole[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("of %d bytes, %d changed: %d damaged, %d the commit before, %d no difference", len(whole), len(whole)/stride, damaged, older, same)
	if damaged < 60*(40+40)/stride || older == 0 || same == 0 {
		t.Error("that is not what was to be tried")
	}
	if !bytes.Equal(read(t, path), whole) {
		t.Error("the file was touched")
	}
}

// TestOpenStalePages puts for each page of data the page as it was at an earlier
// commit: whole, in order, and not what was committed last.
func TestOpenStalePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	small(t, path)
	old := read(t, path)
	s := mustOpen(t, path)
	for i := range 3 { // pages that are free again
		b := NewBatch()
		var c Changes
		for j := range 120 {
			put(&c, object.Known{Namespace: "default", Name: fmt.Sprintf("pods-%04d", j), UID: uuid(uint64(j)), ResourceVersion: fmt.Sprint(2000 + i)})
		}
		b.Add("pods", &c)
		mustCommit(t, s, b)
	}
	want := contentOf(t, s, "pods", "configmaps")
	s.Close()
	now := read(t, path)
	page := os.Getpagesize()
	damaged := 0
	for n := 2 * page; n+page <= len(old); n += page {
		b := bytes.Clone(now)
		copy(b[n:n+page], old[n:n+page])
		if !openDamaged(t, fmt.Sprintf("page %d of an earlier commit", n/page), b, want) {
			damaged++
		}
	}
	// The pages of the tree point to those of an earlier one.
	for n := 2 * page; n+page <= len(now); n += page {
		for at := n; at < n+page; at += 8 {
			for id := range uint64(len(now) / page) {
				b := now[at : at+8]
				if v := binary.NativeEndian.Uint64(b); v < 2 || v > 40 || v == id {
					break // no number of a page
				}
				c := bytes.Clone(now)
				binary.NativeEndian.PutUint64(c[at:], id)
				if !openDamaged(t, fmt.Sprintf("byte %d points to page %d", at, id), c, want) {
					damaged++
				}
			}
		}
	}
	if t.Logf("%d damaged", damaged); damaged < 5 {
		t.Error("that is not what was to be tried")
	}
}

// TestRandomDamage writes what is no less damaged for being random, opens the
// file for writing and, where that works, commits to it: without a panic, and
// never with another content.
func TestRandomDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	want, whole := filled(t, filepath.Join(t.TempDir(), "c.db"))
	page := os.Getpagesize()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			b[2*page+r.IntN(len(b)-2*page)] ^= byte(1 + r.IntN(255))
		}
		path := filepath.Join(t.TempDir(), "c.db")
		write(t, path, b)
		s, err := Open(path)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%d: Open = %v", i, err)
			}
			os.Remove(path)
			continue
		}
		if err := s.SetCluster("c-9"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = mustOpen(t, path)
		want.Cluster = "c-9"
		if diff := cmp.Diff(want, contentOf(t, s, "pods", "configmaps")); diff != "" {
			t.Errorf("%d: another content (-want +got):\n%s", i, diff)
		}
		s.Close()
		os.Remove(path)
	}
}

// TestOpenDamagedValues has pages in order and values that nobody can read:
// found at Open, not later.
func TestOpenDamagedValues(t *testing.T) {
	for name, damage := range map[string]func(*bbolt.Tx) error{
		"mark":   func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyJournal, []byte(`{"seq":`)) },
		"stream": func(tx *bbolt.Tx) error { return tx.Bucket(bucketStreams).Put([]byte("pods"), []byte(`]`)) },
		"known": func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketKnown).Bucket([]byte("pods")).Put([]byte("no zero byte"), []byte{1})
		},
		"known value": func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketKnown).Bucket([]byte("pods")).Put([]byte("a\x00b"), []byte{0, 1, 2})
		},
		"no streams": func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketStreams) },
	} {
		path := filepath.Join(t.TempDir(), "c.db")
		filled(t, path)
		s := mustOpen(t, path)
		if err := s.db.Update(damage); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: Open = %v", name, err)
		}
	}
}

const (
	bboltEnv   = "KUBEJOURNAL_TEST_BBOLT"
	bboltPanic = 3
)

var bboltAlone = flag.Bool("bbolt-alone", false, "count what bbolt does with damaged files that pages refuses")

// TestBboltAlone counts, with -bbolt-alone, how a process ends that opens a damaged
// file without the walk over its pages: the figure in pages.go.
func TestBboltAlone(t *testing.T) {
	if path := os.Getenv(bboltEnv); path != "" {
		defer func() {
			if recover() != nil {
				os.Exit(bboltPanic)
			}
		}()
		debug.SetPanicOnFault(true)
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			os.Exit(bboltPanic)
		}
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyCluster, []byte("c")) })
		if err != nil {
			os.Exit(bboltPanic)
		}
		os.Exit(0)
	}
	if !*bboltAlone {
		t.Skip("only with -bbolt-alone")
	}
	path := filepath.Join(t.TempDir(), "c.db")
	small(t, path)
	whole := read(t, path)
	r, ends := rand.New(rand.NewPCG(3, 4)), make(map[string]int)
	for tried := 0; tried < 1000; {
		b := bytes.Clone(whole)
		at := 2*os.Getpagesize() + r.IntN(len(b)-2*os.Getpagesize())
		if b[at] == 0 {
			continue
		}
		tried++
		b[at] ^= byte(1 + r.IntN(255))
		write(t, path, b)
		s, err := OpenReadOnly(path)
		if err == nil {
			s.Close()
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=TestBboltAlone")
		cmd.Env = append(os.Environ(), bboltEnv+"="+path)
		out, err := cmd.CombinedOutput()
		switch exit := new(exec.ExitError); {
		case err == nil:
			ends["opened and committed to"]++
		case ctx.Err() != nil:
			ends["hung"]++
		case errors.As(err, &exit) && exit.ExitCode() == bboltPanic:
			ends["refused"]++
		default:
			ends["killed the process"]++
			if ends["killed the process"] < 3 {
				t.Logf("%.300s", out)
			}
		}
		cancel()
	}
	t.Log(ends)
}
