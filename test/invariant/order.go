package invariant

import (
	"math"
	"slices"
	"strconv"
)

// number is a resourceVersion as a number; false where it is none.
func number(rv string) (uint64, bool) {
	n, err := strconv.ParseUint(rv, 10, 64)
	return n, err == nil
}

// Objects checks the order of what happens to each object: ADDED, MODIFIED, DELETED, with rising versions, nothing
// after its end, and one object at a time under one name.
func Objects(lines []Line) error {
	type id struct{ stream, uid string }
	type name struct{ stream, namespace, name string }
	type object struct {
		alive   bool
		version uint64
		epoch   int
		last    *Line
	}
	f := faults{check: "objects"}
	objects, names, epochs := make(map[id]object), make(map[name]string), epochs{}
	for i := range lines {
		l := &lines[i]
		epoch := epochs.of(l)
		if !l.about() {
			continue
		}
		version, ok := number(l.ResourceVersion)
		if !ok {
			f.at(l, "resourceVersion %q is not a number", l.ResourceVersion)
			continue
		}
		k, n := id{l.Stream, l.UID}, name{l.Stream, l.Namespace, l.Name}
		o, known := objects[k]
		if known && o.epoch == epoch {
			if version < o.version || version == o.version && l.Type != Deleted {
				f.at(l, "the version does not rise above %d (%s)", o.version, o.last.Where)
			}
			if !o.alive && !selects(l.Stream) {
				f.at(l, "the object ended at %s", o.last.Where)
			}
		}
		switch {
		case l.Type == Added && o.alive:
			f.at(l, "ADDED again after %s", o.last.Where)
		case l.Type == Added && names[n] != "" && names[n] != l.UID:
			f.at(l, "ADDED before the DELETED of %s under the same name", names[n])
		case l.Type != Added && !o.alive:
			f.at(l, "%s without an ADDED", l.Type)
		}
		if known && l.FinalStateKnown != nil {
			epoch = o.epoch // its version is the last one known
		}
		objects[k] = object{alive: l.Type != Deleted, version: version, epoch: epoch, last: l}
		if l.Type == Deleted {
			delete(names, n)
		} else {
			names[n] = l.UID
		}
	}
	return f.err()
}

// stream is where one stream's lines stand.
type stream struct {
	synced  bool
	gap     *Line  // open
	reached uint64 // version that the lines told of a watch have come to
	count   Count  // since the GAP or the beginning
}

// Streams checks each stream's states: a first sync ends with SYNCED, a GAP is followed by the net difference and a
// SYNCED before the watch continues, and what a watch tells comes in the order of versions. interrupted allows lists
// that began again.
func Streams(lines []Line, interrupted bool) error {
	f := faults{check: "streams"}
	streams := make(map[string]*stream)
	for i := range lines {
		l := &lines[i]
		if l.Type == Removed || l.Type == Sealed {
			continue
		}
		s := streams[l.Stream]
		if s == nil {
			s = new(stream)
			streams[l.Stream] = s
		}
		switch l.Type {
		case Gap:
			s.begin(&f, l, interrupted)
		case Synced:
			s.close(&f, l, interrupted)
		default:
			s.take(&f, l)
		}
	}
	for name, s := range streams {
		switch {
		case s.gap != nil:
			f.at(s.gap, "no SYNCED follows")
		case !s.synced:
			f.add("stream %s: no SYNCED", name)
		}
	}
	return f.err()
}

func (s *stream) begin(f *faults, l *Line, interrupted bool) {
	from, fromOK := number(l.FromResourceVersion)
	to, toOK := number(l.ResourceVersion)
	switch {
	case l.Reason == JournalTruncated && fromOK:
		f.at(l, "from %d: what is missing cannot be known", from)
	case l.Reason == JournalTruncated && toOK:
	case l.Reason == CheckpointLost && l.Term > 1 && toOK: // another replica has written of the stream
	// so it has here, and all is written again
	case l.Reason == Ahead && l.Term > 1 && l.FromResourceVersion == "" && toOK:
	case s.synced && !fromOK || !toOK:
		f.at(l, "a GAP between %q and %q", l.FromResourceVersion, l.ResourceVersion)
	// else renewals of the Lease may have brought it past that again
	case l.Reason == Ahead && l.Term == 0 && from <= to:
		f.at(l, "the server at %d is not behind %d", to, from)
	case l.Reason != Ahead && from > to:
		f.at(l, "the GAP goes back from %d to %d", from, to)
	case from < s.reached && l.Reason != Ahead:
		f.at(l, "the GAP begins at %d, but lines were told up to %d", from, s.reached)
	}
	if s.gap != nil && s.gap.Term == l.Term { // else another replica has told the rest, or there was none
		if !interrupted || !slices.Contains([]string{Ahead, CheckpointLost, JournalTruncated}, l.Reason) {
			f.at(l, "a GAP within the one of %s", s.gap.Where)
		}
		if open, _ := number(s.gap.ResourceVersion); from < open && l.Reason != JournalTruncated &&
			(l.Reason != Ahead || fromOK) && (l.Reason != CheckpointLost || l.Term == 0) {
			f.at(l, "does not go on where %s ended", s.gap.Where)
		}
	}
	if l.Reason == Interrupted {
		f.at(l, "a relist goes on behind its GAP; only earlier versions wrote another")
	}
	s.gap, s.count, s.reached = l, Count{}, 0
}

func (s *stream) close(f *faults, l *Line, interrupted bool) {
	to, ok := number(l.ResourceVersion)
	switch {
	case !ok:
		f.at(l, "resourceVersion is not a number")
	case s.gap != nil && versionOf(s.gap) > to:
		f.at(l, "closes the GAP of %s at an earlier version", s.gap.Where)
	case s.gap == nil && s.synced:
		f.at(l, "SYNCED without a GAP")
	}
	if l.Count != nil {
		got := *l.Count
		got.Unchanged = 0
		// A first sync has no line at its beginning: of one that began again only the bound is known.
		loose := s.gap == nil && interrupted && got.Added <= s.count.Added && got.Modified <= s.count.Modified &&
			got.Deleted <= s.count.Deleted
		if got != s.count && !loose {
			f.at(l, "count says %+v, the lines are %+v", got, s.count)
		}
	}
	*s = stream{synced: true, reached: to}
}

func versionOf(l *Line) uint64 {
	n, _ := number(l.ResourceVersion)
	return n
}

func (s *stream) take(f *faults, l *Line) {
	if l.Origin == FromWatch {
		version, ok := number(l.ResourceVersion)
		switch {
		case s.gap != nil:
			f.at(l, "a watch event before the SYNCED of the GAP at %s", s.gap.Where)
		case !s.synced:
			f.at(l, "a watch event before the first SYNCED")
		case ok && version <= s.reached:
			f.at(l, "a watch event at or before %d, which was reached", s.reached)
		}
		s.reached = max(s.reached, version)
		return
	}
	switch {
	case s.synced && s.gap == nil:
		f.at(l, "%s outside of a list", l.Origin)
	case s.gap != nil && l.Origin != FromRelist:
		f.at(l, "%s after the GAP of %s", l.Origin, s.gap.Where)
	}
	switch l.Type {
	case Added:
		s.count.Added++
	case Modified:
		s.count.Modified++
	case Deleted:
		s.count.Deleted++
	}
}

// window is a range of versions, without the first and with the last, of which a stream tells the net result only.
type window struct {
	epoch    int
	from, to uint64
}

// windows returns each stream's: from each GAP to where the next line about the stream says that it stands, and all
// before its first SYNCED.
func windows(lines []Line) map[string][]window {
	all, open, synced, epochs := make(map[string][]window), make(map[string]*window), make(map[string]bool), epochs{}
	end := func(stream string, to uint64) {
		if w := open[stream]; w != nil {
			w.to = to
			all[stream] = append(all[stream], *w)
			delete(open, stream)
		}
	}
	for i := range lines {
		l := &lines[i]
		epoch := epochs.of(l)
		from, _ := number(l.FromResourceVersion)
		switch {
		case l.Type == Synced:
			if !synced[l.Stream] && open[l.Stream] == nil {
				open[l.Stream] = &window{epoch: epoch}
			}
			synced[l.Stream] = true
			end(l.Stream, versionOf(l))
		case l.Type == Gap && l.Reason == Ahead:
			end(l.Stream, math.MaxUint64)
			all[l.Stream] = append(all[l.Stream], window{epoch - 1, from, math.MaxUint64})
			open[l.Stream] = &window{epoch: epoch}
		case l.Type == Gap:
			end(l.Stream, from)
			if !synced[l.Stream] {
				from = 0
			}
			open[l.Stream] = &window{epoch: epoch, from: from}
		}
	}
	for stream := range open {
		end(stream, math.MaxUint64)
	}
	return all
}
