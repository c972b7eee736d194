// Package blame finds out which write gave each value of an object the value that it has, as git blame does for lines.
//
// A value was written by the last version that changed it, also where an earlier one had the same value. What changed
// from one version to the next is what package changes says, whatever its length: elements of lists are paired by their
// keys and so followed where others come and go, an element that is moved past others is removed and added, and a write
// that replaces a container replaces all that is in it.
//
// The memory used is bounded by the object and by maxRemoved, not by the number of versions.
package blame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Origin says how exactly a write is known.
type Origin string

// The origins of a write.
const (
	// Watch is a write that the journal has: the line is its version.
	Watch Origin = "watch"
	// Gap is a write that was found by comparison after a GAP. It was made after Write.After.
	Gap Origin = "gap"
	// Between is a write of one of several versions; the journal has only the last of them whole. It is not older than
	// Write.After. A redacted value has this origin too where lines do not say whether the hidden value has changed.
	Between Origin = "between"
	// Older is a write that is at least as old as the line, the first that has the value. It is not older than
	// Write.After, the object's creation.
	Older Origin = "older"
)

// Write is what is known of the write that gave a value: at best, the line of its version.
type Write struct {
	Seq         uint64    `json:"seq"`
	Time        time.Time `json:"time"` // received
	Written     time.Time `json:"writtenAt,omitzero"`
	Manager     string    `json:"manager,omitempty"`     // only with Watch
	Subresource string    `json:"subresource,omitempty"` // that it wrote through
	Origin      Origin    `json:"origin"`
	// only with Watch: who made the line, as history -o json has it
	Person json.RawMessage `json:"person,omitempty"`
	After  Point           `json:"after,omitzero"` // not with Watch

	user string // the person as text
	who  string // the same where that tells more than the manager
	late bool   // received long after it was written
}

// Point is a line, or a time alone.
type Point struct {
	Seq  uint64    `json:"seq,omitzero"`
	Time time.Time `json:"time,omitzero"`
}

// When returns when the write was made: the time at which its line was received, or writtenAt if that was late.
func (w *Write) When() time.Time {
	if w.late {
		return w.Written
	}
	return w.Time
}

func (w *Write) point() Point { return Point{w.Seq, w.When()} }

// newWrite returns the write of a line's version, if it is just one.
func newWrite(l *line.Fields) *Write {
	w := &Write{Seq: l.Seq, Time: l.Time, Origin: Watch}
	if w.Written.UnmarshalText(l.Text(line.FieldWrittenAt)) != nil {
		w.Written = time.Time{}
	}
	_, w.late = l.Late()
	w.Person, w.user, w.who = bytes.Clone(l.Value(line.FieldPerson)), rows.User(l), rows.Person(l)
	if l.Type() != line.Deleted { // lines of earlier versions name the last writer there
		w.Manager, w.Subresource = text(l.Text(line.FieldManager)), text(l.Text(line.FieldSubresource))
	}
	return w
}

// History follows one object, by its uid, from version to version. The zero History has seen no line.
type History struct {
	root       *node
	object     []byte // the version that root is of, as compact JSON
	next       []byte // space for the next one
	partial    bool   // object is {"metadata":{…}}
	last       *Write // object's line; before there is an object, the line of the creation
	version    string // object's resourceVersion
	apiVersion string // as the line has it: objects may be without
	kind       string

	missed  Point                // the first later version that the journal does not have whole
	deleted Point                // zero while the object exists
	hidden  Point                // the last version of which it is not known whether redacted values changed
	gaps    map[string]time.Time // streams within a GAP: when their positions were last confirmed

	changed
	removed removed
}

// changed is what one version changes. It is empty between versions.
type changed struct {
	path       []byte         // scratch space
	empty      map[*node]bool // containers that got or lost something: whether they were empty before
	gone, came []Field        // without their writes
}

var errNoObject = errors.New("not an object")

// Add takes the next line about the object, or a GAP or SYNCED line of one of its streams. Lines must be in the order
// of seq. Repeated versions are skipped, and so are versions that a second stream wrote later than the first. After an
// error the History stays usable: the version counts as missing.
//
// A version is missing if its line has no object (payload none), or a part of it (payload metadata, truncated). Changes
// up to the next whole version are then known as Between, except those that its own list of changes names. If the first
// version is not the creation, its values are Older, with the same exception.
func (h *History) Add(l *line.Fields) error {
	typ, origin := l.Type(), l.Origin()
	switch typ {
	case line.Gap:
		h.open(l)
		return nil
	case line.Synced:
		delete(h.gaps, string(l.Text(line.FieldStream)))
		return nil
	case line.Deleted:
		// An object that leaves a selection is sent as it was while selected.
		if h.deleted = newWrite(l).point(); hasSelector(l) || string(l.Value(line.FieldFinalStateKnown)) == "false" {
			return nil
		}
	}
	version := text(l.Text(line.FieldResourceVersion))
	before, known := line.VersionNumber([]byte(h.version))
	if is, ok := line.VersionNumber([]byte(version)); origin != line.FromRelist && known && ok && is <= before {
		return nil
	}
	exact := newWrite(l)
	object, err := h.whole(l)
	if object == nil {
		h.miss(l, exact)
		return err
	}
	w, first, same := h.attribute(l, exact, isPartial(object)), h.root == nil, bytes.Equal(object, h.object)
	if !same {
		if err := h.apply(object, w); err != nil {
			h.miss(l, exact)
			return fmt.Errorf("read object of line %d: %w", l.Seq, err)
		}
	}
	operations := l.Value(line.FieldChanges)
	if typ == line.Modified && origin == line.FromWatch && w != exact {
		h.mark(operations, exact, true)
	} else {
		h.mark(operations, w, false)
	}
	if typ != line.Deleted {
		h.deleted = Point{}
		if len(operations) == 0 && !same && !first {
			h.hidden = exact.point()
		}
	}
	h.object, h.next, h.partial = object, h.object[:0], isPartial(object)
	h.last, h.missed, h.version = exact, Point{}, version
	h.kind, h.apiVersion = text(l.Text(line.FieldKind)), text(l.Text(line.FieldVersion))
	if group := text(l.Text(line.FieldGroup)); group != "" {
		h.apiVersion = group + "/" + h.apiVersion
	}
	return nil
}

// miss notes a missing version.
func (h *History) miss(l *line.Fields, w *Write) {
	if l.Type() == line.Deleted {
		return
	}
	if h.last == nil && isCreation(l) {
		h.last = w
	}
	if h.missed.Seq == 0 {
		h.missed = w.point()
	}
	h.hidden = w.point()
}

// open notes a GAP. One within another has no fromTime.
func (h *History) open(l *line.Fields) {
	stream := string(l.Text(line.FieldStream))
	var from time.Time
	if from.UnmarshalText(l.Text(line.FieldFromTime)) != nil {
		from = h.gaps[stream]
	}
	if h.gaps == nil {
		h.gaps = map[string]time.Time{}
	}
	h.gaps[stream] = from
}

// whole returns the object of a line, nil where that is not all of it.
func (h *History) whole(l *line.Fields) ([]byte, error) {
	if len(l.Object) == 0 || l.Incomplete() {
		return nil, nil
	}
	object, ok := rawjson.AppendCompact(h.next[:0], l.Object)
	control := func(c byte) bool { return c < ' ' }
	if !ok || len(object) == 0 || object[0] != '{' || slices.ContainsFunc(object, control) {
		return nil, fmt.Errorf("read object of line %d: %w", l.Seq, errNoObject)
	}
	if h.root != nil && !h.partial && isPartial(object) {
		return nil, nil
	}
	return object, nil
}

// attribute returns the write that a version's changes are from: exact, that of the version itself, unless it may have
// been another.
func (h *History) attribute(l *line.Fields, exact *Write, partial bool) *Write {
	relist, confirmed := l.Origin() == line.FromRelist, h.gaps[string(l.Text(line.FieldStream))]
	// A first list that was begun more than once, or that could not be completed, has MODIFIED lines too.
	between := l.Type() == line.Added || l.Snapshot()
	w := *exact
	w.Manager, w.Subresource, w.Person, w.user, w.who = "", "", nil, "", ""
	switch {
	case h.last == nil && isCreation(l):
		return exact
	case h.last == nil || h.root != nil && h.partial && !partial:
		w.Origin, w.After.Time = Older, created(l.Object)
		if relist && l.Type() == line.Added && !confirmed.IsZero() &&
			!w.After.Time.Before(confirmed.Truncate(time.Second)) {
			w.Origin = Gap
		}
	case relist:
		if w.Origin, w.After = Gap, h.last.point(); confirmed.After(w.After.Time) {
			w.After.Time = confirmed
		}
	case h.missed.Seq != 0, between:
		w.Origin, w.After = Between, h.last.point()
	default:
		return exact
	}
	return &w
}

// apply makes root the tree of the next version.
func (h *History) apply(object []byte, w *Write) error {
	if h.root == nil {
		root, err := newTree(object, w, 0)
		h.root = root
		return err
	}
	err := changes.Each(h.object, object, func(_ string, path, old, value []byte) { h.change(path, old, value, w) })
	for n, was := range h.empty {
		if was != (n.len() == 0) {
			n.write = w
		}
	}
	for _, f := range h.gone {
		h.removed.add(f.Path, f.Value, w)
	}
	for _, f := range h.came {
		h.removed.drop(f.Path, f.Value)
	}
	h.removed.trim()
	clear(h.empty)
	clear(h.gone)
	clear(h.came)
	h.gone, h.came = h.gone[:0], h.came[:0]
	return err
}

// mark attributes to w what a line's own changes name: all that they add or replace, or only redacted values, whose
// changes the objects do not show. The paths of what is added or replaced are those in the new object, because the
// operations on a list go from its beginning to its end.
func (h *History) mark(operations []byte, w *Write, all bool) {
	for operation := range rawjson.Elements(operations) {
		v := rawjson.Pick(operation, "path", "old", "value")
		if v[2] == nil || !all && !bytes.Contains(v[2], []byte(`"REDACTED"`)) {
			continue
		}
		if n := h.root.find(fieldpath.PointerSteps(text(rawjson.Inside(v[0])))); n != nil {
			n.mark(v[1], v[2], w, all)
		}
	}
}

// isCreation reports whether a line is of an object that was just created. One that enters a selection may be older.
func isCreation(l *line.Fields) bool {
	return l.Type() == line.Added && l.Origin() == line.FromWatch && !hasSelector(l)
}

// hasSelector reports whether the line's stream has a label or field selector.
func hasSelector(l *line.Fields) bool { return len(l.Scope()) > 0 && l.StreamName().Selects() }

// isPartial reports whether an object is what payload metadata leaves of one.
func isPartial(object []byte) bool {
	for key := range rawjson.Members(object) {
		if string(key) != "metadata" {
			return false
		}
	}
	return true
}

// created returns the object's creationTimestamp, if it has one.
func created(object []byte) (t time.Time) {
	metadata := rawjson.Pick(object, "metadata")
	v := rawjson.Pick(metadata[0], "creationTimestamp")
	if t.UnmarshalText(rawjson.Inside(v[0])) != nil {
		return time.Time{}
	}
	return t
}

// text returns what the inside of a string means.
func text(inside []byte) string { return string(rawjson.Unquote(nil, inside)) }
