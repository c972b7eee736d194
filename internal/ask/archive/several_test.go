package archive

import (
	"fmt"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
)

// Of replicas that have confirmed nothing for longer than a takeover takes, another one may be writing: of each shard by itself.
func TestMayBeTakenOver(t *testing.T) {
	of := func(stream string, ago time.Duration, heldBack ...string) []coverage.Stream {
		now := time.Now()
		return []coverage.Stream{{Name: stream, Intervals: []coverage.Interval{
			{From: now.Add(-time.Hour), To: now.Add(-ago), HeldBack: heldBack, LeaseDuration: 15 * time.Second}}}}
	}
	leased := func(lease, ago time.Duration) []coverage.Stream {
		streams := of("pods", ago, coverage.LeaderElection)
		streams[0].Intervals[0].LeaseDuration = lease
		return streams
	}
	const elected = coverage.LeaderElection
	for name, tt := range map[string]struct {
		of   [][]coverage.Stream
		want bool
	}{
		"one is confirmed":           {[][]coverage.Stream{of("pods", time.Minute, elected), of("nodes", time.Second, elected)}, false},
		"none is":                    {[][]coverage.Stream{of("pods", time.Minute, elected), of("nodes", time.Hour, elected)}, true},
		"of another shard":           {[][]coverage.Stream{of("pods?shard=0-of-2", time.Minute, elected), of("pods?shard=1-of-2", time.Second, elected)}, true},
		"without leader election":    {[][]coverage.Stream{of("pods", time.Minute), of("nodes", time.Hour)}, false},
		"a long lease":               {[][]coverage.Stream{leased(time.Minute, 40*time.Second)}, false},
		"that has run out":           {[][]coverage.Stream{leased(time.Minute, 2*time.Minute)}, true},
		"a short lease":              {[][]coverage.Stream{leased(5*time.Second, 10*time.Second)}, true},
		"the last leader's lease":    {[][]coverage.Stream{leased(time.Second, time.Minute), leased(time.Minute, 30*time.Second)}, false},
		"a journal without coverage": {[][]coverage.Stream{nil, of("pods", time.Minute, elected)}, true},
	} {
		j := &Journal{confirmed: confirmedByReplicas(tt.of)}
		j.coverage = coverage.Union(tt.of...)
		got := false
		for _, held := range j.HeldBack(&argument.Selection{}, argument.Moment{}, argument.Moment{}) {
			got = got || !held.Since.IsZero()
		}
		if got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What a config has held back matters for the times of a question; what other replicas have written, for all.
func TestHeldBackBetween(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 12, minute, 0, 0, time.UTC) }
	j := &Journal{coverage: []coverage.Stream{
		{Name: "events", Intervals: []coverage.Interval{{From: at(0), To: at(50), HeldBack: []string{"types"}}}},
		{Name: "nodes", Intervals: []coverage.Interval{
			{From: at(0), To: at(10), HeldBack: []string{"ignoreFields", coverage.LeaderElection}}, {From: at(11), To: at(20)},
			{From: at(21), To: at(30), HeldBack: []string{"filter"}}}},
	}}
	for _, tt := range []struct {
		since, until argument.Moment
		want         string
	}{
		{argument.Moment{}, argument.Moment{}, "[{events [types]} {nodes [filter ignoreFields leaderElection]}]"},
		{argument.Moment{}, argument.Moment{Time: at(5)}, "[{events [types]} {nodes [ignoreFields leaderElection]}]"},
		{argument.Moment{Time: at(12)}, argument.Moment{Time: at(15)}, "[{events [types]} {nodes [leaderElection]}]"},
		{argument.Moment{Time: at(25)}, argument.Latest(), "[{events [types]} {nodes [filter leaderElection]}]"},
		{argument.Moment{Time: at(55)}, argument.Moment{}, "[{nodes [leaderElection]}]"},
	} {
		type held struct {
			of   string
			keys []string
		}
		var got []held
		for _, h := range j.HeldBack(&argument.Selection{}, tt.since, tt.until) {
			got = append(got, held{h.Stream, h.Keys})
			if h.OfEvents() != (h.Stream == "events") {
				t.Errorf("%s: %t", h.Stream, h.OfEvents())
			}
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("from %v to %v: %v, want %s", tt.since, tt.until, got, tt.want)
		}
	}
}
