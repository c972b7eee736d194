package object

import (
	"fmt"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// names are what names an object and its version, as the insides of JSON strings.
type names struct{ namespace, name, uid, version []byte }

func (o *Object) names() names {
	return names{o.raw(namespace), o.raw(name), o.raw(uid), o.raw(resourceVersion)}
}

func (k Known) names() names {
	return names{inside(k.Namespace), inside(k.Name), inside(k.UID), inside(k.ResourceVersion)}
}

func inside(s string) []byte { return rawjson.AppendEscaped(nil, s) }

// appendBare writes an object of nothing but names.
func (n names) appendBare(dst []byte) []byte {
	start := len(dst)
	dst = appendText(dst, `,"name":"`, n.name)
	dst = appendText(dst, `,"namespace":"`, n.namespace)
	dst = appendText(dst, `,"uid":"`, n.uid)
	dst = appendText(dst, `,"resourceVersion":"`, n.version)
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

// AppendGap writes a GAP line: from fromRV on, up to the SYNCED that follows, only the net result is known. fromTime is
// when that version was last confirmed, zero where that is not known; rv is the server's version now.
func (r *Renderer) AppendGap(
	dst []byte, received time.Time, reason line.Reason, fromRV string, fromTime time.Time, rv string,
) []byte {
	dst = r.appendHead(dst, received, line.Gap, "", r.streamID(inside(rv)))
	dst = append(dst, r.cluster...)
	dst = appendText(dst, `,"reason":"`, inside(string(reason)))
	dst = appendText(dst, `,"fromResourceVersion":"`, inside(fromRV))
	if !fromTime.IsZero() {
		dst = append(r.appendTime(append(dst, `,"fromTime":"`...), fromTime), '"')
	}
	dst = appendText(dst, `,"resourceVersion":"`, inside(rv))
	return append(dst, '}', '\n')
}

// AppendSynced writes that a snapshot or a relist is complete.
func (r *Renderer) AppendSynced(dst []byte, received time.Time, rv string, c line.Count) []byte {
	dst = r.appendHead(dst, received, line.Synced, "", r.streamID(inside(rv)))
	dst = append(dst, r.cluster...)
	dst = appendText(dst, `,"resourceVersion":"`, inside(rv))
	return fmt.Appendf(
		dst, `,"count":{"added":%d,"modified":%d,"deleted":%d,"unchanged":%d}}`+"\n", c.Added, c.Modified, c.Deleted,
		c.Unchanged,
	)
}

// appendNamed writes what a line about an object begins with.
func (r *Renderer) appendNamed(dst []byte, received time.Time, t line.Type, from line.Origin, n names) []byte {
	dst = r.appendHead(dst, received, t, from, r.objectID(&n))
	dst = appendText(dst, `,"namespace":"`, n.namespace)
	dst = appendText(dst, `,"name":"`, n.name)
	dst = appendText(dst, `,"uid":"`, n.uid)
	return appendText(dst, `,"resourceVersion":"`, n.version)
}

// appendHead writes time, type, origin, the id, and what all lines of the stream share.
func (r *Renderer) appendHead(dst []byte, received time.Time, t line.Type, from line.Origin, of *id) []byte {
	dst = append(dst, `,"time":"`...)
	dst = r.appendTime(dst, received)
	dst = append(dst, `","type":"`...)
	dst = append(dst, t...)
	if from != "" {
		dst = append(dst, `","origin":"`...)
		dst = append(dst, from...)
	}
	dst = append(dst, `","id":"`...)
	dst = appendID(dst, of, t)
	dst = append(dst, '"')
	return append(dst, r.source...)
}

// appendTime writes RFC 3339 in UTC with nine digits of a second. Lines come many in a second, so all but those
// digits is kept.
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

// appendText writes a member, given up to its value's opening quote, whose value is already the inside of a JSON
// string. An empty one is left out.
func appendText(dst []byte, begin string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, begin...)
	dst = append(dst, value...)
	return append(dst, '"')
}

// appendReport writes the event member of a Kubernetes Event. The old and the new API keep the same facts in
// different places; whichever is filled counts, and of several the one that kubectl get events shows: a series before
// the count and the last time beside it, 1 where an event of the new API has none.
func (o *Object) appendReport(dst []byte) []byte {
	dst = append(dst, `,"event":`...)
	start := len(dst)
	dst = appendText(dst, `,"reason":"`, o.raw(reason))
	dst = appendText(dst, `,"message":"`, o.raw(message))
	dst = appendText(dst, `,"type":"`, o.raw(eventType))
	n := o.raw(seriesCount)
	if len(n) == 0 || string(n) == "0" {
		n = o.raw(count)
	}
	if string(n) == "0" {
		n = nil
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

// closeObject ends an object whose members, each with a comma before it, begin at start after key. An empty one goes
// with its key.
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
