package follow

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// appendResource appends the resource as kubectl names it.
func appendResource(dst []byte, l *line.Fields, _ *Same) []byte {
	resource := l.Text(line.FieldResource)
	if len(resource) == 0 {
		resource, _, _ = bytes.Cut(l.Text(line.FieldStream), []byte("?"))
	}
	dst = terminal.AppendText(dst, resource)
	if group := l.Text(line.FieldGroup); len(group) > 0 {
		dst = terminal.AppendText(append(dst, '.'), group)
	}
	return dst
}

// appendKind appends the resource in short, as kubectl takes it: cm, rs, pods, widgets. One that has the name of one of
// Kubernetes' own keeps its group.
func appendKind(dst []byte, l *line.Fields, same *Same) []byte {
	const long = 9 // columns of a name that is shortened
	resource := l.Text(line.FieldResource)
	switch own := builtin.HasGroup(string(l.Text(line.FieldGroup))); {
	case len(resource) == 0 || !own && argument.IsBuiltin(resource):
		return appendResource(dst, l, same)
	case own && len(resource) >= long:
		if short := argument.Short(resource); short != "" {
			return append(dst, short...)
		}
	}
	return terminal.AppendText(dst, resource)
}

// appendKindAndObject appends both in one cell, for narrow terminals.
func appendKindAndObject(dst []byte, l *line.Fields, same *Same) []byte {
	if same.Kind {
		return appendObject(dst, l, same)
	}
	dst = append(appendKind(dst, l, same), ' ')
	start := len(dst)
	if dst = appendObject(dst, l, same); len(dst) == start {
		return dst[:start-1]
	}
	return dst
}

// appendObject appends the object's namespace, unless it is the same for all, and name; of a line about a stream, its
// scope.
func appendObject(dst []byte, l *line.Fields, same *Same) []byte {
	if l.AboutStream() {
		return appendScope(dst, l.Scope())
	}
	if same.Warning {
		return appendRegarding(dst, l.Value(line.FieldEvent), []byte(same.Namespace))
	}
	if namespace := l.Text(line.FieldNamespace); len(namespace) > 0 && string(namespace) != same.Namespace {
		dst = append(terminal.AppendText(dst, namespace), '/')
	}
	return terminal.AppendText(dst, l.Text(line.FieldName))
}

// appendScope appends namespace=web&labelSelector=app%3Dweb as people write it.
func appendScope(dst, scope []byte) []byte {
	plain, err := url.QueryUnescape(strings.ReplaceAll(string(scope), "&", " "))
	if err != nil {
		return terminal.AppendRaw(dst, scope)
	}
	return terminal.AppendRaw(dst, []byte(plain))
}

// appendWho appends who wrote the version, as people know it: nobody for a deletion, since lines of earlier versions
// name the last writer there, who need not be who deleted. Of a Kubernetes Event it is who reported it.
func appendWho(dst []byte, l *line.Fields, _ *Same) []byte {
	if person := rows.Person(l); person != "" {
		return terminal.AppendRaw(dst, []byte(person))
	}
	manager, subresource := who(l)
	return rows.AppendManager(dst, manager, subresource)
}

// appendManager does the same without the subresource.
func appendManager(dst []byte, l *line.Fields, same *Same) []byte {
	if rows.Person(l) != "" {
		return appendWho(dst, l, same)
	}
	manager, _ := who(l)
	return rows.AppendManager(dst, manager, nil)
}

// appendFullWho appends the writer as the API has it, after the user where that is known.
func appendFullWho(dst []byte, l *line.Fields, _ *Same) []byte {
	manager, subresource := who(l)
	if user := rows.User(l); user != "" {
		if dst = terminal.AppendRaw(dst, []byte(user)); len(manager) > 0 {
			dst = append(dst, ", "...)
		}
	}
	if dst = terminal.AppendText(dst, manager); len(manager) > 0 && len(subresource) > 0 {
		dst = terminal.AppendText(append(dst, '/'), subresource)
	}
	return dst
}

func who(l *line.Fields) (manager, subresource []byte) {
	if l.Type() == line.Deleted {
		return nil, nil
	}
	if event := l.Value(line.FieldEvent); len(event) > 0 {
		if reporter := rawjson.Inside(rawjson.Pick(event, "reporter")[0]); len(reporter) > 0 {
			return reporter, nil
		}
		return l.Text(line.FieldManager), nil
	}
	return l.Text(line.FieldManager), l.Text(line.FieldSubresource)
}

// appendRemoved appends which lines are not in the journal any more, and why.
func appendRemoved(dst []byte, l *line.Fields) []byte {
	is, ok := l.Removed()
	if !ok {
		return dst
	}
	switch n := l.RemovedLines(); {
	case n == 1:
		dst = append(dst, "one line is gone"...)
	case n > 1:
		dst = fmt.Appendf(dst, "%d lines are gone", n)
	default:
		dst = fmt.Appendf(dst, "lines %d to %d are gone", is.From, is.To)
	}
	if reason := l.Text(line.FieldReason); len(reason) > 0 {
		dst = terminal.AppendText(append(dst, ", "...), reason)
	}
	return dst
}

// What returns in short what happened, as a row of about limit columns has it, and Who who wrote that.
func What(l *line.Fields, limit int) string {
	var changed []rows.Change
	return string(appendWhat(nil, l, limit, &changed, &Same{}))
}

// Who returns who wrote a version, as a row has it; "" where that is not known.
func Who(l *line.Fields) string { return string(appendWho(nil, l, nil)) }

// appendWhat appends in short what happened. It may exceed limit columns. changed is space for the changes.
func appendWhat(dst []byte, l *line.Fields, limit int, changed *[]rows.Change, same *Same) []byte {
	switch l.Type() {
	case line.Gap:
		return appendGap(dst, l, nil)
	case line.Synced:
		return appendCount(dst, l.Value(line.FieldCount))
	case line.Removed:
		return appendRemoved(dst, l)
	case line.Sealed:
		if is, ok := l.Sealed(); ok {
			dst = fmt.Appendf(dst, "lines %d to %d, sha256 %x", is.From, is.To, is.Sum)
		}
		return dst
	}
	start := len(dst)
	part := func() {
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
	}
	origin := l.Origin()
	found := origin == line.FromSnapshot || origin == line.FromRelist
	if found && len(l.Value(line.FieldChanges)) == 0 {
		dst = append(dst, origin...)
		found = false
	}
	if string(l.Value(line.FieldFinalStateKnown)) == "false" {
		part()
		dst = append(dst, "final state not known"...)
	}
	reported, generation := l.Value(line.FieldEvent), l.Value(line.FieldGeneration)
	if len(reported) > 0 {
		part()
		dst = appendEvent(dst, reported, l.Text(line.FieldNamespace), same.Warning)
	}
	if *changed = (*changed)[:0]; len(l.Value(line.FieldChanges)) > 0 {
		*changed = rows.AppendOperations(*changed, l.Value(line.FieldChanges))
	}
	switch {
	case len(*changed) > 0:
		part()
		room := limit - terminal.Columns(dst[start:])
		if found && origin == line.FromRelist && room > 50 { // it was not written then
			room -= len(", ") + len(origin)
		}
		dst = rows.AppendChanges(dst, *changed, l.Object, max(room, 1))
	case len(generation) > 0 && len(reported) == 0 && l.Type() != line.Deleted:
		part()
		dst = terminal.AppendRaw(append(dst, "generation "...), generation)
	}
	if l.Incomplete() {
		part()
		dst = append(dst, "truncated"...)
		if omitted := l.Value(line.FieldChangesOmitted); len(omitted) > 0 {
			dst = append(terminal.AppendRaw(append(dst, ", +"...), omitted), " changes left out"...)
		}
		if reason := l.Text(line.FieldTruncatedReason); len(reason) > 0 {
			dst = terminal.AppendText(append(dst, ' '), reason)
		}
	}
	if found && terminal.Columns(dst[start:])+len(", ")+len(origin) <= limit {
		part()
		dst = append(dst, origin...)
	}
	return dst
}

// appendGap appends how long it was, why there is a gap and what it spans. unchanged is the number of objects among
// which there was no difference, nil where there was one or that is not known yet.
func appendGap(dst []byte, l *line.Fields, unchanged []byte) []byte {
	var from time.Time
	lasted := from.UnmarshalText(l.Text(line.FieldFromTime)) == nil && !from.After(l.Time)
	if lasted {
		dst = append(dst, l.Time.Sub(from).Round(time.Second).String()...)
	}
	if unchanged != nil {
		if lasted {
			dst = append(dst, ", "...)
		}
		dst = terminal.AppendRaw(append(dst, "no difference, unchanged "...), unchanged)
	}
	if lasted || unchanged != nil {
		dst = append(dst, ": "...)
	}
	dst = terminal.AppendText(dst, l.Text(line.FieldReason))
	start, end := l.Text(line.FieldFromResourceVersion), l.Text(line.FieldResourceVersion)
	if len(start) == 0 && len(end) == 0 {
		return dst
	}
	if len(start) == 0 {
		start = []byte("?")
	}
	dst = terminal.AppendText(append(dst, ", resourceVersion "...), start)
	return terminal.AppendText(append(dst, "→"...), end)
}

// Unchanged reports whether a SYNCED has no object with a line.
func Unchanged(l *line.Fields) bool { return unchanged(l) != nil }

// unchanged returns how many objects a SYNCED has without a line if it has none with one, else nil.
func unchanged(l *line.Fields) []byte {
	v := rawjson.Pick(l.Value(line.FieldCount), "added", "modified", "deleted", "unchanged")
	for _, n := range v[:3] {
		if n != nil && string(n) != "0" {
			return nil
		}
	}
	return v[3]
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
		dst = terminal.AppendRaw(append(terminal.AppendText(dst, key), ' '), v)
	}
	if len(dst) == start {
		return append(dst, "nothing there"...)
	}
	return dst
}

// appendEvent appends what a Kubernetes Event says, and about what; with the namespace of that if it is not own.
func appendEvent(dst, event, own []byte, warning bool) []byte {
	v := rawjson.Pick(event, "reason", "message", "type", "count")
	reason, message, kind, count := rawjson.Inside(v[0]), rawjson.Inside(v[1]), rawjson.Inside(v[2]), v[3]
	if len(kind) > 0 && string(kind) != "Normal" && !warning {
		dst = append(terminal.AppendText(dst, kind), ' ')
	}
	dst = terminal.AppendText(dst, reason)

	if start := len(dst); !warning {
		if dst = appendRegarding(append(dst, ' '), event, own); len(dst) == start+1 {
			dst = dst[:start]
		}
	}
	if len(message) > 0 {
		dst = terminal.AppendText(append(dst, ": "...), bytes.TrimSpace(message))
	}
	if len(count) > 0 && string(count) != "1" {
		dst = append(terminal.AppendRaw(append(dst, " (x"...), count), ')')
	}
	return dst
}

// appendRegarding appends what an Event is about, with its namespace unless that is its own.
func appendRegarding(dst, event, own []byte) []byte {
	v := rawjson.Pick(rawjson.Pick(event, "regarding")[0], "kind", "namespace", "name")
	kind, namespace, name := rawjson.Inside(v[0]), rawjson.Inside(v[1]), rawjson.Inside(v[2])
	if len(kind)+len(name) == 0 {
		return dst
	}
	dst = terminal.AppendText(dst, kind)
	if len(namespace) > 0 && !bytes.Equal(namespace, own) {
		dst = terminal.AppendText(append(dst, '/'), namespace)
	}
	return terminal.AppendText(append(dst, '/'), name)
}
