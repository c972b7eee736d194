package event

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"kubejournal/internal/rawjson"
)

const redacted = `"REDACTED"`

var errNotScanned = errors.New("render event: the object has not been scanned")

// AppendSeq begins a line. One of Renderer's Append methods ends it.
func AppendSeq(dst []byte, seq uint64) []byte {
	dst = append(dst, `{"seq":`...)
	return strconv.AppendUint(dst, seq, 10)
}

// appendUnusable ends a line that has no object.
func (o *Object) appendUnusable(dst []byte) []byte {
	dst = append(dst, `,"truncated":true`...)
	dst = appendMember(dst, "truncatedReason", o.Unusable.Reason)
	return append(dst, '}', '\n')
}

// appendAbout writes what a line says about an object before all that is long.
func (r *Renderer) appendAbout(dst []byte, t Type, from Origin, received time.Time, o *Object) ([]byte, error) {
	switch t {
	case Added, Modified, Deleted:
	default:
		return dst, fmt.Errorf("render event: %q is not about an object", t)
	}
	if o.Raw == nil {
		return dst, errNotScanned
	}
	dst = r.appendHead(dst, received, t, from)
	dst = append(dst, o.raw(uid)...)
	dst = append(dst, '/')
	dst = append(dst, o.raw(resourceVersion)...)
	dst = append(dst, '/')
	dst = append(dst, t...)
	dst = append(dst, '"')
	dst = append(dst, r.source...)
	dst = appendText(dst, `,"namespace":"`, o.raw(namespace))
	dst = appendText(dst, `,"name":"`, o.raw(name))
	dst = appendText(dst, `,"uid":"`, o.raw(uid))
	dst = appendText(dst, `,"resourceVersion":"`, o.raw(resourceVersion))
	if o.Generation != 0 {
		dst = append(dst, `,"generation":`...)
		dst = strconv.AppendInt(dst, o.Generation, 10)
	}
	dst = appendText(dst, `,"manager":"`, o.raw(manager))
	return appendText(dst, `,"subresource":"`, o.raw(subresource)), nil
}

// appendGone writes a line about an object that is gone, up to the object.
func (r *Renderer) appendGone(dst []byte, received time.Time, k Known) []byte {
	dst = r.appendHead(dst, received, Deleted, FromRelist)
	dst = rawjson.AppendEscaped(dst, k.UID)
	dst = append(dst, '/')
	dst = rawjson.AppendEscaped(dst, k.ResourceVersion)
	dst = append(dst, '/')
	dst = append(dst, Deleted...)
	dst = append(dst, '"')
	dst = append(dst, r.source...)
	dst = appendMember(dst, "namespace", k.Namespace)
	dst = appendMember(dst, "name", k.Name)
	dst = appendMember(dst, "uid", k.UID)
	dst = appendMember(dst, "resourceVersion", k.ResourceVersion)
	return append(dst, `,"finalStateKnown":false`...)
}

// appendBare writes the object member of an object that is gone.
func (r *Renderer) appendBare(dst []byte, k Known) []byte {
	dst = append(dst, r.bare...)
	start := len(dst)
	dst = appendMember(dst, "name", k.Name)
	dst = appendMember(dst, "namespace", k.Namespace)
	dst = appendMember(dst, "uid", k.UID)
	dst = appendMember(dst, "resourceVersion", k.ResourceVersion)
	if len(dst) == start {
		dst = append(dst, '{')
	}
	dst[start] = '{'
	return append(dst, '}', '}')
}

// AppendGap writes a GAP line: from fromRV on, up to the SYNCED that follows, only
// the net result is known; rv is the server's version now.
func (r *Renderer) AppendGap(dst []byte, received time.Time, reason GapReason, fromRV, rv string) []byte {
	dst = r.appendStreamHead(dst, received, Gap, rv)
	dst = appendMember(dst, "reason", string(reason))
	dst = appendMember(dst, "fromResourceVersion", fromRV)
	dst = appendMember(dst, "resourceVersion", rv)
	return append(dst, '}', '\n')
}

// AppendSynced writes that a snapshot or a relist is complete.
func (r *Renderer) AppendSynced(dst []byte, received time.Time, rv string, c Count) []byte {
	dst = r.appendStreamHead(dst, received, Synced, rv)
	dst = appendMember(dst, "resourceVersion", rv)
	dst = append(dst, `,"count":{"added":`...)
	dst = strconv.AppendInt(dst, c.Added, 10)
	dst = append(dst, `,"modified":`...)
	dst = strconv.AppendInt(dst, c.Modified, 10)
	dst = append(dst, `,"deleted":`...)
	dst = strconv.AppendInt(dst, c.Deleted, 10)
	dst = append(dst, `,"unchanged":`...)
	dst = strconv.AppendInt(dst, c.Unchanged, 10)
	return append(dst, '}', '}', '\n')
}

// appendHead writes time, type and origin, and begins the id.
func (r *Renderer) appendHead(dst []byte, received time.Time, t Type, from Origin) []byte {
	dst = append(dst, `,"time":"`...)
	dst = r.appendTime(dst, received)
	dst = append(dst, `","type":"`...)
	dst = append(dst, t...)
	if from != "" {
		dst = append(dst, `","origin":"`...)
		dst = append(dst, from...)
	}
	return append(dst, `","id":"`...)
}

// appendStreamHead begins a line about the stream itself.
func (r *Renderer) appendStreamHead(dst []byte, received time.Time, t Type, rv string) []byte {
	dst = r.appendHead(dst, received, t, "")
	dst = append(dst, r.stream...)
	dst = append(dst, '/')
	dst = rawjson.AppendEscaped(dst, rv)
	dst = append(dst, '/')
	dst = append(dst, t...)
	dst = append(dst, '"')
	dst = append(dst, r.source...)
	return append(dst, r.cluster...)
}

// appendTime writes RFC 3339 in UTC with nine digits of a second. Lines come
// many in a second, so all but those digits is kept.
func (r *Renderer) appendTime(dst []byte, t time.Time) []byte {
	if s := t.Unix(); s != r.second || len(r.clock) == 0 {
		r.clock = t.UTC().AppendFormat(r.clock[:0], "2006-01-02T15:04:05")
		r.second = s
	}
	dst = append(dst, r.clock...)
	digits := [...]byte{'.', '0', '0', '0', '0', '0', '0', '0', '0', '0', 'Z'}
	for n, i := t.Nanosecond(), 9; n > 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, digits[:]...)
}

// appendMember writes `,"key":"value"`, or nothing for an empty value.
func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':', '"')
	dst = rawjson.AppendEscaped(dst, value)
	return append(dst, '"')
}

// appendText writes a member, given up to its value's opening quote, whose
// value is already the inside of a JSON string. An empty one is left out.
func appendText(dst []byte, begin string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, begin...)
	dst = append(dst, value...)
	return append(dst, '"')
}

// AppendShaped writes the object as a line has it: compact, less what was cut and
// with what was redacted.
func (o *Object) AppendShaped(dst []byte) []byte {
	from := 0
	for i := range o.edits {
		e := &o.edits[i]
		dst = append(dst, o.Raw[from:e.start]...)
		if e.redact {
			dst = append(dst, redacted...)
		}
		from = e.end
	}
	return append(dst, o.Raw[from:]...)
}

// appendReport writes the event member of a Kubernetes Event. The old and the
// new API keep the same facts in different places; whichever is filled counts,
// and of several the one that kubectl get events shows: a series before the
// count and the last time beside it, 1 where an event of the new API has none.
func (o *Object) appendReport(dst []byte) []byte {
	dst = append(dst, `,"event":`...)
	start := len(dst)
	dst = appendText(dst, `,"reason":"`, o.raw(reason))
	dst = appendText(dst, `,"message":"`, o.raw(message))
	dst = appendText(dst, `,"type":"`, o.raw(eventType))
	n := o.number(seriesCount)
	if len(n) == 0 {
		n = o.number(count)
	}
	first, last := o.either(firstTime, eventTime), o.either(seriesLast, lastTime)
	if len(last) == 0 {
		last = first
	}
	if len(n) == 0 && len(last) > 0 {
		n = []byte("1")
	}
	if len(n) > 0 {
		dst = append(dst, `,"count":`...)
		dst = append(dst, n...)
	}
	dst = appendText(dst, `,"firstTime":"`, first)
	dst = appendText(dst, `,"lastTime":"`, last)
	dst = appendText(dst, `,"reporter":"`, o.either(reporter, sourceComponent))
	dst = append(dst, `,"regarding":`...)
	about := len(dst)
	dst = appendText(dst, `,"kind":"`, o.raw(regardingKind))
	dst = appendText(dst, `,"namespace":"`, o.raw(regardingNamespace))
	dst = appendText(dst, `,"name":"`, o.raw(regardingName))
	dst = appendText(dst, `,"uid":"`, o.raw(regardingUID))
	dst = closeObject(dst, `,"regarding":`, about)
	return closeObject(dst, `,"event":`, start)
}

// closeObject ends an object whose members, each with a comma before it, begin
// at start behind key. An empty one goes with its key.
func closeObject(dst []byte, key string, start int) []byte {
	if len(dst) == start {
		return dst[:start-len(key)]
	}
	dst[start] = '{'
	return append(dst, '}')
}

// either returns the first value that is there and not empty.
func (o *Object) either(a, b capture) []byte {
	if v := o.raw(a); len(v) > 0 {
		return v
	}
	return o.raw(b)
}

// number returns a captured number, empty if it is 0.
func (o *Object) number(c capture) []byte {
	n := o.raw(c)
	if string(n) == "0" {
		return nil
	}
	return n
}
