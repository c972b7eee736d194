package object

import (
	"strconv"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Write says who wrote a version of an object, and when. What is not certain is left out.
type Write struct {
	Manager, Subresource []byte // insides of strings, as managedFields has them
	At                   int64  // Unix seconds by the server's clock; 0: not known
}

// Mark is what has to be known of a version of an object to find out who wrote the next one. The zero Mark is of a
// version that is not known.
type Mark uint64

// A Mark has the newest time of managedFields in Unix seconds above these bits.
const (
	marked   Mark = 1 << iota
	deleting      // the object has a deletionTimestamp
	markBits = iota
)

// justNow is how many seconds a write that is received at once may be old: its time is cut to seconds.
const justNow = 5

func (m Mark) newest() int64 { return int64(m >> markBits) }

// writer is an entry of managedFields.
type writer struct {
	have  captures
	spans [ownedFields - manager + 1]span
	time  int64 // Unix seconds; 0 where the entry has none
}

// noteWriter notes the entry of managedFields that was just scanned.
func (o *Object) noteWriter() {
	o.writers = append(o.writers, writer{
		have: o.have & entry, spans: [ownedFields - manager + 1]span(
			o.spans[manager : ownedFields+1],
		), time: unixSeconds(o.raw(written)),
	})
}

// raw returns a value of an entry as it is written, empty if there is none.
func (w *writer) raw(o *Object, c capture) []byte {
	if w.have&c.bit() == 0 {
		return nil
	}
	p := w.spans[c-manager]
	return o.Raw[p.start:p.end]
}

// collects reports whether the server has made the entry out of those of others, whose names it does not keep.
func (w *writer) collects(o *Object) bool {
	name := string(w.raw(o, manager))
	return name == "ancient-changes" || name == "before-first-apply"
}

// Mark returns the Mark of this version, which comes after the one with the given Mark: an entry that is gone may come
// back from an older copy of the object, and is then no later than it was.
func (o *Object) Mark(before Mark) Mark {
	if o.Raw == nil || o.Unusable != nil {
		return 0
	}
	m := marked
	if o.have&deletion.bit() != 0 {
		m |= deleting
	}
	newest := before.newest()
	for i := range o.writers {
		newest = max(newest, o.writers[i].time)
	}
	return m | Mark(newest)<<markBits
}

// Created returns the Write of a version that is an object's first, as far as it is known. Of a server that shows an
// older object as new, to one who may see it from now on, say, it is nobody's.
func (o *Object) Created() Write {
	at := unixSeconds(o.raw(created))
	for i := range o.writers {
		if at != 0 && o.writers[i].time > at {
			return Write{}
		}
	}
	var w Write
	if len(o.writers) == 1 {
		w = o.by(0)
	}
	w.At = at
	return w
}

// Written returns the Write of a version by the Mark of the one just before it. Where that does not decide, owned is
// true, and the entry of managedFields that owns all that has changed does: see WrittenBy.
//
// The server gives a writer's entry the present time, and changes no other time. So if the time of exactly one entry is
// later than all times of the version before, that is the writer's. It does not decide where the version before has the
// same time, by the second, or none, since a client that brings back entries which another has cleared brings their
// times with them; nor where the write leaves no time: one through the subresource scale, or one that only removes.
func (o *Object) Written(before Mark) (w Write, owned bool) {
	switch {
	case before == 0 || o.Unusable != nil:
		return Write{}, false
	case before&deleting == 0 && o.have&deletion.bit() != 0:
		return Write{At: o.deletionAsked()}, false // which leaves managedFields as they are
	}
	last := -1
	for i := range o.writers {
		if w := &o.writers[i]; w.time > before.newest() && before.newest() > 0 && !w.collects(o) {
			if last >= 0 {
				return Write{}, false
			}
			last = i
		}
	}
	if last < 0 {
		return Write{}, true
	}
	return o.by(last), false
}

// WrittenBy returns the Write of a version that was received then, and follows one with the given Mark, by the index of
// the entry that owns what has changed; -1 is not known. An admission webhook can change in one's write what another
// owns. So an owner counts only where it wrote just now.
func (o *Object) WrittenBy(i int, before Mark, received time.Time) Write {
	if i < 0 || o.writers[i].collects(o) {
		return Write{}
	}
	w := o.by(i)
	switch {
	case w.At == 0 || w.At > before.newest():
	case w.At < before.newest(), received.Unix()-w.At > justNow:
		return Write{} // this write would have set a later time
	}
	return w
}

// by returns the Write of the writer whose entry is the given one.
func (o *Object) by(i int) Write {
	w := &o.writers[i]
	by := Write{Manager: w.raw(o, manager), Subresource: w.raw(o, subresource), At: w.time}
	if len(by.Manager) > maxName || len(by.Subresource) > maxName {
		by.Manager, by.Subresource = nil, nil
	}
	return by
}

// deletionAsked is when the deletion of an object that is being deleted was asked for.
func (o *Object) deletionAsked() int64 {
	at := unixSeconds(o.raw(deletion))
	if grace := o.raw(deletionGrace); at != 0 && len(grace) > 0 {
		seconds, err := strconv.ParseInt(string(grace), 10, 32)
		if err != nil {
			return 0
		}
		at -= seconds
	}
	return max(at, 0)
}

// FieldSets appends for each entry of managedFields what it owns, fieldsV1; nil where that is said of another version
// of the API than the stream's, whose fields may be others.
func (r *Renderer) FieldSets(dst [][]byte, o *Object) [][]byte {
	for i := range o.writers {
		w, fields := &o.writers[i], []byte(nil)
		if string(w.raw(o, apiVersion)) == r.apiVersion {
			fields = w.raw(o, ownedFields)
		}
		dst = append(dst, fields)
	}
	return dst
}

// lastSeen is when a Kubernetes Event was last observed, as its reporter says; 0 for any other object.
func (r *Renderer) lastSeen(o *Object, received time.Time) int64 {
	if !r.events {
		return 0
	}
	last := o.either(seriesLast, lastTime)
	if len(last) == 0 {
		last = o.either(firstTime, eventTime)
	}
	if at := unixSeconds(last); at <= received.Unix() {
		return at
	}
	return 0
}

// appendWrite writes manager, subresource and writtenAt.
func (r *Renderer) appendWrite(dst []byte, w Write) []byte {
	dst = appendText(dst, `,"manager":"`, w.Manager)
	dst = appendText(dst, `,"subresource":"`, w.Subresource)
	if w.At <= 0 || w.At > lastSecond {
		return dst
	}
	if w.At != r.writtenSecond || len(r.writtenClock) == 0 {
		r.writtenClock = time.Unix(w.At, 0).UTC().AppendFormat(r.writtenClock[:0], time.RFC3339)
		r.writtenSecond = w.At
	}
	return appendText(dst, `,"writtenAt":"`, r.writtenClock)
}

// lastSecond is the last that RFC 3339 can name.
var lastSecond = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// unixSeconds reads a time of the API, the inside of a string. It is 0 for what is none, and for a time before 1970.
func unixSeconds(b []byte) int64 {
	if t, ok := plainSeconds(b); ok || len(b) == 0 {
		return t
	}
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		if t, err = time.Parse(time.RFC3339, string(rawjson.Unquote(nil, b))); err != nil {
			return 0
		}
	}
	return max(t.Unix(), 0)
}

// plainSeconds is time.Parse for what the server writes nearly always, at a tenth of its cost: UTC, without a fraction,
// and not on the 31st or the 29th of February.
func plainSeconds(b []byte) (int64, bool) {
	const plain = "2006-01-02T15:04:05Z"
	if len(b) != len(plain) || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' ||
		b[19] != 'Z' {
		return 0, false
	}
	other := byte(0) // above 9 where there is something else than a digit
	two := func(i int) int {
		tens, ones := b[i]-'0', b[i+1]-'0'
		other = max(other, tens, ones)
		return int(tens)*10 + int(ones)
	}
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	if other > 9 || year < 1970 || month < 1 || month > 12 || day < 1 || day > 30 || month == 2 && day > 28 ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	if month -= 3; month < 0 { // the year begins in March: its leap day is the last
		year, month = year-1, month+12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*month+2)/5 + day - 1 - daysTo1970
	return int64((days*24+hour)*60+minute)*60 + int64(second), true
}

// daysTo1970 is how many days lie between 1 March of the year 0 and 1 January 1970.
const daysTo1970 = 719468
