// Package replicas makes one journal of those of several replicas, as kubejournal's readers do. What comes of it is
// judged by package invariant, which does not call the product.
package replicas

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/line"
	"kubejournal/test/invariant"
)

// Merge returns what a reader shows of the journals of replicas. What it cannot read is an error.
func Merge(journals ...[]invariant.Line) ([]invariant.Line, error) {
	var sources []merge.Source
	for n, lines := range journals {
		// Each replica has all streams, also those that it has written nothing about.
		sources = append(sources, merge.Source{Name: fmt.Sprintf("journal %d", n+1), Streams: []string{"of replicas"},
			Lines: func(context.Context) iter.Seq2[merge.Line, error] {
				return func(yield func(merge.Line, error) bool) {
					for i := range lines {
						var l line.Fields
						if err := l.Parse(lines[i].Text()); !yield(merge.Line{Fields: &l}, err) {
							return
						}
					}
				}
			}})
	}
	ctx := context.Background()
	plan, err := merge.Scan(ctx, sources, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	var out mergedLines
	if err := plan.Merge(ctx, &out); err != nil {
		return nil, err
	}
	return out.all, nil
}

// mergedLines are what a merge has written.
type mergedLines struct {
	all  []invariant.Line
	read line.Fields
}

func (*mergedLines) Late(string, time.Time, time.Time)     {}
func (*mergedLines) Relisted(string, time.Time, time.Time) {}
func (*mergedLines) Hole(string, uint64, uint64) error     { return nil }
func (m *mergedLines) Next() uint64                        { return uint64(len(m.all) + 1) }

func (m *mergedLines) Write(raw []byte) (int64, error) {
	lines, err := invariant.Parse("merged", len(m.all)+1, append(bytes.Clone(raw), '\n'))
	if err != nil {
		return 0, err
	}
	m.all = append(m.all, lines...)
	return int64(len(m.all) - 1), nil
}

func (m *mergedLines) Read(at int64) (*line.Fields, error) {
	return &m.read, m.read.Parse(m.all[at].Text())
}
