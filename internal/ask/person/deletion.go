package person

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// surelyDeletes reports whether a request has asked for the deletion of what it names, and has not just tried to.
func surelyDeletes(r *audit.Request) bool {
	deletes := r.Verb == "delete" || r.Verb == "deletecollection" || r.Subresource == "eviction"
	return deletes && r.Whole && !r.Failed && !r.Refused
}

// ofDeletion reports whether a deletion may have changed what a line says. Else it has found the object being deleted.
// One that was asked for before may be written again with nothing but another version.
func ofDeletion(x *is) bool {
	changes, nothing := x.Value(line.FieldChanges), true
	for change := range rawjson.Elements(changes) {
		nothing = nothing && string(rawjson.Inside(rawjson.Pick(change, "path")[0])) == "/metadata/resourceVersion"
	}
	if nothing {
		return true
	}
	notes := []string{deletion, `"foregroundDeletion"`, `"orphan"`}
	noted := func(note string) bool { return bytes.Contains(changes, []byte(note)) }
	return slices.ContainsFunc(notes, noted)
}

// deletionAsked returns when the object's deletion was asked for, as the object says.
func deletionAsked(x *is) (at time.Time, ok bool) {
	metadata := rawjson.Pick(x.Object, "metadata")[0]
	of := rawjson.Pick(metadata, "deletionTimestamp", "deletionGracePeriodSeconds")
	if at.UnmarshalText(rawjson.Inside(of[0])) != nil {
		return time.Time{}, false
	}
	grace, _ := strconv.Atoi(string(of[1]))
	return at.Add(-time.Duration(grace) * time.Second), true
}

// asked notes which request asked for a deletion at a time, as a line says: the first one, as later ones find it asked
// for.
func (m *matching) asked(x *is, at time.Time) {
	all, unnamed := m.deleting(x, func(r *audit.Request) bool {
		// Of a pod without grace the answer has the version after this one.
		return during(r, at) && (r.Version == "" || !line.Later(x.version, r.Version) || x.Type() == line.Deleted)
	})
	all = earliest(x, all, at)
	if unnamed {
		all = nil
	}
	match := matchOf(all)
	if x.Type() == line.Modified {
		m.askers[x.uid] = all
		if len(all) > 0 && all[0].Version == x.version {
			match = audit.Exact
		}
	}
	m.found(x, all, match)
}

// shortened notes which request has left an object that is being deleted less time. It may have removed the object too,
// with a later version.
func (m *matching) shortened(x *is) {
	if !x.live || x.manager != "" || !bytes.Contains(x.Value(line.FieldChanges), []byte(deletion)) {
		return
	}
	metadata := rawjson.Pick(x.Object, "metadata")[0]
	left := string(rawjson.Pick(metadata, "deletionGracePeriodSeconds")[0])
	all, unnamed := m.deleting(x, func(r *audit.Request) bool {
		return (r.Version == "" || line.Later(r.Version, x.version)) && (r.Grace == left || !r.Whole) &&
			!r.Received.After(x.Time.Add(skew)) && x.Time.Before(r.Answered.Add(delay)) && !m.over(x, r)
	})
	if !unnamed && !m.unclear(all) {
		x.of = "less grace"
		m.found(x, all, matchOf(all))
	}
}

// earliest returns the requests of which one did at a time what each asks for: the first one, as later ones find it
// done.
func earliest(x *is, all []*audit.Request, at time.Time) []*audit.Request {
	if slices.ContainsFunc(all, func(r *audit.Request) bool { return r.Failed || !r.Whole }) {
		return all // it may have done nothing, or be a dry run, as its body is not logged
	}
	var created time.Time
	metadata := rawjson.Pick(x.Object, "metadata")[0]
	_ = created.UnmarshalText(rawjson.Inside(rawjson.Pick(metadata, "creationTimestamp")[0])) // zero with an error
	// In the second in which it was created, what was asked for by its name may have met another object of this name.
	met := !created.IsZero() && created.Before(at)
	for _, r := range slices.Clone(all) {
		if matchOf([]*audit.Request{r}) == audit.UID || met && !r.Refused { // what comes after its answer finds it done
			all = slices.DeleteFunc(all, func(later *audit.Request) bool { return later.Received.After(r.Answered) })
		}
	}
	if slices.ContainsFunc(all, func(r *audit.Request) bool { return r.Refused }) {
		return all // it may have done nothing
	}
	if matchOf(all) == audit.UID || met {
		return firstOf(all)
	}
	return all
}

// matchOf returns how it is known what requests have deleted: by name, where one of them says no more.
func matchOf(all []*audit.Request) audit.Match {
	if slices.ContainsFunc(all, func(r *audit.Request) bool { return r.UID == "" && len(r.Items) == 0 }) {
		return audit.Name
	}
	return audit.UID
}

// firstOf returns the first of some requests, and those that overlap with it.
func firstOf(all []*audit.Request) []*audit.Request {
	slices.SortStableFunc(all, func(a, b *audit.Request) int { return a.Received.Compare(b.Received) })
	end := slices.IndexFunc(all, func(r *audit.Request) bool { return r.Received.After(all[0].Answered) })
	if end < 0 {
		return all
	}
	return all[:end]
}

// deleted notes which request deleted an object: of one that went on for a while, that which asked for the deletion.
func (m *matching) deleted(x *is) {
	if x.selects { // it may have left the selection
		if all := m.exact(x); len(all) > 0 {
			m.found(x, all, audit.Exact)
		}
		return
	}
	whole := len(x.Object) > 0 && !x.Incomplete() && x.live
	if all, seen := m.askers[x.uid]; seen {
		m.found(x, all, matchOf(all))
		return
	}
	if at, ok := deletionAsked(x); ok && whole {
		if x.Unquoted(line.FieldResource) != "pods" { // the time may be that at which the kubelet asked again
			m.asked(x, at)
		}
		return
	}
	all, unnamed := m.deleting(x, func(r *audit.Request) bool {
		switch {
		case r.Received.After(x.Time.Add(skew)):
			return false
		case x.live && x.Time.Before(r.Answered.Add(delay)):
			return whole || r.Removed
		}
		return r.Removed && r.Whole
	})
	told := slices.DeleteFunc(slices.Clone(all), func(r *audit.Request) bool {
		return r.Verb != "delete" || !r.Removed || !r.Whole
	})
	if whole && len(told) == 1 { // the others came too late: it was not being deleted before
		m.found(x, told, audit.UID)
	} else if !unnamed && !m.unclear(all) {
		m.found(x, all, matchOf(all))
	}
}

// deleting returns the requests that may have deleted an object. unnamed reports that so may the deletion of a
// collection, of which it is not known what it deleted.
func (m *matching) deleting(x *is, fits func(*audit.Request) bool) (all []*audit.Request, unnamed bool) {
	of := nameOf(x)
	name := of.name
	of.name = ""
	unnamed = slices.ContainsFunc(m.collections[of], fits)
	for _, r := range m.deletions[x.uid] {
		if fits(r) {
			all = append(all, r)
		}
	}
	of.name = name
	for _, r := range m.byName[of] {
		evicts := r.Verb == "create" && r.Subresource == "eviction"
		if (r.Verb == "delete" && r.Subresource == "" || evicts && !r.Refused) && fits(r) {
			all = append(all, r)
		}
	}
	return all, unnamed
}
