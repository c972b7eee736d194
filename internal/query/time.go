package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/config"
)

// Moment is a place in a journal: a time, the line that has a seq, or a version of the server. The zero Moment is none.
type Moment struct {
	Time    time.Time
	Seq     uint64 // 0 for any other
	Version uint64 // the same

	latest bool // Time is now, and what is asked for is the last that the journal has
}

// Latest returns the moment that is asked for by not naming one: now, as far as the journal says. A stream that is followed
// is as good as there, if it was confirmed within the last minutes.
func Latest() Moment { return Moment{Time: time.Now(), latest: true} }

// confirmedEvery is how long a stream that is followed may go without being confirmed: servers send bookmarks once a minute.
const confirmedEvery = 2 * time.Minute

// IsZero reports whether no moment was given.
func (m Moment) IsZero() bool { return m.Seq == 0 && m.Version == 0 && m.Time.IsZero() }

// String returns the moment for a reader, in the local zone, which it names.
func (m Moment) String() string {
	switch {
	case m.Seq > 0:
		return "seq:" + strconv.FormatUint(m.Seq, 10)
	case m.Version > 0:
		return "rv:" + strconv.FormatUint(m.Version, 10)
	case m.latest:
		return "now"
	}
	return m.Time.Local().Format("2006-01-02 15:04:05 MST")
}

// Text returns the moment for a program, in a form that ParseAt reads.
func (m Moment) Text() string {
	if m.Seq+m.Version > 0 {
		return m.String()
	}
	return m.Time.UTC().Format(time.RFC3339Nano)
}

// After reports whether the moment is after the line with that seq and time; never where it is zero.
func (m Moment) After(seq uint64, t time.Time) bool {
	if m.Seq > 0 {
		return m.Seq > seq
	}
	return m.Time.After(t)
}

// Before reports whether the moment is before the line with that seq and time.
func (m Moment) Before(seq uint64, t time.Time) bool {
	if m.Seq > 0 {
		return m.Seq < seq
	}
	return m.Time.Before(t)
}

// Reversed reports whether two moments of the same kind, neither of them zero, are in the wrong order.
func Reversed(since, until Moment) bool {
	switch {
	case until.Version > 0:
		return until.Version < since.Version
	case until.IsZero():
		return false
	}
	return until.Before(since.Seq, since.Time)
}

// Times says in short what ParseMoment reads, for help and errors.
const Times = "90m or 2d (ago), 14:02, yesterday 14:02, 2026-11-20 14:02, 2026-11-20T14:02:00Z or seq:1234"

// The forms of a time of the local zone: of a day, and of the clock.
var (
	dayForms   = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}
	clockForms = []string{"15:04", "15:04:05"}
)

// ParseAt reads a TIME as ParseMoment does, or rv:1234, a version of the server.
func ParseAt(text string, now time.Time) (Moment, error) {
	number, ok := strings.CutPrefix(text, "rv:")
	if !ok {
		return ParseMoment(text, now)
	}
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || version == 0 {
		return Moment{}, fmt.Errorf("%q is not a resourceVersion; write e.g. rv:1234", text)
	}
	return Moment{Version: version}, nil
}

// ParseMoment reads a TIME: RFC 3339; 2026-11-20 14:02, 14:02 (today) or yesterday 14:02, each also with seconds and in the
// zone of now; 90m, 2d or 1d12h ago; or seq:1234. What the clock shows twice, as it is put back, is the first time.
func ParseMoment(text string, now time.Time) (Moment, error) {
	if number, ok := strings.CutPrefix(text, "seq:"); ok {
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil || seq == 0 {
			return Moment{}, fmt.Errorf("%q is not the number of a line; write e.g. seq:1234", text)
		}
		return Moment{Seq: seq}, nil
	}
	if d, ok := config.ParseDuration(text); ok {
		if d < 0 {
			return Moment{}, fmt.Errorf("%q is negative; write how long ago, such as 90m or 2d", text)
		}
		return Moment{Time: now.Add(-d)}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return Moment{Time: t}, nil
	}
	for _, form := range dayForms {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return Moment{Time: first(t)}, nil
		}
	}
	day, clock := now, text
	if rest, ok := strings.CutPrefix(text, "yesterday "); ok {
		day, clock = now.AddDate(0, 0, -1), strings.TrimSpace(rest)
	}
	for _, form := range clockForms {
		if t, err := time.Parse(form, clock); err == nil {
			year, month, date := day.Date()
			return Moment{Time: first(time.Date(year, month, date, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()))}, nil
		}
	}
	return Moment{}, fmt.Errorf("%q is not a time; write %s", text, Times)
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
