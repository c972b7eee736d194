package tail

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
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
	resource := l.text(resourceKey)
	if len(resource) == 0 {
		resource, _, _ = bytes.Cut(l.text(streamKey), []byte("?"))
	}
	dst = appendText(dst, resource)
	if group := l.text(groupKey); len(group) > 0 {
		dst = appendText(append(dst, '.'), group)
	}
	return dst
}

// appendObject appends the object's namespace and name; of a line about a stream, its scope.
func appendObject(dst []byte, l *Line) []byte {
	if l.aboutStream() {
		return appendScope(dst, l.scope())
	}
	if namespace := l.text(namespaceKey); len(namespace) > 0 {
		dst = append(appendText(dst, namespace), '/')
	}
	return appendText(dst, l.text(nameKey))
}

// appendScope appends namespace=web&labelSelector=app%3Dweb as people write it.
func appendScope(dst, scope []byte) []byte {
	plain, err := url.QueryUnescape(strings.ReplaceAll(string(scope), "&", " "))
	if err != nil {
		return appendRaw(dst, scope)
	}
	return appendRaw(dst, []byte(plain))
}

// appendWho appends who wrote the version, nobody for a deletion: lines of earlier versions name the last writer there, who
// need not be who deleted. Of a Kubernetes Event it is who reported it.
func appendWho(dst []byte, l *Line) []byte {
	event := pick(l.values[eventKey], "reporter")
	if reporter := rawjson.Inside(event[0]); len(reporter) > 0 {
		return appendText(dst, reporter)
	}
	if string(l.text(typeKey)) == "DELETED" {
		return dst
	}
	manager, subresource := l.text(managerKey), l.text(subresourceKey)
	dst = appendText(dst, manager)
	if len(manager) > 0 && len(subresource) > 0 {
		dst = appendText(append(dst, '/'), subresource)
	}
	return dst
}

// appendWhat appends in short what happened. It may exceed limit columns.
func appendWhat(dst []byte, l *Line, limit int) []byte {
	switch string(l.text(typeKey)) {
	case "GAP":
		return appendGap(dst, l)
	case "SYNCED":
		return appendCount(dst, l.values[countKey])
	}
	start := len(dst)
	part := func() {
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
	}
	if origin := string(l.text(originKey)); origin == "snapshot" || origin == "relist" {
		dst = append(dst, origin...)
	}
	if string(l.values[finalStateKnownKey]) == "false" {
		part()
		dst = append(dst, "final state not known"...)
	}
	event, generation := l.values[eventKey], l.values[generationKey]
	if len(event) > 0 {
		part()
		dst = appendEvent(dst, event, l.text(namespaceKey))
	}
	changed := changesOf(l.values[changesKey])
	switch {
	case len(changed) > 0:
		part()
		dst = appendChanges(dst, changed, max(limit-columns(dst[start:]), 1))
	case len(generation) > 0 && len(event) == 0:
		part()
		dst = appendRaw(append(dst, "generation "...), generation)
	}
	if string(l.values[truncatedKey]) == "true" {
		part()
		dst = append(dst, "truncated"...)
		if reason := l.text(truncatedReasonKey); len(reason) > 0 {
			dst = appendText(append(dst, ' '), reason)
		}
	}
	return dst
}

// appendGap appends why there is a gap and what it spans.
func appendGap(dst []byte, l *Line) []byte {
	dst = appendText(dst, l.text(reasonKey))
	from, to := l.text(fromResourceVersionKey), l.text(resourceVersionKey)
	if len(from) == 0 && len(to) == 0 {
		return dst
	}
	if len(from) == 0 {
		from = []byte("?")
	}
	dst = appendText(append(dst, ", resourceVersion "...), from)
	return appendText(append(dst, "→"...), to)
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

// appendEvent appends what a Kubernetes Event says, and about what; with the namespace of that if it is not own.
func appendEvent(dst, event, own []byte) []byte {
	v := pick(event, "reason", "message", "type", "count", "regarding")
	reason, message, kind, count := rawjson.Inside(v[0]), rawjson.Inside(v[1]), rawjson.Inside(v[2]), v[3]
	if len(kind) > 0 && string(kind) != "Normal" {
		dst = append(appendText(dst, kind), ' ')
	}
	dst = appendText(dst, reason)

	v = pick(v[4], "kind", "namespace", "name")
	kind, namespace, name := rawjson.Inside(v[0]), rawjson.Inside(v[1]), rawjson.Inside(v[2])
	if len(kind)+len(name) > 0 {
		dst = appendText(append(dst, ' '), kind)
		if len(namespace) > 0 && !bytes.Equal(namespace, own) {
			dst = appendText(append(dst, '/'), namespace)
		}
		dst = appendText(append(dst, '/'), name)
	}

	if len(message) > 0 {
		dst = appendText(append(dst, ": "...), bytes.TrimSpace(message))
	}
	if len(count) > 0 && string(count) != "1" {
		dst = append(appendRaw(append(dst, " (x"...), count), ')')
	}
	return dst
}

// change is an operation of a line's changes, as far as it is shown.
type change struct {
	op, path, old, now []byte
}

// changesOf returns the changes other than bookkeeping.
func changesOf(changes []byte) []change {
	var all []change
	for operation := range rawjson.Elements(changes) {
		v := pick(operation, "op", "path", "old", "value")
		c := change{rawjson.Inside(v[0]), rawjson.Inside(v[1]), v[2], v[3]}
		if !bookkeeping(c.path) {
			all = append(all, c)
		}
	}
	return all
}

// bookkeeping reports whether a field changes with every write and means nothing to a reader.
func bookkeeping(pointer []byte) bool {
	rest, ok := bytes.CutPrefix(pointer, []byte("/metadata/"))
	return ok && (string(rest) == "resourceVersion" || string(rest) == "generation" || bytes.HasPrefix(rest, []byte("managedFields")))
}

// appendChanges appends spec.replicas 2→3, +metadata.labels.tier db, -spec.paused, +3 more: the first few, as many of
// them as fit into limit columns. There is always one, which may be cut.
func appendChanges(dst []byte, changes []change, limit int) []byte {
	start := len(dst)
	for shown, c := range changes {
		before, rest := len(dst), len(changes)-shown
		if shown == maxChanges {
			return appendMore(dst, rest)
		}
		if shown > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendChange(dst, c)
		room := limit - len(appendMore(nil, rest-1))
		if shown == 0 {
			dst = cutEnd(dst, start, max(room, 1))
		} else if len(dst)-start > room && columns(dst[start:]) > room {
			return appendMore(dst[:before], rest)
		}
	}
	return dst
}

// appendMore appends how many changes are not shown.
func appendMore(dst []byte, n int) []byte {
	if n == 0 {
		return dst
	}
	return fmt.Appendf(dst, ", +%d more", n)
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
		case string(step) == "-", len(step) > 0 && len(bytes.Trim(step, "0123456789")) == 0:
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

// appendValue appends a value in short: a string without its quotes where it is one word, no more than the beginning
// of a long one, and of an object or array that it is one.
func appendValue(dst, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	switch v[0] {
	case '"':
		inside := rawjson.Inside(v)
		inside = inside[:min(len(inside), maxValue*12)] // a column is at most one escape pair of 12 bytes
		start := len(dst)
		dst = appendText(append(dst, '"'), inside)
		if word := dst[start+1:]; len(word) == 0 || bytes.IndexByte(word, ' ') >= 0 || bytes.IndexByte(word, ',') >= 0 || bytes.Contains(word, []byte("→")) {
			return append(cutEnd(dst, start+1, maxValue), '"')
		}
		return cutEnd(slices.Delete(dst, start, start+1), start, maxValue)
	case '{', '[':
		if len(v) > maxComplex {
			return append(append(append(dst, v[0]), ellipsis...), v[0]+2) // } and ] are two after { and [
		}
	}
	start := len(dst)
	return cutEnd(appendRaw(dst, v), start, maxValue)
}
