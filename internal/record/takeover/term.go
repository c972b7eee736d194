package takeover

import (
	"bytes"
	"errors"
	"maps"
	"strconv"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// ErrStandby means that a stream's batch was dropped, since another replica writes, or has written since a list was
// begun. The stream must take its position from the checkpoint again.
var ErrStandby = errors.New("another replica writes")

// Term is from one takeover to the next, as a replica sees it. It does not change; Replica.Begin replaces it.
type Term struct {
	// May reports whether this replica may write at this moment; nil on a standby.
	May func() bool
	// Number counts the terms of all replicas; of a leader, at least 1.
	Number uint64
	// Published is up to where other replicas have written and committed everything.
	Published Positions
	// Led has the numbers of the terms in which this replica was the leader, as far as they are known.
	Led map[uint64]bool

	over chan struct{} // closed when it is replaced
}

// Leads reports whether this one of several replicas writes.
func (t *Term) Leads() bool { return t != nil && t.May != nil }

// Follows reports whether another replica writes.
func (t *Term) Follows() bool { return t != nil && t.May == nil }

// Over is closed when there is another term.
func (t *Term) Over() <-chan struct{} { return t.over }

// Position returns what others have published of a stream.
func (t *Term) Position(stream string) Position {
	if t == nil {
		return Position{}
	}
	return t.Published.Of(stream)
}

// followsOther reports whether the term before this one was another replica's.
func (t *Term) followsOther() bool { return t.Number > 1 && !t.isOwn(t.Number-1) }

// othersSince reports whether another replica may have written between the term of that number and this one.
func (t *Term) othersSince(number uint64) bool {
	if t == nil {
		return false
	}
	for number++; number < t.Number; number++ {
		if !t.isOwn(number) {
			return true
		}
	}
	return false
}

// isOwn reports whether this replica is known to have been the leader in the term of that number. Terms count from 1:
// byOthers is none.
func (t *Term) isOwn(number uint64) bool { return number > 0 && t.Led[number] }

// Position is how far a stream is written, as a leader publishes it.
type Position struct {
	// At is the resourceVersion up to which everything is written and committed; "" where there is none.
	At string
	// Begun is set instead of At where only the start of a list is known, a first list or one after a restore. There
	// may be lines about objects that a replica has never known. Term is the number of the term in which it started,
	// byOthers if that is not known.
	Begun bool
	Term  uint64
	// Restored is that of checkpoint.Stream, of At or of the list that was begun.
	Restored uint64
}

// byOthers stands for the number of a term that no replica takes for its own, not even the one that publishes it.
const byOthers = 0

// Positions are by stream.
type Positions map[string]Position

// AnyOther is the name, among positions, that stands for every stream that is not named.
const AnyOther = "*"

// unnamed is the position of AnyOther where some positions are left out.
var unnamed = Position{Begun: true, Term: byOthers}

// Of returns the position of a stream.
func (p Positions) Of(stream string) Position {
	position, named := p[stream]
	if !named {
		position = p[AnyOther]
	}
	return position
}

// begun makes of positions that do not hold any more that their streams were begun.
func (p Positions) begun() Positions {
	begun := maps.Clone(p)
	for stream, position := range begun {
		begun[stream] = Position{Begun: true, Term: byOthers, Restored: position.Restored}
	}
	return begun
}

// positionOf returns the position of a stream up to which everything is written, also where the server has dropped the
// history after it; ok is false in the middle of a list.
func positionOf(s *checkpoint.Stream) (p Position, ok bool) {
	whole := s.PendingGap == "" || s.PendingGap == line.Expired
	return Position{At: s.ResourceVersion, Restored: s.Restored},
		s.ResourceVersion != "" && whole && s.Open == nil && s.Closing == nil
}

// In a Lease a position is a text: Restored unless it is 0, then "=" and At, or "~" and Term.
const (
	markAt    = "="
	markBegun = "~"
)

// MarshalText returns the form that a Lease has.
func (p Position) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(p.At)+2)
	if p.Restored > 0 {
		b = strconv.AppendUint(b, p.Restored, 10)
	}
	if p.Begun {
		return strconv.AppendUint(append(b, markBegun...), p.Term, 10), nil
	}
	return append(append(b, markAt...), p.At...), nil
}

// UnmarshalText reads the form that a Lease has. Anything else is a list that others have begun: a replica that takes
// over writes that stream again, and the others are not affected.
func (p *Position) UnmarshalText(text []byte) error {
	*p = unnamed
	n := bytes.IndexAny(text, markAt+markBegun)
	if n < 0 {
		return nil
	}
	is, rest := Position{}, string(text[n+1:])
	var errs [2]error
	if n > 0 {
		is.Restored, errs[0] = strconv.ParseUint(string(text[:n]), 10, 64)
	}
	if is.Begun = text[n] == markBegun[0]; is.Begun {
		is.Term, errs[1] = strconv.ParseUint(rest, 10, 64)
	} else {
		is.At = rest
	}
	if errors.Join(errs[:]...) == nil {
		*p = is
	}
	return nil
}
