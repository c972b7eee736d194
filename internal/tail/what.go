package tail

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	maxValue   = 48 // columns of a value in the short form of a change
	maxComplex = 32 // bytes of an object or array there, more is {…}
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
	plain := make([]byte, 0, len(scope))
	for i := 0; i < len(scope); i++ {
		switch c := scope[i]; {
		case c == '&' || c == '+':
			plain = append(plain, ' ')
		case c == '%' && i+2 < len(scope):
			n, err := strconv.ParseUint(string(scope[i+1:i+3]), 16, 8)
			if err != nil {
				plain = append(plain, c)
				continue
			}
			plain = append(plain, byte(n))
			i += 2
		default:
			plain = append(plain, c)
		}
	}
	return appendRaw(dst, plain)
}

// appendWho appends who wrote last; of a Kubernetes Event, who reported it.
func appendWho(dst []byte, l *Line) []byte {
	start := len(dst)
	members(l.Event, func(key, v []byte) {
		if string(key) == "reporter" {
			dst = appendText(dst[:start], text(v))
		}
	})
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
		between := len(dst)
		if dst = appendChanges(dst, l.Changes, limit); len(dst) == between {
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
	members(count, func(key, v []byte) {
		if string(v) == "0" {
			return
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = appendRaw(append(appendText(dst, key), ' '), v)
	})
	if len(dst) == start {
		return append(dst, "nothing there"...)
	}
	return dst
}

// appendEvent appends what a Kubernetes Event says, and about what.
func appendEvent(dst []byte, l *Line) []byte {
	var reason, message, kind, count, about []byte
	members(l.Event, func(key, v []byte) {
		switch string(key) {
		case "reason":
			reason = text(v)
		case "message":
			message = text(v)
		case "type":
			kind = text(v)
		case "count":
			count = v
		case "regarding":
			about = v
		}
	})
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
	members(about, func(key, v []byte) {
		switch string(key) {
		case "kind":
			kind = text(v)
		case "namespace":
			namespace = text(v)
		case "name":
			name = text(v)
		}
	})
	if len(kind)+len(name) == 0 {
		return dst
	}
	dst = appendText(append(dst, ' '), kind)
	if len(namespace) > 0 && !bytes.Equal(namespace, own) {
		dst = appendText(append(dst, '/'), namespace)
	}
	return appendText(append(dst, '/'), name)
}

// bookkeeping is what changes with every write and tells nobody anything.
func bookkeeping(pointer []byte) bool {
	rest, ok := bytes.CutPrefix(pointer, []byte("/metadata/"))
	return ok && (string(rest) == "resourceVersion" || string(rest) == "generation" || bytes.HasPrefix(rest, []byte("managedFields")))
}

// appendChanges appends spec.replicas 2→3, +metadata.labels.tier db, -spec.paused; the bookkeeping is left out. It may
// stop beyond limit columns.
func appendChanges(dst, changes []byte, limit int) []byte {
	start := len(dst)
	elements(changes, func(change []byte) bool {
		var op, path, old, now []byte
		members(change, func(key, v []byte) {
			switch string(key) {
			case "op":
				op = text(v)
			case "path":
				path = text(v)
			case "old":
				old = v
			case "value":
				now = v
			}
		})
		if bookkeeping(path) {
			return true
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		switch string(op) {
		case "add":
			dst = appendValue(append(appendPath(append(dst, '+'), path), ' '), now)
		case "remove":
			dst = appendPath(append(dst, '-'), path)
		default:
			dst = appendValue(append(appendPath(dst, path), ' '), old)
			dst = appendValue(append(dst, "→"...), now)
		}
		// No rune takes more than four bytes, so this never stops before the limit.
		return limit == 0 || len(dst)-start <= 4*limit
	})
	return dst
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
		inside := text(v)
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
