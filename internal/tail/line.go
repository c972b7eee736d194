package tail

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"kubejournal/internal/rawjson"
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
	c := rawjson.NewCursor(raw)
	for more := c.Take('{'); more; more = c.Take(',') {
		if l.complete() && objectIsLast(c.Rest()) {
			return nil
		}
		key, ok := c.Key()
		value := c.Value()
		if !ok || value == nil || !l.set(key, value) {
			return errNotLine
		}
	}
	if !c.Take('}') || len(c.Rest()) > 0 || !l.complete() {
		return errNotLine
	}
	return nil
}

// complete tells whether everything was read that every line has.
func (l *Line) complete() bool {
	return l.Seq > 0 && !l.Time.IsZero() && len(l.Type) > 0 && len(l.Stream) > 0
}

// objectIsLast reports whether the rest of a line is the object.
func objectIsLast(rest []byte) bool {
	return bytes.HasPrefix(rest, []byte(`"object":{`)) && bytes.HasSuffix(rest, []byte("}}"))
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
		return l.Time.UnmarshalText(rawjson.Inside(v)) == nil
	case "type":
		l.Type = rawjson.Inside(v)
	case "origin":
		l.Origin = rawjson.Inside(v)
	case "stream":
		l.Stream = rawjson.Inside(v)
	case "group":
		l.Group = rawjson.Inside(v)
	case "version":
		l.Version = rawjson.Inside(v)
	case "resource":
		l.Resource = rawjson.Inside(v)
	case "kind":
		l.Kind = rawjson.Inside(v)
	case "namespace":
		l.Namespace = rawjson.Inside(v)
	case "name":
		l.Name = rawjson.Inside(v)
	case "resourceVersion":
		l.ResourceVersion = rawjson.Inside(v)
	case "manager":
		l.Manager = rawjson.Inside(v)
	case "subresource":
		l.Subresource = rawjson.Inside(v)
	case "reason":
		l.Reason = rawjson.Inside(v)
	case "fromResourceVersion":
		l.FromResourceVersion = rawjson.Inside(v)
	case "generation":
		l.Generation = v
	case "finalStateKnown":
		l.FinalStateKnown = v
	case "truncated":
		l.Truncated = v
	case "truncatedReason":
		l.TruncatedReason = rawjson.Inside(v)
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
