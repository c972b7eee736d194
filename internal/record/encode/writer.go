package encode

import (
	"hash/maphash"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/previous"
)

// writers knows what is needed of the last version of each object to find out who writes the next one, where that is
// not stored with the version: it is in memory, and after a start not known before an object's next event. It is right
// or missing: every event of a watch is taken, in the server's order, and a list starts over.
type writers struct {
	marks map[uint64]object.Mark // by a hash of the uid; nil where the store has them
	// the stream has selectors, by which an object may come and go that exists all the time
	selects bool
}

// maxMarks bounds the map, which then takes 5 MiB. A stream of more objects that change knows fewer writers.
const maxMarks = 1 << 17

func newWriters(previous *previous.Store, selects bool) writers {
	w := writers{selects: selects}
	if !previous.Marks() {
		w.marks = make(map[uint64]object.Mark)
	}
	return w
}

// next takes a version of an object that is seen, and returns the mark of the one before; 0 where that is not known.
func (w *writers) next(t line.Type, o *object.Object) object.Mark {
	if w.marks == nil || len(o.UID) == 0 {
		return 0
	}
	id := maphash.Bytes(seed, o.UID)
	before, found := w.marks[id]
	mark := o.Mark(before)
	switch {
	case t == line.Deleted, mark == 0:
		delete(w.marks, id)
		return 0
	case mark == before:
		return before
	case !found && len(w.marks) >= maxMarks:
		clear(w.marks)
	}
	w.marks[id] = mark
	return before
}

// reset forgets all, before a list.
func (w *writers) reset() { clear(w.marks) }

// written returns who wrote the version that a line is about, and when. It is known of an event of a watch only:
// between two versions that lists have shown there may have been any number of writes. Where it is for changes to
// decide, owned is true.
func (e *Encoder) written(l object.Line, o *object.Object, before object.Mark) (w object.Write, owned bool) {
	switch {
	case l.Origin != line.FromWatch || o.Unusable != nil:
	case l.Type == line.Added && !e.writers.selects:
		return o.Created(), false
	case l.Type == line.Modified:
		return o.Written(before)
	}
	return object.Write{}, false
}
