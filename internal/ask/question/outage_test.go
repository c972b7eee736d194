package question

import (
	"fmt"
	"testing"
	"time"

	"kubejournal/internal/format/coverage"
)

// When an outage began and ended is the same whichever streams are asked for, though not all are confirmed equally long.
func TestOutageIsTheSame(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10"))
	second := func(n time.Duration) time.Time { return noon.Add(n * time.Second) }
	stream := func(name, end string, seconds ...time.Duration) coverage.Stream {
		s := coverage.Stream{Name: name}
		for i := 0; i < len(seconds); i += 2 {
			s.Intervals = append(s.Intervals, coverage.Interval{From: second(seconds[i]), To: second(seconds[i+1]), End: end})
		}
		return s
	}
	j.SetCoverage([]coverage.Stream{
		stream("configmaps", coverage.Unknown, 0, 300, 330, 400, 430, 900),
		stream("pods", coverage.Unknown, 0, 250, 335, 345, 432, 900), // until its last bookmark
		stream("secrets", coverage.Unknown, 0, 240, 431, 900),        // the run between is not known to have confirmed it
		stream("services", coverage.Unknown, 0, 302, 4000, 5000),     // it was watched again much later
		stream("events", coverage.Unknown, 0, 2000, 2060, 3000),      // the next one has two short outages then
		stream("leases", coverage.Unknown, 0, 2005, 2012, 2040, 2047, 3000),
		stream("nodes", coverage.Stopped, 0, 310, 320, 5000, 6000, 6100), // for another reason
	})
	for name, want := range map[string]string{
		"configmaps": "300-330 400-430", "pods": "300-330 400-430", "services": "302-4000", "nodes": "310-320 5000-6000",
		"secrets": "240-431", "events": "2000-2060", "leases": "2005-2012 2040-2047",
	} {
		got := ""
		for _, o := range j.Outages(selected(t, name)) {
			if got != "" {
				got += " "
			}
			got += fmt.Sprintf("%d-%d", o.From.Unix()-noon.Unix(), o.To.Unix()-noon.Unix())
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
