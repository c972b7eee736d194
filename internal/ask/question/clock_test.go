package question_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
)

// TestClockSet has a clock that is set between two segments or within one: back by an hour and a half, by a day,
// several times, and ahead by years and back again. Seq says what was there, and every line is found by the time that
// it has.
func TestClockSet(t *testing.T) {
	clock := func(text string) time.Time {
		at, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, times := range map[string][]string{
		"back between segments": {
			"2026-11-20 09:00:00", "2026-11-20 10:00:00", "2026-11-20 10:05:00", "/", "2026-11-20 08:30:00",
			"2026-11-20 08:31:00", "2026-11-20 11:00:00",
		},
		"back by a day": {
			"2026-11-20 09:00:00", "2026-11-20 10:00:00", "/", "2026-11-20 10:05:00", "2026-11-19 10:05:30", "/",
			"2026-11-19 10:06:00", "2026-11-20 11:00:00",
		},
		"back several times": {
			"2026-11-20 10:00:00", "/", "2026-11-20 07:00:00", "2026-11-20 10:01:00", "/", "2026-11-20 05:00:00", "/",
			"2026-11-20 10:02:00", "2026-11-20 11:00:00",
		},
		"ahead and back": {
			"2026-11-20 10:00:00", "/", "2031-01-01 00:00:00", "2031-01-01 00:00:01", "/", "2026-11-20 10:01:00",
			"2026-11-20 11:00:00",
		},
		"ahead within one": {
			"2026-11-20 10:00:00", "2031-01-01 00:00:00", "2026-11-20 10:01:00", "/", "2026-11-20 11:00:00",
		},
		"ahead at the end": {
			"2026-11-20 10:00:00", "2026-11-20 10:02:00", "/", "2026-11-20 10:03:00", "2031-01-01 00:00:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.Now = clock(strings.Trim(times[0], "/"))
			s := w.Stream("configmaps", "ConfigMap")
			s.Snapshot()
			s.Synced() // line 1
			stateAt := at
			var at []time.Time
			for _, text := range times {
				if text == "/" {
					w.Rotate()
					continue
				}
				w.Now = clock(text)
				at = append(at, w.Now)
				n := len(at)
				s.Put("kubectl",
					fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"n-%d","uid":"c%d"},"data":{"n":"%d"}}`, n, n, n))
			}
			w.Confirm(false, s)
			j, sel := open(t, w), selectionOf(t, "cm")
			for _, since := range slices.Concat(at, []time.Time{clock("2026-11-20 09:50:00"), clock("2026-11-20 10:01:30")}) {
				for _, until := range slices.Concat(at, []time.Time{{}, since.Add(10 * time.Minute)}) {
					var want []uint64
					for i, received := range slices.Insert(slices.Clone(at), 0, at[0]) {
						if !received.Before(since) && (until.IsZero() || !received.After(until)) {
							want = append(want, uint64(i)+1)
						}
					}
					if got := seqs(t, j, sel, argument.Moment{Time: since}, argument.Moment{Time: until}); !slices.Equal(got, want) {
						t.Errorf("since %s until %s: %v, want %v", since, until, got, want)
					}
				}
				last, before := 0, false // the last line of that time or before, and whether there is one that is newer before it
				for i, received := range at {
					if !received.After(since) {
						last = i + 1
					}
				}
				var want []string
				for n, received := range at[:last] {
					before = before || received.After(since.Add(5*time.Second))
					if !received.After(since) {
						want = append(want, fmt.Sprintf("n-%d=%[1]d", n+1))
					}
				}
				state, doubts := stateAt(t, j, sel, argument.Moment{Time: since})
				if state != strings.Join(want, " ") || strings.Contains(doubts, "the clock was set back") != before {
					t.Errorf("at %s: %s, want %s; doubts %q, want one: %t", since, state, want, doubts, before)
				}
			}
			// What is there now, whatever the clock says.
			if state, _ := stateAt(t, j, sel, argument.Latest()); strings.Count(state, "=") != len(at) {
				t.Errorf("now: %s", state)
			}
		})
	}
}
