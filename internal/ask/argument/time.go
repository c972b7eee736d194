package argument

import (
	"strconv"
	"time"
)

// Moment is a place in a journal: a time, the line that has a seq, or a version of the server. The zero Moment is none.
type Moment struct {
	Time    time.Time
	Seq     uint64 // 0 for any other
	Version uint64 // the same

	latest  bool // Time is now, and what is asked for is the last that the journal has
	open    bool // likewise, and as of when that is claims nothing
	fromNow bool // Time was given as how long ago it is, which names now
}

// Latest returns now, as far as the journal says. A stream that is followed is as good as there, if it was confirmed
// within a few seconds.
func Latest() Moment { return Moment{Time: time.Now(), latest: true} }

// LastKnown returns the moment that is asked for by not naming an end: the last time that is covered. An answer says as
// of when it is, where that is not now.
func LastKnown() Moment { return Moment{Time: time.Now(), latest: true, open: true} }

// EndOf returns the end that is meant where only the beginning is named: now, where that was said by how long ago it
// is.
func EndOf(since Moment) Moment {
	if since.fromNow {
		return Latest()
	}
	return LastKnown()
}

// IsZero reports whether no moment was given.
func (m Moment) IsZero() bool { return m.Seq == 0 && m.Version == 0 && m.Time.IsZero() }

// IsLatest reports whether what is asked for is the last that the journal has, as of Latest and LastKnown.
func (m Moment) IsLatest() bool { return m.latest }

// IsOpen reports whether the moment is LastKnown.
func (m Moment) IsOpen() bool { return m.open }

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

// Text returns the moment for a program, in a form that ParseMoment reads.
func (m Moment) Text() string {
	if m.Seq+m.Version > 0 {
		return m.String()
	}
	return m.Time.UTC().Format(time.RFC3339Nano)
}

// JustBefore returns the moment before a time: what is asked for since a time includes the lines of that time.
func (m Moment) JustBefore() Moment {
	if m.Seq+m.Version == 0 && !m.Time.IsZero() {
		m.Time = m.Time.Add(-1)
	}
	return m
}

// JustAfter returns the moment after a seq or a time: what is asked for since it begins after what was asked for until.
func (m Moment) JustAfter() Moment {
	if m.Seq > 0 {
		m.Seq++
	} else if !m.Time.IsZero() {
		m.Time = m.Time.Add(1)
	}
	return m
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

// OfTime returns the moment if it is a time that not all lines are by, else the zero Moment.
func (m Moment) OfTime() Moment {
	if m.Seq+m.Version > 0 || m.latest {
		return Moment{}
	}
	return m
}
