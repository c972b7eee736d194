package coverage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/format/segment"
	"kubejournal/test/faultdisk"
)

// history is what happens to a journal, step by step.
var history = []func(*journalled){
	func(j *journalled) { j.pods(10, 10, 10, 0) },
	func(j *journalled) { j.pods(20, 10, 20, 0) },
	func(j *journalled) {
		j.commit(30, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(30)}, "secrets": {Since: j.at(25), Confirmed: j.at(30)}})
	},
	func(j *journalled) { j.pods(50, 10, 50, 50) },
	func(j *journalled) { j.pods(60, 10, 60, 50) },
	func(j *journalled) { j.rotate("journal.jsonl.1"); j.pods(70, 10, 70, 50) },
	func(j *journalled) {
		j.commit(71, map[string]Progress{"secrets": {Since: j.at(25), Confirmed: j.at(71)}})
	},
	func(j *journalled) { j.lost(80, "Expired") },
	func(j *journalled) { j.pods(91, 91, 91, 0) },
	func(j *journalled) { j.pods(100, 91, 100, 0) },
	func(j *journalled) { j.file.End("secrets", Removed); j.pods(110, 91, 110, 0) },
	func(j *journalled) { j.rotate("journal.jsonl.2"); j.pods(120, 91, 120, 0) },
	func(j *journalled) {
		j.commit(130, map[string]Progress{"secrets": {Since: j.at(25), Confirmed: j.at(130), Late: j.at(130)}})
	},
	func(j *journalled) {
		j.commit(135, map[string]Progress{"secrets": {Since: j.at(25), Confirmed: j.at(135), Late: j.at(130)}})
	},
	func(j *journalled) { j.pods(140, 91, 140, 0) },
}

// claims are the seconds that a stream has claimed, live or late: "pods late 35".
func (j *journalled) claims() (map[string]bool, error) {
	all, err := Read(j.path)
	return j.claimed(all), err
}

func (j *journalled) claimed(all []Stream) map[string]bool {
	claims := make(map[string]bool)
	for _, s := range all {
		for _, i := range s.Intervals {
			for second := i.From.Sub(j.began).Seconds(); second < i.To.Sub(j.began).Seconds(); second++ {
				claims[fmt.Sprint(s.Name, " ", second)] = true
				if !i.Late {
					claims[fmt.Sprint(s.Name, " live ", second)] = true
				}
			}
		}
	}
	return claims
}

// more returns what of claims is not true.
func more(claims, truth map[string]bool) (wrong []string) {
	for c := range claims {
		if !truth[c] {
			wrong = append(wrong, c)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// truths returns what is claimed after each step of the history where nothing fails.
func truths(t *testing.T) (all []map[string]bool) {
	inBubble(t, func(j *journalled) {
		for _, step := range history {
			step(j)
			claims, err := j.claims()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(all); n > 0 && len(more(all[n-1], claims)) > 0 {
				t.Fatalf("step %d takes back %v", n, more(all[n-1], claims))
			}
			all = append(all, claims)
		}
	})
	return all
}

// TestEveryOperation stops the process at each operation on the coverage file in turn, in each way, with and without a power
// cut, and continues with a good disk: nothing is ever claimed that is not so, and what comes after is claimed again.
func TestEveryOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	truth := truths(t)
	runs, kinds := 0, make(map[faultdisk.Kind]int)
	for _, fault := range faultdisk.Faults {
		for _, cut := range []string{"", "power cut", "power cut, zeros"} {
			if cut != "" && !fault.Kills() {
				continue
			}
			for n := 1; ; n++ {
				struck := failAt(t, truth, fault, n, cut)
				if runs++; struck.N == 0 {
					break // fewer operations than n
				}
				kinds[struck.Kind]++
			}
		}
	}
	for _, kind := range []faultdisk.Kind{faultdisk.Create, faultdisk.Write, faultdisk.Sync, faultdisk.Rename, faultdisk.SyncDir} {
		if kinds[kind] == 0 {
			t.Errorf("no fault struck a %s", kind)
		}
	}
	t.Logf("%d runs, faults by operation: %v", runs, kinds)
}

func failAt(t *testing.T, truth []map[string]bool, fault faultdisk.Fault, n int, cut string) (struck faultdisk.Op) {
	t.Helper()
	inBubble(t, func(j *journalled) {
		j.kill()
		j.remove(filepath.Base(Path(j.path)))
		count := 0
		j.disk = faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
			if count++; count != n {
				return faultdisk.None
			}
			struck = op
			return fault
		})
		j.open(Options{})
		hit := 0 // the step
		for step, do := range history {
			what := fmt.Sprintf("%s at operation %d (%s of %s), %s, step %d", fault, n, struck.Kind, filepath.Base(struck.Path), cut, step)
			if _, err := j.disk.Stat(j.path); err != nil {
				j.die(cut)
				j.check(what+", killed", truth[max(0, step-1)])
				j.open(Options{})
				j.check(what+", opened", truth[max(0, step-1)])
			}
			if j.file == nil {
				t.Fatalf("%s: it does not open", what)
			}
			do(j)
			j.check(what, truth[step])
			if hit == 0 && struck.N > 0 {
				hit = step
			}
		}
		if hit > len(history)-5 {
			return // too late for two commits of each stream since
		}
		if _, err := j.disk.Stat(j.path); err != nil {
			return
		}
		claims, err := j.claims()
		if err != nil || !claims["pods 139"] || !claims["secrets 134"] || !fault.Kills() && !claims["pods live 139"] {
			t.Errorf("%s at operation %d, %s: %v\n%s", fault, n, cut, err, j.shown())
		}
	})
	return struck
}

// die ends the process of a disk that is dead.
func (j *journalled) die(cut string) {
	j.t.Helper()
	dead := j.disk
	j.kill()
	if cut == "" {
		return
	}
	// The journal is synced, and beside what is to be lost.
	dir, aside := filepath.Dir(j.path), j.t.TempDir()
	move := func(from, to string) {
		names, err := os.ReadDir(from)
		if err != nil {
			j.t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasPrefix(n.Name(), "journal.jsonl") && !strings.HasSuffix(n.Name(), suffix) {
				if err := os.Rename(filepath.Join(from, n.Name()), filepath.Join(to, n.Name())); err != nil {
					j.t.Fatal(err)
				}
			}
		}
	}
	move(dir, aside)
	if err := dead.PowerCut(dir, cut == "power cut, zeros"); err != nil {
		j.t.Fatal(err)
	}
	for _, n := range []string{"journal.jsonl", "journal.jsonl.1", "journal.jsonl.2"} {
		_ = os.Remove(filepath.Join(dir, n)) // names that the folder had, without content
	}
	move(aside, dir)
}

func (j *journalled) check(what string, truth map[string]bool) {
	j.t.Helper()
	claims, _ := j.claims() // an error says that nothing is known
	if wrong := more(claims, truth); len(wrong) > 0 {
		j.t.Fatalf("%s: claims %v", what, wrong)
	}
}

// TestDamage changes each byte of a file, and cuts it at each length: a reader says less, or an error. The next process reads
// the file in the same way.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	truth := truths(t)
	last := truth[len(truth)-1]
	inBubble(t, func(j *journalled) {
		for _, step := range history {
			step(j)
		}
		path := Path(j.path)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		there, err := segment.List(j.path)
		if err != nil {
			t.Fatal(err)
		}
		lastLine, err := end(there)
		if err != nil {
			t.Fatal(err)
		}
		less, failed := 0, 0
		damaged := func(what string, b []byte) {
			c, err := parseBytes(b)
			if err != nil {
				failed++
				return
			}
			c.cut(lastLine)
			claims := j.claimed(c.streams(presenceOf(there)))
			if wrong := more(claims, last); len(wrong) > 0 {
				t.Fatalf("%s: claims %v", what, wrong)
			}
			if len(claims) < len(last) {
				less++
			}
		}
		for at := range whole {
			b := slices.Clone(whole)
			b[at] ^= 1 << (at % 8)
			damaged(fmt.Sprintf("bit %d of byte %d", at%8, at), b)
		}
		for size := 0; size < len(whole); size += 1 + size%13 {
			damaged(fmt.Sprintf("cut to %d bytes", size), whole[:size])
		}
		if less == 0 || failed == 0 {
			t.Errorf("%d times less, %d times an error", less, failed)
		}
		t.Logf("%d bytes: %d times less, %d times an error", len(whole), less, failed)
	})
}
