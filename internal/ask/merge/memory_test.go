package merge

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

// generated is a journal of count lines, which are made as they are read.
func generated(name string, count int, text func(seq int) string) Source {
	return Source{Name: name, Lines: func(context.Context) iter.Seq2[Line, error] {
		return func(yield func(Line, error) bool) {
			var l line.Fields
			for seq := 1; seq <= count; seq++ {
				err := l.Parse([]byte(text(seq)))
				if !yield(Line{Fields: &l}, err) || err != nil {
					return
				}
			}
		}
	}}
}

const memoryTime = `"time":"2026-11-20T14:00:00Z","stream":"pods"`

func change(seq, term int, typ line.Type, origin line.Origin, object, version int) string {
	more := ""
	if typ == line.Deleted && origin == line.FromRelist {
		more = `,"finalStateKnown":false`
	}
	return fmt.Sprintf(`{"seq":%d,"term":%d,%s,"type":"%s","origin":"%s","id":"u%d/%d/%[4]s",`+
		`"name":"n%[6]d","uid":"u%[6]d","resourceVersion":"%[7]d"%[8]s}`,
		seq, term, memoryTime, typ, origin, object, version, more)
}

func mark(seq, term int, typ line.Type, reason, from string, version int) string {
	return fmt.Sprintf(`{"seq":%d,"term":%d,%s,"type":"%s","id":"pods/%d/%[4]s","reason":"%[6]s",`+
		`"fromResourceVersion":"%[7]s","resourceVersion":"%[5]d","count":{"added":0,"modified":0,"deleted":0,"unchanged":0}}`,
		seq, term, memoryTime, typ, version, reason, from)
}

// peak takes a merged journal, and counts what the merge remembers of a stream's past.
type peak struct {
	plan   *Plan
	seq    uint64
	all    [][]byte
	read   line.Fields
	events int // at most
	gone   int
}

func (*peak) Hole(string, uint64, uint64) error     { return nil }
func (*peak) Late(string, time.Time, time.Time)     {}
func (*peak) Relisted(string, time.Time, time.Time) {}
func (p *peak) Next() uint64                        { return p.seq + 1 }
func (p *peak) Read(at int64) (*line.Fields, error) { return &p.read, p.read.Parse(p.all[at]) }
func (p *peak) Write(l []byte) (at int64, err error) {
	for _, s := range p.plan.streams {
		p.events, p.gone = max(p.events, len(s.events)), max(p.gone, len(s.absent))
	}
	p.seq++
	p.all = append(p.all, l)
	return int64(p.seq) - 1, nil
}

// What the merge remembers of the past is what a takeover may repeat, however long the past is, and whatever came
// later: versions from before a restore and after it do not compare.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const past, overlap, objects = 20_000, 5, 10
	version := func(seq int) int { return 1000 + seq }
	modified := func(seq int) string {
		return change(seq, 1, line.Modified, line.FromWatch, seq%objects, version(seq))
	}
	// Objects come and go, each with a uid of its own.
	passing := func(seq int) string {
		if seq%2 == 1 {
			return change(seq, 1, line.Added, line.FromWatch, seq, version(seq))
		}
		return change(seq, 1, line.Deleted, line.FromWatch, seq-1, version(seq))
	}
	restored := func(reason string, term int) func(seq int) string {
		return func(seq int) string {
			switch seq {
			case 1:
				return mark(seq, term, line.Gap, reason, fmt.Sprint(version(past)), 50)
			case 2:
				return mark(seq, term, line.Synced, "", "", 50)
			default:
				return change(seq, term, line.Modified, line.FromWatch, seq%objects, 50+seq)
			}
		}
	}
	// follows is a term that repeats some lines, then continues with others.
	follows := func(term int, others func(seq int) string) func(seq int) string {
		return func(seq int) string {
			if seq <= overlap {
				at := past - overlap + seq
				return change(seq, term, line.Modified, line.FromWatch, at%objects, version(at))
			}
			return others(seq - overlap)
		}
	}
	numbered := func(seq int, l string) string {
		var n int
		if _, err := fmt.Sscanf(l, `{"seq":%d`, &n); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"seq":%d%s`, seq, l[len(fmt.Sprintf(`{"seq":%d`, n)):])
	}
	for _, tt := range []struct {
		name    string
		sources []Source
		lines   int
	}{
		{"a takeover", []Source{generated("a", past, modified), generated("b", overlap, follows(2, nil))}, past},
		{
			"a restore", []Source{generated("a", past, modified), generated("b", 100, restored("PositionAheadOfServer", 2))},
			past + 100,
		},
		{
			"another server", []Source{generated("a", past, modified), generated("b", 100, restored("PositionRefused", 2))},
			past + 100,
		},
		{"a restore in a term that has begun", []Source{
			generated("a", past, modified),
			generated("b", overlap+100, func(seq int) string {
				return numbered(seq, follows(2, restored("PositionAheadOfServer", 2))(seq))
			}),
		}, past + 100},
		{"two restores", []Source{
			generated("a", past, modified),
			generated("b", 2*past, func(seq int) string {
				if seq > past {
					return numbered(seq, restored("PositionRefused", 2)(seq-past))
				}
				return restored("PositionAheadOfServer", 2)(seq)
			}),
			generated("c", 100, restored("PositionAheadOfServer", 3)),
		}, 3*past + 100},
		{"a restore of which one wrote nothing", []Source{
			generated("a", past, modified),
			generated("b", 1, func(seq int) string { return mark(seq, 2, line.Gap, "PositionAheadOfServer", "", 50) }),
			generated("c", 100, restored("PositionAheadOfServer", 3)),
		}, past + 100},
		{
			"objects that came and went before a restore",
			[]Source{generated("a", past, passing), generated("b", 100, restored("PositionAheadOfServer", 2))}, past + 100,
		},
		{"a lost checkpoint", []Source{
			generated("a", past, modified),
			generated("b", 3, func(seq int) string {
				return []string{
					mark(1, 2, line.Gap, "CheckpointLost", "", version(past)), change(2, 2, line.Added, line.FromRelist, 10_000, 7),
					mark(3, 2, line.Synced, "", "", version(past)),
				}[seq-1]
			}),
		}, past + 3 + objects},
		{"a first list", []Source{
			generated("a", past, modified),
			generated("b", 2, func(seq int) string {
				return []string{
					change(1, 2, line.Added, "snapshot", 10_000, 7), mark(2, 2, line.Synced, "", "", version(past)),
				}[seq-1]
			}),
		}, past + 2},
		{"a deletion at the object's last version", []Source{
			generated("a", past, modified),
			generated("b", overlap+1,
				follows(2, func(int) string { return change(overlap+1, 2, line.Deleted, line.FromWatch, 3, 1003) })),
		}, past + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Scan(t.Context(), tt.sources, func(string) bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			out := &peak{plan: p}
			if err := p.Merge(t.Context(), out); err != nil {
				t.Fatal(err)
			}
			if int(out.seq) != tt.lines && tt.name != "a restore of which one wrote nothing" {
				t.Errorf("%d lines, want %d", out.seq, tt.lines)
			}
			if limit := 2 * (overlap + objects); out.events > limit || out.gone > limit {
				t.Errorf("remembers %d events and %d objects that are gone, want at most %d",
					out.events, out.gone, limit)
			}
		})
	}
}
