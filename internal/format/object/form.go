package object

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Payload says how much of its object a line carries.
type Payload string

// The payloads of a stream's lines. The zero Payload is the whole object.
const (
	WholeObject  Payload = "object"
	MetadataOnly Payload = "metadata" // {"metadata":{…}}
	NoObject     Payload = "none"
)

// Line says what to write about an object.
type Line struct {
	Type     line.Type
	Origin   line.Origin
	Received time.Time
	Payload  Payload
	// Write is who wrote this version and when, as far as it is known.
	Write Write
	// Changes is what a Differ has listed, or empty.
	Changes []byte
	// MaxBytes bounds the line, its seq and its newline included; 0 or less is MaxLine. A longer line gets truncated,
	// true, and its largest values are cut: see cut.go. What says where the object can be found is never cut, so
	// that a line may exceed a bound that has no room for it.
	MaxBytes int
}

var errNotScanned = errors.New("render line: the object has not been scanned")

// longestSeq is what a seq, which is not known when the rest of a line is written, takes at most.
const longestSeq = len(`{"seq":18446744073709551615`)

// AppendLine writes a line, all that follows its seq, about an object that this Renderer has scanned. With an error,
// dst is returned as it was.
func (r *Renderer) AppendLine(dst []byte, l Line, o *Object) ([]byte, error) {
	if l.Type != line.Added && l.Type != line.Modified && l.Type != line.Deleted {
		return dst, fmt.Errorf("render line: %q is not about an object", l.Type)
	}
	if o.Raw == nil {
		return dst, errNotScanned
	}
	start := len(dst)
	dst = r.appendNamed(dst, l.Received, l.Type, l.Origin, o.names())
	if o.Generation != 0 {
		dst = append(dst, `,"generation":`...)
		dst = strconv.AppendInt(dst, o.Generation, 10)
	}
	if l.Write.At == 0 && l.Type != line.Deleted {
		l.Write.At = r.lastSeen(o, l.Received)
	}
	dst = r.appendWrite(dst, l.Write)
	if o.Unusable != nil {
		return fmt.Appendf(dst, `,"truncated":true,"truncatedReason":"%s"}`+"\n", o.Unusable.Reason), nil
	}
	return r.appendBody(dst, start, l, o)
}

// AppendGone writes the line, all that follows its seq, of an object that a relist found gone. o is the last version
// that is known of the object, nil where none is; of l only Payload and MaxBytes are used. With an error, dst is
// returned as it was.
func (r *Renderer) AppendGone(dst []byte, received time.Time, k Known, l Line, o *Object) ([]byte, error) {
	start, n := len(dst), k.names()
	dst = r.appendNamed(dst, received, line.Deleted, line.FromRelist, n)
	dst = append(dst, `,"finalStateKnown":false`...)
	if o != nil {
		l.Changes = nil
		return r.appendBody(dst, start, l, o)
	}
	if l.Payload != NoObject {
		dst = append(dst, r.bare...)
		dst = append(n.appendBare(dst), '}')
	}
	return append(dst, '}', '\n'), nil
}

// appendBody writes what a line has after the facts about its object, and ends it. The line begins at start.
func (r *Renderer) appendBody(dst []byte, start int, l Line, o *Object) ([]byte, error) {
	if l.MaxBytes <= 0 || l.MaxBytes > line.MaxLine {
		l.MaxBytes = line.MaxLine
	}
	about := len(dst)
	event, changes, object := section{begin: beginEvent}, section{begin: beginChanges}, section{begin: beginObject}
	if r.events {
		dst = o.appendReport(dst)
		event.locate(about, about, len(dst))
	}
	if len(l.Changes) > 0 {
		from := len(dst)
		dst = append(append(dst, beginChanges...), l.Changes...)
		changes.locate(about, from, len(dst))
	}
	from := len(dst)
	switch l.Payload {
	case NoObject:
	case MetadataOnly:
		dst = o.appendMetadata(dst)
	case WholeObject, "":
		dst = append(dst, beginObject...)
		dst = o.AppendShaped(dst)
	default:
		return dst[:start], fmt.Errorf("render line: unknown payload %q", l.Payload)
	}
	object.locate(about, from, len(dst))
	dst = append(dst, "}\n"...)

	room := start + l.MaxBytes - longestSeq // where the line has to end
	if len(dst) <= room || len(dst) == about+len("}\n") {
		return dst, nil
	}
	return cutBody(dst, about, room, event, changes, object), nil
}

// AppendShaped writes the object as a line has it: compact, less what was cut and with what was redacted.
func (o *Object) AppendShaped(dst []byte) []byte { return o.appendPart(dst, span{0, len(o.Raw)}) }

// appendMetadata writes the object member of a line that has only metadata.
func (o *Object) appendMetadata(dst []byte) []byte {
	dst = append(dst, `,"object":{`...)
	at := o.spans[metadata]
	if !slices.ContainsFunc(o.edits, func(e edit) bool { return e.start < at.start && e.end > at.start }) {
		dst = append(dst, `"metadata":`...)
		dst = o.appendPart(dst, at)
	}
	return append(dst, '}')
}

// redacted is what a line has in place of a redacted value.
const redacted = `"REDACTED"`

// appendPart writes a part of the object as a line has it.
func (o *Object) appendPart(dst []byte, part span) []byte {
	from := part.start
	for i := range o.edits {
		e := &o.edits[i]
		if e.start < part.start || e.start >= part.end {
			continue
		}
		dst = append(dst, o.Raw[from:e.start]...)
		if e.redact {
			dst = append(dst, redacted...)
		}
		from = e.end
	}
	return append(dst, o.Raw[from:part.end]...)
}

// Unredacted yields the pieces of the object less what was cut, redacted values as the server sent them. It is for
// digests: what it yields must not be stored.
func (o *Object) Unredacted() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		from := 0
		for _, e := range o.edits {
			if e.redact {
				continue
			}
			if !yield(o.Raw[from:e.start]) {
				return
			}
			from = e.end
		}
		yield(o.Raw[from:])
	}
}

// Redacted yields the values that AppendShaped replaces, as the server sent them, each with the position at which its
// "REDACTED" begins in what is appended. It is for digests: the values must not be stored.
func (o *Object) Redacted() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		from, at := 0, 0
		for _, e := range o.edits {
			at += e.start - from
			if e.redact {
				if !yield(at, o.Raw[e.start:e.end]) {
					return
				}
				at += len(redacted)
			}
			from = e.end
		}
	}
}

// cutText is the length of the longest beginning of s, the inside of a JSON string, that has at most limit bytes and
// ends between characters.
func cutText(s []byte, limit int) int {
	for n := 0; n < len(s); {
		_, size := rawjson.DecodeRune(s[n:])
		if n+size > limit {
			return n
		}
		n += size
	}
	return len(s)
}
