package invariant

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Merged checks what a reader shows of all journals as one: nothing is lost, and every event is there once; nothing is
// added but the deletions of what lists do not show; and the order is that of terms and seq, but for lists that come
// after what the next leader wrote up to their version.
func (r *Replicas) Merged(merged []Line) error {
	return errors.Join(Sequence(merged, 1), Unique(merged), r.Kept(merged), r.Source(merged))
}

// Kept checks that every event that a watch has brought is in the merged journal.
func (r *Replicas) Kept(merged []Line) error {
	type key struct {
		eventKey
		epoch int
	}
	f := faults{check: "kept"}
	have := make(map[key]int)
	epochs := map[string]int{}
	in := func(l *Line) key {
		if startsOver(l) {
			epochs[l.Stream]++
		}
		return key{eventOf(l), epochs[l.Stream]}
	}
	for i := range merged {
		have[in(&merged[i])]++
	}
	clear(epochs)
	lines := r.ordered()
	left, late := void(lines), overtaken(lines)
	for _, l := range lines {
		// A list that comes later may have the event, or what came of it since.
		if left[l.Line] {
			continue
		}
		if k := in(l.Line); late[l.Line] == nil && l.Origin == FromWatch && have[k] == 0 {
			f.at(l.Line, "it is in journal %d and not in the merged one", l.journal)
		}
	}
	return f.err()
}

// finished is a list after a GAP, with its SYNCED, that was not published: the watch of the next leader begins before
// its version.
type finished struct {
	journal int
	version uint64
}

// overtaken returns the lines of such lists, and those of the same replica up to the next line of another one.
func overtaken(all []placed) map[*Line]*finished {
	type part struct {
		finished
		term  uint64
		lines []*Line
		done  bool
		anew  bool
	}
	late, parts := make(map[*Line]*finished), make(map[string][]*part)
	for _, l := range all {
		of := parts[l.Stream]
		last := len(of) - 1
		switch {
		case last >= 0 && of[last].journal != l.journal && !of[last].done:
			of = of[:last] // void
		case l.Origin == FromWatch:
			for _, p := range of {
				if p.done && p.journal != l.journal && p.term < l.Term && versionOf(l.Line) < p.version {
					for _, line := range p.lines {
						late[line] = &p.finished
					}
				}
			}
			if last >= 0 && of[last].term < l.Term {
				of = nil
			}
		}
		last = len(of) - 1
		switch {
		case l.Type == Gap && (last < 0 || of[last].done):
			of = append(of, &part{
				finished: finished{journal: l.journal}, term: l.Term, lines: []*Line{l.Line}, anew: startsOver(l.Line),
			})
		case last >= 0 && of[last].journal == l.journal:
			p := of[last]
			p.lines = append(p.lines, l.Line)
			if p.anew = p.anew || startsOver(l.Line); l.Type == Synced && !p.done {
				if p.version, p.done = versionOf(l.Line), true; p.anew {
					of = of[last:] // what came before is of other versions
				}
			}
		}
		parts[l.Stream] = of
	}
	return late
}

// Source checks that each merged line is one of a journal, with no other change than a reader may make, or the deletion
// of an object that a list does not show; and their order.
func (r *Replicas) Source(merged []Line) error {
	type key struct {
		stream, id, time string
		term             uint64
	}
	f := faults{check: "source"}
	raw := make(map[key][]placed)
	lines := r.ordered()
	late := overtaken(lines)
	inList := make(map[key]bool) // term and time of lines after a GAP, with its SYNCED
	open := make(map[string]bool)
	for _, l := range lines {
		k := key{l.Stream, l.ID, l.Time, l.Term}
		raw[k] = append(raw[k], l)
		open[l.Stream] = open[l.Stream] || l.Type == Gap
		if open[l.Stream] {
			inList[key{stream: l.Stream, time: l.Time, term: l.Term}] = true
		}
		if l.Type == Synced {
			delete(open, l.Stream)
		}
	}
	type object struct{ stream, uid string }
	last := make(map[object]*Line)
	reached := make(map[string]placed)
	watched := make(map[string][]placed) // not of lists that come later
	gap := make(map[string]bool)
	for i := range merged {
		l := &merged[i]
		o := object{l.Stream, eventOf(l).uid}
		k := key{l.Stream, l.ID, l.Time, l.Term}
		from := raw[k]
		if len(from) > 0 {
			raw[k] = from[1:]
			r.edited(&f, l, from[0].Line)
			at := from[0]
			if before := reached[l.Stream]; before.Line != nil && cmp.Or(cmp.Compare(at.Term, before.Term),
				cmp.Compare(at.Seq, before.Seq)) < 0 {
				inLater(&f, l, at, late[at.Line], watched[l.Stream])
			} else if late[at.Line] == nil {
				reached[l.Stream] = at
			}
			if l.Origin == FromWatch && late[at.Line] == nil {
				watched[l.Stream] = append(watched[l.Stream], at)
			}
		} else {
			before := last[o]
			switch {
			case l.Type != Deleted || l.Origin != FromRelist || l.FinalStateKnown == nil:
				f.at(l, "no journal has it")
			case !gap[l.Stream] || !inList[key{stream: l.Stream, time: l.Time, term: l.Term}]:
				f.at(l, "no journal has it, and no list is there that does not show the object")
			case before == nil || before.Type == Deleted:
				f.at(l, "no journal has it, and the object is not there")
			case before.ResourceVersion != l.ResourceVersion || string(before.Object) != string(l.Object):
				f.at(l, "it is not the object of %s", before.Where)
			}
		}
		switch {
		case l.Type == Gap:
			gap[l.Stream] = true
		case l.Type == Synced:
			delete(gap, l.Stream)
		case l.about():
			last[o] = l
		}
	}
	return f.err()
}

// inLater checks the place of a line that comes later than it was written.
func inLater(f *faults, l *Line, at placed, list *finished, watched []placed) {
	if list == nil {
		f.at(l, "it comes after lines that were written later: %s of journal %d", at.Where, at.journal)
		return
	}
	for _, w := range watched {
		if w.Type != Deleted && w.Term > at.Term && versionOf(w.Line) > list.version {
			f.at(l, "it is of a list up to %d, and comes after %s", list.version, w.Where)
			return
		}
	}
}

// edited checks that a merged line differs from the journal's only where a reader may change it: what another replica
// has written makes a list's ADDED a MODIFIED, or the other way, and a GAP begin, and a SYNCED count, otherwise.
func (*Replicas) edited(f *faults, l, from *Line) {
	may := []string{"seq"}
	switch {
	case l.Type == Gap:
		may = append(may, "fromResourceVersion", "resourceVersion")
	case l.Type == Synced:
		may = append(may, "count")
	case l.Origin == FromRelist && l.Type != Deleted && from.Type != Deleted:
		may = append(may, "type")
		if l.Type == Added {
			may = append(may, "changes")
		}
	}
	names := maps.Clone(l.fields)
	maps.Copy(names, from.fields)
	var differ []string
	for name := range names {
		if !slices.Contains(may, name) && string(l.fields[name]) != string(from.fields[name]) {
			differ = append(differ, name)
		}
	}
	if slices.Sort(differ); len(differ) > 0 {
		f.at(l, "%s differs from %s", strings.Join(differ, ", "), from.Where)
	}
}
