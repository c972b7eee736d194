package tail

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"kubejournal/internal/rawjson"
)

// Line is what a journal line says beside its object.
type Line struct {
	Raw  []byte // the whole line, without its end
	Seq  uint64
	Time time.Time

	values [len(keys)][]byte // JSON, parts of Raw; nil where the line has none
	object []byte            // the same, not looked into
}

// The members of a line.
const (
	seqKey = iota
	timeKey
	writtenAtKey
	typeKey
	originKey
	idKey
	streamKey
	clusterKey
	groupKey
	versionKey
	resourceKey
	kindKey
	clusterUIDKey
	namespaceKey
	nameKey
	uidKey
	reasonKey
	fromTimeKey
	fromResourceVersionKey
	resourceVersionKey
	generationKey
	managerKey
	subresourceKey
	finalStateKnownKey
	countKey
	truncatedKey
	truncatedReasonKey
	eventKey
	changesKey
)

// keys are the names of the members, in the order in which kubejournal writes them.
var keys = [...]string{
	"seq", "time", "writtenAt", "type", "origin", "id", "stream", "cluster", "group", "version", "resource", "kind", "clusterUID",
	"namespace", "name", "uid", "reason", "fromTime", "fromResourceVersion", "resourceVersion", "generation", "manager", "subresource",
	"finalStateKnown", "count", "truncated", "truncatedReason", "event", "changes",
}

var errNotLine = errors.New("not a journal line")

// Parse reads a line, with or without white space around it. It refuses what is no line of a journal: what has no seq,
// time, type or stream, or does not end as a line does.
//
// kubejournal writes the object last, and only what precedes it is read then. Where others have put the members
// into another order, the object is passed over.
func (l *Line) Parse(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	*l = Line{Raw: raw}
	c := rawjson.NewCursor(raw)
	next := 0
	for more := c.Take('{'); more; more = c.Take(',') {
		key, ok := c.Key()
		if string(key) == "object" && c.Peek() == '{' && bytes.HasSuffix(raw, []byte("}}")) && l.complete() {
			l.object = raw[c.Offset() : len(raw)-1]
			return nil
		}
		value := c.Value()
		if !ok || value == nil {
			return errNotLine
		}
		if at := rawjson.IndexFrom(keys[:], key, next); at >= 0 {
			l.values[at], next = value, at+1
		} else if string(key) == "object" {
			l.object = value
		}
	}
	if !c.Take('}') || len(c.Rest()) > 0 || !l.complete() {
		return errNotLine
	}
	return nil
}

// complete reads seq and time, and reports whether everything was read that every line has.
func (l *Line) complete() bool {
	var err error
	l.Seq, err = strconv.ParseUint(string(l.values[seqKey]), 10, 64)
	return err == nil && l.Seq > 0 && l.Time.UnmarshalText(l.text(timeKey)) == nil && len(l.text(typeKey)) > 0 && len(l.text(streamKey)) > 0
}

// text returns the inside of a member that is a string, with its escapes; nil where it is none.
func (l *Line) text(key int) []byte { return rawjson.Inside(l.values[key]) }

// aboutStream reports whether the line is about a stream, not an object.
func (l *Line) aboutStream() bool {
	return string(l.text(typeKey)) == "GAP" || string(l.text(typeKey)) == "SYNCED"
}

// lateAfter is how much later than it was made a change is received that counts as late. The server gives whole seconds,
// and its clock is another one.
const lateAfter = 3 * time.Second

// late returns when the change was made, if it was received late. What existed at first sight is older by nature.
func (l *Line) late() (written time.Time, ok bool) {
	if len(l.values[writtenAtKey]) == 0 || string(l.text(originKey)) == "snapshot" {
		return written, false
	}
	ok = written.UnmarshalText(l.text(writtenAtKey)) == nil && l.Time.Sub(written) > lateAfter
	return written, ok
}

// scope is what follows the question mark in the stream's name; empty for all objects of a resource.
func (l *Line) scope() []byte {
	_, scope, _ := bytes.Cut(l.text(streamKey), []byte("?"))
	return scope
}
