package argument

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Times says in short what ParseMoment reads, for errors.
const Times = "now, 90m, 2d or 5 minutes ago, 14:02, yesterday 14:02, 2026-11-20 14:02, 2026-11-20T14:02:00Z, " +
	"1795183320 or seq:1234"

// ParseMoment reads a TIME:
//
//   - now, which is the moment of Latest;
//   - how long ago: 90m, 1d12h, 2 weeks, each also with "ago" after it or a - before it;
//   - a day and a time of it, either of which may be left out: today, yesterday, 2026-11-20, or 11-20 for the last one,
//     by default today; 14:02 or 14:02:05.5, by default 00:00; between them a T or spaces. They are of the zone of now,
//     unless Z, UTC, +01:00 or what the zone of now is called then follows. A * after them is that of the rows of a
//     history;
//   - Unix seconds, which may have a fraction, or milliseconds, also after an @;
//   - seq:1234, a line, or rv:1234, a version of the server.
//
// A time that the clock shows twice, when daylight saving time ends, is the first one, unless the zone's name says that
// it is the second.
func ParseMoment(text string, now time.Time) (Moment, error) {
	given := text
	text = strings.TrimSpace(text)
	if number, ok := strings.CutPrefix(text, "seq:"); ok {
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil || seq == 0 {
			return Moment{}, fmt.Errorf("%q is not the number of a line; write e.g. seq:1234", given)
		}
		return Moment{Seq: seq}, nil
	}
	if number, ok := strings.CutPrefix(text, "rv:"); ok {
		version, err := strconv.ParseUint(number, 10, 64)
		if err != nil || version == 0 {
			return Moment{}, fmt.Errorf("%q is not a resourceVersion; write e.g. rv:1234", given)
		}
		return Moment{Version: version}, nil
	}
	if strings.EqualFold(text, "now") {
		return Moment{Time: now, latest: true, fromNow: true}, nil
	}
	if t, ok := parseUnix(text); ok {
		return Moment{Time: t}, nil
	}
	if d, ok := parseAgo(text); ok {
		return Moment{Time: now.Add(-d), fromNow: true}, nil
	}
	if later, ok := strings.CutPrefix(text, "+"); ok {
		if _, ok := parseAgo(later); ok {
			return Moment{}, fmt.Errorf("%q is still to come; a time that is past is written %s", given, later)
		}
	}
	t, ok, err := parseClock(text, now)
	if err != nil {
		return Moment{}, fmt.Errorf("%q: %w", given, err)
	}
	if !ok {
		return Moment{}, fmt.Errorf("%q is not a time; write %s", given, Times)
	}
	return Moment{Time: t}, nil
}

// Seconds of this century and the next two have ten digits, and milliseconds 13: nobody takes a shorter number for a
// time.
var (
	unixSeconds = regexp.MustCompile(`^([0-9]{10})(\.[0-9]{1,9})?$`)
	unixMillis  = regexp.MustCompile(`^[0-9]{13}$`)
)

func parseUnix(text string) (time.Time, bool) {
	text = strings.TrimPrefix(text, "@")
	if unixMillis.MatchString(text) {
		millis, err := strconv.ParseInt(text, 10, 64)
		return time.UnixMilli(millis), err == nil
	}
	m := unixSeconds.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	nanos, err := strconv.ParseInt((strings.TrimPrefix(m[2], ".") + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanos), err == nil
}

// units are how a length of time is counted. There is no month and no year: their lengths differ.
var units = func() map[string]time.Duration {
	const day = 24 * time.Hour
	all := map[string]time.Duration{}
	for unit, names := range map[time.Duration]string{
		time.Nanosecond: "ns", time.Microsecond: "us µs μs", time.Millisecond: "ms",
		time.Second: "s sec secs second seconds", time.Minute: "m min mins minute minutes",
		time.Hour: "h hr hrs hour hours",
		day:       "d day days", 7 * day: "w week weeks",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = unit
		}
	}
	return all
}()

var amountForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *([a-zµμ]+) *`)

// parseAgo reads how long ago a time is: numbers with their units, also with "ago" after them or a - before them; or 0.
func parseAgo(text string) (ago time.Duration, ok bool) {
	if text == "0" {
		return 0, true
	}
	rest, negative := strings.CutPrefix(text, "-")
	if before, said := strings.CutSuffix(rest, " ago"); said && !negative {
		rest = before
		for word, number := range map[string]string{"half a ": "0.5 ", "half an ": "0.5 ", "a ": "1 ", "an ": "1 "} {
			if after, begins := strings.CutPrefix(before, word); begins {
				rest = number + after
			}
		}
	}
	for rest != "" {
		m := amountForm.FindStringSubmatch(rest)
		if len(m) == 0 || units[m[2]] == 0 {
			return 0, false
		}
		n, err := strconv.ParseFloat(m[1], 64)
		n *= float64(units[m[2]])
		const longest = 290 * 365 * 24 * time.Hour // what a time.Duration can be, or nearly
		if err != nil || n > float64(longest-ago) {
			return 0, false
		}
		ago, ok, rest = ago+time.Duration(n), true, rest[len(m[0]):]
	}
	return ago, ok
}

// A day, and a time of it, or one of both; and a zone.
var clockForm = regexp.MustCompile(`^(?i)` +
	`(?:(today|yesterday|(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2})(?:(?: +|t)(` + timeOfDay + `))?|(` + timeOfDay + `))` +
	`(?: *(z|[+-][0-9:]+)| +([a-z]+))?$`)

const timeOfDay = `[0-9]{1,2}:[0-9:.,]+`

var (
	timeForms  = []string{"15:04", "15:04:05"}
	zoneOffset = []string{"Z07:00", "Z0700", "Z07"}
)

// parseClock reads a day and a time of it. The error is that it has a zone of which nothing is known.
func parseClock(text string, now time.Time) (at time.Time, ok bool, err error) {
	m := clockForm.FindStringSubmatch(strings.TrimSuffix(text, "*"))
	if m == nil {
		return time.Time{}, false, nil
	}
	day, clock, offset, name := m[1], m[2]+m[3], strings.ToUpper(m[4]), strings.ToUpper(m[5])
	zone := now.Location()
	switch {
	case name == "UTC" || name == "GMT":
		zone, name = time.UTC, ""
	case offset != "":
		t, ok := parseAny(zoneOffset, offset)
		if !ok {
			return time.Time{}, false, nil
		}
		_, seconds := t.Zone()
		zone = time.FixedZone("", seconds)
	}
	of := now.In(zone)
	switch strings.ToLower(day) {
	case "", "today":
	case "yesterday":
		of = of.AddDate(0, 0, -1)
	default:
		if len(day) < len(time.DateOnly) {
			if day = fmt.Sprintf("%d-%s", of.Year(), day); day > of.Format(time.DateOnly) {
				day = fmt.Sprintf("%d%s", of.Year()-1, day[4:])
			}
		}
		if of, err = time.Parse(time.DateOnly, day); err != nil {
			return time.Time{}, false, nil //nolint:nilerr // it is no time
		}
	}
	var t time.Time
	if clock != "" {
		if t, ok = parseAny(timeForms, clock); !ok {
			return time.Time{}, false, nil
		}
	}
	year, month, date := of.Date()
	at = first(time.Date(year, month, date, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone))
	if name == "" {
		return at, true, nil
	}
	for _, at := range []time.Time{at, second(at)} {
		if is, _ := at.Zone(); is == name {
			return at, true, nil
		}
	}
	is, _ := at.Zone()
	return time.Time{}, false, fmt.Errorf(
		"zone %s is not known here, where it is %s then; write UTC or e.g. +01:00", m[5], is,
	)
}

// parseAny reads a text in the first of some forms that it has.
func parseAny(forms []string, text string) (t time.Time, ok bool) {
	for _, form := range forms {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// first returns the first time at which the clock shows what it shows at t. Package time returns one of two.
func first(t time.Time) time.Time {
	_, before := t.Add(-12 * time.Hour).Zone()
	_, offset := t.Zone()
	other := t.Add(time.Duration(offset-before) * time.Second)
	if other.Before(t) && other.Format(time.DateTime) == t.Format(time.DateTime) {
		return other
	}
	return t
}

// second returns the last time at which the clock shows what it shows at t, which is the first one.
func second(t time.Time) time.Time {
	_, offset := t.Zone()
	_, after := t.Add(12 * time.Hour).Zone()
	other := t.Add(time.Duration(offset-after) * time.Second)
	if other.Format(time.DateTime) == t.Format(time.DateTime) {
		return other
	}
	return t
}
