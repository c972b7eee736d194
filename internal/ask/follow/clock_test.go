package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/format/segment"
)

// TestClockSet has a clock that was set back and ahead, between files and within one: lines are found by their own
// times, with indexes and without.
func TestClockSet(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	files := [][]time.Duration{ // after start
		{0, time.Hour, 65 * time.Minute},
		{-30 * time.Minute, -29 * time.Minute, 2 * time.Hour},
		{4 * 365 * 24 * time.Hour, 121 * time.Minute, -26 * time.Hour},
		{3 * time.Hour, 2 * time.Hour, 4 * time.Hour},
	}
	for _, indexed := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal.jsonl")
		var at []time.Time
		for n, offsets := range files {
			var content strings.Builder
			for _, offset := range offsets {
				at = append(at, start.Add(offset))
				was := start.Add(time.Duration(len(at)) * time.Second).Format("2006-01-02T15:04:05.000000000Z")
				content.WriteString(strings.Replace(numbered(len(at)), was, start.Add(offset).Format(time.RFC3339Nano), 1) + "\n")
			}
			switch name := filepath.Join(dir, fmt.Sprintf("journal-2026-11-20T15-00-%02d.000.jsonl", n)); {
			case n == len(files)-1:
				write(t, path, content.String())
			case n%2 == 0:
				write(t, name, content.String())
			default:
				zip(t, name+".gz", content.String())
			}
		}
		if indexed {
			j, err := archive.Open(path, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			verify.Reindex(t.Context(), j, func(path string, err error) {
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
			})
			j.Close()
			all, err := segment.List(path)
			if _, none := os.Stat(segment.IndexPath(all[1].Path)); err != nil || none != nil {
				t.Fatal(err, none)
			}
		}
		for _, since := range append(
			slices.Clone(at), time.Time{}, start.Add(50*time.Minute), start.Add(90*time.Minute), start.AddDate(10, 0, 0),
		) {
			for _, until := range append(slices.Clone(at), time.Time{}, start.Add(70*time.Minute)) {
				for _, lines := range []int{All, 2, 7} {
					var want []int
					for n := range at {
						if !at[n].Before(since) && (until.IsZero() || !at[n].After(until)) {
							want = append(want, n+1)
						}
					}
					if lines != All {
						want = want[max(len(want)-lines, 0):]
					}
					f := argument.Filter{Since: argument.Moment{Time: since}, Until: argument.Moment{Time: until}}
					got, _ := shownOf(t, path, Options{Lines: lines, Filter: f})
					if !slices.Equal(got, want) {
						t.Errorf("the last %d from %s to %s, indexes %t: %v, want %v", lines, since, until, indexed, got, want)
					}
				}
			}
		}
	}
}

// A file has an end: where the clock was set, what is wanted may come after what is not.
func TestClockSetInOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal-2026-11-20T15-00-20.000.jsonl")
	ahead := strings.Replace(numbered(2), "2026-11-20", "2026-11-21", 1)
	write(t, path, numbered(1)+"\n"+ahead+"\n"+numbered(3)+"\n")
	got, _ := shownOf(t, path, Options{Lines: All, Filter: argument.Filter{Until: argument.Moment{Time: start.Add(time.Minute)}}})
	if !slices.Equal(got, []int{1, 3}) {
		t.Errorf("%v", got)
	}
}
