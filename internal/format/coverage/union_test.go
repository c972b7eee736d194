package coverage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/coverage"
)

func TestUnion(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	in := func(from, to int, end string, held ...string) coverage.Interval {
		return coverage.Interval{From: at(from), To: at(to), End: end, HeldBack: held}
	}
	late := func(i coverage.Interval) coverage.Interval {
		i.Late = true
		return i
	}
	for _, tt := range []struct {
		name string
		a, b []coverage.Interval
		want []coverage.Interval
	}{
		{
			"a takeover",
			[]coverage.Interval{in(0, 20, coverage.HandedOver, coverage.LeaderElection), in(40, 50, "", coverage.LeaderElection)},
			[]coverage.Interval{in(18, 42, coverage.HandedOver, coverage.LeaderElection)},
			[]coverage.Interval{in(0, 50, "")},
		},
		{
			"a third replica's term is missing",
			[]coverage.Interval{in(0, 20, coverage.HandedOver)},
			[]coverage.Interval{in(30, 40, "", "filter", coverage.LeaderElection)},
			[]coverage.Interval{in(0, 20, coverage.HandedOver), in(30, 40, "", "filter")},
		},
		{
			"one was killed, and has not written since",
			[]coverage.Interval{in(0, 20, "", coverage.LeaderElection)},
			[]coverage.Interval{in(30, 40, "", coverage.LeaderElection)},
			[]coverage.Interval{in(0, 20, coverage.Unknown), in(30, 40, "")},
		},
		{
			"one ends for a reason of its own",
			[]coverage.Interval{in(0, 20, "Expired")},
			[]coverage.Interval{in(10, 20, coverage.HandedOver), in(25, 30, "")},
			[]coverage.Interval{in(0, 20, "Expired"), in(25, 30, "")},
		},
		{
			"a gap that took no time",
			[]coverage.Interval{in(0, 20, "Expired"), in(20, 30, "")},
			[]coverage.Interval{in(10, 20, coverage.HandedOver)},
			[]coverage.Interval{in(0, 20, "Expired"), in(20, 30, "")},
		},
		{
			"a gap that the other does not have",
			[]coverage.Interval{in(0, 20, "Expired"), in(20, 30, "")},
			[]coverage.Interval{in(10, 25, coverage.HandedOver)},
			[]coverage.Interval{in(0, 30, "")},
		},
		{
			"late is what both have late",
			[]coverage.Interval{late(in(0, 30, coverage.CaughtUp)), in(30, 40, "")},
			[]coverage.Interval{in(10, 20, coverage.HandedOver)},
			[]coverage.Interval{late(in(0, 10, coverage.CaughtUp)), in(10, 20, coverage.Interrupted), late(in(20, 30, coverage.CaughtUp)), in(30, 40, "")},
		},
		{
			"a list that nothing has confirmed yet",
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "")},
			[]coverage.Interval{in(5, 5, coverage.HandedOver)},
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "")},
		},
		{
			"a list between two gaps",
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "PositionRefused"), in(40, 50, "")},
			[]coverage.Interval{
				in(5, 15, coverage.HandedOver), in(16, 16, coverage.HandedOver), in(45, 45, "Expired"), in(48, 50, ""),
			},
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "PositionRefused"), in(40, 50, "")},
		},
		{
			"a list between two gaps that the other does not have",
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "Expired"), in(40, 50, "")},
			[]coverage.Interval{in(15, 45, coverage.HandedOver)},
			[]coverage.Interval{in(0, 50, "")},
		},
		{
			"two lists at once before a gap",
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "Expired")},
			[]coverage.Interval{in(30, 30, "Expired")},
			[]coverage.Interval{in(0, 20, "Expired"), in(30, 30, "Expired")},
		},
		{"the other has none", []coverage.Interval{in(3, 3, "")}, nil, []coverage.Interval{in(3, 3, "")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range [][2][]coverage.Interval{{tt.a, tt.b}, {tt.b, tt.a}} {
				var journals [][]coverage.Stream
				for _, intervals := range order {
					if intervals != nil {
						journals = append(journals, []coverage.Stream{{Name: "pods", Intervals: intervals}})
					}
				}
				got := coverage.Union(journals...)
				want := []coverage.Stream{{Name: "pods", Intervals: tt.want}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func TestLate(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	span := func(from, to int) coverage.Span { return coverage.Span{From: at(from), To: at(to)} }
	streams := []coverage.Stream{
		{Name: "pods", Intervals: []coverage.Interval{{From: at(0), To: at(20), End: "Expired"}, {From: at(30), To: at(40), Late: true}, {From: at(40), To: at(60)}}},
		{Name: "nodes", Intervals: []coverage.Interval{{From: at(0), To: at(20)}}},
	}
	got := ""
	for _, s := range coverage.Late(streams, map[string][]coverage.Span{"pods": {span(5, 10), span(15, 45), span(70, 80)}, "secrets": {span(0, 9)}}) {
		for _, i := range s.Intervals {
			got += fmt.Sprintf("%s %d-%d %t %s, ", s.Name, i.From.Unix(), i.To.Unix(), i.Late, i.End)
		}
	}
	want := "pods 0-5 false Interrupted, pods 5-10 true CaughtUp, pods 10-15 false Interrupted, pods 15-20 true Expired, " +
		"pods 30-40 true , pods 40-45 true CaughtUp, pods 45-60 false , nodes 0-20 false , "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !slices.EqualFunc(streams[0].Intervals, []int64{20, 40, 60}, func(i coverage.Interval, to int64) bool { return i.To.Unix() == to }) {
		t.Errorf("the argument has changed: %+v", streams)
	}
}

// What a list after a hole shows is known from its end on, whoever has read on meanwhile.
func TestRelisted(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	in := func(from, to int) coverage.Interval { return coverage.Interval{From: at(from), To: at(to)} }
	for _, tt := range []struct {
		name     string
		of, want []coverage.Interval
	}{
		{"no hole", []coverage.Interval{in(0, 60)}, []coverage.Interval{in(0, 60)}},
		{"one after the other", []coverage.Interval{in(0, 20), in(20, 60)}, []coverage.Interval{in(0, 20), in(20, 60)}},
		{"after the hole", []coverage.Interval{in(0, 20), in(30, 60)}, []coverage.Interval{in(0, 20), in(40, 60)}},
		{"after each", []coverage.Interval{in(0, 20), in(22, 25), in(30, 60)}, []coverage.Interval{in(0, 20), in(40, 60)}},
		{"a hole before that", []coverage.Interval{in(0, 5), in(8, 60)}, []coverage.Interval{in(0, 5), in(8, 60)}},
		{"a hole after that", []coverage.Interval{in(0, 45), in(50, 60)}, []coverage.Interval{in(0, 45), in(50, 60)}},
		{"its own", []coverage.Interval{in(0, 20), in(40, 60)}, []coverage.Interval{in(0, 20), in(40, 60)}},
		{"nothing else", []coverage.Interval{in(20, 30)}, []coverage.Interval{{From: at(40), To: at(40), End: coverage.Unknown}}},
	} {
		streams := []coverage.Stream{{Name: "pods", Intervals: tt.of}}
		got := coverage.Relisted(streams, map[string][]coverage.Span{"pods": {{From: at(10), To: at(40)}}})
		if diff := cmp.Diff(tt.want, got[0].Intervals); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
