package invariant

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// Replicas are the journals of daemons of which one writes at a time, each with its lines as they were written.
type Replicas struct {
	Journals [][]Line
	// Began says by when the first line of a term was written. Terms may be missing.
	Began map[uint64]time.Time
	// Written returns when a line of a journal was written; nil is when it was received, or its term began if that is
	// later.
	Written func(journal int, l *Line) time.Time
	// Bound is how long before the last line of its term a line was written, at most, that another term has again:
	// renewDeadline, which is longer than retryPeriod, and checkpoint.interval. 0 is any time.
	Bound time.Duration
	// Lost says of which journals' daemons the checkpoint was lost.
	Lost map[int]bool
}

// placed is a line and the journal that has it.
type placed struct {
	*Line
	journal int
}

// eventKey is what the lines of one event have in common, whichever entries a replica has.
type eventKey struct{ stream, uid, version, typ string }

func eventOf(l *Line) eventKey {
	if l.UID == "" {
		return eventKey{l.Stream, l.Namespace + "/" + l.Name, l.ResourceVersion, l.Type}
	}
	return eventKey{l.Stream, l.UID, l.ResourceVersion, l.Type}
}

// startsOver reports whether versions, and so ids, of a stream can be those of other events after a line.
func startsOver(l *Line) bool { return l.Type == Gap && (l.Reason == Ahead || l.Reason == Refused) }

// ordered returns all lines in the one order that they have, by term and seq.
func (r *Replicas) ordered() (all []placed) {
	for n, lines := range r.Journals {
		for i := range lines {
			all = append(all, placed{&lines[i], n})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq))
	})
	return all
}

// Check runs every check that needs nothing but the lines as they were written.
func (r *Replicas) Check() error { return errors.Join(r.Terms(), r.Once(), r.Again()) }

// Terms checks that each term is one replica's, that none falls, and that nothing was received in a term after the next
// one had begun.
func (r *Replicas) Terms() error {
	f := faults{check: "terms"}
	of := make(map[uint64]int)
	terms := slices.Sorted(maps.Keys(r.Began))
	for n, lines := range r.Journals {
		last := uint64(0)
		for i := range lines {
			l := &lines[i]
			if l.Term == 0 {
				f.at(l, "journal %d has no term", n)
				continue
			}
			if l.Term < last {
				f.at(l, "journal %d falls from term %d to %d", n, last, l.Term)
			}
			last = l.Term
			if other, there := of[l.Term]; there && other != n {
				f.at(l, "term %d of journal %d is journal %d's, too", l.Term, n, other)
			}
			of[l.Term] = n
			if after, _ := slices.BinarySearch(terms, l.Term+1); after < len(terms) {
				if at := r.written(n, l); at.After(r.Began[terms[after]]) {
					f.at(l, "journal %d has it in term %d at %v, term %d began at %v", n, l.Term, at, terms[after],
						r.Began[terms[after]])
				}
			}
		}
	}
	return f.err()
}

func (r *Replicas) written(journal int, l *Line) time.Time {
	if r.Written != nil {
		return r.Written(journal, l)
	}
	at, err := time.Parse(time.RFC3339Nano, l.Time)
	if began := r.Began[l.Term]; err == nil && at.Before(began) {
		return began // it was held until then
	}
	return at
}

// Once checks that no event stands twice in a journal, but where a list repeats what may be known: after a GAP for what
// was lost, up to the SYNCED, and where a takeover has ended a list, which begins again in a later term. A journal
// whose daemon lost its checkpoint may repeat in a later term. The GAP with which ids become those of other events can
// be in another journal.
func (r *Replicas) Once() error {
	type in struct {
		journal int
		stream  string
	}
	f := faults{check: "once"}
	seen := make([]map[eventKey]*Line, len(r.Journals))
	for n := range seen {
		seen[n] = make(map[eventKey]*Line)
	}
	anew, again := make(map[string]bool), make(map[in]bool)
	listed := make(map[in]map[*Line]bool) // since the last SYNCED
	for _, l := range r.ordered() {
		if startsOver(l.Line) || l.Type == Synced && anew[l.Stream] {
			for _, of := range seen {
				maps.DeleteFunc(of, func(e eventKey, _ *Line) bool { return e.stream == l.Stream })
			}
			anew[l.Stream] = l.Type == Gap
		}
		list := in{l.journal, l.Stream}
		lost := l.Reason == CheckpointLost || l.Reason == JournalTruncated || l.Reason == Ahead
		switch l.Type {
		case Gap:
			again[list] = again[list] || lost
		case Synced:
			delete(again, list)
			delete(listed, list)
		case Removed, Sealed:
			continue
		}
		e := eventOf(l.Line)
		before := seen[l.journal][e]
		seen[l.journal][e] = l.Line
		broken := listed[list][before] && before.Term != l.Term
		if l.Origin == FromRelist {
			if listed[list] == nil {
				listed[list] = make(map[*Line]bool)
			}
			listed[list][l.Line] = true
		}
		switch {
		case before == nil:
		case l.Type == Gap && lost:
		case l.Origin == FromRelist && (again[list] || broken):
		case before.Term != l.Term && r.Lost[l.journal]:
		default:
			f.at(l.Line, "journal %d has it in term %d, and at %s in term %d", l.journal, l.Term, before.Where,
				before.Term)
		}
	}
	return f.err()
}

// Repeated returns the lines of watches that stand in an earlier term, too, each with the one there.
func (r *Replicas) Repeated() (lines [][2]Line) {
	for _, again := range r.repeats() {
		lines = append(lines, [2]Line{*again.before.Line, *again.Line})
	}
	return lines
}

// repeat is a line of a watch that an earlier term has, too.
type repeat struct {
	placed
	before placed
}

// repeats returns each line of a watch that was written in an earlier term, in order.
func (r *Replicas) repeats() (all []repeat) {
	seen := make(map[eventKey]placed)
	anew := make(map[string]bool)
	for _, l := range r.ordered() {
		if startsOver(l.Line) || l.Type == Synced && anew[l.Stream] {
			maps.DeleteFunc(seen, func(e eventKey, _ placed) bool { return e.stream == l.Stream })
			anew[l.Stream] = l.Type == Gap
		}
		if l.Origin != FromWatch {
			continue
		}
		e := eventOf(l.Line)
		if before, there := seen[e]; there && before.Term != l.Term {
			all = append(all, repeat{l, before})
		}
		seen[e] = l
	}
	return all
}

// Again checks what terms have again: it was written shortly before the end of the earlier one, and what a term has
// again of a stream is what came last before it, without a hole and in the same order.
func (r *Replicas) Again() error {
	f := faults{check: "again"}
	ends := make(map[uint64]time.Time)
	for n, lines := range r.Journals {
		for i := range lines {
			if at := r.written(n, &lines[i]); at.After(ends[lines[i].Term]) {
				ends[lines[i].Term] = at
			}
		}
	}
	for _, again := range r.repeats() {
		before := again.before
		if age := ends[before.Term].Sub(r.written(before.journal, before.Line)); r.Bound > 0 && age > r.Bound {
			f.at(again.Line, "journal %d of term %d has it, from %v before its end: %s", before.journal, before.Term,
				age, before.Where)
		}
	}
	r.follows(&f)
	return f.err()
}

// follows checks that the watch of each term begins where those before have come to, or earlier, and then has all that
// they have after that. Where it begins within the time of a list, it first has what only that list has told.
func (r *Replicas) follows(f *faults) {
	type reader struct {
		events []eventKey // of watches since the last line of a list
		at     map[eventKey]int
		term   uint64
		next   int    // of events, which this term has to have again; -1 is any
		last   uint64 // the highest version of events
	}
	streams := make(map[string]*reader)
	for _, l := range r.ordered() {
		s := streams[l.Stream]
		if s == nil || l.Origin != FromWatch {
			s = &reader{at: make(map[eventKey]int)}
			streams[l.Stream] = s
		}
		if l.Origin != FromWatch {
			continue
		}
		if s.term != l.Term {
			s.term, s.next = l.Term, -1
		}
		e := eventOf(l.Line)
		at, again := s.at[e]
		switch {
		case again && s.next >= 0 && at != s.next:
			f.at(l.Line, "it comes again out of order: %v is next", s.events[min(s.next, len(s.events)-1)])
		case !again && s.next >= 0 && s.next < len(s.events):
			f.at(l.Line, "it comes before %v, which term %d has to have again", s.events[s.next], l.Term)
		}
		if again {
			s.next = at + 1
			continue
		}
		version, _ := number(l.ResourceVersion)
		if s.next < 0 && version < s.last {
			continue
		}
		s.last = max(s.last, version)
		s.at[e], s.next = len(s.events), len(s.events)+1
		s.events = append(s.events, e)
	}
}

// void returns the lines of lists that no SYNCED of the same replica ends before another replica, or its own watch,
// continues.
func void(all []placed) map[*Line]bool {
	type list struct {
		journal int
		term    uint64
		lines   []*Line
	}
	left, open, synced := make(map[*Line]bool), make(map[string]*list), make(map[string]bool)
	for _, l := range all {
		o := open[l.Stream]
		if o != nil && (o.journal != l.journal || l.Origin == FromWatch ||
			o.term < l.Term && l.Type == Gap && l.FromResourceVersion == "") {
			for _, of := range o.lines {
				left[of] = true
			}
			delete(open, l.Stream)
			o = nil
		}
		if o == nil && (l.Type == Gap || !synced[l.Stream] && l.Origin == FromSnapshot) {
			o = &list{journal: l.journal, term: l.Term}
			open[l.Stream] = o
		}
		if o != nil {
			o.lines = append(o.lines, l.Line)
		}
		if l.Type == Synced {
			synced[l.Stream] = true
			delete(open, l.Stream)
		}
	}
	return left
}

// Follow returns what a program makes of the journals that has the rule of docs/operations.md, "To read several
// journals", and nothing else: in order, without lists that are void and without repeats, and with a DELETED for each
// object that is gone since a list does not show it.
func (r *Replicas) Follow() (all []Line) {
	type object struct {
		line *Line
		gap  int // of the stream, after which it was shown
	}
	type reader struct {
		seen  map[eventKey]bool
		live  map[string]object // by uid
		names map[string]string // uids, by namespace and name
		anew  bool
		gap   int    // counts them
		open  bool   // a list
		from  uint64 // of its GAP
		// synced is the version of the last list, as far as versions can be compared.
		synced uint64
	}
	gone := func(s *reader, uid string) {
		if o, there := s.live[uid]; there {
			l := *o.line
			l.Type, l.Origin, l.FinalStateKnown = Deleted, FromRelist, new(bool)
			all = append(all, l)
			delete(s.live, uid)
		}
	}
	streams, lines := make(map[string]*reader), r.ordered()
	left := void(lines)
	for _, p := range lines {
		l := p.Line
		if left[l] || l.Type == Removed || l.Type == Sealed {
			continue
		}
		s := streams[l.Stream]
		if s == nil {
			s = &reader{seen: make(map[eventKey]bool), live: make(map[string]object), names: make(map[string]string)}
			streams[l.Stream] = s
		}
		e := eventOf(l)
		switch l.Type {
		case Gap:
			if startsOver(l) {
				s.anew = true
				clear(s.seen)
			}
			if from, _ := number(l.FromResourceVersion); !s.open || from < s.from {
				s.from = from
			}
			s.gap, s.open = s.gap+1, true
		case Synced:
			for _, uid := range slices.Sorted(maps.Keys(s.live)) {
				o := s.live[uid]
				if s.open && o.gap < s.gap && versionOf(o.line) > s.from {
					gone(s, uid)
				}
			}
			if s.anew {
				clear(s.seen)
			}
			s.anew, s.open, s.synced = false, false, versionOf(l)
		default:
			if l.Origin != FromRelist && s.seen[e] {
				continue
			}
			_, there := s.live[e.uid]
			if l.Origin == FromWatch && versionOf(l) <= s.synced && (l.Type != Deleted || !there) {
				continue // the list has shown what came of it
			}
			s.seen[e] = l.Origin != FromRelist
			name := l.Namespace + "/" + l.Name
			if l.Type == Deleted {
				delete(s.live, e.uid)
				break
			}
			if old := s.names[name]; old != e.uid && s.open {
				gone(s, old)
			}
			s.live[e.uid], s.names[name] = object{l, s.gap}, e.uid
		}
		all = append(all, *l)
	}
	return all
}

// Acknowledged checks that each write stands in one of the journals at least, but where a list tells the net result.
func (r *Replicas) Acknowledged(writes []Write) error {
	type version struct {
		eventKey
		epoch int
	}
	lines := r.Follow()
	told, ended, epochs := make(map[version]bool), make(map[eventKey]int), epochs{}
	for i := range lines {
		l := &lines[i]
		if epoch := epochs.of(l); l.about() {
			if l.FinalStateKnown == nil { // else the version is not of this event
				told[version{eventOf(l), epoch}] = true
			}
			object := eventKey{stream: l.Stream, uid: l.UID}
			ended[object] = epoch + 1
			if l.Type == Deleted {
				ended[object] = -1
			}
		}
	}
	f, net := faults{check: "acknowledged"}, windows(lines)
	for _, w := range writes {
		if w.ResourceVersion == "" {
			if at := ended[eventKey{stream: w.Stream, uid: w.UID}]; at > 0 && at <= w.Epoch+1 {
				f.add("%s: deletion of %s of %s is missing", w.What, w.UID, w.Stream)
			}
			continue
		}
		n, _ := number(w.ResourceVersion)
		inside := slices.ContainsFunc(net[w.Stream], func(v window) bool {
			return v.epoch == w.Epoch && v.from < n && n <= v.to
		})
		if !inside && !told[version{eventKey{w.Stream, w.UID, w.ResourceVersion, w.Type}, w.Epoch}] {
			f.add("%s: %s/%s/%s of %s is missing", w.What, w.UID, w.ResourceVersion, w.Type, w.Stream)
		}
	}
	return f.err()
}
