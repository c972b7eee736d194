package tail

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"kubejournal/internal/changes"
	"kubejournal/internal/rawjson"
)

const (
	maxValue   = 48              // columns of a value in the short form of a change
	maxComplex = 32              // bytes of an object or array there, more is {…}
	maxContext = 12              // bytes of what two values have in common, where it is shown once
	maxKey     = 10              // columns of a list element's key, where columns are few
	maxChanges = 4               // changes of a line that are shown
	unlimited  = math.MaxInt / 2 // columns, where it is no terminal
)

// change is an operation of a line's changes, as far as it is shown; of the operations on one condition it is the one
// that says most.
type change struct {
	op, path, old, now []byte
	field              []byte // of a condition; nil for any other change
	reason             []byte // JSON, that the condition was given
	rank               int    // what says most has the lowest
}

// The ranks of changes.
const (
	rankDeletion = iota
	rankSpec     // and data, and whatever is neither metadata nor status
	rankMetadata
	rankPhase
	rankCondition
	rankStatus
	rankRevision
	rankHeartbeat
	rankLast // what follows from other changes
	hidden   // what changes with every write
)

// rankOf returns the rank of a field that is not in a condition.
func rankOf(pointer []byte) int {
	if rest, ok := bytes.CutPrefix(pointer, []byte("/metadata/")); ok {
		switch {
		case string(rest) == "deletionTimestamp":
			return rankDeletion
		case string(rest) == "resourceVersion", string(rest) == "generation", bytes.HasPrefix(rest, []byte("managedFields")):
			return hidden
		case string(rest) == "annotations/kubectl.kubernetes.io~1last-applied-configuration", string(rest) == "deletionGracePeriodSeconds":
			return rankLast
		case string(rest) == "annotations/endpoints.kubernetes.io~1last-change-trigger-time":
			return rankLast
		case bytes.HasPrefix(rest, []byte("annotations/deployment.kubernetes.io~1")):
			return rankRevision
		}
		return rankMetadata
	}
	if rest, ok := bytes.CutPrefix(pointer, []byte("/status")); ok {
		switch string(rest) {
		case "/phase":
			return rankPhase
		case "/observedGeneration":
			return rankLast
		}
		return rankStatus
	}
	return rankSpec
}

// conditionRanks are the ranks of a condition's fields. lastTransitionTime and others are heartbeats.
var conditionRanks = map[string]int{"": rankCondition, "status": rankCondition, "reason": rankStatus, "message": rankStatus}

// conditionOf takes the pointer to a field of a condition apart: the condition's own pointer, and the field.
func conditionOf(pointer []byte) (condition, field []byte, ok bool) {
	const list = "/status/conditions/"
	rest, ok := bytes.CutPrefix(pointer, []byte(list))
	index, field, deep := bytes.Cut(rest, []byte("/"))
	if !ok || !isIndex(index) || bytes.IndexByte(field, '/') >= 0 {
		return nil, nil, false
	}
	if !deep {
		field = rest[len(index):] // not nil
	}
	return pointer[:len(list)+len(index)], field, true
}

// appendOperations appends the changes that are shown, those first that say most.
func appendOperations(all []change, operations []byte) []change {
	for operation := range rawjson.Elements(operations) {
		v := pick(operation, "op", "path", "old", "value")
		c := change{op: rawjson.Inside(v[0]), path: rawjson.Inside(v[1]), old: v[2], now: v[3]}
		condition, field, ok := conditionOf(c.path)
		if !ok {
			if c.rank = rankOf(c.path); c.rank != hidden {
				all = append(all, c)
			}
			continue
		}
		c.field, c.rank = field, rankHeartbeat
		if rank, ok := conditionRanks[string(field)]; ok {
			c.rank = rank
		}
		if string(field) == "reason" {
			c.reason = c.now
		}
		if len(all) == 0 || !all[len(all)-1].merge(&c, condition) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// merge takes in what else changed in the condition; false where c is about another one.
func (c *change) merge(other *change, condition []byte) bool {
	own, _, ok := conditionOf(c.path)
	if !ok || !bytes.Equal(own, condition) || len(c.field) == 0 || len(other.field) == 0 {
		return false
	}
	reason := c.reason
	if other.reason != nil {
		reason = other.reason
	}
	if other.rank < c.rank || other.rank == c.rank && string(other.field) == "reason" {
		*c = *other
	}
	c.reason = reason
	return true
}

// brevity says how much of a change is left out.
type brevity int

const (
	inFull  brevity = iota
	brief           // without what an object's kind says anyway; on terminals
	briefer         // without the domains of labels, and what two values have in common
)

// appendChanges appends spec.replicas 2→3, +metadata.labels.tier db, -spec.paused, +3 more: the first few, as many of
// them as fit into limit columns. There is always one, which may be cut. On a terminal what follows from other changes is
// left out behind these.
func appendChanges(dst []byte, changes []change, object []byte, limit int) []byte {
	start, least := len(dst), inFull
	if limit < unlimited {
		least = brief
		for len(changes) > 1 && changes[len(changes)-1].rank >= rankHeartbeat {
			changes = changes[:len(changes)-1]
		}
	}
	for shown := range changes {
		before, rest := len(dst), len(changes)-shown
		if shown == maxChanges {
			return appendMore(dst, rest, start, limit)
		}
		if shown > 0 {
			dst = append(dst, ", "...)
		}
		room, fits := limit-len(", +9 more")*min(rest-1, 1), false
		for begin, how := len(dst), least; how <= briefer && !fits; how++ {
			dst = changes[shown].append(dst[:begin], object, how)
			fits = len(dst)-start <= room || columns(dst[start:]) <= room
		}
		if !fits && shown > 0 {
			return appendMore(dst[:before], rest, start, limit)
		}
		if !fits {
			return appendMore(dst, rest-1, start, limit)
		}
	}
	return dst
}

// appendMore appends how many changes are not shown. It cuts what begins at start where that and the number would exceed
// limit columns.
func appendMore(dst []byte, n, start, limit int) []byte {
	more := fmt.Appendf(nil, ", +%d more", n)
	if n == 0 {
		more = nil
	} else if columns(dst[start:])+len(more) > limit {
		more = fmt.Appendf(nil, " +%d", n)
	}
	return append(cutEnd(dst, start, max(limit-len(more), 1)), more...)
}

// append appends a change; object is what it led to, as far as it is known.
func (c *change) append(dst, object []byte, how brevity) []byte {
	switch string(c.op) {
	case "add":
		dst = append(dst, '+')
	case "remove":
		dst = append(dst, '-')
	}
	if c.field != nil {
		if text, ok := c.appendCondition(dst, object, how); ok {
			return text
		}
	}
	dst, named := c.appendPath(dst, object, how)
	if named {
		return dst
	}
	return c.appendValues(dst, how)
}

// appendCondition appends Ready True→False (Reason); ok is false where it is not known which condition it is.
func (c *change) appendCondition(dst, object []byte, how brevity) (text []byte, ok bool) {
	condition := c.now // as a whole
	switch {
	case len(c.field) > 0:
		pointer, _, _ := conditionOf(c.path)
		condition = valueAt(object, pointer)
	case string(c.op) == "remove":
		condition = c.old
	}
	v := pick(condition, "type", "reason", "status")
	if len(rawjson.Inside(v[0])) == 0 {
		return dst, false
	}
	dst = appendText(dst, rawjson.Inside(v[0]))
	whole, reason := *c, v[1]
	switch {
	case len(c.field) == 0:
		old := pick(c.old, "type", "status")
		if string(c.op) == "replace" && !bytes.Equal(old[0], v[0]) {
			return dst, false
		}
		whole.now, whole.old = v[2], old[1]
	case string(c.field) != "status":
		dst, reason = appendText(append(dst, '.'), c.field), nil
	case c.reason != nil:
		reason = c.reason
	}
	dst = whole.appendValues(dst, how)
	if text := rawjson.Inside(reason); len(text) > 0 && string(c.op) != "remove" {
		dst = append(appendText(append(dst, " ("...), text), ')')
	}
	return dst, true
}

// appendValues appends what a field was and is.
func (c *change) appendValues(dst []byte, how brevity) []byte {
	was, is := rawjson.Inside(c.old), rawjson.Inside(c.now)
	switch {
	case string(c.op) == "remove":
		return dst
	case string(c.op) == "add":
		if string(is) == redacted {
			return append(dst, " (redacted)"...)
		}
		return appendValue(append(dst, ' '), c.now)
	case was == nil || is == nil:
		dst = appendValue(append(dst, ' '), c.old)
		return appendValue(append(dst, "→"...), c.now)
	case string(was) == redacted && string(is) == redacted:
		return append(dst, " changed (redacted)"...)
	case bytes.Contains(was, lineEnd) || bytes.Contains(is, lineEnd):
		return appendLines(append(dst, ' '), was, is, how)
	}
	return appendStrings(append(dst, ' '), was, is, how)
}

// redacted is what kubejournal writes in the place of a secret value.
const redacted = "REDACTED"

// appendStrings appends the insides of two strings; of long ones the beginning is left out that they share.
func appendStrings(dst, was, is []byte, how brevity) []byte {
	n, before := 0, 0
	if len(was)+len(is) > 2*maxValue || how == briefer {
		n = alike(was, is)
	}
	if n > maxContext {
		before = n
	}
	dst = appendString(dst, was[before:], before > 0)
	return appendString(append(dst, "→"...), is[n:], n > 0)
}

// alike returns how many bytes at the beginning of two strings are not worth showing, since they are the same.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] && ' ' <= a[n] && a[n] <= '~' && a[n] != '\\' {
		n++
	}
	if n == len(a) || n == len(b) {
		n = max(n-1, 0)
	}
	if word := bytes.LastIndexAny(a[:n], "/ ,:;=@") + 1; word > n-maxValue/2 {
		n = word
	}
	if n < 2*len(ellipsis) {
		return 0
	}
	return n
}

var lineEnd = []byte(`\n`)

// cutLine cuts the inside of a string around the end of its first line, which is an escape.
func cutLine(inside []byte) (line, rest []byte, more bool) {
	for i := 0; i < len(inside); i += 2 {
		n := bytes.IndexByte(inside[i:], '\\')
		if n < 0 {
			break
		}
		if i += n; i+1 < len(inside) && inside[i+1] == 'n' {
			return inside[:i], inside[i+2:], true
		}
	}
	return inside, nil, false
}

// appendLines appends the first line that differs between the insides of two strings, and its number.
func appendLines(dst, was, is []byte, how brevity) []byte {
	number := 1
	a, restA, moreA := cutLine(was)
	b, restB, moreB := cutLine(is)
	for ; bytes.Equal(a, b) && moreA && moreB; number++ {
		was, is = restA, restB
		a, restA, moreA = cutLine(was)
		b, restB, moreB = cutLine(is)
	}
	rest := ""
	switch {
	case bytes.Equal(a, b) && moreB: // lines were added at the end
		a, is = nil, restB
		b, restB, moreB = cutLine(is)
		number++
	case bytes.Equal(a, b) && moreA:
		b, was = nil, restA
		a, restA, moreA = cutLine(was)
		number++
	case moreB && bytes.Equal(was, restB):
		a, moreA, moreB = nil, false, false
	case moreA && bytes.Equal(restA, is):
		b, moreA, moreB = nil, false, false
	}
	if (moreA || moreB) && !bytes.Equal(restA, restB) {
		rest = " and more"
	}
	switch {
	case a == nil:
		dst = appendString(append(dst, '+'), bytes.TrimSpace(b), false)
	case b == nil:
		dst = appendString(append(dst, '-'), bytes.TrimSpace(a), false)
	default:
		dst = appendStrings(dst, bytes.TrimSpace(a), bytes.TrimSpace(b), how)
	}
	return fmt.Appendf(dst, " (line %d%s)", number, rest)
}

// isIndex reports whether a step of a pointer may lead into a list.
func isIndex(step []byte) bool {
	return len(step) > 0 && len(step) < 10 && len(bytes.Trim(step, "0123456789")) == 0
}

// appendPath appends the change's JSON Pointer (RFC 6901) as the config writes paths: spec.containers[web].image,
// ["a.b/c"]. Elements of lists are named by their keys where those are known, else by their positions. named reports
// whether the path ends with the value itself, as in finalizers[example.com/keep].
func (c *change) appendPath(dst, object []byte, how brevity) (text []byte, named bool) {
	if len(c.path) == 0 {
		return append(dst, "object"...), false
	}
	if c.path[0] != '/' { // no pointer
		return appendText(dst, c.path), false
	}
	start := 0
	if how > inFull {
		start = startOf(c.path)
	}
	for at := start; at < len(c.path); {
		end := len(c.path)
		if n := bytes.IndexByte(c.path[at+1:], '/'); n >= 0 {
			end = at + 1 + n
		}
		step, key := c.path[at+1:end], []byte(nil)
		list := isIndex(step) || string(step) == "-"
		if named = false; list {
			parent := valueAt(object, c.path[:at])
			list = len(parent) == 0 || parent[0] != '{'
			if list {
				key, named = c.keyOf(object, end)
			}
			if named && len(parent) == 0 { // it may be no list
				key, named = nil, false
			}
		}
		if i := bytes.LastIndex(step, []byte("~1")); i > 0 && how == briefer {
			step = append([]byte(ellipsis), step[i:]...)
		}
		begin := len(dst) + len("[")
		if dst = appendStep(dst, step, key, list, at == start); key != nil && how == briefer {
			dst = append(cutMiddle(dst[:len(dst)-1], begin, maxKey), ']')
		}
		at = end
	}
	return dst, named
}

// startOf returns where a pointer begins to say something that its object's kind does not.
func startOf(pointer []byte) int {
	const template, metadata = "/template/spec", "/metadata"
	if i := bytes.Index(pointer, []byte(template+"/")); i >= 0 && bytes.HasPrefix(pointer, []byte("/spec/")) {
		return i + len(template)
	}
	if i := bytes.Index(pointer, []byte(metadata+"/")); i == 0 || i > 0 && bytes.HasPrefix(pointer, []byte("/spec/")) {
		return i + len(metadata)
	}
	return 0
}

// keyOf returns the inside of the key of the element that the first end bytes of the change's pointer lead to, nil where
// it is not known. all reports whether the key is all that the element is.
func (c *change) keyOf(object []byte, end int) (key []byte, all bool) {
	element := c.now
	switch {
	case end < len(c.path):
		element = valueAt(object, c.path[:end])
	case string(c.op) == "remove":
		element = c.old
	case string(c.op) == "replace" && !bytes.Equal(changes.Key(c.old), changes.Key(c.now)):
		return nil, false
	}
	if len(element) == 0 {
		return nil, false
	}
	value := element
	if element[0] == '{' {
		if value = changes.Key(element); value == nil { // an endpoint of an EndpointSlice
			target := pick(element, "targetRef")
			name := pick(target[0], "name")
			value = name[0]
		}
	} else if all = string(c.op) != "replace" && end == len(c.path) && len(element) <= maxValue; !all {
		return nil, false
	}
	inside := rawjson.Inside(value)
	if inside == nil && element[0] == '{' {
		inside = value // a number
	}
	return inside, all
}

// valueAt returns the value that a pointer leads to, nil where there is none. Both are as JSON writes them.
func valueAt(value, pointer []byte) []byte {
	steps, more := bytes.CutPrefix(pointer, []byte("/"))
	for more && len(value) > 0 {
		var step []byte
		step, steps, more = bytes.Cut(steps, []byte("/"))
		value = childOf(value, unescaped(step))
	}
	return value
}

// childOf returns the member or element that a step leads to, nil where there is none.
func childOf(value, step []byte) []byte {
	if value[0] != '[' {
		for key, v := range rawjson.Members(value) {
			if bytes.Equal(key, step) {
				return v
			}
		}
		return nil
	}
	if !isIndex(step) {
		return nil
	}
	n := 0
	for _, digit := range step {
		n = n*10 + int(digit-'0')
	}
	for v := range rawjson.Elements(value) {
		if n == 0 {
			return v
		}
		n--
	}
	return nil
}

// unescaped returns a step of a pointer as the key is.
func unescaped(step []byte) []byte {
	if bytes.IndexByte(step, '~') < 0 {
		return step
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(step, []byte("~1"), []byte("/")), []byte("~0"), []byte("~"))
}

// appendStep appends a step of a path. key is what names an element of a list, nil where its position must do.
func appendStep(dst, step, key []byte, list, first bool) []byte {
	switch step = unescaped(step); {
	case key != nil:
		return append(appendText(append(dst, '['), key), ']')
	case list:
		return append(append(append(dst, '['), step...), ']')
	case len(step) == 0 || bytes.ContainsAny(step, `./[]" `):
		return append(appendText(append(dst, `["`...), step), `"]`...)
	case !first:
		dst = append(dst, '.')
	}
	return appendText(dst, step)
}

// appendValue appends a value in short: a string as appendString does, and of a larger object or array that it is one.
func appendValue(dst, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	switch v[0] {
	case '"':
		return appendString(dst, rawjson.Inside(v), false)
	case '{', '[':
		if len(v) > maxComplex {
			return append(append(append(dst, v[0]), ellipsis...), v[0]+2) // } and ] are two after { and [
		}
	}
	start := len(dst)
	return cutEnd(appendRaw(dst, v), start, maxValue)
}

// appendString appends the inside of a string: without quotes where it is one word, and no more than the beginning of a
// long one. rest says that it is the end of a longer one.
func appendString(dst, inside []byte, rest bool) []byte {
	inside = inside[:min(len(inside), maxValue*12)] // a column is at most one escape pair of 12 bytes
	start := len(dst)
	dst = append(dst, '"')
	if rest {
		dst = append(dst, ellipsis...)
	}
	dst = appendText(dst, inside)
	if word := dst[start+1:]; len(word) == 0 || bytes.IndexByte(word, ' ') >= 0 || bytes.IndexByte(word, ',') >= 0 || bytes.Contains(word, []byte("→")) {
		return append(cutEnd(dst, start+1, maxValue), '"')
	}
	return cutEnd(slices.Delete(dst, start, start+1), start, maxValue)
}
