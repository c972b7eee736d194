package why

import (
	"slices"
	"strings"
)

// word is a kind as people write it.
func word(kind string) string { return strings.ToLower(kind) }

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
	if d := o.deleted(); after(o, all) != nil || d == nil || d.Selects {
		return // it is there again, or may be
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
	for _, v := range slices.Backward(gone) {
		v = w.root(v, gone)
		if v == nil || v.Kind == "Node" || v.Kind == "PersistentVolume" || w.there(v) {
			continue
		}
		if !slices.Contains(w.answer.Restore, v.plain()) {
			w.answer.Restore = append(w.answer.Restore, v.plain())
		}
	}
	if first <= 1 || len(w.answer.Restore) == 0 {
		w.answer.Restore = nil
		return
	}
	w.answer.RestoreAt = first - 1
	for _, all := range w.known {
		for _, o := range all {
			for _, v := range o.versions {
				if v.Seq == first {
					w.answer.RestoreBefore = v.Time
				}
			}
		}
	}
}

// there reports whether an object of that name is there again.
func (w *asker) there(v *Version) bool {
	return slices.ContainsFunc(w.find(Query{Ref: v.plain()}), func(o *object) bool {
		return o.UID != v.UID && o.deleted() == nil && o.first().Seq > v.Seq
	})
}

// root returns what makes an object that is gone again: itself, or the last version of the object that controls it; nil
// where that is there, is not known, or went for another reason than the chain's.
func (w *asker) root(v *Version, gone []*Version) *Version {
	inChain := func(of *object) bool {
		return slices.ContainsFunc(gone, func(v *Version) bool {
			return v.UID == of.UID || v.Kind == "Namespace" && v.Group == ""
		})
	}
	for range deepest {
		ref, ok := v.controller()
		if !ok {
			return v
		}
		of := w.one(ref)
		if of == nil || of.deleted() == nil || of.deleted().Selects || !inChain(of) {
			return nil
		}
		v = of.deleted()
	}
	return nil
}

// plain returns the object as a query for restoring has it.
func (v *Version) plain() Ref {
	return Ref{Group: v.Group, Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}
}
