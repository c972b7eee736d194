package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/object"
)

func mustOpen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return mustOpen(t, filepath.Join(t.TempDir(), "c.db"))
}

func mustCommit(t testing.TB, s *Store, b *Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func put(c *Changes, k object.Known) {
	c.Put([]byte(k.Namespace), []byte(k.Name), []byte(k.UID), []byte(k.ResourceVersion))
}

// ranged is what Range gives, in its order.
func ranged(t testing.TB, s *Store, stream string) []object.Known {
	t.Helper()
	var all []object.Known
	if err := s.Range(stream, func(k object.Known) error { all = append(all, k); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// content is all that a store tells.
type content struct {
	Cluster string
	Mark    Mark
	Streams map[string]Stream
	Known   map[string][]object.Known
}

func contentOf(t testing.TB, s *Store, streams ...string) content {
	t.Helper()
	c := content{Known: make(map[string][]object.Known)}
	var err error
	if c.Cluster, err = s.Cluster(); err != nil {
		t.Fatal(err)
	}
	if c.Mark, err = s.Mark(); err != nil {
		t.Fatal(err)
	}
	if c.Streams, err = s.Streams(); err != nil {
		t.Fatal(err)
	}
	for _, name := range streams {
		if all := ranged(t, s, name); len(all) > 0 {
			c.Known[name] = all
		}
	}
	return c
}

func byKey(a, b object.Known) int {
	return strings.Compare(a.Namespace+"\x00"+a.Name, b.Namespace+"\x00"+b.Name)
}

func uuid(n uint64) string { return fmt.Sprintf("%08x-7c1e-4a5b-9d3f-%012x", uint32(n*2654435761), n) }

// oddities are values that have not the usual form, or only nearly.
var oddities = []string{
	"", "0", "00", "007", "-1", "+1", "1 ", "12ab", "18446744073709551615", "18446744073709551616", "9999999999999999999",
	"999999999999999999", "12345678901234567890", "99999999999999999999", strings.Repeat("9", 300), "\x00", "\xff\xfe", "0x10",
	uuid(7), strings.ToUpper(uuid(0xabcdef)), strings.ReplaceAll(uuid(7), "-", ""), uuid(7) + "0", uuid(7)[:35],
	"0123456-89abc-def0-1234-56789abcdef0", "g0000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-00000000000G",
	"not a uuid", "16 bytes of text", "ünïcode", strings.Repeat("x", 5000),
}

func TestKnownRoundTrip(t *testing.T) {
	s := newStore(t)
	var want []object.Known
	var c Changes
	for i, uid := range oddities {
		for j, rv := range oddities {
			k := object.Known{Namespace: fmt.Sprintf("ns-%02d", i), Name: fmt.Sprintf("n.%02d", j), UID: uid, ResourceVersion: rv}
			want = append(want, k)
			put(&c, k)
		}
	}
	for _, k := range []object.Known{{Name: "cluster-scoped"}, {Namespace: "a"}, {}, {Namespace: "a", Name: "b"}, {Namespace: "a-b", Name: "c"}, {Namespace: "a", Name: "-b"}} {
		want = append(want, k)
		put(&c, k)
	}
	b := NewBatch()
	b.Add("odd?labelSelector=a%3Db", &c)
	mustCommit(t, s, b)

	slices.SortFunc(want, byKey)
	if diff := cmp.Diff(want, ranged(t, s, "odd?labelSelector=a%3Db")); diff != "" {
		t.Errorf("Range (-want +got):\n%s", diff)
	}
	for _, k := range want {
		got, ok, err := s.Get("odd?labelSelector=a%3Db", k.Namespace, k.Name)
		if err != nil || !ok || got != k {
			t.Fatalf("Get = %+v, %v, %v, want %+v", got, ok, err, k)
		}
	}
	if _, ok, err := s.Get("odd", "ns-00", "n.00"); ok || err != nil {
		t.Errorf("Get from another stream = %v, %v", ok, err)
	}
	if _, ok, err := s.Get("odd?labelSelector=a%3Db", "ns-00n", ".00"); ok || err != nil {
		t.Errorf("Get of a name cut elsewhere = %v, %v", ok, err)
	}
}

// TestAgainstModel commits random changes and compares with maps after each
// commit, and after closing and opening.
func TestAgainstModel(t *testing.T) {
	seeds := uint64(16)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			path := filepath.Join(t.TempDir(), "c.db")
			s := mustOpen(t, path)
			names := []string{"pods", "pods?namespace=a", "p"}
			model := content{Streams: make(map[string]Stream), Known: make(map[string][]object.Known)}
			objects := map[string]map[string]object.Known{}
			for _, n := range names {
				objects[n] = map[string]object.Known{}
			}
			random := func() object.Known {
				k := object.Known{Namespace: fmt.Sprintf("n%d", r.IntN(3)), Name: fmt.Sprintf("o%d", r.IntN(60)), UID: uuid(r.Uint64N(99)), ResourceVersion: fmt.Sprint(r.Uint64() >> r.IntN(64))}
				if r.IntN(10) == 0 {
					k.UID = oddities[r.IntN(len(oddities))]
				}
				if r.IntN(10) == 0 {
					k.ResourceVersion = oddities[r.IntN(len(oddities))]
				}
				return k
			}
			for round := range 25 {
				if seed > 3 { // with logs, from those that never compact to those that always do
					s.policy = policy{entries: r.IntN(120), batch: r.IntN(600), share: r.IntN(2), total: r.IntN(20_000)}
				}
				b := NewBatch()
				for range r.IntN(8) {
					name := names[r.IntN(len(names))]
					var c Changes
					for range r.IntN(80) {
						k := random()
						key := k.Namespace + "\x00" + k.Name
						if r.IntN(3) == 0 {
							c.Delete([]byte(k.Namespace), []byte(k.Name))
							delete(objects[name], key)
						} else {
							put(&c, k)
							objects[name][key] = k
						}
					}
					if r.IntN(2) == 0 {
						st := Stream{ResourceVersion: fmt.Sprint(r.IntN(1000))}
						if r.IntN(3) == 0 {
							st.Open = &Gap{FromResourceVersion: "1", ResourceVersion: fmt.Sprint(r.IntN(1000))}
						}
						c.State = &st
						model.Streams[name] = st
					}
					b.Add(name, &c)
					c.Reset() // the caller's again
					c.Delete([]byte("n0"), []byte("o0"))
				}
				if r.IntN(3) > 0 {
					model.Mark = Mark{Seq: r.Uint64(), FirstSeq: r.Uint64(), Offset: r.Int64()}
					b.SetMark(model.Mark)
				}
				mustCommit(t, s, b)
				if r.IntN(3) == 0 {
					mustCommit(t, s, b) // the same batch again changes nothing
				}
				if r.IntN(10) == 0 {
					name := names[r.IntN(len(names))]
					if err := s.Forget(name); err != nil {
						t.Fatal(err)
					}
					delete(model.Streams, name)
					clear(objects[name])
				}
				if r.IntN(5) == 0 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = mustOpen(t, path)
				}
				clear(model.Known)
				for _, n := range names {
					if all := slices.SortedFunc(maps.Values(objects[n]), byKey); len(all) > 0 {
						model.Known[n] = all
					}
					if count, err := s.Count(n); err != nil || count != len(objects[n]) {
						t.Fatalf("round %d: Count(%s) = %d, %v with %d objects", round, n, count, err, len(objects[n]))
					}
					if empty, err := s.Empty(n); err != nil || empty != (len(objects[n]) == 0) {
						t.Fatalf("round %d: Empty(%s) = %v, %v with %d objects", round, n, empty, err, len(objects[n]))
					}
				}
				if diff := cmp.Diff(model, contentOf(t, s, names...)); diff != "" {
					t.Fatalf("round %d (-want +got):\n%s", round, diff)
				}
			}
		})
	}
}

func TestLastEntryWins(t *testing.T) {
	s := newStore(t)
	ns, name := []byte("a"), []byte("b")
	var first, later Changes
	first.Put(ns, name, []byte("u1"), []byte("1"))
	first.Delete(ns, name)
	first.Put(ns, name, []byte("u2"), []byte("2"))
	first.State = &Stream{ResourceVersion: "2"}
	later.Delete(ns, name)
	b := NewBatch()
	b.Add("s", &first)
	b.Add("s", &later) // without a state: the earlier one stays
	mustCommit(t, s, b)
	if all := ranged(t, s, "s"); len(all) != 0 {
		t.Errorf("known after put, delete, put, delete: %+v", all)
	}
	if st, ok, err := s.Stream("s"); err != nil || !ok || st.ResourceVersion != "2" {
		t.Errorf("state = %+v, %v, %v", st, ok, err)
	}
	later.Put(ns, name, []byte("u3"), []byte("3"))
	b = NewBatch()
	b.Add("s", &later)
	mustCommit(t, s, b)
	if all := ranged(t, s, "s"); !slices.Equal(all, []object.Known{{Namespace: "a", Name: "b", UID: "u3", ResourceVersion: "3"}}) {
		t.Errorf("known = %+v", all)
	}
}

func TestBatchEmpty(t *testing.T) {
	b := NewBatch()
	var c Changes
	b.Add("s", &c)
	if !b.Empty() || b.Bytes() != 0 {
		t.Errorf("empty changes make a batch of %d bytes", b.Bytes())
	}
	c.State = &Stream{}
	b.Add("s", &c)
	if b.Empty() {
		t.Error("a state alone counts for nothing")
	}
	b = NewBatch()
	b.SetMark(Mark{})
	if b.Empty() {
		t.Error("a mark alone counts for nothing")
	}
	c.Reset()
	c.Delete(nil, []byte("n"))
	if c.Empty() || c.Bytes() == 0 {
		t.Error("a deletion alone counts for nothing")
	}
}

func TestRangeChunks(t *testing.T) {
	for _, n := range []int{0, 1, rangeChunk - 1, rangeChunk, rangeChunk + 1, 2 * rangeChunk, 2*rangeChunk + 1} {
		s := newStore(t)
		var c Changes
		for _, i := range rand.Perm(n) {
			put(&c, object.Known{Namespace: "ns", Name: fmt.Sprintf("o%05d", i), ResourceVersion: fmt.Sprint(i)})
		}
		b := NewBatch()
		b.Add("s", &c)
		mustCommit(t, s, b)
		all := ranged(t, s, "s")
		if len(all) != n {
			t.Fatalf("%d objects: Range gave %d", n, len(all))
		}
		for i, k := range all {
			if k.Name != fmt.Sprintf("o%05d", i) {
				t.Fatalf("%d objects: number %d is %s", n, i, k.Name)
			}
		}
		s.Close()
	}
}

func TestRangeStops(t *testing.T) {
	s := newStore(t)
	var c Changes
	for i := range 10 {
		put(&c, object.Known{Name: fmt.Sprint(i)})
	}
	b := NewBatch()
	b.Add("s", &c)
	mustCommit(t, s, b)
	want, calls := errors.New("enough"), 0
	err := s.Range("s", func(object.Known) error { calls++; return want })
	if err != want || calls != 1 {
		t.Errorf("Range = %v after %d calls", err, calls)
	}
}

// TestCommitWithinRange commits from the callback, so much that the file has
// to grow: with a transaction open that would wait for ever. Deleting what
// Range stands on loses no other object.
func TestCommitWithinRange(t *testing.T) {
	s := newStore(t)
	var c Changes
	const n = 3 * rangeChunk
	for i := range n {
		put(&c, object.Known{Name: fmt.Sprintf("o%05d", i)})
	}
	b := NewBatch()
	b.Add("s", &c)
	mustCommit(t, s, b)
	before := usedBytes(t, s)
	seen := 0
	err := s.Range("s", func(k object.Known) error {
		seen++
		if seen%512 != 0 {
			return nil
		}
		var c Changes
		c.Delete(nil, []byte(k.Name))
		b := NewBatch()
		b.Add("s", &c)
		c.Reset()
		for i := range 2000 {
			put(&c, object.Known{Namespace: strings.Repeat("n", 200), Name: fmt.Sprintf("%d-%d", seen, i)})
		}
		b.Add("other", &c)
		return s.Commit(b)
	})
	if err != nil || seen != n {
		t.Errorf("Range = %v after %d of %d objects", err, seen, n)
	}
	if after := usedBytes(t, s); after < 2*before {
		t.Errorf("the file did not grow: %d to %d bytes", before, after)
	}
	if all := ranged(t, s, "s"); len(all) != n-n/512 {
		t.Errorf("%d objects left, want %d", len(all), n-n/512)
	}
}

func TestCount(t *testing.T) {
	s := newStore(t)
	b := NewBatch()
	for name, n := range map[string]int{"a": 3, "many": 5000, "gone": 1} {
		var c Changes
		for i := range n {
			put(&c, object.Known{Name: fmt.Sprint(i)})
		}
		b.Add(name, &c)
	}
	b.Add("stateless", &Changes{State: &Stream{}})
	mustCommit(t, s, b)
	var c Changes
	c.Delete(nil, []byte("0"))
	b = NewBatch()
	b.Add("gone", &c)
	b.Add("many", &c)
	mustCommit(t, s, b)
	for name, want := range map[string]int{"a": 3, "many": 4999, "gone": 0, "stateless": 0, "none": 0} {
		if n, err := s.Count(name); err != nil || n != want {
			t.Errorf("Count(%s) = %d, %v, want %d", name, n, err, want)
		}
	}
	if names, err := s.Knowing(); err != nil || !slices.Equal(names, []string{"a", "many"}) {
		t.Errorf("Knowing = %v, %v", names, err)
	}
}

func TestCommitFailsWhole(t *testing.T) {
	s := newStore(t)
	var good, bad Changes
	put(&good, object.Known{Name: "x"})
	good.State = &Stream{ResourceVersion: "1"}
	put(&bad, object.Known{Name: strings.Repeat("n", 40000)}) // more than bbolt takes for a key
	b := NewBatch()
	b.Add("a", &good)
	b.Add("b", &bad)
	b.SetMark(Mark{Seq: 9})
	err := s.Commit(b)
	if err == nil || !strings.Contains(err.Error(), "stream b") {
		t.Fatalf("Commit = %v", err)
	}
	if diff := cmp.Diff(content{Streams: map[string]Stream{}, Known: map[string][]object.Known{}}, contentOf(t, s, "a", "b")); diff != "" {
		t.Errorf("half of a batch was committed (-want +got):\n%s", diff)
	}
}

func TestClosedStore(t *testing.T) {
	s := newStore(t)
	s.Close()
	b := NewBatch()
	b.SetMark(Mark{Seq: 1})
	if err := s.Commit(b); err == nil {
		t.Error("Commit to a closed store succeeded")
	}
}

func TestBytesPerObject(t *testing.T) {
	s := newStore(t)
	empty := usedBytes(t, s)
	const n = 100_000
	var c Changes
	b := NewBatch()
	for i := range uint64(n) {
		// 12 and 40 bytes, in a server's order: by namespace, then by name.
		k := object.Known{Namespace: fmt.Sprintf("shop-%07d", i/1000), Name: fmt.Sprintf("storefront-checkout-6d4cf56db6-%09d", i), UID: uuid(i), ResourceVersion: fmt.Sprint(100_000_000 + 7919*i%n)}
		if len(k.Namespace) != 12 || len(k.Name) != 40 {
			t.Fatalf("not the sizes meant: %+v", k)
		}
		put(&c, k)
		if i%500 == 499 {
			b.Add("pods", &c)
			c.Reset()
		}
		if i%20_000 == 19_999 {
			mustCommit(t, s, b)
			b = NewBatch()
		}
	}
	full := usedBytes(t, s)
	info, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	per := float64(full-empty) / n
	t.Logf("%.1f bytes per known object in used pages, %.1f of the file on disk", per, float64(info.Size())/n)
	// The key is 53 bytes, the value 21, bbolt's element 16.
	if per > maxBytesPerObject {
		t.Errorf("%.1f bytes per known object, want at most %d", per, maxBytesPerObject)
	}
}

const maxBytesPerObject = 100

// TestInPlace: a file that was removed, renamed or replaced is told of.
func TestInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := mustOpen(t, path)
	defer s.Close()
	if err := s.InPlace(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"gone", "replaced"} {
		if err := s.InPlace(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: InPlace = %v", what, err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if err := s.InPlace(); err != nil {
		t.Errorf("put back: %v", err)
	}
	temp, err := OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer temp.Close()
	if err := temp.InPlace(); err != nil {
		t.Errorf("without a name: %v", err)
	}
}
