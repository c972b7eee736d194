package invariant

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/line"
)

// Merge makes one journal of those of several replicas, as kubejournal's readers do: what these make of them is judged
// as the journal of one daemon is. Beside the merged lines it returns those about objects that were left out since
// their id had come before. The journals must belong together, and what Merge cannot read is an error.
func Merge(journals ...[]Line) (merged, repeated []Line, err error) {
	var sources []merge.Source
	for n, lines := range journals {
		sources = append(sources, merge.Source{Name: fmt.Sprintf("journal %d", n+1),
			Lines: func(context.Context) iter.Seq2[merge.Line, error] {
				return func(yield func(merge.Line, error) bool) {
					for i := range lines {
						var l line.Fields
						if err := l.Parse(lines[i].raw); !yield(merge.Line{Fields: &l}, err) {
							return
						}
					}
				}
			}})
	}
	ctx := context.Background()
	plan, err := merge.Scan(ctx, sources, func(string) bool { return false })
	if err != nil {
		return nil, nil, err
	}
	var out mergedLines
	if err := plan.Merge(ctx, &out); err != nil {
		return nil, nil, err
	}
	return out.all, repeats(journals, out.all), nil
}

// mergedLines are what a merge has written.
type mergedLines struct {
	all  []Line
	read line.Fields
}

func (*mergedLines) Late(string, time.Time, time.Time) {}
func (*mergedLines) Hole(string, uint64, uint64) error { return nil }
func (m *mergedLines) Next() uint64                    { return uint64(len(m.all) + 1) }

func (m *mergedLines) Write(raw []byte) (int64, error) {
	l := Line{Where: fmt.Sprintf("merged:%d", m.Next())}
	if err := l.parse(raw); err != nil {
		return 0, fmt.Errorf("%s: %w: %.300q", l.Where, err, raw)
	}
	m.all = append(m.all, l)
	return int64(len(m.all) - 1), nil
}

func (m *mergedLines) Read(at int64) (*line.Fields, error) {
	return &m.read, m.read.Parse(m.all[at].raw)
}

// repeats returns the lines of watches that are in the journals more often than in the merged one, in their order: of
// each id, the last ones.
func repeats(journals [][]Line, merged []Line) (all []Line) {
	type key struct{ stream, id string }
	left := make(map[key]int)
	for i := range merged {
		left[key{merged[i].Stream, merged[i].ID}]++
	}
	lines := slices.Concat(journals...)
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq))
	})
	for i := range lines {
		l := &lines[i]
		if k := (key{l.Stream, l.ID}); l.Origin == FromWatch {
			if left[k] == 0 {
				all = append(all, *l)
			} else {
				left[k]--
			}
		}
	}
	return all
}
