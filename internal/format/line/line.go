// Package line reads the lines of a journal: what a line says beside its object, as the bytes have it. It makes sure of
// no more than that a line is one; ParseHeader checks all of it.
package line

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Fields is what a journal line says beside its object.
type Fields struct {
	Raw    []byte // the whole line, without its end
	Seq    uint64
	Time   time.Time
	Object []byte // JSON, a part of Raw that is not looked into; nil where the line has none

	values [len(names)][]byte
}

// Field is one of the members.
type Field int

// The members of a line, in the order in which kubejournal writes them.
const (
	FieldSeq  Field = iota
	FieldTerm       // the leader's term in which it was written; only with leader election
	FieldTime
	FieldType
	FieldOrigin
	FieldID
	FieldStream
	FieldCluster
	FieldGroup
	FieldVersion
	FieldResource
	FieldKind
	FieldClusterUID
	FieldNamespace
	FieldName
	FieldUID
	FieldReason
	FieldFromTime
	FieldFromResourceVersion
	FieldResourceVersion
	FieldGeneration
	FieldManager
	FieldSubresource
	FieldWrittenAt
	FieldPerson // who made it, in answers alone: an audit log says so
	FieldFinalStateKnown
	FieldCount
	FieldRemoved
	FieldSealed
	FieldTruncated
	FieldTruncatedReason
	FieldEvent
	FieldChangesOmitted
	FieldChanges
)

var names = [...]string{
	"seq", "term", "time", "type", "origin", "id", "stream", "cluster", "group", "version", "resource", "kind",
	"clusterUID",
	"namespace", "name", "uid", "reason", "fromTime", "fromResourceVersion", "resourceVersion", "generation", "manager",
	"subresource",
	"writtenAt", "person", "finalStateKnown", "count", "removed", "sealed", "truncated", "truncatedReason", "event",
	"changesOmitted", "changes",
}

// Last is the last of them; only the object comes after it.
const Last = FieldChanges

// String returns the member's name.
func (f Field) String() string { return names[f] }

// FieldOf returns the member with a name.
func FieldOf(name []byte) (f Field, ok bool) {
	at := rawjson.IndexFrom(names[:], name, 0)
	return Field(at), at >= 0
}

var errNotLine = errors.New("not a journal line")

// Parse reads a line, with or without white space around it. It refuses what is no line of a journal: what has no seq,
// time, type or stream, or does not end as a line does.
//
// kubejournal writes the object last, and only what precedes it is read then. Where others have put the members
// into another order, the object is passed over.
func (l *Fields) Parse(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	*l = Fields{Raw: raw}
	c := rawjson.NewCursor(raw)
	next := 0
	for more := c.Take('{'); more; more = c.Take(',') {
		key, ok := c.Key()
		if string(key) == "object" && c.Peek() == '{' && bytes.HasSuffix(raw, []byte("}}")) && l.complete() {
			l.Object = raw[c.Offset() : len(raw)-1]
			return nil
		}
		value := c.Value()
		if !ok || value == nil {
			return errNotLine
		}
		if !l.note(key, value, &next) && bytes.IndexByte(key, '\\') >= 0 {
			l.note(rawjson.Unquote(nil, key), value, &next)
		}
	}
	if !c.Take('}') || len(c.Rest()) > 0 || !l.complete() {
		return errNotLine
	}
	return nil
}

// parseWhole is Parse for the compact JSON that the scanner has. It checks all of it, and reads what follows the object
// too.
func (l *Fields) parseWhole(s *rawjson.Scanner) error {
	text := s.Text()
	*l = Fields{Raw: text}
	switch {
	case len(text) == 0 || text[0] != '{':
		return errNotLine
	case s.Control():
		return errControl
	}
	next := 0
	i, more := s.Open(0, 0)
	for more {
		key, value := s.Key(i)
		if value < 0 {
			return s.Err()
		}
		if i = s.Skip(value, 1); i < 0 {
			return s.Err()
		}
		l.note(key, text[value:i], &next)
		i, more = s.More(i, '}')
	}
	if err := s.End(i); err != nil {
		return err
	}
	if !l.complete() {
		return errNotLine
	}
	return nil
}

// note notes a member, and reports whether a line has one of that name. next is where its name is likely to be.
func (l *Fields) note(key, value []byte, next *int) bool {
	at := rawjson.IndexFrom(names[:], key, *next)
	switch {
	case at >= 0:
		l.values[at], *next = value, at+1
		return true
	case string(key) == "object":
		l.Object = value
		return true
	}
	return false
}

// complete reads seq and time, and reports whether everything was read that every line has.
func (l *Fields) complete() bool {
	var err error
	l.Seq, err = strconv.ParseUint(string(l.values[FieldSeq]), 10, 64)
	return err == nil && l.Seq > 0 && l.Time.UnmarshalText(l.Text(FieldTime)) == nil && len(l.Text(FieldType)) > 0 &&
		len(l.Text(FieldStream)) > 0
}

// Value returns a member as JSON, a part of Raw; nil where the line has none.
func (l *Fields) Value(f Field) []byte { return l.values[f] }

// Text returns the inside of a member that is a string, with its escapes; nil where it is none.
func (l *Fields) Text(f Field) []byte { return rawjson.Inside(l.values[f]) }

// Unquoted returns the text of a field as it reads, without escapes; what is not UTF-8 is replaced.
func (l *Fields) Unquoted(f Field) string {
	inside := l.Text(f)
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside) // most are
	}
	return strings.ToValidUTF8(string(rawjson.Unquote(nil, inside)), "\uFFFD")
}

// Is reports whether a member is a string that means text, however it is escaped.
func (l *Fields) Is(f Field, text string) bool {
	inside := l.Text(f)
	if bytes.IndexByte(inside, '\\') >= 0 {
		inside = rawjson.Unquote(nil, inside)
	}
	return string(inside) == text
}

// AboutStream reports whether the line is about a stream, not an object.
func (l *Fields) AboutStream() bool {
	is := l.Type()
	return is == Gap || is == Synced
}

// Journal is the stream, and the resource, of a line about the journal itself: the API has none of that name.
const Journal = "journal"

// SaysRemoved reports whether the line says which lines are not in the journal any more: it is about no object, and
// names the stream that they were of, or Journal where whole files are gone.
func (l *Fields) SaysRemoved() bool { return l.Type() == Removed }

// TimeLayout is the form of a line's times, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

// Span is which lines a REMOVED line is about, by their seqs, the last one included. Others may stand between them.
type Span struct {
	From, To         uint64
	FromTime, ToTime time.Time // of the first and the last of them; zero where it is not known
}

// Removed returns which lines a REMOVED line says are gone; ok is false for any other line, and where it does not say
// that.
func (l *Fields) Removed() (s Span, ok bool) {
	if !l.SaysRemoved() {
		return s, false
	}
	is := rawjson.Pick(l.values[FieldRemoved], "fromSeq", "toSeq", "fromTime", "toTime")
	var errs [2]error
	s.From, errs[0] = strconv.ParseUint(string(is[0]), 10, 64)
	s.To, errs[1] = strconv.ParseUint(string(is[1]), 10, 64)
	_ = s.FromTime.UnmarshalText(rawjson.Inside(is[2])) // zero with an error
	_ = s.ToTime.UnmarshalText(rawjson.Inside(is[3]))
	return s, errors.Join(errs[:]...) == nil && s.From <= s.To
}

// RemovedLines returns how many lines a REMOVED line is about; 0 where it does not say so.
func (l *Fields) RemovedLines() int {
	n, _ := strconv.Atoi(string(rawjson.Pick(l.values[FieldRemoved], "lines")[0]))
	return n
}

// AppendRemovedHead appends what a REMOVED line begins with that stands in the place of this one, and perhaps of lines
// after it. AppendEnd ends it.
func (l *Fields) AppendRemovedHead(dst []byte) []byte {
	member := func(f Field, value []byte) {
		if value != nil {
			dst = append(append(append(append(dst, ',', '"'), names[f]...), '"', ':'), value...)
		}
	}
	dst = strconv.AppendUint(append(dst, `{"seq":`...), l.Seq, 10)
	member(FieldTerm, l.values[FieldTerm])
	member(FieldTime, l.values[FieldTime])
	member(FieldType, []byte(`"`+Removed+`"`))
	id, is := l.Text(FieldID), []byte{'"'}
	if l.SaysRemoved() {
		is = append(append(is, id...), '"')
	} else {
		const suffix, longest = `/REMOVED"`, 512 // bytes of an id
		if most := longest + len(`"`) - len(suffix); len(id) > most {
			id = append([]byte{'~'}, bytes.ToValidUTF8(id[len(id)-most+1:], nil)...)
		}
		is = append(append(is, id...), suffix...)
	}
	member(FieldID, is)
	for _, f := range [...]Field{
		FieldStream, FieldCluster, FieldGroup, FieldVersion, FieldResource, FieldKind, FieldNamespace,
	} {
		member(f, l.values[f])
	}
	return dst
}

// AppendFiles appends the rest of a REMOVED line, after its seq and term, that says that files with all lines of the
// span are gone.
func (s Span) AppendFiles(dst []byte, now time.Time, cluster, reason string) []byte {
	return s.AppendEnd(appendJournal(dst, Removed, s.From, s.To, now, cluster), reason, 0)
}

// appendJournal appends the members from time to kind of a line about the journal's files; seq and term come before
// them.
func appendJournal(dst []byte, typ Type, from, to uint64, now time.Time, cluster string) []byte {
	at := now.UTC().Format(TimeLayout)
	dst = fmt.Appendf(
		dst, `,"time":"%s","type":"%s","id":"%s/%d-%d/%[1]s/%[2]s","stream":"%[3]s"`, at, typ, Journal, from, to,
	)
	if cluster != "" {
		dst = append(rawjson.AppendEscaped(append(dst, `,"cluster":"`...), cluster), '"')
	}
	return fmt.Appendf(dst, `,"version":"v1","resource":"%s","kind":"Journal"`, Journal)
}

// AppendEnd appends what a REMOVED line ends with: why the lines are gone, which that are, and how many, 0 where that
// is not known.
func (s Span) AppendEnd(dst []byte, reason string, lines int) []byte {
	dst = fmt.Appendf(dst, `,"reason":%q,"removed":{"fromSeq":%d,"toSeq":%d`, reason, s.From, s.To)
	if lines > 0 {
		dst = fmt.Appendf(dst, `,"lines":%d`, lines)
	}
	for _, at := range []struct {
		name string
		is   time.Time
	}{{"fromTime", s.FromTime}, {"toTime", s.ToTime}} {
		if !at.is.IsZero() {
			dst = fmt.Appendf(dst, `,%q:"%s"`, at.name, at.is.UTC().Format(TimeLayout))
		}
	}
	return append(dst, "}}\n"...)
}

// Next returns the seq of the line after this one. A REMOVED line that begins with the seq of the first line that it is
// about stands in the place of all of them.
func (l *Fields) Next() uint64 {
	if s, ok := l.Removed(); ok && s.From == l.Seq {
		return s.To + 1
	}
	return l.Seq + 1
}

// lateAfter is how much later than it was made a change is received that counts as late. The server gives whole
// seconds, and its clock is another one.
const lateAfter = 3 * time.Second

// Written returns when the line says that the change was made.
func (l *Fields) Written() (written time.Time, ok bool) {
	ok = len(l.values[FieldWrittenAt]) > 0 && written.UnmarshalText(l.Text(FieldWrittenAt)) == nil
	return written, ok
}

// Set gives a member another value, which Raw does not have.
func (l *Fields) Set(f Field, value []byte) { l.values[f] = value }

// AddPerson gives the line the member that says who made it. buf is space for a line.
func (l *Fields) AddPerson(buf, person []byte) []byte {
	const object = `,"object":`
	at := len(l.Raw) - len(`}`)
	if l.Object != nil {
		at -= len(l.Object) + len(object)
	}
	l.Set(FieldPerson, person)
	if l.Object != nil && (at < 0 || !bytes.HasPrefix(l.Raw[at:], []byte(object))) {
		return buf // others have put its members into another order
	}
	buf = append(append(buf[:0], l.Raw[:at]...), `,"person":`...)
	buf = append(append(buf, person...), l.Raw[at:]...)
	l.Raw = buf
	return buf
}

// Person returns the user who made the line and, if that acted as another, that one; empty where they are not known.
func (l *Fields) Person() (user, as string) {
	if l.values[FieldPerson] == nil {
		return "", ""
	}
	is := rawjson.Pick(l.values[FieldPerson], "user", "impersonated")
	return string(rawjson.Unquote(nil, rawjson.Inside(is[0]))), string(rawjson.Unquote(nil, rawjson.Inside(is[1])))
}

// Late returns when the change was made, if it was received late.
func (l *Fields) Late() (written time.Time, ok bool) {
	written, ok = l.Written()
	return written, ok && IsLate(l.Time, written, l.Snapshot())
}

// Snapshot reports whether the object existed at first sight.
func (l *Fields) Snapshot() bool { return l.Origin() == FromSnapshot }

// IsLate reports whether a change was received late. What existed at first sight is older by nature.
func IsLate(received, written time.Time, snapshot bool) bool {
	return !snapshot && received.Sub(written) > lateAfter
}

// StreamName returns what the line's stream is called.
func (l *Fields) StreamName() StreamName { return ParseStreamName(string(l.Text(FieldStream))) }

// Scope is what follows the question mark in the stream's name; empty for all objects of a resource.
func (l *Fields) Scope() []byte {
	_, scope, _ := bytes.Cut(l.Text(FieldStream), []byte("?"))
	return scope
}

// Type returns what happened; "" for what is none of the types that kubejournal knows.
func (l *Fields) Type() Type {
	switch text := l.Text(FieldType); string(text) { // compared without being copied
	case string(Modified):
		return Modified
	case string(Added):
		return Added
	case string(Deleted):
		return Deleted
	case string(Gap):
		return Gap
	case string(Synced):
		return Synced
	case string(Removed):
		return Removed
	case string(Sealed):
		return Sealed
	}
	return ""
}

// Origin returns how it became known; "" for a line about a stream or the journal.
func (l *Fields) Origin() Origin {
	switch text := l.Text(FieldOrigin); string(text) {
	case string(FromWatch):
		return FromWatch
	case string(FromSnapshot):
		return FromSnapshot
	case string(FromRelist):
		return FromRelist
	}
	return ""
}
