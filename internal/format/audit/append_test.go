package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

const perStep = 20

// steps are what is appended, one after the other. Of the last ones a part is known already, and the first lines are
// gone.
func steps() (all [][]Entry) {
	for n := range 8 {
		var add []Entry
		for seq := n*perStep + 1; seq <= (n+1)*perStep; seq++ {
			add = append(add, entry(seq, fmt.Sprint("user", seq), fmt.Sprint(seq), Exact))
		}
		if n == 5 {
			add = append(append([]Entry(nil), all[4][10:]...), add...)
		}
		all = append(all, add)
	}
	return all
}

// TestAppendAnywhere fails each operation of a few appends in each way, also with a power cut: what an append has
// returned for stays, nobody is named who is not to be, and what failed can be done again.
func TestAppendAnywhere(t *testing.T) {
	defer func() { fsys = disk.OS }()
	count := faultdisk.New(nil)
	fsys = count
	run := func(path string, from int) (done int, err error) {
		for n, add := range steps() {
			if n < from {
				continue
			}
			oldest := uint64(0)
			if n == 7 {
				oldest = 5*perStep + 1
			}
			if err := Append(path, oldest, add); err != nil {
				return n, err
			}
		}
		return len(steps()), nil
	}
	if _, err := run(filepath.Join(t.TempDir(), "journal.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	torn := 0
	for n := 1; n <= count.Ops(); n++ {
		for _, fault := range faultdisk.Faults {
			for cut := range 3 { // none, and a power cut without and with zeros
				if cut > 0 && !fault.Kills() {
					continue
				}
				name := fmt.Sprintf("operation %d, %s, cut %d", n, fault, cut)
				dir := t.TempDir()
				path := filepath.Join(dir, "journal.jsonl")
				bad := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
					if op.N == n {
						return fault
					}
					return faultdisk.None
				})
				fsys = bad
				done, err := run(path, 0)
				fsys = faultdisk.New(nil) // which does not wait for the disk
				if err == nil {
					continue // it went on without
				}
				if !errors.Is(err, faultdisk.ErrInjected) && !errors.Is(err, faultdisk.ErrKilled) {
					t.Fatalf("%s: %v", name, err)
				}
				if cut > 0 {
					if err := bad.PowerCut(dir, cut == 2); err != nil {
						t.Fatal(err)
					}
				}
				is := all(t, path, 8*perStep)
				for seq, user := range is {
					if user != fmt.Sprint("user", seq) {
						t.Fatalf("%s: line %d has %s", name, seq, user)
					}
				}
				for seq := 1; seq <= done*perStep; seq++ {
					if is[seq] == "" && !(done == 8 || done == 7 && seq <= 5*perStep) {
						t.Fatalf("%s: line %d is lost, after %d appends", name, seq, done)
					}
				}
				if x, err := Open(path); err == nil && x != nil {
					if x.Damaged != nil {
						torn++
					}
					x.Close()
				}
				last, err := Last(path)
				if err != nil || last > uint64((done+1)*perStep) {
					t.Fatalf("%s: the last is %d: %v", name, last, err)
				}
				if _, err := run(path, max(int(last)/perStep-1, 0)); err != nil {
					t.Fatalf("%s, again: %v", name, err)
				}
				want := map[int]string{}
				for seq := 1; seq <= 8*perStep; seq++ {
					want[seq] = fmt.Sprint("user", seq)
				}
				is = all(t, path, 8*perStep)
				for seq := 1; seq <= 5*perStep; seq++ { // they are gone once the file is written anew
					delete(is, seq)
					delete(want, seq)
				}
				if diff := cmp.Diff(want, is); diff != "" {
					t.Fatalf("%s, again: %s", name, diff)
				}
			}
		}
	}
	if torn == 0 {
		t.Error("no file had a torn end")
	}
	t.Logf("%d operations, %d torn ends", count.Ops(), torn)
}

// TestAppendBounds appends little and often, for a journal whose oldest lines are removed: the file does not grow with
// the number of appends, or with lines that are gone.
func TestAppendBounds(t *testing.T) {
	defer func() { fsys = disk.OS }()
	fsys = faultdisk.New(nil)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	const most = 2000
	largest := int64(0)
	for seq := 1; seq < 5*most; seq += 10 {
		var add []Entry
		for n := range 10 {
			add = append(add, entry(seq+n, "user", fmt.Sprint(seq), Exact))
		}
		if err := Append(path, uint64(max(seq-most, 0)), add); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(segment.AuditPath(path))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if n := len(x.blocks); n > mostSmall+most/blockSize+2 || largest > 200*most {
		t.Errorf("%d blocks, %d bytes at most", n, largest)
	}
	t.Logf("%d bytes at most", largest)
}
