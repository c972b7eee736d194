package tail

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// Line is what a journal line says beside its object. The slices are parts of the line that was parsed.
type Line struct {
	Raw  []byte // the whole of it, without its end
	Seq  uint64
	Time time.Time

	// The insides of JSON strings, escapes and all; empty where the line has none.
	Type, Origin, Stream                   []byte
	Group, Version, Resource, Kind         []byte
	Namespace, Name, ResourceVersion       []byte
	Manager, Subresource                   []byte
	Reason, FromResourceVersion            []byte
	TruncatedReason                        []byte
	Generation, FinalStateKnown, Truncated []byte // JSON values
	Event, Changes, Count                  []byte // JSON values
}

var errNotLine = errors.New("not a journal line")

// Parse reads a line, with or without white space around it. What it refuses is no line of a journal: it has no seq,
// time, type or stream, or does not end as a line does.
//
// kubejournal writes the object last, and what stands in front of it is all that is read then. Where others have put
// the members into another order, the object is walked over.
func (l *Line) Parse(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	*l = Line{Raw: raw}
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return errNotLine
	}
	for i := space(raw, 1); ; {
		if l.complete() && objectIsLast(raw, i) {
			return nil
		}
		key, from, to := member(raw, i)
		if to < 0 {
			return errNotLine
		}
		if !l.set(key, raw[from:to]) {
			return errNotLine
		}
		i = space(raw, to)
		if i >= len(raw) {
			return errNotLine
		}
		if raw[i] == '}' {
			if i == len(raw)-1 && l.complete() {
				return nil
			}
			return errNotLine
		}
		if raw[i] != ',' {
			return errNotLine
		}
		i = space(raw, i+1)
	}
}

// complete tells whether everything was read that every line has.
func (l *Line) complete() bool {
	return l.Seq > 0 && !l.Time.IsZero() && len(l.Type) > 0 && len(l.Stream) > 0
}

// objectIsLast tells whether the member at raw[i] is the object and ends with the line.
func objectIsLast(raw []byte, i int) bool {
	return bytes.HasPrefix(raw[i:], []byte(`"object":{`)) && bytes.HasSuffix(raw, []byte("}}"))
}

// set takes one member. It is false where seq or time cannot be what they are called; a member of another kind than
// it should be is left out.
func (l *Line) set(key, v []byte) bool {
	switch string(key) {
	case "seq":
		n, err := strconv.ParseUint(string(v), 10, 64)
		l.Seq = n
		return err == nil && n > 0
	case "time":
		return l.Time.UnmarshalText(text(v)) == nil
	case "type":
		l.Type = text(v)
	case "origin":
		l.Origin = text(v)
	case "stream":
		l.Stream = text(v)
	case "group":
		l.Group = text(v)
	case "version":
		l.Version = text(v)
	case "resource":
		l.Resource = text(v)
	case "kind":
		l.Kind = text(v)
	case "namespace":
		l.Namespace = text(v)
	case "name":
		l.Name = text(v)
	case "resourceVersion":
		l.ResourceVersion = text(v)
	case "manager":
		l.Manager = text(v)
	case "subresource":
		l.Subresource = text(v)
	case "reason":
		l.Reason = text(v)
	case "fromResourceVersion":
		l.FromResourceVersion = text(v)
	case "generation":
		l.Generation = v
	case "finalStateKnown":
		l.FinalStateKnown = v
	case "truncated":
		l.Truncated = v
	case "truncatedReason":
		l.TruncatedReason = text(v)
	case "event":
		l.Event = v
	case "changes":
		l.Changes = v
	case "count":
		l.Count = v
	}
	return true
}

// aboutStream tells whether the line is about a stream, not an object.
func (l *Line) aboutStream() bool {
	return string(l.Type) == "GAP" || string(l.Type) == "SYNCED"
}

// scope is what stands behind the question mark of the stream's name; empty for all objects of a resource.
func (l *Line) scope() []byte {
	_, scope, _ := bytes.Cut(l.Stream, []byte("?"))
	return scope
}
