package invariant

import (
	"cmp"
	"slices"
)

// Merge makes one journal of those of several replicas, of which one wrote at a time: in the order of terms and, within
// one, of seq. A list that a replica began and did not finish, because another took over, is left out: that one tells
// everything from the position before it. Lines are numbered anew.
//
// repeated are the lines that say nothing new: their id came before in the stream; or, in a list of a replica that had not followed to
// the end of the one before it, an object is at the version that was told last, or gone. SYNCED does not count those, and
// what such a list calls ADDED is MODIFIED where the object is known. What it does not show, though it was told at a
// version behind the one that the list's GAP is from, is gone: a DELETED is added.
func Merge(journals ...[]Line) (merged, repeated []Line) {
	type line struct {
		Line
		journal int
	}
	var all []line
	for n, lines := range journals {
		for _, l := range lines {
			all = append(all, line{l, n})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq)) })
	type list struct{ journal, from int } // from is its first line in all
	synced, open := make(map[string]bool), make(map[string]list)
	dropped := make([]bool, len(all))
	for i := range all {
		l := &all[i]
		before, unfinished := open[l.Stream]
		if unfinished && before.journal != l.journal {
			for n := before.from; n < i; n++ {
				dropped[n] = dropped[n] || all[n].Stream == l.Stream
			}
			delete(open, l.Stream)
			unfinished = false
		}
		switch {
		case l.Type == Synced:
			synced[l.Stream] = true
			delete(open, l.Stream)
		case l.Type == Gap && !unfinished, !synced[l.Stream] && !unfinished && l.Origin == FromSnapshot:
			open[l.Stream] = list{l.journal, i}
		}
	}
	type object struct{ stream, uid string } // or an id
	seen, live, first, count := make(map[object]bool), make(map[object]*Line), make(map[string]uint64), make(map[string]*Count)
	told, gap := make(map[string]string), make(map[string]*Line) // the highest version of each stream, and its open GAP
	for i, of := range all {
		if dropped[i] {
			continue
		}
		l := of.Line
		if first[l.Stream] == 0 {
			first[l.Stream] = l.Term
		}
		repeats := seen[object{l.Stream, l.ID}]
		if l.Type == Gap {
			count[l.Stream] = new(Count)
			gap[l.Stream] = new(l)
			if later(told[l.Stream], l.FromResourceVersion) && first[l.Stream] < l.Term && l.Reason != Ahead {
				l.FromResourceVersion = told[l.Stream]
			}
		}
		last, known := live[object{l.Stream, l.UID}]
		version := ""
		if known {
			version = last.ResourceVersion
		}
		if c := count[l.Stream]; l.Origin == FromRelist && first[l.Stream] < l.Term && c != nil {
			switch {
			case l.Type == Deleted && (repeats || !known):
				repeats = true
				c.Deleted--
			case l.Type == Deleted && l.FinalStateKnown != nil && later(version, l.ResourceVersion):
				l.ResourceVersion = version
			case l.Type == Modified && (repeats || known && version == l.ResourceVersion):
				repeats = true
				c.Modified--
			case l.Type == Added && (repeats || known && version == l.ResourceVersion):
				repeats = true
				c.Added--
			case l.Type == Added && known:
				l.Type = Modified
				c.Added--
				c.Modified++
			}
		}
		if c, from := count[l.Stream], gap[l.Stream]; l.Type == Synced && c != nil && l.Count != nil {
			for o, last := range live {
				if o.stream == l.Stream && last.Term < from.Term && (from.FromResourceVersion == "" || later(last.ResourceVersion, from.FromResourceVersion)) {
					last.Type, last.Origin, last.FinalStateKnown, last.Term = Deleted, FromRelist, new(false), from.Term
					last.ID = last.UID + "/" + last.ResourceVersion + "/" + Deleted
					last.Seq = uint64(len(merged) + 1)
					merged = append(merged, *last)
					delete(live, o)
					c.Deleted++
				}
			}
			l.Count = &Count{Added: l.Count.Added + c.Added, Modified: l.Count.Modified + c.Modified, Deleted: l.Count.Deleted + c.Deleted, Unchanged: l.Count.Unchanged}
			delete(count, l.Stream)
		}
		if repeats {
			if known {
				last.Term = l.Term // it is shown again
			}
			repeated = append(repeated, l)
			continue
		}
		seen[object{l.Stream, l.ID}] = true
		if told[l.Stream] == "" || later(l.ResourceVersion, told[l.Stream]) || l.Reason == Ahead {
			told[l.Stream] = l.ResourceVersion
		}
		switch {
		case l.Type == Deleted:
			delete(live, object{l.Stream, l.UID})
		case l.about():
			live[object{l.Stream, l.UID}] = new(l)
		}
		l.Seq = uint64(len(merged) + 1)
		merged = append(merged, l)
	}
	return merged, repeated
}

// later reports whether a version is a higher number than another, where both are numbers.
func later(a, b string) bool {
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && x > y
}
