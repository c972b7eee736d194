package coverage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/coverage"
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
			"a third replica's turn is missing",
			[]coverage.Interval{in(0, 20, coverage.HandedOver)},
			[]coverage.Interval{in(30, 40, "", "filter", coverage.LeaderElection)},
			[]coverage.Interval{in(0, 20, coverage.HandedOver), in(30, 40, "", "filter")},
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
