package tail

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kubejournal/internal/rawjson"
)

const (
	maxValue   = 48 // columns of a value in the short form of a change
	maxComplex = 32 // bytes of an object or array there, more is {…}
	maxChanges = 4  // changes of a line that are shown
)

// appendResource appends the resource as kubectl names it.
func appendResource(dst []byte, l *Line) []byte {
	if len(l.Resource) == 0 {
		stream, _, _ := bytes.Cut(l.Stream, []byte("?"))
		return appendText(dst, stream)
	}
	dst = appendText(dst, l.Resource)
	if len(l.Group) > 0 {
		dst = appendText(append(dst, '.'), l.Group)
	}
	return dst
}

// appendObject appends the object's namespace and name; of a line about a stream, what narrows the stream.
func appendObject(dst []byte, l *Line) []byte {
	if l.aboutStream() {
		return appendScope(dst, l.scope())
	}
	if len(l.Namespace) > 0 {
		dst = append(appendText(dst, l.Namespace), '/')
	}
	if len(l.Name) == 0 {
		return append(dst, '-')
	}
	return appendText(dst, l.Name)
}

// appendScope appends namespace=web&labelSelector=app%3Dweb as people write it.
func appendScope(dst, scope []byte) []byte {
	if len(scope) == 0 {
		return append(dst, '-')
	}
	plain, err := url.QueryUnescape(strings.ReplaceAll(string(scope), "&", " "))
	if err != nil {
		return appendRaw(dst, scope)
	}
	return appendRaw(dst, []byte(plain))
}

// appendWho appends who wrote last; of a Kubernetes Event, who reported it.
func appendWho(dst []byte, l *Line) []byte {
	start := len(dst)
	for key, v := range rawjson.Members(l.Event) {
		if string(key) == "reporter" {
			dst = appendText(dst[:start], rawjson.Inside(v))
		}
	}
	if len(dst) > start {
		return dst
	}
	if len(l.Manager) == 0 {
		return append(dst, '-')
	}
	dst = appendText(dst, l.Manager)
	if len(l.Subresource) > 0 {
		dst = appendText(append(dst, '/'), l.Subresource)
	}
	return dst
}

// appendWhat appends the short form of what happened. It may stop beyond limit columns; 0 is no limit.
func appendWhat(dst []byte, l *Line, limit int) []byte {
	start := len(dst)
	part := func() {
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
	}
	switch string(l.Type) {
	case "GAP":
		return appendGap(dst, l)
	case "SYNCED":
		return appendCount(dst, l.Count)
	}
	if origin := string(l.Origin); origin == "snapshot" || origin == "relist" {
		dst = append(dst, origin...)
	}
	if string(l.FinalStateKnown) == "false" {
		part()
		dst = append(dst, "final state not known"...)
	}
	if len(l.Event) > 0 {
		part()
		dst = appendEvent(dst, l)
	}
	before := len(dst)
	if len(l.Changes) > 0 {
		part()
		between, left := len(dst), limit
		if limit > 0 {
			left = max(limit-columns(dst[start:]), 1)
		}
		if dst = appendChanges(dst, l.Changes, left); len(dst) == between {
			dst = dst[:before]
		}
	}
	if len(dst) == before && len(l.Generation) > 0 && len(l.Event) == 0 {
		part()
		dst = appendRaw(append(dst, "generation "...), l.Generation)
	}
	if string(l.Truncated) == "true" {
		part()
		dst = append(dst, "truncated"...)
		if len(l.TruncatedReason) > 0 {
			dst = appendText(append(dst, ' '), l.TruncatedReason)
		}
	}
	return dst
}

// appendGap appends why there is a gap and what it spans.
func appendGap(dst []byte, l *Line) []byte {
	dst = appendText(dst, l.Reason)
	if len(l.FromResourceVersion) == 0 && len(l.ResourceVersion) == 0 {
		return dst
	}
	dst = append(dst, ", resourceVersion "...)
	if len(l.FromResourceVersion) > 0 {
		dst = appendText(dst, l.FromResourceVersion)
	} else {
		dst = append(dst, '?')
	}
	return appendText(append(dst, "→"...), l.ResourceVersion)
}

// appendCount appends the counts that are not 0.
func appendCount(dst, count []byte) []byte {
	start := len(dst)
	for key, v := range rawjson.Members(count) {
		if string(v) == "0" {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = appendRaw(append(appendText(dst, key), ' '), v)
	}
	if len(dst) == start {
		return append(dst, "nothing there"...)
	}
	return dst
}

// appendEvent appends what a Kubernetes Event says, and about what.
func appendEvent(dst []byte, l *Line) []byte {
	var reason, message, kind, count, about []byte
	for key, v := range rawjson.Members(l.Event) {
		switch string(key) {
		case "reason":
			reason = rawjson.Inside(v)
		case "message":
			message = rawjson.Inside(v)
		case "type":
			kind = rawjson.Inside(v)
		case "count":
			count = v
		case "regarding":
			about = v
		}
	}
	if len(kind) > 0 && string(kind) != "Normal" {
		dst = append(appendText(dst, kind), ' ')
	}
	dst = appendText(dst, reason)
	dst = appendRegarding(dst, about, l.Namespace)
	if len(message) > 0 {
		dst = appendText(append(dst, ": "...), bytes.TrimSpace(message))
	}
	if len(count) > 0 && string(count) != "1" {
		dst = append(appendRaw(append(dst, " (x"...), count), ')')
	}
	return dst
}

// appendRegarding appends the object that an Event is about, with its namespace where that is not the Event's own.
func appendRegarding(dst, about, own []byte) []byte {
	var kind, namespace, name []byte
	for key, v := range rawjson.Members(about) {
		switch string(key) {
		case "kind":
			kind = rawjson.Inside(v)
		case "namespace":
			namespace = rawjson.Inside(v)
		case "name":
			name = rawjson.Inside(v)
		}
	}
	if len(kind)+len(name) == 0 {
		return dst
	}
	dst = appendText(append(dst, ' '), kind)
	if len(namespace) > 0 && !bytes.Equal(namespace, own) {
		dst = appendText(append(dst, '/'), namespace)
	}
	return appendText(append(dst, '/'), name)
}

// bookkeeping reports whether a field changes with every write and means nothing to a reader.
func bookkeeping(pointer []byte) bool {
	rest, ok := bytes.CutPrefix(pointer, []byte("/metadata/"))
	return ok && (string(rest) == "resourceVersion" || string(rest) == "generation" || bytes.HasPrefix(rest, []byte("managedFields")))
}

// change is an operation of a line's changes, as far as it is shown.
type change struct {
	op, path, old, now []byte
}

// eachChange calls fn with the changes other than bookkeeping, until it returns false.
func eachChange(changes []byte, fn func(c change) bool) {
	for operation := range rawjson.Elements(changes) {
		var c change
		for key, v := range rawjson.Members(operation) {
			switch string(key) {
			case "op":
				c.op = rawjson.Inside(v)
			case "path":
				c.path = rawjson.Inside(v)
			case "old":
				c.old = v
			case "value":
				c.now = v
			}
		}
		if !bookkeeping(c.path) && !fn(c) {
			return
		}
	}
}

// appendChanges appends spec.replicas 2→3, +metadata.labels.tier db, -spec.paused, +3 more: the first few, as many of
// them as fit into limit columns; 0 is no limit. The bookkeeping is left out. There is always one, which may be cut.
func appendChanges(dst, changes []byte, limit int) []byte {
	all := 0
	eachChange(changes, func(change) bool { all++; return true })
	start, shown := len(dst), 0
	eachChange(changes, func(c change) bool {
		before := len(dst)
		if shown > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendChange(dst, c)
		rest := all - shown - 1
		if room := limit - len(appendMore(nil, rest)); limit > 0 && columns(dst[start:]) > room {
			if shown > 0 {
				dst = dst[:before]
				return false
			}
			dst = cutFrom(dst, start, max(room, 1))
		}
		shown++
		return shown < maxChanges
	})
	return appendMore(dst, all-shown)
}

// appendMore appends how many changes are not shown.
func appendMore(dst []byte, n int) []byte {
	if n == 0 {
		return dst
	}
	return append(strconv.AppendInt(append(dst, ", +"...), int64(n), 10), " more"...)
}

func appendChange(dst []byte, c change) []byte {
	switch string(c.op) {
	case "add":
		return appendValue(append(appendPath(append(dst, '+'), c.path), ' '), c.now)
	case "remove":
		return appendPath(append(dst, '-'), c.path)
	default:
		dst = appendValue(append(appendPath(dst, c.path), ' '), c.old)
		return appendValue(append(dst, "→"...), c.now)
	}
}

// appendPath appends a JSON Pointer (RFC 6901) as the config writes paths: spec.containers[0].image, ["a.b/c"]. pointer
// is the inside of a JSON string.
func appendPath(dst, pointer []byte) []byte {
	if len(pointer) == 0 {
		return append(dst, "object"...)
	}
	steps, more := bytes.TrimPrefix(pointer, []byte("/")), true
	for first := true; more; first = false {
		var step []byte
		step, steps, more = bytes.Cut(steps, []byte("/"))
		if bytes.IndexByte(step, '~') >= 0 {
			step = bytes.ReplaceAll(bytes.ReplaceAll(step, []byte("~1"), []byte("/")), []byte("~0"), []byte("~"))
		}
		switch {
		case isIndex(step):
			dst = append(append(append(dst, '['), step...), ']')
		case len(step) == 0 || bytes.ContainsAny(step, `./[]" `):
			dst = append(appendText(append(dst, `["`...), step), `"]`...)
		default:
			if !first {
				dst = append(dst, '.')
			}
			dst = appendText(dst, step)
		}
	}
	return dst
}

func isIndex(step []byte) bool {
	return len(step) > 0 && (string(step) == "-" || len(bytes.Trim(step, "0123456789")) == 0)
}

// appendValue appends a value in short: a string without its quotes where it is one word, no more than the beginning
// of a long one, and of an object or array that it is one.
func appendValue(dst, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	switch v[0] {
	case '"':
		inside := rawjson.Inside(v)
		if long := maxValue * 12; len(inside) > long {
			inside = inside[:long] // a column is at most one escape pair of 12 bytes
		}
		start := len(dst)
		dst = appendText(append(dst, '"'), inside)
		if word := dst[start+1:]; len(word) == 0 || bytes.IndexByte(word, ' ') >= 0 || bytes.IndexByte(word, ',') >= 0 || bytes.Contains(word, []byte("→")) {
			return append(cutFrom(dst, start+1, maxValue), '"')
		}
		return cutFrom(slices.Delete(dst, start, start+1), start, maxValue)
	case '{', '[':
		if len(v) > maxComplex {
			return append(append(append(dst, v[0]), ellipsis...), v[0]+2) // } and ] stand two behind { and [
		}
	}
	start := len(dst)
	return cutFrom(appendRaw(dst, v), start, maxValue)
}
