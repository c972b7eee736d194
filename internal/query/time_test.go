package query

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the test does not depend on the zones of the machine
)

func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 20, 16, 0, 0, 0, zone)
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 11, day, hour, minute, second, 0, zone)
	}
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "90m": at(20, 14, 30, 0), "2d": at(18, 16, 0, 0), "1d12h": at(19, 4, 0, 0), "0": now, "0d": now,
		"2026-11-20T15:00:00Z": now, "2026-11-20T16:30:00.5+01:00": now.Add(30*time.Minute + 500*time.Millisecond),
		"07:29:30.25": at(20, 7, 29, 30).Add(250 * time.Millisecond), "2026-11-20 14:02": at(20, 14, 2, 0), "2026-11-19 14:02:30": at(19, 14, 2, 30), "2026-11-20T14:02": at(20, 14, 2, 0),
		"14:02": at(20, 14, 2, 0), "07:29:30": at(20, 7, 29, 30), "yesterday 14:02": at(19, 14, 2, 0), "yesterday 14:02:30": at(19, 14, 2, 30),
	} {
		got, err := ParseMoment(text, now)
		if err != nil || !got.Time.Equal(want) || got.Seq != 0 || got.IsZero() {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := ParseMoment("seq:12", now); err != nil || got.Seq != 12 || !got.Time.IsZero() || got.IsZero() || got.String() != "seq:12" {
		t.Errorf("seq:12: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"-5m": `"-5m" is negative; write how long ago, such as 90m or 2d`, "seq:0": `"seq:0" is not the number of a line`, "seq:x": `"seq:x" is not`,
		"": `"" is not a time; write ` + Times, "yesterday": `"yesterday" is not a time; write`, "10": `"10" is not a time`, "2026-11-20": `"2026-11-20" is`,
		"25:00": `"25:00" is not a time`, "1d-2h": `"1d-2h" is not a time`, "tomorrow 14:02": `"tomorrow`, "rv:5": `"rv:5" is not a time`, "99999999d": `"99999999d" is`,
	} {
		if _, err := ParseMoment(text, now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// Each of the examples that an error names is one.
	for text := range strings.SplitSeq(strings.NewReplacer(" (ago)", "", " or ", ", ").Replace(Times), ", ") {
		if _, err := ParseMoment(text, now); err != nil {
			t.Error(err)
		}
	}
}

// What the clock shows twice, as it is put back, is the first time, so that --since leaves nothing out; what it does not
// show is within the hour.
func TestParseMomentClockChange(t *testing.T) {
	for name, times := range map[string]map[string]string{
		"Europe/Berlin": {
			"2026-10-25 02:30": "2026-10-25T00:30:00Z", "2026-10-25 03:00": "2026-10-25T02:00:00Z", "2026-10-25 01:59": "2026-10-24T23:59:00Z",
			"02:30": "2026-10-25T00:30:00Z", "2026-03-29 01:59": "2026-03-29T00:59:00Z", "2026-03-29 03:00": "2026-03-29T01:00:00Z",
		},
		"America/New_York": {"2026-11-01 01:30": "2026-11-01T05:30:00Z", "2026-11-01 02:00": "2026-11-01T07:00:00Z"},
		"UTC":              {"2026-10-25 02:30": "2026-10-25T02:30:00Z"},
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range times {
			got, err := ParseMoment(text, time.Date(2026, 10, 25, 12, 0, 0, 0, zone))
			if err != nil || got.Time.UTC().Format(time.RFC3339) != want {
				t.Errorf("%s %s: %s, %v", name, text, got.Time.UTC(), err)
			}
		}
	}
}

func TestMoment(t *testing.T) {
	at := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	var none Moment
	if !none.IsZero() || none.After(1, at) {
		t.Error("no moment excludes something")
	}
	for _, m := range []Moment{{Time: at}, {Seq: 5}} {
		if m.After(5, at) || m.Before(5, at) || !m.After(4, at.Add(-1)) || !m.Before(6, at.Add(1)) {
			t.Errorf("%s", m)
		}
	}
}
