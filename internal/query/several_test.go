package query

import (
	"testing"
	"time"

	"kubejournal/internal/coverage"
)

// Of replicas that have confirmed nothing for longer than a takeover takes, another one may be writing.
func TestMayBeTakenOver(t *testing.T) {
	of := func(ago time.Duration, heldBack ...string) []coverage.Stream {
		now := time.Now()
		return []coverage.Stream{{Name: "pods", Intervals: []coverage.Interval{{From: now.Add(-time.Hour), To: now.Add(-ago), HeldBack: heldBack}}}}
	}
	for name, tt := range map[string]struct {
		of   [][]coverage.Stream
		want bool
	}{
		"one is confirmed":           {[][]coverage.Stream{of(time.Minute, coverage.LeaderElection), of(time.Second, coverage.LeaderElection)}, false},
		"none is":                    {[][]coverage.Stream{of(time.Minute, coverage.LeaderElection), of(time.Hour, coverage.LeaderElection)}, true},
		"without leader election":    {[][]coverage.Stream{of(time.Minute), of(time.Hour)}, false},
		"a journal without coverage": {[][]coverage.Stream{nil, of(time.Minute, coverage.LeaderElection)}, true},
	} {
		if got := mayBeTakenOver(tt.of); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
