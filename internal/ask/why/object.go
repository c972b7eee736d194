package why

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"kubejournal/internal/format/line"
)

// object is the versions of one uid, in the order of their lines.
type object struct {
	Ref
	resource string
	versions []*Version
}

// once returns versions without those that another stream has too, and without deletions that another stream, which has
// no selector, would have.
func once(all []*Version) (kept []*Version) {
	if slices.ContainsFunc(all, func(v *Version) bool { return !v.Selects }) {
		all = slices.DeleteFunc(all, func(v *Version) bool { return v.Selects && v.Type == line.Deleted })
	}
	slices.SortStableFunc(all, func(a, b *Version) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, v := range all {
		repeat := v.Version > 0 && slices.ContainsFunc(all[:i], func(o *Version) bool {
			return o.Version == v.Version && o.Type == v.Type && o.Stream != v.Stream
		})
		if !repeat {
			kept = append(kept, v)
		}
	}
	return kept
}

func (o *object) first() *Version { return o.versions[0] }
func (o *object) last() *Version  { return o.versions[len(o.versions)-1] }

// deleted returns the line that says that the object was deleted, nil where it is there.
func (o *object) deleted() *Version {
	if v := o.last(); v.Type == line.Deleted {
		return v
	}
	return nil
}

// gone reports whether the object is not there: it was deleted, or another one of those has taken its name.
func (o *object) gone(all []*object) bool {
	if o.deleted() != nil {
		return true
	}
	return slices.ContainsFunc(all, func(other *object) bool {
		return other.UID != o.UID && other.first().Seq > o.last().Seq
	})
}

// asked returns the first version that has a deletionTimestamp, nil where there is none before the deletion.
func (o *object) asked() *Version {
	for _, v := range o.versions {
		if v.Type != line.Deleted && v.has("metadata", "deletionTimestamp") {
			return v
		}
	}
	return nil
}

// request returns the version at which the deletion was asked for, as far as there is one, and whether it was just
// then: between it and the version before there was no other.
func (o *object) request() (v *Version, exact bool) {
	if asked := o.asked(); asked != nil {
		return asked, o.exact(asked)
	}
	if v = o.deleted(); v == nil {
		return nil, false
	}
	if was := o.previous(v); v.Origin == line.FromRelist && !v.has("metadata", "creationTimestamp") && was != nil {
		last := *v // with the object as it was last seen
		last.Raw, last.object = was.Raw, nil
		return &last, false
	}
	return v, v.Origin == line.FromWatch && !v.Missed && !v.Selects && !v.has("metadata", "deletionTimestamp")
}

// exact reports whether no version is missing before one.
func (o *object) exact(v *Version) bool {
	return v.Origin == line.FromWatch && !v.Missed && v != o.first()
}

// at returns the last whole version up to another object's version, nil for none.
func (o *object) at(v *Version) (last *Version) {
	for _, own := range o.versions {
		if is, _ := before(own, v); (is || own == v) && own.Raw != nil && !own.Partial {
			last = own
		}
	}
	return last
}

// there reports whether the object was there at another object's version.
func (o *object) there(v *Version) bool {
	begun, _ := before(o.first(), v)
	if o.first().Origin == line.FromSnapshot && o.first().Seq < v.Seq {
		begun = true
	}
	ended, _ := before(o.deleted(), v)
	return begun && !ended
}

// previous returns the whole version before one, nil for none.
func (o *object) previous(v *Version) (last *Version) {
	for _, own := range o.versions {
		if own == v {
			return last
		}
		if own.Raw != nil && !own.Partial {
			last = own
		}
	}
	return nil
}

// change is a version that gave a value another one.
type change struct {
	*Version
	before *Version // the version before it
	exact  bool     // no version is missing in between
}

// changeOf returns the last change, up to a version of another object, for which is holds; ok is false for none.
func (o *object) changeOf(upTo *Version, is func(before, now *Version) bool) (last change, ok bool) {
	var was *Version
	for _, v := range o.versions {
		if v.Raw == nil || v.Partial || v.Type == line.Deleted {
			continue
		}
		if earlier, _ := before(v, upTo); upTo != nil && !earlier && v != upTo {
			break
		}
		if was != nil && is(was, v) {
			last, ok = change{v, was, v.Origin == line.FromWatch && !v.Missed}, true
		}
		was = v
	}
	return last, ok
}

// before reports whether the change of a line was made before that of another one, and whether that is proven. Two
// streams have no common order, but versions of the server have; where a line says by which version its object was
// deleted no more than roughly, or versions and lines do not agree, it is not proven.
func before(a, b *Version) (is, proven bool) {
	switch {
	case a == nil || b == nil:
		return false, false
	case a == b:
		return false, true
	case a.Stream == b.Stream && a.UID == b.UID:
		return a.Seq < b.Seq, true
	}
	byLine := a.Seq < b.Seq
	if !a.dated() || !b.dated() || a.Version == b.Version {
		return byLine, false
	}
	byVersion := a.Version < b.Version
	if byVersion == byLine {
		return byLine, true
	}
	if apart(a.Time, b.Time) < Together {
		return byVersion, false
	}
	return byLine, false
}

// Together is how far apart lines are whose versions say in which order they were made: streams that catch up are
// written in any order.
const Together = time.Minute

// Precedes reports whether the change of a line was made before that of another stream's, whichever was received first;
// known is false where nothing says so but the order in which they were received.
func (v *Version) Precedes(other *Version) (is, known bool) {
	known = v.Stream != other.Stream && v.dated() && other.dated() && apart(v.Time, other.Time) < Together
	return v.Version < other.Version, known
}

// dated reports whether the line's resourceVersion is that of what it says.
func (v *Version) dated() bool {
	return v.Version > 0 && (v.Type != line.Deleted || v.Origin == line.FromWatch)
}

func apart(a, b time.Time) time.Duration { return a.Sub(b).Abs() }

// get returns a value of the object; nil where there is none.
func (v *Version) get(path ...string) any {
	if v == nil {
		return nil
	}
	var is any = v.decode()
	for _, key := range path {
		m, _ := is.(map[string]any)
		is = m[key]
	}
	return is
}

func (v *Version) has(path ...string) bool { return v.get(path...) != nil }

func (v *Version) text(path ...string) string {
	s, _ := v.get(path...).(string)
	return s
}

// number returns a number of the object; ok is false where there is none.
func (v *Version) number(path ...string) (n int, ok bool) {
	f, ok := v.get(path...).(float64)
	return int(f), ok
}

func (v *Version) when(path ...string) time.Time {
	t, _ := time.Parse(time.RFC3339, v.text(path...))
	return t
}

// list returns the objects in a list.
func (v *Version) list(path ...string) (all []map[string]any) {
	of, _ := v.get(path...).([]any)
	for _, one := range of {
		if m, ok := one.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// texts returns the strings in a list.
func (v *Version) texts(path ...string) (all []string) {
	of, _ := v.get(path...).([]any)
	for _, one := range of {
		if s, ok := one.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// condition returns the condition of a type, nil for none.
func (v *Version) condition(typ string) map[string]any {
	for _, c := range v.list("status", "conditions") {
		if c["type"] == typ {
			return c
		}
	}
	return nil
}

func str(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// requestedAt returns when a deletion was asked for, by the server's clock; zero where it does not say so.
func (v *Version) requestedAt() time.Time {
	at := v.when("metadata", "deletionTimestamp")
	if at.IsZero() {
		return at
	}
	grace, _ := v.number("metadata", "deletionGracePeriodSeconds")
	return at.Add(-time.Duration(grace) * time.Second)
}

// owner is an entry of ownerReferences.
type owner struct {
	Ref
	controller bool
}

func (v *Version) owners() (all []owner) {
	for _, r := range v.list("metadata", "ownerReferences") {
		group := groupOf(str(r, "apiVersion"))
		controller, _ := r["controller"].(bool)
		all = append(all, owner{Ref{group, str(r, "kind"), v.Namespace, str(r, "name"), str(r, "uid")}, controller})
	}
	return all
}

// controller returns the owner that controls the object.
func (v *Version) controller() (Ref, bool) {
	for _, o := range v.owners() {
		if o.controller {
			return o.Ref, true
		}
	}
	return Ref{}, false
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }
