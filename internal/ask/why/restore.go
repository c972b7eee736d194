package why

import (
	"slices"
	"strings"
)

// word is a kind as people write it.
func word(kind string) string { return strings.ToLower(kind) }

// name returns a manager without its subresource.
func name(manager string) string {
	manager, _, _ = strings.Cut(manager, "/")
	return manager
}

// groupOf returns the group of an apiVersion.
func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// restore sets what is to be given back of a chain that begins with an object that is gone: the objects that were
// deleted, but for those that another one of them makes again, as they were before the first line of the chain.
func (w *asker) restore(o *object, all []*object) {
	if after(o, all) != nil {
		return // it is there again
	}
	first := o.last().Seq
	var gone []*Version
	for i := range w.answer.Links {
		l := &w.answer.Links[i]
		first = min(first, l.Seq)
		for _, seq := range l.Lines {
			first = min(first, seq)
		}
		if strings.HasPrefix(l.What, "deleted") || strings.HasPrefix(l.What, "deletion asked for") {
			gone = append(gone, l.version)
		}
	}
	if asked := o.asked(); asked != nil {
		first = min(first, asked.Seq)
	}
	uids := map[string]bool{}
	for _, v := range gone {
		uids[v.UID] = true
	}
	for _, v := range slices.Backward(gone) {
		made := slices.ContainsFunc(v.owners(), func(r owner) bool { return r.controller })
		if ref, ok := v.controller(); ok && !uids[ref.UID] {
			w.answer.Restore = nil
			return // its owner is there, and makes another one if it is to be
		}
		if v.Kind != "Node" && !made && !slices.Contains(w.answer.Restore, v.plain()) {
			w.answer.Restore = append(w.answer.Restore, v.plain())
		}
	}
	if w.answer.RestoreAt = first - 1; first <= 1 {
		w.answer.Restore, w.answer.RestoreAt = nil, 0
	}
}

// plain returns the object as a query for restoring has it.
func (v *Version) plain() Ref {
	return Ref{Group: v.Group, Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}
}
