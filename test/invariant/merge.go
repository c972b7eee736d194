package invariant

import (
	"cmp"
	"maps"
	"slices"
)

// Merge makes one journal of those of several replicas, of which one wrote at a time: in the order of terms and, within
// one, of seq. Lines are numbered anew. What is left out, and what is changed, is all that a takeover may leave behind:
//
//   - A line whose id came before in its stream is a repeat.
//   - A list that a replica began and did not finish, because another took over, is left out: that one writes everything from
//     the position before it. So is one that was finished, and not published yet: the next replica's watch goes on before
//     its end. If that replica does not come to where the one with the list was, and that one writes again, what comes between
//     is left out.
//   - A replica that had not followed to the end of the one before it, and finds that the history is lost, lists. In the
//     block behind its GAP, an object at the version that was written last, or gone already, is a repeat; an ADDED of a known
//     object is a MODIFIED, and the other way round; and what was written at a version behind the one that the GAP is from, and is not shown again, is
//     gone: a DELETED is added.
func Merge(journals ...[]Line) (merged, repeated []Line) {
	m := merger{ids: make(map[ofStream]bool), live: make(map[ofStream]*Line), names: make(map[ofStream]string), streams: make(map[string]*mergedStream)}
	for _, lines := range journals {
		for i := range lines {
			l := &lines[i]
			if s := m.streams[l.Stream]; s == nil {
				m.streams[l.Stream] = &mergedStream{first: l.Term}
			} else {
				s.first = min(s.first, l.Term)
			}
		}
	}
	for _, l := range finished(journals) {
		m.take(l)
	}
	return m.merged, m.repeated
}

// finished returns all lines in their order, but for lists that another replica has begun anew.
func finished(journals [][]Line) []Line {
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
	type list struct {
		journal, from int    // from is its first line in all
		to            string // the version of its SYNCED
	}
	synced, open, closed := make(map[string]bool), make(map[string]list), make(map[string]list)
	dropped := make([]bool, len(all))
	drop := func(of list, to int) {
		for n := of.from; n < to; n++ {
			dropped[n] = dropped[n] || all[n].Stream == all[to].Stream
		}
	}
	for i := range all {
		l := &all[i]
		before, unfinished := open[l.Stream]
		if unfinished && before.journal != l.journal {
			drop(before, i)
			delete(open, l.Stream)
			unfinished = false
		}
		if last, ok := closed[l.Stream]; ok && last.journal != l.journal {
			if l.Origin == FromWatch && later(last.to, l.ResourceVersion) {
				was, of := last.to, all[last.from].Term
				back := -1
				for n := range all {
					o := &all[n]
					switch {
					case o.Stream != l.Stream || o.Origin != FromWatch && o.Type != Synced:
					case of <= o.Term && o.Term < l.Term && later(o.ResourceVersion, was):
						was = o.ResourceVersion // so far it had come
					}
				}
				for n := i; n < len(all) && back < 0; n++ {
					o := &all[n]
					if o.Stream != l.Stream {
						continue
					}
					if o.journal == last.journal {
						back = n
					} else if o.Type == Synced || o.Origin == FromWatch && !later(was, o.ResourceVersion) {
						break
					}
				}
				if back < 0 {
					drop(last, i)
				} else {
					drop(list{from: i}, back)
				}
			}
			delete(closed, l.Stream)
		}
		switch {
		case l.Type == Synced:
			synced[l.Stream] = true
			if unfinished {
				before.to = l.ResourceVersion
				closed[l.Stream] = before
			}
			delete(open, l.Stream)
		case l.Type == Gap && !unfinished, !synced[l.Stream] && !unfinished && l.Origin == FromSnapshot:
			open[l.Stream] = list{journal: l.journal, from: i}
		}
	}
	var lines []Line
	for i := range all {
		if !dropped[i] {
			lines = append(lines, all[i].Line)
		}
	}
	return lines
}

// merger is a merge under way.
type merger struct {
	merged, repeated []Line
	ids              map[ofStream]bool
	live             map[ofStream]*Line  // by uid
	names            map[ofStream]string // uids of what is live, by namespace and name
	streams          map[string]*mergedStream
}

// ofStream is an id, a uid or a name in a stream.
type ofStream struct{ stream, key string }

type mergedStream struct {
	first   uint64 // the term of the first line
	highest string // version of its lines
	gap     *Line  // the open one
	count   Count  // what differs from what the lines behind it come to
}

func (m *merger) take(l Line) {
	s := m.streams[l.Stream]
	behind := s.first < l.Term // another replica may have written more than this one knew
	switch {
	case l.Type == Gap:
		s.gap, s.count = new(l), Count{}
		if behind && s.highest != "" && (l.FromResourceVersion == "" || later(s.highest, l.FromResourceVersion)) && l.Reason != Ahead {
			l.FromResourceVersion = s.highest
		}
	case l.Type == Synced && s.gap != nil:
		if behind {
			m.end(s, l.Time)
		}
		l.Count = &Count{
			Added: l.Count.Added + s.count.Added, Modified: l.Count.Modified + s.count.Modified,
			Deleted: l.Count.Deleted + s.count.Deleted, Unchanged: l.Count.Unchanged,
		}
		s.gap = nil
	}
	last := m.live[ofStream{l.Stream, l.UID}]
	repeats := m.ids[ofStream{l.Stream, l.ID}]
	if behind && s.gap != nil && l.Origin == FromRelist {
		repeats = repeats || l.Type == Deleted && last == nil || l.Type != Deleted && last != nil && last.ResourceVersion == l.ResourceVersion
		switch {
		case repeats:
			s.adjust(l.Type, -1)
		case l.Type == Deleted && later(last.ResourceVersion, l.ResourceVersion):
			l.ResourceVersion = last.ResourceVersion
		case l.Type == Added && last != nil:
			l.Type = Modified
			s.adjust(Added, -1)
			s.adjust(Modified, 1)
		case l.Type == Modified && last == nil: // written in a list that is left out
			l.Type = Added
			l.fields = maps.Clone(l.fields)
			delete(l.fields, "changes")
			s.adjust(Added, 1)
			s.adjust(Modified, -1)
		}
		if old := m.names[l.named()]; !repeats && l.Type == Added && old != "" && old != l.UID {
			m.gone(s, m.live[ofStream{l.Stream, old}], l.Time)
		}
	}
	if repeats {
		if last != nil {
			last.Term = l.Term // it is shown again
		}
		m.repeated = append(m.repeated, l)
		return
	}
	m.add(l)
	if s.highest == "" || later(l.ResourceVersion, s.highest) || l.Reason == Ahead {
		s.highest = l.ResourceVersion
	}
}

// add adds a line.
func (m *merger) add(l Line) {
	m.ids[ofStream{l.Stream, l.ID}] = true
	l.Seq = uint64(len(m.merged) + 1)
	switch uid := (ofStream{l.Stream, l.UID}); {
	case l.Type == Deleted:
		delete(m.live, uid)
		delete(m.names, l.named())
	case l.about():
		m.live[uid], m.names[l.named()] = new(l), l.UID
	}
	m.merged = append(m.merged, l)
}

// end adds what a list that is at its end has not shown, in the order in which it was written.
func (m *merger) end(s *mergedStream, at string) {
	from := s.gap.FromResourceVersion
	var gone []*Line
	for key, last := range m.live {
		if key.stream == s.gap.Stream && last.Term < s.gap.Term && (from == "" || later(last.ResourceVersion, from)) {
			gone = append(gone, last)
		}
	}
	slices.SortFunc(gone, func(a, b *Line) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, last := range gone {
		m.gone(s, last, at)
	}
}

// gone adds that an object is gone, by a line of that time.
func (m *merger) gone(s *mergedStream, last *Line, at string) {
	l := *last
	l.Type, l.Origin, l.FinalStateKnown, l.Term, l.Time = Deleted, FromRelist, new(false), s.gap.Term, at
	l.Manager, l.Subresource, l.WrittenAt = "", "", ""
	l.ID = l.UID + "/" + l.ResourceVersion + "/" + Deleted
	s.adjust(Deleted, 1)
	m.add(l)
}

func (s *mergedStream) adjust(typ string, by int) {
	switch typ {
	case Added:
		s.count.Added += by
	case Modified:
		s.count.Modified += by
	default:
		s.count.Deleted += by
	}
}

// named is the object's name in its stream.
func (l *Line) named() ofStream { return ofStream{l.Stream, l.Namespace + "/" + l.Name} }

// later reports whether a version is a higher number than another, where both are numbers.
func later(a, b string) bool {
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && x > y
}
