package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// What is sealed next is the oldest file that is not, with the lines that it has, whatever a listing missed and whatever others
// have put beside it.
func TestFindSeal(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, from, to uint64) segment.Segment {
		var lines strings.Builder
		for seq := from; seq <= to; seq++ {
			fmt.Fprintf(&lines, `{"seq":%d,"time":"2026-11-20T14:00:00Z","type":"X","stream":"s"}`+"\n", seq)
		}
		s := segment.Segment{Path: filepath.Join(dir, name), FirstSeq: from, Size: int64(lines.Len())}
		if err := os.WriteFile(s.Path, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b, c := file("a", 1, 3), file("b", 4, 6), file("c", 7, 9)
	partOfA, partOfActive := file("a.copy", 1, 2), file("active.copy", 10, 10)
	active := file("active", 10, 12)
	active.Active = true
	damaged := file("damaged.gz", 1, 3)
	damaged.Gzip = true
	type files = []segment.Segment
	type pass struct {
		all  files
		want string // from and to of what is found; empty for nothing yet
	}
	for name, test := range map[string]struct {
		after, committed uint64
		passes           []pass
	}{
		"the oldest":           {0, 12, []pass{{files{a, b, c, active}, "1-3"}}},
		"the next":             {3, 12, []pass{{files{a, b, c, active}, "4-6"}}},
		"none":                 {9, 12, []pass{{files{a, b, c, active}, ""}}},
		"not committed":        {3, 5, []pass{{files{a, b, c, active}, ""}}},
		"the one after missed": {0, 12, []pass{{files{a, c, active}, "1-3"}}},
		"it is missed":         {3, 12, []pass{{files{a, c, active}, ""}, {files{a, b, c, active}, "4-6"}}},
		"it is gone": {3, 12, append(slices.Repeat([]pass{{files{a, c, active}, ""}}, 2),
			pass{files{a, c, active}, "7-9"})},
		"a part of it, copied": {0, 12, []pass{{files{a, partOfA, b, c, active}, "1-3"}}},
		"a part of the active": {9, 12, []pass{{files{a, b, c, partOfActive, active}, ""}}},
		"it cannot be read":    {0, 12, []pass{{files{damaged, b, active}, ""}, {files{damaged, b, active}, ""}}},
		"it can never be read": {0, 12, append(slices.Repeat([]pass{{files{damaged, b, active}, ""}}, 4),
			pass{files{damaged, b, active}, "4-6"})},
		"nothing but the active": {0, 12, []pass{{files{active}, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &File{disk: disk.OS, log: zap.NewNop()}
			j.options.Store(&Options{Seal: true})
			j.extent.Store(new(Extent))
			j.tidy.ctx, j.tidy.wake, j.tidy.tries = context.Background(), make(chan struct{}, 1), make(map[uint64]int)
			j.tidy.committed = test.committed
			if is := j.Seal(test.after); is != nil {
				t.Fatalf("it is known already: %+v", is)
			}
			for n, p := range test.passes {
				j.tidy.findSeal(j, p.all)
				got := ""
				if is := j.Seal(test.after); is != nil {
					got = fmt.Sprintf("%d-%d", is.From, is.To)
				}
				if got != p.want {
					t.Errorf("pass %d finds %q, want %q", n+1, got, p.want)
				}
			}
		})
	}
}
