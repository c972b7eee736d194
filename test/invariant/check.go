package invariant

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Options of All.
type Options struct {
	First uint64 // seq of the first line; default 1
	// Interrupted says that the daemon was killed, or lost its server, while it listed: a first sync may then begin
	// again in the middle, and a relist find another reason for a GAP.
	Interrupted bool
}

// All runs every check that needs nothing but the lines.
func All(lines []Line, o Options) error {
	return errors.Join(Sequence(lines, max(o.First, 1)), Shape(lines), Unique(lines), Objects(lines),
		Streams(lines, o.Interrupted))
}

// Sequence checks that seq begins at first and rises by one.
func Sequence(lines []Line, first uint64) error {
	f := faults{check: "sequence"}
	want := first
	for i := range lines {
		if l := &lines[i]; l.Seq != want {
			f.at(l, "seq is not %d", want)
			want = l.Seq
		}
		want++
	}
	return f.err()
}

// Shape checks each line by itself.
func Shape(lines []Line) error {
	f := faults{check: "shape"}
	for i := range lines {
		shape(&f, &lines[i])
	}
	return f.err()
}

func shape(f *faults, l *Line) {
	need := []string{"seq", "time", "type", "stream", "id", "version", "resource", "kind", "resourceVersion"}
	about := l.UID
	switch l.Type {
	case Removed, Sealed:
		ofFiles(f, l)
		return
	case Added, Modified, Deleted:
		need = append(need, "origin", "name", "uid")
		if l.Origin != FromSnapshot && l.Origin != FromWatch && l.Origin != FromRelist {
			f.at(l, "unknown origin %q", l.Origin)
		}
	case Gap:
		need, about = append(need, "reason"), l.Stream
	case Synced:
		need, about = append(need, "count"), l.Stream
	default:
		f.at(l, "unknown type %q", l.Type)
	}
	for _, name := range need {
		if _, ok := l.fields[name]; !ok {
			f.at(l, "no %s", name)
		}
	}
	for name, value := range l.fields {
		if slices.Contains([]string{`""`, "null", "[]", "{}", "0"}, string(value)) {
			f.at(l, "%s is empty", name)
		}
	}
	version := "/" + l.ResourceVersion + "/" + l.Type
	if selects(l.Stream) && about != l.Stream {
		stream, _, _ := strings.Cut(l.Stream, "&shard=")
		version = "/" + stream + version
	}
	namespaced := about + "/" + l.Stream + version // where a stream of all namespaces has the object, too
	if want := about + version; l.ID != want && (l.ID != namespaced || !strings.Contains(l.Stream, "?namespace=")) &&
		!shortened(l.ID, want) {
		f.at(l, "id is not %s", want)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000000Z", l.Time); err != nil {
		f.at(l, "time %q is not UTC with nanoseconds", l.Time)
	}
	if l.FinalStateKnown != nil && (*l.FinalStateKnown || l.Type != Deleted || l.Origin != FromRelist) {
		f.at(l, "finalStateKnown does not belong here")
	}
	if l.Type == Gap || l.Type == Synced {
		if l.Origin != "" || l.UID != "" || l.Object != nil {
			f.at(l, "a line about a stream says something about an object")
		}
	}
}

// ofFiles checks a line about files that are gone or sealed, which come before it.
func ofFiles(f *faults, l *Line) {
	need, is := []string{"seq", "time", "id", "version", "kind", "reason", "removed"}, l.Removed
	if l.Type == Sealed {
		need, is = []string{"seq", "time", "id", "version", "kind", "sealed"}, l.Sealed
	}
	for _, name := range need {
		if _, ok := l.fields[name]; !ok {
			f.at(l, "no %s", name)
		}
	}
	if l.Stream != "journal" || l.Resource != l.Stream || l.Object != nil || l.UID != "" {
		f.at(l, "it is not about the journal")
	}
	if is != nil && (is.From == 0 || is.To < is.From || is.To >= l.Seq) {
		f.at(l, "it cannot be about lines %d to %d", is.From, is.To)
	}
	if !strings.HasPrefix(l.ID, "journal/") || !strings.HasSuffix(l.ID, "/"+l.Type) {
		f.at(l, "its id is none of such a line")
	}
}

// shortened reports whether an id is a long one of the most bytes that one may have.
func shortened(id, long string) bool {
	return len(long) > 500 && len(id) <= 512 && len(id) > 500 && strings.Contains(id, "~") &&
		id[strings.LastIndex(id, "/"):] == long[strings.LastIndex(long, "/"):]
}

// Unique checks that no id stands twice in one epoch, but that of a GAP for what was lost on this side, at a version
// that the server had at the GAP before, and that of an object which comes again after the list that began the epoch: a
// DELETED of that list has the version from before.
func Unique(lines []Line) error {
	type key struct {
		epoch int
		id    string
	}
	f := faults{check: "unique"}
	seen := make(map[key]*Line)
	earlier := make(map[key]key) // of a DELETED of an epoch's first list, by its uid
	began := make(map[string]bool)
	epochs := epochs{}
	for i := range lines {
		l := &lines[i]
		k := key{epochs.of(l), l.ID}
		object := key{k.epoch, l.Stream + "/" + l.UID}
		switch l.Type {
		case Gap:
			began[l.Stream] = began[l.Stream] || l.Reason == Ahead
		case Synced:
			began[l.Stream] = false
		case Deleted:
			if began[l.Stream] && l.Origin == FromRelist {
				earlier[object] = k
			}
		case Added:
			if was, found := earlier[object]; found {
				delete(seen, was)
				delete(earlier, object)
			}
		}
		if before := seen[k]; before != nil &&
			(l.Type != Gap || l.Reason != CheckpointLost && l.Reason != JournalTruncated) {
			f.at(l, "the id stands at %s already", before.Where)
		}
		seen[k] = l
	}
	return f.err()
}

// epochs counts how often the server of each stream went back.
type epochs map[string]int

// of takes the lines in order. The GAP line that begins an epoch is its first.
func (e epochs) of(l *Line) int {
	if l.Type == Gap && l.Reason == Ahead {
		e[l.Stream]++
	}
	return e[l.Stream]
}

// selects reports whether objects come to a stream and leave it by their labels or fields: then a uid that has left may
// come again.
func selects(stream string) bool {
	return strings.Contains(stream, "Selector=")
}
