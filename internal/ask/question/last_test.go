package question

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/line"
)

func lastSeqs(t *testing.T, j *Journal, f *argument.Filter, n int) (all []uint64) {
	t.Helper()
	for l, err := range j.Last(t.Context(), f, n) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l.Seq)
	}
	return all
}

// The last lines are those of the history, and a Matcher has the same of single lines.
func TestLast(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 5))
		path, all := random(t, r, 1+r.IntN(5), 60)
		for n, s := range selections(t) {
			f := argument.Filter{Selection: s.Selection}
			if r.IntN(2) == 0 {
				f.Since = argument.Moment{Seq: all[r.IntN(len(all))].seq}
			}
			if r.IntN(3) == 0 {
				f.Until = argument.Moment{Time: all[r.IntN(len(all))].received}
			}
			if r.IntN(3) == 0 {
				f.Types = []string{"ADDED", "GAP"}
			}
			j := openSmall(t, path)
			var want, matched []uint64
			for v, err := range j.History(t.Context(), &s.Selection, f.Since, f.Until) {
				if err != nil {
					t.Fatal(err)
				}
				if len(f.Types) == 0 || slices.Contains(f.Types, string(v.Text(line.FieldType))) {
					want = append(want, v.Seq)
				}
			}
			m, l := argument.Matcher{Filter: &f}, line.Fields{}
			for i := range all {
				if err := l.Parse([]byte(all[i].text)); err != nil {
					t.Fatal(err)
				}
				if m.Match(&l) {
					matched = append(matched, l.Seq)
				}
			}
			if !slices.Equal(matched, want) {
				t.Errorf("seed %d, selection %d: matched %v, want %v", seed, n, matched, want)
			}
			for _, count := range []int{-1, 0, 1, 7, 1000} {
				last := want
				if count >= 0 {
					last = want[max(len(want)-count, 0):]
				}
				if got := lastSeqs(t, openSmall(t, path), &f, count); !slices.Equal(got, last) {
					t.Errorf("seed %d, selection %d, the last %d: %v, want %v", seed, n, count, got, last)
				}
			}
			ends, err := j.Ends(t.Context())
			if err != nil || len(ends) != 1 || ends[0].Seq != all[len(all)-1].seq {
				t.Errorf("seed %d: ends %+v, %v", seed, ends, err)
			}
			content, err := os.ReadFile(path)
			if err != nil || ends[0].Offset != int64(strings.LastIndexByte(string(content), '\n')+1) {
				t.Errorf("seed %d: offset %d, %v", seed, ends[0].Offset, err)
			}
		}
	}
}

// Lines in copies of rotated files are answered with once. A journal that was started again is no copy.
func TestCopies(t *testing.T) {
	of := func(day, from, to int) string {
		var b strings.Builder
		for seq := from; seq <= to; seq++ {
			fmt.Fprintf(&b, `{"seq":%d,"time":"2026-11-%02dT12:00:%02dZ","type":"ADDED","stream":"pods","version":"v1","resource":"pods",`+
				`"kind":"Pod","namespace":"a","name":"n%d","object":{}}`+"\n", seq, day, seq, seq)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		files []string // the last one is active
		want  []uint64
	}{
		"copied": {[]string{of(20, 1, 6), of(20, 1, 4), of(20, 5, 9)}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"anew":   {[]string{of(20, 1, 3), of(21, 1, 2)}, []uint64{1, 2, 3, 1, 2}},
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		for n, content := range c.files {
			if n == len(c.files)-1 {
				writeFile(t, path, content)
			} else {
				writeFile(t, fmt.Sprintf("%s.%d", path, n+1), content)
			}
		}
		for _, s := range []*argument.Selection{{}, selected(t, "pods")} {
			var history []uint64
			for v, err := range openSmall(t, path).History(t.Context(), s, argument.Moment{}, argument.Moment{}) {
				if err != nil {
					t.Fatal(err)
				}
				history = append(history, v.Seq)
			}
			last := lastSeqs(t, openSmall(t, path), &argument.Filter{Selection: *s}, -1)
			if !slices.Equal(history, c.want) || !slices.Equal(last, c.want) {
				t.Errorf("%s: history %v, last %v, want %v", name, history, last, c.want)
			}
		}
	}
}

// The last lines of all objects are found from the journal's end, without an index of the active file.
func TestLastWithoutIndex(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5", "--", "MODIFIED a/x u1 6", "SYNCED 10", "MODIFIED a/x u1 11"))
	if err := j.Resolve(t.Context(), &argument.Selection{}); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "[4]", 3: "[2 3 4]"} {
		if got := fmt.Sprint(lastSeqs(t, j, &argument.Filter{}, n)); got != want {
			t.Errorf("the last %d: %s", n, got)
		}
	}
	if got := fmt.Sprint(lastSeqs(t, j, &argument.Filter{Types: []string{"MODIFIED"}}, 2)); got != "[2 4]" {
		t.Errorf("the last 2 of a type: %s", got)
	}
	if j.Segments[1].Indexed() {
		t.Error("an index was made")
	}
}
