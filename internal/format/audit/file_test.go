package audit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

func entry(seq int, user, id string, match Match) Entry {
	return Entry{Seq: uint64(seq), Line: LineSum([]byte(fmt.Sprint("id", seq))), Person: Person{User: user, AuditID: id, Match: match}}
}

// all returns what a file says of lines up to a seq.
func all(t *testing.T, path string, last int) map[int]string {
	t.Helper()
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	is := map[int]string{}
	for seq := 1; seq <= last; seq++ {
		if p := x.Of(uint64(seq), []byte(fmt.Sprint("id", seq))); p != nil {
			is[seq] = p.User
		}
		if x.Of(uint64(seq), []byte("another")) != nil {
			t.Errorf("line %d of another journal has a person", seq)
		}
	}
	return is
}

// TestMerge adds entries at random, with a map as the judge.
func TestMerge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	r := rand.New(rand.NewPCG(1, 2))
	want := map[int]string{}
	for round := range 30 {
		var add []Entry
		for seq := 1 + r.IntN(5000); seq < 20000 && len(add) < 1500; seq += 1 + r.IntN(20) {
			add = append(add, entry(seq, fmt.Sprint("user", seq%7), fmt.Sprint(seq), Exact))
			want[seq] = fmt.Sprint("user", seq%7)
		}
		changed, err := Merge(path, 0, add)
		if err != nil || !changed {
			t.Fatalf("round %d: %t, %v", round, changed, err)
		}
		if changed, err := Merge(path, 0, add[:len(add)/2]); err != nil || changed {
			t.Fatalf("round %d, again: %t, %v", round, changed, err)
		}
	}
	if diff := cmp.Diff(want, all(t, path, 20100)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(segment.AuditPath(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes for %d lines", info.Size(), len(want))
	if _, err := Merge(path, 10000, []Entry{entry(30000, "u", "i", Exact)}); err != nil {
		t.Fatal(err)
	}
	if is := all(t, path, 20100); len(is) == 0 || slices.Min(slices.Collect(keys(is))) < 10000 {
		t.Error("what was removed has a person")
	}
}

func keys(m map[int]string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestSurer adds entries of one line after the other.
func TestSurer(t *testing.T) {
	for name, c := range map[string]struct {
		add  []Entry
		want string
	}{
		"a surer one":           {[]Entry{entry(5, "a", "1", Name), entry(5, "b", "2", Exact)}, "b"},
		"a less sure one":       {[]Entry{entry(5, "b", "2", UID), entry(5, "a", "1", Name)}, "b"},
		"one that is as sure":   {[]Entry{entry(5, "a", "1", Name), entry(5, "b", "2", Name)}, ""},
		"the same":              {[]Entry{entry(5, "a", "1", Name), entry(5, "a", "1", Name)}, "a"},
		"several, then one":     {[]Entry{entry(5, "", "", Name), entry(5, "a", "1", Name)}, ""},
		"several, then a surer": {[]Entry{entry(5, "", "", Name), entry(5, "a", "1", UID)}, "a"},
		"one, then several":     {[]Entry{entry(5, "a", "1", Name), entry(5, "", "", Name)}, ""},
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		for _, e := range c.add {
			if _, err := Merge(path, 0, []Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
		if is := all(t, path, 9)[5]; is != c.want {
			t.Errorf("%s: %q", name, is)
		}
	}
}

// TestDamagedFile changes each byte of a file, and cuts it off anywhere: what it says is never wrong.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var add []Entry
	for seq := 1; seq <= 2500; seq++ {
		add = append(add, entry(seq, fmt.Sprint("user", seq), fmt.Sprint(seq), Exact))
	}
	if _, err := Merge(path, 0, add); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(segment.AuditPath(path))
	if err != nil {
		t.Fatal(err)
	}
	check := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(segment.AuditPath(path), content, 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := Open(path)
		if err != nil {
			return // it says that it is none
		}
		defer x.Close()
		for _, seq := range []int{1, 999, 1000, 1001, 2000, 2001, 2500} {
			if p := x.Of(uint64(seq), []byte(fmt.Sprint("id", seq))); p != nil && p.User != fmt.Sprint("user", seq) {
				t.Fatalf("line %d has the person %s", seq, p.User)
			}
		}
	}
	for i := 0; i < len(whole); i += 97 {
		bad := slices.Clone(whole)
		bad[i] ^= 0x41
		check(bad)
		check(whole[:i])
	}
	// it is made again
	if err := os.WriteFile(segment.AuditPath(path), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := Merge(path, 0, add); err != nil || !changed || len(all(t, path, 2500)) != 2500 {
		t.Errorf("%t, %v", changed, err)
	}
	if err := os.WriteFile(segment.AuditPath(path), []byte("my audit of the journal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(path, 0, add); err == nil {
		t.Error("another's file is replaced")
	}
}

// TestTogether has several runs add to a file at once.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var wait sync.WaitGroup
	for n := range 20 {
		wait.Go(func() {
			for {
				if _, err := Merge(path, 0, []Entry{entry(n+1, "u", "i", Exact)}); err == nil {
					return
				}
			}
		})
	}
	wait.Wait()
	if is := all(t, path, 30); len(is) != 20 {
		t.Errorf("%d of 20 are there", len(is))
	}
}

// TestMergeFaults has each operation of a disk fail, or the process be killed there, while entries are added: the file
// is the old one or the new one, and another run makes it the new one.
func TestMergeFaults(t *testing.T) {
	add := func(first int) (all []Entry) {
		for seq := first; seq < first+1500; seq++ {
			all = append(all, entry(seq, fmt.Sprint("user", seq%7), fmt.Sprint(seq), Exact))
		}
		return all
	}
	runs := 0
	for _, fault := range faultdisk.Faults {
		for n := 1; ; n++ {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if _, err := Merge(path, 0, add(1)); err != nil {
				t.Fatal(err)
			}
			old := all(t, path, 4000)
			d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
				if op.N == n {
					return fault
				}
				return faultdisk.None
			})
			fsys = d
			_, err := Merge(path, 0, add(1001))
			fsys = disk.OS
			if d.Ops() < n {
				break
			}
			runs++
			is := all(t, path, 4000)
			if len(is) != len(old) && len(is) != 2500 || err == nil && len(is) != 2500 {
				t.Errorf("%s of operation %d: %d lines have a person, before it were %d; %v", fault, n, len(is), len(old), err)
			}
			for seq, user := range is {
				if user != fmt.Sprint("user", seq%7) {
					t.Fatalf("%s of operation %d: line %d has the person %s", fault, n, seq, user)
				}
			}
			if _, err := Merge(path, 0, add(1001)); err != nil || len(all(t, path, 4000)) != 2500 {
				t.Errorf("%s of operation %d: another run leaves %d lines; %v", fault, n, len(all(t, path, 4000)), err)
			}
		}
	}
	t.Logf("%d faults", runs)
}
