package coverage

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Whatever the records of a file say, its intervals are in order and apart, within what their records claim, and no fewer
// segments make them more.
func FuzzParse(f *testing.F) {
	record := func(kind byte, numbers ...uint64) (r []byte) {
		r = append(r, kind, 0, 0, 0)
		for i, n := range numbers {
			if i == 0 {
				r = binary.LittleEndian.AppendUint32(r, uint32(n))
			} else {
				r = binary.LittleEndian.AppendUint64(r, n)
			}
		}
		return append(r, make([]byte, sumAt-len(r))...)
	}
	name := slices.Clip(appendName(nil, 0, 0, "pods")[:sumAt])
	intervals := append(record(kindInterval, 0, 10, 10, 30, 5, 0, 1), record(kindInterval, 0, 10, 30, 40, 9, 0, 2)...)
	segments := append(record(kindSegment, 7, 1<<63, 1, 0, 1, 0, 3), record(kindSegment, 8, 25, 6, 1, 6, 0, 4)...)
	f.Add(append(append(name, intervals...), segments...), byte(0))
	setBack := append(record(kindInterval, 0, 10, 10, 40, 9, 0, 1), record(kindSegment, 9, 20, 8, 6, 8, 0, 5)...)
	f.Add(append(append(name, setBack...), segments...), byte(1)) // the clock was set back between two segments
	f.Fuzz(func(t *testing.T, records []byte, gone byte) {
		b := header(firstSlots, 5)
		for ; len(records) >= sumAt; records = records[sumAt:] {
			b = appendSum(append(b, records[:sumAt]...), 5)
		}
		read := func() *content {
			c, err := parseBytes(b)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := read()
		all, some := map[uint64]uint32{}, map[uint64]uint32{}
		var left []segment.Segment
		for n, s := range c.segments {
			all[s.first] = s.head
			if n >= int(gone%8) {
				some[s.first] = s.head
				left = append(left, segment.Segment{FirstSeq: s.first, Head: s.head})
			}
		}
		first, last := int64(math.MaxInt64), int64(math.MinInt64)
		for _, each := range c.intervals {
			for _, i := range each {
				first, last = min(first, i.from), max(last, i.end(), i.from) // pulses are claimed too
			}
		}
		whole := claimed(t, c.streams(presence{heads: all}), first, last)
		if part := claimed(t, read().streams(presence{heads: some}), first, last); part > whole {
			t.Errorf("%v claimed without %d segments, %v with them", part, gone%8, whole)
		}
		c = read()
		c.retire(left)
		if part := claimed(t, c.streams(presence{heads: some}), first, last); part > whole {
			t.Errorf("%v claimed behind retention, %v before", part, whole)
		}
		c = read()
		c.cut(uint64(gone))
		c.limitTo(1 + int(gone%4))
		claimed(t, c.streams(presence{heads: all}), first, last)
	})
}

// claimed is how much time the streams claim, in seconds.
func claimed(t *testing.T, all []Stream, first, last int64) (sum float64) {
	t.Helper()
	for _, s := range all {
		for n, i := range s.Intervals {
			point := n == len(s.Intervals)-1 || isGap(reasonNumber(i.End))
			if i.To.Before(i.From) || i.To.Equal(i.From) && !point || n > 0 && i.From.Before(s.Intervals[n-1].To) ||
				i.From.UnixNano() < first || i.To.UnixNano() > last {
				t.Fatalf("interval %d of %+v", n, s.Intervals)
			}
			sum += float64(i.To.UnixNano()) - float64(i.From.UnixNano())
		}
	}
	return sum / 1e9
}

// TestLarge has a file that is larger than any that is written: it is not read into memory.
func TestLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl.coverage")
	if err := os.WriteFile(path, header(firstSlots, 5), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	if _, err := load(disk.OS, path); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}
