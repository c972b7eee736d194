// Package rows writes changes in short, what says most first, and says which versions of an object are noise.
package rows

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// Unlimited and more are the columns of what is no terminal, where nothing is left out to save space.
const Unlimited = math.MaxInt / 2

const (
	maxValue   = 48 // columns of a value in the short form of a change
	maxComplex = 32 // bytes of an object or array there, more is {…}
	maxContext = 12 // bytes of what two values have in common, where it is shown once
	maxKey     = 10 // columns of a list element's key, where columns are few
	maxChanges = 4  // changes of a line that are shown
)

// Change is an operation of a line's changes, as far as it is shown; of the operations on one condition it is the one
// that says most.
type Change struct {
	op, path, old, now []byte
	field              []byte // of a condition; nil for any other change
	whole              []byte // the condition, where it is known
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
		case string(rest) == "resourceVersion", string(rest) == "generation",
			bytes.HasPrefix(rest, []byte("managedFields")):
			return hidden
		case string(rest) == "annotations/kubectl.kubernetes.io~1last-applied-configuration",
			string(rest) == "deletionGracePeriodSeconds",
			string(rest) == "annotations/endpoints.kubernetes.io~1last-change-trigger-time":
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
var conditionRanks = map[string]int{"": rankCondition, "status": rankCondition, "reason": rankStatus,
	"message": rankStatus}

// conditionOf takes the pointer to a field of a condition apart: the condition's own pointer, and the field.
func conditionOf(pointer []byte) (condition, field []byte, ok bool) {
	const list = "/status/conditions/"
	rest, ok := bytes.CutPrefix(pointer, []byte(list))
	index, field, deep := bytes.Cut(rest, []byte("/"))
	if !ok || !rawjson.IsIndex(index) || bytes.IndexByte(field, '/') >= 0 {
		return nil, nil, false
	}
	if !deep {
		field = rest[len(index):] // not nil
	}
	return pointer[:len(list)+len(index)], field, true
}

// AppendOperations appends the changes that are shown, those first that say most.
func AppendOperations(all []Change, operations []byte) []Change {
	for operation := range rawjson.Elements(operations) {
		v := rawjson.Pick(operation, "op", "path", "old", "value")
		c := Change{op: rawjson.Inside(v[0]), path: rawjson.Inside(v[1]), old: v[2], now: v[3]}
		condition, field, ok := conditionOf(c.path)
		if !ok {
			if c.rank = rankOf(c.path); c.rank == rankMetadata && c.isFirstApply() {
				c.rank = rankLast
			}
			if c.rank != hidden {
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
		if i := slices.IndexFunc(all, c.moves); i >= 0 {
			all[i].move(&c)
		} else if len(all) == 0 || !all[len(all)-1].merge(&c, condition) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// merge takes in what else changed in the condition; false where c is about another one.
func (c *Change) merge(other *Change, condition []byte) bool {
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

// isFirstApply reports whether c adds or removes annotations, of which last-applied-configuration is the only one.
func (c *Change) isFirstApply() bool {
	if string(c.path) != "/metadata/annotations" || string(c.op) == "replace" {
		return false
	}
	is := false // not of a value that was cut
	for key := range rawjson.Members(slices.Concat(c.old, c.now)) {
		if is = string(key) == "kubectl.kubernetes.io/last-applied-configuration"; !is {
			return false
		}
	}
	return is
}

// moves reports whether c adds, at another place of the list, the condition that other removes.
func (c *Change) moves(other Change) bool {
	is := func(op string, c *Change) bool { return c.field != nil && len(c.field) == 0 && string(c.op) == op }
	if !is("add", c) || !is("remove", &other) {
		return false
	}
	was, now := rawjson.Pick(other.old, "type"), rawjson.Pick(c.now, "type")
	return was[0] != nil && bytes.Equal(was[0], now[0])
}

// move makes c, which removes a condition, the change of the first field that differs from it in added.
func (c *Change) move(added *Change) {
	fields := []string{"status", "reason", "message", "lastTransitionTime", "lastUpdateTime"}
	was, now := rawjson.Pick(c.old, fields...), rawjson.Pick(added.now, fields...)
	i := 0
	for i < len(fields)-1 && bytes.Equal(was[i], now[i]) {
		i++
	}
	*c = Change{op: []byte("replace"), path: added.path, old: was[i], now: now[i], field: []byte(fields[i]),
		whole: added.now, rank: rankHeartbeat}
	if rank, ok := conditionRanks[fields[i]]; ok {
		c.rank = rank
	}
	switch {
	case was[i] == nil:
		c.op = []byte("add")
	case now[i] == nil:
		c.op = []byte("remove")
	}
}

// brevity says how much of a change is left out.
type brevity int

const (
	inFull   brevity = iota
	brief            // without what an object's kind says anyway; on terminals
	briefer          // without the domains of labels, and what two values have in common
	briefest         // with the end of a long path alone, so that the values are to be seen
)

// AppendChanges appends spec.replicas 2→3, +metadata.labels.tier db, -spec.paused, +3 more: the first few, as many of
// them as fit into limit columns. There is always one, which may be cut. On a terminal what follows from other changes
// is left out after these.
func AppendChanges(dst []byte, changes []Change, object []byte, limit int) []byte {
	start, least := len(dst), inFull
	if limit < Unlimited {
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
		for begin, how := len(dst), least; how <= briefest && !fits; how++ {
			dst = changes[shown].append(dst[:begin], object, how)
			fits = len(dst)-start <= room || terminal.Columns(dst[start:]) <= room
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

// appendMore appends how many changes are not shown. It cuts what begins at start where that and the number would
// exceed limit columns.
func appendMore(dst []byte, n, start, limit int) []byte {
	more := fmt.Appendf(nil, ", +%d more", n)
	if n == 0 {
		more = nil
	} else if terminal.Columns(dst[start:])+len(more) > limit {
		more = fmt.Appendf(nil, " +%d", n)
	}
	return append(terminal.CutEnd(dst, start, max(limit-len(more), 1)), more...)
}

// append appends a change; object is what it led to, as far as it is known.
func (c *Change) append(dst, object []byte, how brevity) []byte {
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
func (c *Change) appendCondition(dst, object []byte, how brevity) (text []byte, ok bool) {
	condition := c.now // as a whole
	switch {
	case c.whole != nil:
		condition = c.whole
	case len(c.field) > 0:
		pointer, _, _ := conditionOf(c.path)
		condition = rawjson.At(object, pointer)
	case string(c.op) == "remove":
		condition = c.old
	}
	v := rawjson.Pick(condition, "type", "reason", "status")
	if len(rawjson.Inside(v[0])) == 0 {
		return dst, false
	}
	dst = terminal.AppendText(dst, rawjson.Inside(v[0]))
	whole, reason := *c, v[1]
	switch {
	case len(c.field) == 0:
		old := rawjson.Pick(c.old, "type", "status")
		if string(c.op) == "replace" && !bytes.Equal(old[0], v[0]) {
			return dst, false
		}
		whole.now, whole.old = v[2], old[1]
	case string(c.field) != "status":
		dst, reason = terminal.AppendText(append(dst, '.'), c.field), nil
	case c.reason != nil:
		reason = c.reason
	}
	dst = whole.appendValues(dst, how)
	if text := rawjson.Inside(reason); len(text) > 0 && string(c.op) != "remove" {
		dst = append(terminal.AppendText(append(dst, " ("...), text), ')')
	}
	return dst, true
}
