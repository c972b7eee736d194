package argument

import (
	"strconv"
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
		"now": now, "Now": now, " now ": now, "today": at(20, 0, 0, 0), "yesterday": at(19, 0, 0, 0),
		"Yesterday": at(19, 0, 0, 0),
		"10m":       now.Add(-10 * time.Minute), "90m": at(20, 14, 30, 0), "2d": at(18, 16, 0, 0), "1d12h": at(19, 4, 0, 0), "0": now, "0d": now,
		"30s ago": at(20, 15, 59, 30), "30 seconds ago": at(20, 15, 59, 30), "1 second ago": at(20, 15, 59, 59),
		"5sec":  at(20, 15, 59, 55),
		"10min": at(20, 15, 50, 0), "5mins": at(20, 15, 55, 0), "5 minutes ago": at(20, 15, 55, 0),
		"half an hour ago": at(20, 15, 30, 0), "an hour ago": at(20, 15, 0, 0), "half a minute ago": at(20, 15, 59, 30), "a day ago": at(19, 16, 0, 0),
		"1 minute": at(20, 15, 59, 0),
		"2h":       at(20, 14, 0, 0), "2hrs ago": at(20, 14, 0, 0), "1 hour 30 minutes ago": at(20, 14, 30, 0),
		"1.5h": at(20, 14, 30, 0), ".5h": at(20, 15, 30, 0),
		"1d": at(19, 16, 0, 0), "2 days": at(18, 16, 0, 0), "1w": at(13, 16, 0, 0), "2 weeks ago": at(6, 16, 0, 0),
		"1w1d": at(12, 16, 0, 0),
		"-5m":  at(20, 15, 55, 0), "-1d12h": at(19, 4, 0, 0), "500ms": now.Add(-500 * time.Millisecond),
		"1µs": now.Add(-1000), "1μs": now.Add(-1000), "7ns": now.Add(-7),
		"90d": now.Add(-90 * 24 * time.Hour), "100000d": now.Add(-100000 * 24 * time.Hour),
		"2026-11-20T15:00:00Z": now, "2026-11-20T16:30:00.5+01:00": now.Add(30*time.Minute + 500*time.Millisecond),
		"2026-11-20t15:00:00z": now,
		"2026-11-20 15:00:00Z": now, "2026-11-20 15:00:00 Z": now, "2026-11-20 16:00:00+01:00": now,
		"2026-11-20 16:00:00 +01:00": now,
		"2026-11-20 16:00+0100":      now, "2026-11-20 12:00 -03": now, "2026-11-20 15:00 UTC": now,
		"2026-11-20 15:00:00 utc": now, "2026-11-20T15:00 GMT": now,
		"2026-11-20 16:00:00 CET": now, "2026-11-20 20:30+05:30": now, "15:00Z": now, "15:00 UTC": now,
		"today 15:00Z": now, "yesterday 15:00 UTC": at(19, 16, 0, 0),
		"today 16:00": now, "today 7:05": at(20, 7, 5, 0), "2026-11-19": at(19, 0, 0, 0),
		"2026-11-19 UTC": at(19, 1, 0, 0), "2026-11-19Z": at(19, 1, 0, 0),
		"02:00+12:00": at(20, 15, 0, 0), "yesterday 02:00+12:00": at(19, 15, 0, 0), // there it is the 21st
		"07:29:30.25": at(20, 7, 29, 30).Add(250 * time.Millisecond), "2026-11-20 14:02": at(20, 14, 2, 0), "2026-11-19 14:02:30": at(19, 14, 2, 30), "2026-11-20T14:02": at(20, 14, 2, 0),
		"14:02": at(20, 14, 2, 0), "07:29:30": at(20, 7, 29, 30), "yesterday 14:02": at(19, 14, 2, 0),
		"yesterday 14:02:30": at(19, 14, 2, 30), "yesterday  14:02": at(19, 14, 2, 0),
		"11-19 14:02*": at(19, 14, 2, 0), "11-20": at(20, 0, 0, 0), "11-21": at(21, 0, 0, 0).AddDate(-1, 0, 0), "14:02:05*": at(20, 14, 2, 5),
		"@1795186800": now,
		"1795186800":  now, "1795186800.25": now.Add(250 * time.Millisecond),
		"1795186800250": now.Add(250 * time.Millisecond), "1795186799.999999999": now.Add(-1),
	} {
		got, err := ParseMoment(text, now)
		if err != nil || !got.Time.Equal(want) || got.Seq+got.Version != 0 || got.IsZero() || got.latest != strings.EqualFold(strings.TrimSpace(text), "now") {
			t.Errorf("%s: %+v, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]Moment{"seq:12": {Seq: 12}, "rv:34": {Version: 34}} {
		if got, err := ParseMoment(text, now); err != nil || got != want || got.IsZero() || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"seq:0": `"seq:0" is not the number of a line`, "seq:x": `"seq:x" is not`,
		"rv:": `"rv:" is not a resourceVersion; write e.g. rv:1234`, "rv:x": `"rv:x"`, "rv:0": `"rv:0"`,
		"": `"" is not a time; write ` + Times, "10": `"10" is not a time`, "2026": `"2026" is`,
		"179518680": `"179518680" is not a time`, "17951868000": `"17951868000" is`,
		"25:00": `"25:00" is not a time`, "24:00": `"24:00" is`, "14:2": `"14:2"`, "14:02:": `"14:02:"`,
		"1d-2h": `"1d-2h" is not a time`, "--5m": `"--5m" is`, "-5m ago": `"-5m ago" is`,
		"tomorrow 14:02": `"tomorrow`, "tomorrow": `"tomorrow" is`, "99999999d": `"99999999d" is`,
		"300y": `"300y" is`, "1M": `"1M" is`, "5 months ago": `"5 months ago" is`,
		"9e9d": `"9e9d"`, "ago": `"ago"`, " ago": `" ago"`, "m": `"m"`, "5 m 3": `"5 m 3"`, "now ago": `"now ago"`,
		"now-5m": `"now-5m" is`, "todays": `"todays" is`,
		"2026-02-30": `"2026-02-30" is not a time`, "2026-11-20T": `"2026-11-20T" is`,
		"13-01": `"13-01" is`, "11-20*14:02": `"11-20*14:02" is`, "*": `"*" is`, "5m*": `"5m*" is`,
		"2026-11-20 14": `"2026-11-20 14" is`, "26-11-20 14:02": `"26-11-20 14:02" is`, "UTC": `"UTC"`, "Z": `"Z"`,
		"2026-11-20 14:02 +25:00": `"2026-11-20 14:02 +25:00" is not a time`, "14:02+1": `"14:02+1" is`,
		"2026-11-20T14:02:00ZZ": `"2026-11-20T14:02:00ZZ" is`,
		"2026-11-20 14:02 PST":  `"2026-11-20 14:02 PST": zone PST is not known here, where it is CET then; write UTC or e.g. +01:00`,
		"+5m":                   `"+5m" is still to come; a time that is past is written 5m`,
		"+5":                    `"+5" is not a time`, "in 5m": `"in 5m" is`,
	} {
		if got, err := ParseMoment(text, now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	// Each of the examples that an error names is one.
	for text := range strings.SplitSeq(strings.NewReplacer(" ago", "", " or ", ", ").Replace(Times), ", ") {
		if _, err := ParseMoment(text, now); err != nil {
			t.Error(err)
		}
	}
}

// FuzzParseMoment wants of every text that it reads: what is printed of it means the same moment; and what package time takes
// for RFC 3339 or a duration, it takes for the same.
func FuzzParseMoment(f *testing.F) {
	for _, text := range []string{
		"now", "-5m", "2 weeks ago", "1d12h", "yesterday 14:02", "2026-11-20 14:02:05.25+01:00", "2026-10-25 02:30 CET",
		"1795186800.25", "1795186800250", "seq:3", "rv:4", "+1h", "Z", "0",
	} {
		f.Add(text)
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 16, 0, 0, 0, zone)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseMoment(text, now)
		if at, no := time.Parse(time.RFC3339Nano, text); no == nil && (err != nil || !got.Time.Equal(at)) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, at)
		}
		if d, no := time.ParseDuration(text); no == nil && d >= 0 && d < 90*24*time.Hour && !strings.HasPrefix(text, "+") && text != "-0" {
			if off := now.Add(-d).Sub(got.Time); err != nil || off.Abs() > time.Microsecond { // fractions of a nanosecond are rounded
				t.Errorf("%q: %s, %v, want %s ago", text, got, err, d)
			}
		}
		if err != nil {
			if got != (Moment{}) || !strings.HasPrefix(err.Error(), strconv.Quote(text)) {
				t.Errorf("%q: %s, %v", text, got, err)
			}
			return
		}
		if got.IsZero() || got.Seq == 0 && got.Version == 0 && got.Time.IsZero() {
			t.Errorf("%q is no moment", text)
		}
		again, err := ParseMoment(got.Text(), now)
		same := err == nil && again.Seq == got.Seq && again.Version == got.Version && again.Time.Equal(got.Time)
		if year := got.Time.UTC().Year(); year >= 0 && year < 10000 && !same {
			t.Errorf("%q: %s, %v, not %s", got.Text(), again, err, got)
		}
	})
}

// What an answer prints as a time can be asked for, also where the clock shows it twice.
func TestParseMomentPrinted(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	for _, name := range []string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "UTC"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = zone
		for at := time.Date(2026, 10, 24, 12, 0, 0, 0, zone); at.Month() < 12; at = at.Add(17 * time.Minute) {
			printed := Moment{Time: at}.String()
			if got, err := ParseMoment(printed, at.Add(time.Hour)); err != nil || !got.Time.Equal(at) {
				t.Errorf("%s: %s, %v, not %s", printed, got.Time.UTC(), err, at.UTC())
			}
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
			"2026-10-25 02:30 CEST": "2026-10-25T00:30:00Z", "2026-10-25 02:30 CET": "2026-10-25T01:30:00Z",
			"2026-10-25 02:30Z": "2026-10-25T02:30:00Z",
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
