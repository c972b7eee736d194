package checkpoint

import (
	"time"

	"kubejournal/internal/format/line"
)

// Stream is the durable state of one stream. Its methods are its only transitions, for the
// stream that writes lines as for the recovery that reads them back.
type Stream struct {
	// ResourceVersion is the position: all that the server did up to it is in the
	// journal. Empty before the first sync is complete.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// PendingGap is the reason of a GAP line that is still to be written: the
	// position is not valid any more. Empty when there is none.
	PendingGap line.Reason `json:"owed,omitempty"`
	// Open is set from a GAP line until all lines after it are written.
	Open *Gap `json:"open,omitempty"`
	// Closing is set while all lines of a complete list are written but the SYNCED line.
	Closing *line.Count `json:"closing,omitempty"`
	// Term is that in which the list was begun of which Open or Closing is; 0 without leader election.
	Term uint64 `json:"term,omitempty"`
	// Restored counts how often the server was restored, by GAP lines, those of other replicas included: versions can
	// only be compared where it is the same. It is raised with a GAP line, and taken over with a published position.
	Restored uint64 `json:"restored,omitempty"`
	Coverage
}

// Coverage is from when to when the journal has every change of a stream, in Unix nanoseconds; 0 is unknown. It starts
// over behind each GAP.
type Coverage struct {
	// Since is the time of the SYNCED line that it began with.
	Since int64 `json:"since,omitempty"`
	// Confirmed is up to when it surely reaches: the position may be later. It may be before Since: what came while the
	// list was read is not in it.
	Confirmed int64 `json:"confirmed,omitempty"`
	// Read is when the last change was made that a watch has brought after that, by the server's clock, and no later
	// than it was received: all that was made before has been read, for a watch brings changes in order.
	Read int64 `json:"read,omitempty"`
	// Late is when the last line came that was late, because of an outage or a stop. That may be after Confirmed. It is
	// lost with the process, after which they are late in any case.
	Late int64 `json:"-"`
	// Pulse is up to when a pulse has confirmed it, if that is later. Missed is when a line last came that may be older
	// than a pulse, which was wrong then, and MissedFrom the time before which its change was not made; 0 is unknown.
	// They are kept for a process that is killed before the coverage file says so.
	Pulse      int64 `json:"-"`
	Missed     int64 `json:"missed,omitempty"`
	MissedFrom int64 `json:"missedFrom,omitempty"`
	// Lost is the reason of the GAP whose list is complete, while its SYNCED is to come: it may begin and end in one
	// commit.
	Lost line.Reason `json:"-"`
	// Differences is how many objects differed in the list of that SYNCED.
	Differences int64 `json:"differences,omitempty"`
}

// Gap is a GAP line whose SYNCED is not written yet. ResourceVersion is that of the
// line, raised to the highest version that the list after it has shown.
type Gap struct {
	Reason              line.Reason `json:"reason,omitempty"`
	FromResourceVersion string      `json:"fromResourceVersion,omitempty"`
	ResourceVersion     string      `json:"resourceVersion"`
	line.Count                      // of the lines after the GAP line
}

// Transition is one line of a stream, or an event that was held back.
type Transition struct {
	Type   line.Type
	Origin line.Origin
	// Of a GAP or SYNCED only the version is set.
	Namespace, Name, UID, ResourceVersion []byte
	FromResourceVersion                   []byte      // of a GAP
	Reason                                line.Reason // the same
	Time                                  int64       // of a SYNCED, in Unix nanoseconds
	Count                                 *line.Count // the same
	// HeldBack says that there is no line; Withheld, that the stream's filter is why.
	HeldBack, Withheld bool
}

// Apply makes s the state after a line, and adds to c what the line says of its
// object. A line of a watch moves the position. Lines of a list do not come in the
// order of versions: they leave the position where it is, and count for an open gap.
func (s *Stream) Apply(l *Transition, c *Changes) {
	switch l.Type {
	case line.Gap:
		s.Open = &Gap{
			Reason: l.Reason, FromResourceVersion: string(l.FromResourceVersion),
			ResourceVersion: string(l.ResourceVersion),
		}
		s.PendingGap, s.Coverage = "", Coverage{}
		if l.Reason == line.PositionAheadOfServer {
			s.Restored++
		}
		return
	case line.Synced:
		// A GAP that has become due since the list was complete, for lines that are
		// missing in the journal, still is.
		*s = Stream{
			ResourceVersion: string(l.ResourceVersion), PendingGap: s.PendingGap, Restored: s.Restored,
			Coverage: Coverage{Since: l.Time},
		}
		if l.Count != nil {
			s.Differences = l.Count.Added + l.Count.Modified + l.Count.Deleted
		}
		return
	}
	c.Apply(l)
	if l.Origin == line.FromWatch && len(l.ResourceVersion) > 0 {
		s.Move(string(l.ResourceVersion))
	} else if s.Open != nil {
		s.Open.apply(l)
	}
}

func (g *Gap) apply(l *Transition) {
	if !l.HeldBack {
		g.Add(l.Type)
	}
	if rv := string(l.ResourceVersion); l.Type != line.Deleted && line.Later(rv, g.ResourceVersion) {
		g.ResourceVersion = rv
	}
}

// Apply adds what a line says of its object.
func (c *Changes) Apply(l *Transition) {
	switch {
	case l.Type == line.Deleted:
		c.Delete(l.Namespace, l.Name)
	case l.Withheld:
		c.put(l.Namespace, l.Name, l.UID, l.ResourceVersion, flagWithheld)
	default:
		c.Put(l.Namespace, l.Name, l.UID, l.ResourceVersion)
	}
}

// Move makes rv the position of a stream that is in step with the server.
func (s *Stream) Move(rv string) {
	*s = Stream{ResourceVersion: rv, Restored: s.Restored, Coverage: s.Coverage}
}

// Confirm notes that the journal, with what is about to be written, has every change up to a time. late is when the
// last line came that was late; zero if none did.
func (s *Stream) Confirm(at, late time.Time) {
	c := &s.Coverage
	c.Confirmed, c.Read = at.UnixNano(), 0
	if !late.IsZero() {
		c.Late = late.UnixNano()
	}
	if c.Since == 0 { // the position was adopted: the stream has written no SYNCED
		c.Since = c.Confirmed
	}
}

// Miss notes that a line was received that may be older than a pulse, and the time before which its change was not
// made; zero is unknown.
func (s *Stream) Miss(received, from time.Time) {
	missed := Coverage{Missed: received.UnixNano()}
	if !from.IsZero() {
		missed.MissedFrom = from.UnixNano()
	}
	if s.Missed == missed.Missed { // it came together with others
		missed.MissedFrom = min(missed.MissedFrom, s.MissedFrom)
	}
	s.Missed, s.MissedFrom, s.Pulse = missed.Missed, missed.MissedFrom, 0
}

// MissBefore is Miss for a line that was read back, after others if it is not the first one: coverage has heard of none
// of them.
func (s *Stream) MissBefore(received, from time.Time, first bool) {
	before := s.MissedFrom
	if s.Miss(received, from); !first {
		s.MissedFrom = min(s.MissedFrom, before)
	}
}

// Reach notes that a watch has brought a change, and when that was made: all that was made before has been read.
func (s *Stream) Reach(received, made time.Time) {
	s.Read = min(max(s.Read, made.UnixNano()), received.UnixNano())
}

// Lose notes that the position is not valid any more.
func (s *Stream) Lose(reason line.Reason) { s.PendingGap = reason }

// Complete notes that all lines of a list are written but SYNCED, which has count; nil for none.
func (s *Stream) Complete(rv string, count *line.Count) {
	term, lost := s.Term, line.Reason("")
	if s.Open != nil {
		lost = s.Open.Reason
	}
	s.Move(rv)
	if count != nil {
		s.Closing, s.Term, s.Coverage = new(*count), term, Coverage{Lost: lost}
	}
}

// InStep reports whether the stream has a complete list, follows the server from it, and has no pending or open GAP.
func (s *Stream) InStep() bool {
	return s.Since > 0 && s.PendingGap == "" && s.Open == nil && s.Closing == nil
}

// Valid reports whether a watch can start at the position.
func (s *Stream) Valid() bool { return s.ResourceVersion != "" && s.PendingGap == "" && s.Open == nil }

// From is the version after which the reader has not been told everything.
func (s *Stream) From() string {
	if s.Open != nil {
		return s.Open.ResourceVersion
	}
	return s.ResourceVersion
}

// Clone returns a copy for a batch: s keeps changing.
func (s *Stream) Clone() *Stream {
	c := *s
	if s.Open != nil {
		c.Open = new(*s.Open)
	}
	if s.Closing != nil {
		c.Closing = new(*s.Closing)
	}
	return &c
}
