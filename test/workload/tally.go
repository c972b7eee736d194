package workload

import (
	"math"
	"strconv"

	"kubejournal/test/invariant"
)

// Tally is what became of acknowledged writes, and what lists say. It is counted apart from package invariant, whose
// checks are the judges, and say where.
type Tally struct {
	Lost     int // writes that are not told of
	Net      int // writes that were overtaken in a GAP or a first sync
	Repeated int // lines whose id or seq stands in a line before them
	Synced   int // SYNCED lines
	Hidden   int // lines of a list outside of a GAP and of a first sync
}

// Count tallies a journal. The versions up to that of a GAP's SYNCED are told by their net result: the GAP may name an
// earlier one.
func Count(lines []invariant.Line, writes []invariant.Write) (t Tally) {
	type version struct{ stream, uid, version string }
	type object struct{ stream, uid string }
	type window struct{ from, to uint64 }
	told, alive := make(map[version]bool, len(lines)), make(map[object]int)
	windows, synced, open := make(map[string][]window), make(map[string]bool), make(map[string]bool)
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return math.MaxUint64
		}
		return n
	}
	ids, seqs := make(map[string]bool, len(lines)), make(map[uint64]bool, len(lines))
	for i := range lines {
		l := &lines[i]
		if ids[l.ID] || seqs[l.Seq] {
			t.Repeated++
		}
		ids[l.ID], seqs[l.Seq] = true, true
		switch l.Type {
		case invariant.Gap:
			// a list that was not finished, and the one in its place
			if last := len(windows[l.Stream]) - 1; open[l.Stream] {
				windows[l.Stream][last].to = max(windows[l.Stream][last].to, number(l.ResourceVersion))
			}
			windows[l.Stream] = append(windows[l.Stream],
				window{number(l.FromResourceVersion), number(l.ResourceVersion)})
			open[l.Stream] = true
		case invariant.Synced:
			t.Synced++
			if !synced[l.Stream] {
				windows[l.Stream] = append(windows[l.Stream], window{0, number(l.ResourceVersion)})
			}
			if last := len(windows[l.Stream]) - 1; open[l.Stream] {
				windows[l.Stream][last].to = max(windows[l.Stream][last].to, number(l.ResourceVersion))
			}
			synced[l.Stream], open[l.Stream] = true, false
		case invariant.Added:
			alive[object{l.Stream, l.UID}]++
		case invariant.Deleted:
			alive[object{l.Stream, l.UID}]--
		}
		if l.Origin != "" && l.Origin != invariant.FromWatch && synced[l.Stream] && !open[l.Stream] {
			t.Hidden++
		}
		if l.FinalStateKnown == nil {
			told[version{l.Stream, l.UID, l.ResourceVersion}] = true
		}
	}
	for _, w := range writes {
		if w.ResourceVersion == "" {
			if alive[object{w.Stream, w.UID}] != 0 {
				t.Lost++
			}
			continue
		}
		if told[version{w.Stream, w.UID, w.ResourceVersion}] {
			continue
		}
		overtaken := false
		for _, v := range windows[w.Stream] {
			n := number(w.ResourceVersion)
			overtaken = overtaken || v.from < n && n <= v.to
		}
		if overtaken {
			t.Net++
		} else {
			t.Lost++
		}
	}
	return t
}
