package watcher

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: when a stream is known to have read everything, and when what it reads comes late.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	type read struct {
		away, wait time.Duration // before the read, and in it
		rv         string        // of what it brings
	}
	held := []read{{lateAfter - ms, 0, "6"}, {lateAfter - ms, 0, "8"}}
	waits := slices.Concat([]read{{0, time.Minute, "5"}}, held, []read{{0, time.Second, "9"}})
	for name, c := range map[string]struct {
		current time.Duration // how long ago the stream was last known to have read everything, when the watch begins
		goal    string        // the server's version then, asked for a second ago
		reads   []read
		want    time.Duration // when it was known last, since the watch began
		late    bool
	}{
		"had to wait":                       {0, "", []read{{0, time.Minute, "5"}}, time.Minute, false},
		"at hand":                           {0, "", []read{{0, 0, "5"}, {0, 0, "6"}}, 0, false},
		"a short wait at the beginning":     {0, "", []read{{0, 5 * ms, "5"}}, 0, false},
		"a short wait, then a long one":     {0, "", []read{{0, 5 * ms, "5"}, {0, 300 * ms, "6"}}, 305 * ms, false},
		"a short wait behind a long one":    {0, "", []read{{0, 300 * ms, "5"}, {0, 2 * ms, "6"}}, 302 * ms, false},
		"resumed, short of the goal":        {0, "8", []read{{0, 0, "5"}, {0, 5 * ms, "7"}}, 0, false},
		"resumed, at the goal":              {0, "8", []read{{0, 0, "5"}, {0, 5 * ms, "8"}}, -time.Second, false},
		"resumed, beyond the goal":          {0, "8", []read{{0, 5 * ms, "10"}}, -time.Second, false},
		"at the goal, and a short wait":     {0, "8", []read{{0, 0, "8"}, {0, 2 * ms, "9"}}, 2 * ms, false},
		"at the goal behind a pause":        {0, "8", []read{{0, 0, "5"}, {200 * ms, 0, "8"}, {0, 2 * ms, "9"}}, -time.Second, false},
		"resumed, a long wait":              {0, "8", []read{{0, time.Minute, "5"}}, time.Minute, false},
		"resumed late":                      {14 * time.Second, "8", []read{{0, 0, "9"}}, -time.Second, true},
		"held up again and again":           {2 * time.Second, "8", held, -time.Second, true},
		"held up, then a wait":              {0, "", waits, 61*time.Second + 2*(lateAfter-ms), true},
		"held up":                           {0, "", []read{{0, time.Minute, "5"}, {20 * time.Second, 0, "6"}, {0, 5 * ms, "7"}}, time.Minute, true},
		"held up, and a long wait":          {0, "", []read{{0, time.Minute, "5"}, {20 * time.Second, 0, "6"}, {0, 300 * ms, "7"}}, 80*time.Second + 300*ms, true},
		"away for a moment":                 {0, "", []read{{0, time.Minute, "5"}, {200 * ms, 5 * ms, "6"}}, time.Minute, false},
		"away for less, as for most writes": {0, "", []read{{0, time.Minute, "5"}, {50 * ms, 5 * ms, "6"}}, time.Minute + 55*ms, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p := pace{goal: c.goal, asked: began.Add(-time.Second), current: began.Add(-c.current)}
			p.began()
			for _, r := range c.reads {
				<-time.After(r.away)
				asked := time.Now()
				<-time.After(r.wait)
				p.waited(asked, time.Now())
				p.reached(r.rv)
			}
			if got := p.current.Sub(began); got != c.want || p.late != c.late {
				t.Errorf("%s: known at %v, late %v; want %v, %v", name, got, p.late, c.want, c.late)
			}
		})
	}
}

// While events come too fast for a read to wait, the server is asked for its version, and again in a while where it does
// not answer.
func TestAsks(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		goal           string
		current, asked time.Duration // ago
		want           bool
	}{
		"known to have read everything": {"", askAfter, time.Hour, false},
		"not known any more":            {"", askAfter + 1, askEvery + 1, true},
		"asked, without an answer":      {"", time.Hour, askEvery, false},
		"not at the goal yet":           {"8", time.Hour, time.Hour, false},
	} {
		p := pace{goal: c.goal, current: now.Add(-c.current), asked: now.Add(-c.asked)}
		if p.asks(now) != c.want {
			t.Errorf("%s: asks %v", name, !c.want)
		}
	}
}

// When a position was confirmed is not known by a clock that was set back since, or is earlier by it.
func TestLastConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Stream{}
		s.pace.current = time.Now()
		s.confirm()
		at := s.state.Confirmed
		<-time.After(20 * time.Second)
		check := func(what string, want int64) {
			t.Helper()
			if got := s.lastConfirmed(time.Now()); got != want {
				t.Errorf("%s: %v, want %v", what, time.Unix(0, got), time.Unix(0, want))
			}
		}
		check("as it was", at)
		s.state.Confirmed = at - int64(time.Hour)
		check("set forward by an hour", at-int64(time.Hour))
		s.state.Confirmed = at + int64(time.Hour)
		check("set back by an hour", at)
		s.pace = pace{}
		check("set back, by an earlier process", 0)
		s.state.Confirmed = at
		check("by an earlier process", at)
	})
}

// What had waited is read after the question for the server's version that shows it: it was late until then.
func TestLateAfterTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Stream{pace: pace{goal: "8", asked: time.Now(), current: time.Now().Add(-time.Minute)}}
		s.pace.began()
		<-time.After(4 * time.Second)
		read := time.Now()
		s.pace.waited(read, read)
		if !s.pace.reached("8") {
			t.Fatal("the goal is not reached")
		}
		s.confirm()
		if c := s.state.Coverage; c.Confirmed != read.Add(-4*time.Second).UnixNano() || c.Late != read.UnixNano() {
			t.Errorf("confirmed at %v, late until %v", time.Unix(0, c.Confirmed), time.Unix(0, c.Late))
		}
	})
}

// A stream that continues at its position may have read what waited in another life of it.
func TestLateBeforeTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{current: time.Now()}
		<-time.After(time.Minute)
		p.goal, p.asked = "8", time.Now()
		if !p.reached("8") || !p.late {
			t.Errorf("%+v", p)
		}
	})
}

// What came while a list was read, or written, is late if that took long.
func TestLateBehindAList(t *testing.T) {
	for took, want := range map[time.Duration]bool{lateAfter / 2: false, 2 * lateAfter: true} {
		synctest.Test(t, func(t *testing.T) {
			var p pace
			asked := time.Now()
			<-time.After(took)
			p.synced(asked)
			p.began()
			if p.late != want {
				t.Errorf("behind a list of %v: late %v", took, p.late)
			}
		})
	}
}
