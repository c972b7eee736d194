package event

import (
	"fmt"
	"io"
	"time"

	"kubejournal/internal/rawjson"
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
	Type     Type
	Origin   Origin
	Received time.Time
	Payload  Payload
	// Changes is what a Differ has listed, or empty.
	Changes []byte
	// MaxBytes bounds the line, its seq and its newline included; 0 or less is
	// MaxLine. A longer line gets truncated, true, and loses its changes and
	// all of the object but the metadata; if that is not enough the metadata,
	// then the end of a Kubernetes Event's message, then the event. What is
	// left tells where the object is to be found, and is never cut.
	MaxBytes int
}

// longestSeq is what a seq, which is not known when the rest of a line is
// written, takes at most.
const longestSeq = len(`{"seq":18446744073709551615`)

// AppendLine writes a line, all that follows its seq, about an object that this
// Renderer has scanned. With an error, dst is returned as it was.
func (r *Renderer) AppendLine(dst []byte, l Line, o *Object) ([]byte, error) {
	if err := l.Payload.valid(); err != nil {
		return dst, err
	}
	start := len(dst)
	dst, err := r.appendAbout(dst, l.Type, l.Origin, l.Received, o)
	if err != nil {
		return dst, err
	}
	if o.Unusable != nil {
		return o.appendUnusable(dst), nil
	}
	return r.appendBody(dst, start, l, o), nil
}

// AppendGone writes the line, all that follows its seq, of an object that a relist
// found gone. o is the last version that is known of the object, nil where none is;
// of l only payload and bound count. With an error, dst is returned as it was.
func (r *Renderer) AppendGone(dst []byte, received time.Time, k Known, l Line, o *Object) ([]byte, error) {
	if err := l.Payload.valid(); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = r.appendGone(dst, received, k)
	if o != nil {
		l.Changes = nil
		return r.appendBody(dst, start, l, o), nil
	}
	if l.Payload != NoObject {
		dst = r.appendBare(dst, k)
	}
	return append(dst, '}', '\n'), nil
}

func (p Payload) valid() error {
	switch p {
	case "", WholeObject, MetadataOnly, NoObject:
		return nil
	}
	return fmt.Errorf("render event: unknown payload %q", p)
}

// appendBody writes what a line has behind the facts about its object, and ends
// it. The line begins at start.
func (r *Renderer) appendBody(dst []byte, start int, l Line, o *Object) []byte {
	if l.MaxBytes <= 0 || l.MaxBytes > MaxLine {
		l.MaxBytes = MaxLine
	}
	about := len(dst)
	if r.events {
		dst = o.appendReport(dst)
	}
	report := len(dst)
	if len(l.Changes) > 0 {
		dst = append(dst, `,"changes":`...)
		dst = append(dst, l.Changes...)
	}
	switch l.Payload {
	case NoObject:
	case MetadataOnly:
		dst = o.appendMetadata(dst)
	default:
		dst = append(dst, `,"object":`...)
		dst = o.AppendShaped(dst)
	}
	dst = append(dst, '}', '\n')

	room := start + l.MaxBytes - longestSeq                                  // where the line has to end
	short := l.Payload == NoObject && len(l.Changes) == 0 && report == about // nothing in it can be cut
	if len(dst) <= room || short {
		return dst
	}
	if l.Payload != NoObject {
		dst = append(dst[:report], `,"truncated":true`...)
		dst = o.appendMetadata(dst)
		if dst = append(dst, '}', '\n'); len(dst) <= room {
			return dst
		}
	}
	const end = `,"truncated":true}` + "\n"
	dst = append(dst[:report], end...)
	if len(dst) <= room || !r.events {
		return dst
	}
	whole := o.spans[message]
	text := o.raw(message)
	o.spans[message].end = whole.start + cutText(text, len(text)-(len(dst)-room))
	dst = o.appendReport(dst[:about])
	o.spans[message] = whole
	if len(dst)+len(end) > room {
		dst = dst[:about]
	}
	return append(dst, end...)
}

// appendMetadata writes the object member of a line that has only metadata.
func (o *Object) appendMetadata(dst []byte) []byte {
	dst = append(dst, `,"object":{`...)
	at := o.spans[metadata]
	from := at.start
	mark := len(dst)
	dst = append(dst, `"metadata":`...)
	for i := range o.edits {
		e := &o.edits[i]
		switch {
		case e.end <= at.start:
		case e.start >= at.end:
		case e.start < at.start:
			return append(dst[:mark], '}') // it is cut as a whole
		default:
			dst = append(dst, o.Raw[from:e.start]...)
			if e.redact {
				dst = append(dst, redacted...)
			}
			from = e.end
		}
	}
	dst = append(dst, o.Raw[from:at.end]...)
	return append(dst, '}')
}

// cutText is the length of the longest beginning of s, the inside of a JSON
// string, that has at most limit bytes and ends between characters.
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

// WriteUnredacted writes the object less what was cut, redacted values as the server
// sent them. It is for digests: what it writes must not be kept.
func (o *Object) WriteUnredacted(w io.Writer) error {
	from := 0
	for i := range o.edits {
		if e := &o.edits[i]; !e.redact {
			if _, err := w.Write(o.Raw[from:e.start]); err != nil {
				return err
			}
			from = e.end
		}
	}
	_, err := w.Write(o.Raw[from:])
	return err
}
