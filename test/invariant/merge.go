package invariant

import (
	"cmp"
	"slices"
)

// Merge makes one journal of those of several replicas, of which one wrote at a time: in the order of terms and, within
// one, of seq. A list that a replica began and did not finish, because another took over, is left out: that one has told
// everything from the position before it. repeated are the lines whose id came before. Lines are numbered anew.
func Merge(journals ...[]Line) (merged, repeated []Line) {
	all := slices.Concat(journals...)
	slices.SortStableFunc(all, func(a, b Line) int { return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq)) })
	type list struct {
		term uint64
		from int // its first line in all
	}
	last, synced, open := make(map[string]uint64), make(map[string]bool), make(map[string]list)
	dropped := make([]bool, len(all))
	for i := range all {
		l := &all[i]
		before, unfinished := open[l.Stream]
		if unfinished && before.term < l.Term {
			for n := before.from; n < i; n++ {
				dropped[n] = dropped[n] || all[n].Stream == l.Stream && all[n].Term == before.term
			}
			delete(open, l.Stream)
			unfinished = false
		}
		switch last[l.Stream] = l.Term; {
		case l.Type == Synced:
			synced[l.Stream] = true
			delete(open, l.Stream)
		case l.Type == Gap && !unfinished, !synced[l.Stream] && !unfinished && l.Origin == FromSnapshot:
			open[l.Stream] = list{l.Term, i}
		}
	}
	seen := make(map[string]bool)
	for i, l := range all {
		switch {
		case dropped[i]:
		case seen[l.ID]:
			repeated = append(repeated, l)
		default:
			seen[l.ID] = true
			l.Seq = uint64(len(merged) + 1)
			merged = append(merged, l)
		}
	}
	return merged, repeated
}
