package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// A replica whose coverage ends before its lines was killed: what its watch brought later is late. What a list shows is not.
func TestWrittenLater(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC) }
	for name, tt := range map[string]struct {
		lines string // type, origin and second of each
		want  string
	}{
		"in time":               {"ADDED watch 5, MODIFIED watch 12", "map[]"},
		"after the end":         {"ADDED watch 5, DELETED watch 40", "map[pods:[10-40]]"},
		"between two":           {"DELETED watch 25, ADDED watch 45", "map[pods:[10-25 32-45]]"},
		"no coverage":           {"ADDED watch 5, DELETED watch 8", "map[pods:[0-8]]"},
		"a list":                {"ADDED watch 5, GAP - 20, MODIFIED relist 20, SYNCED - 20", "map[]"},
		"a list after that":     {"MODIFIED watch 18, GAP - 20, MODIFIED relist 20, SYNCED - 20", "map[pods:[10-18]]"},
		"a list without an end": {"MODIFIED watch 18, GAP - 20, MODIFIED relist 21", "map[pods:[10-21]]"},
	} {
		var text strings.Builder
		for n, l := range strings.Split(tt.lines, ", ") {
			var typ, origin string
			var second int
			if _, err := fmt.Sscan(l, &typ, &origin, &second); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, `{"seq":%d,"time":%q,"type":%q`, n+1, at(second).Format(time.RFC3339Nano), typ)
			if origin != "-" {
				fmt.Fprintf(&text, `,"origin":%q,"id":"u/%d/%s","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"a","uid":"u","resourceVersion":"%[2]d","object":{}}`+"\n", origin, n+1, typ)
			} else {
				fmt.Fprintf(&text, `,"id":"pods/%d/%s","stream":"pods","version":"v1","resource":"pods","resourceVersion":"%[1]d"}`+"\n", n+1, typ)
			}
		}
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(path, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		intervals := []coverage.Interval{{From: at(0), To: at(10)}}
		if name == "between two" {
			intervals = append(intervals, coverage.Interval{From: at(28), To: at(32)})
		}
		if j.SetCoverage(nil); name != "no coverage" {
			j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: intervals}})
		}
		spans, err := writtenLater(t.Context(), []*Journal{j})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string][]string)
		for stream, all := range spans {
			for _, s := range all {
				got[stream] = append(got[stream], fmt.Sprintf("%d-%d", s.From.Second(), s.To.Second()))
			}
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
		j.Close()
	}
}
