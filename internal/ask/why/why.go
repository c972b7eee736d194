// Package why finds out from a journal why an object is gone, does not run, or has changed: a chain of causes, from
// what is asked about back to what began it.
//
// A link is certain or likely. It is certain where lines prove that the cause was there before, and is enough by
// itself: an owner reference and the deletion of the owner with that uid, a condition of the object, an Event of the
// controller that names the object. That somebody else asked for the same in that moment no journal can rule out. It is
// likely where a named rule finds it by circumstances: times, names, labels. Two likely causes that exclude each other
// are none. What comes before is decided by the versions of the server and by the order of the lines, never by clocks
// alone.
//
// The package knows a journal as a Past, and reads no file itself.
package why

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/line"
)

// Ref says which object is meant. What is empty may be anything, but for Group, which is "" for core.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Query selects objects for a Past.
type Query struct {
	Ref
	Owner string // only those that this uid owns
	About string // only Events about this uid

	Ends bool // only additions and deletions

	Near time.Time // only what was received within an hour of that time; zero: all

	// Lately leaves out what was received more than a minute before this version, or after it; nil: nothing.
	Lately *Version
}

// Past is what a journal says of objects.
type Past interface {
	// Versions returns the versions of the selected objects, those of one uid together, in the order of their lines.
	Versions(context.Context, Query) ([][]*Version, error)
	// Watched returns the plural of a kind that the journal has a stream of, else "".
	Watched(ctx context.Context, group, kind string) (string, error)
	// Audited reports whether audit logs say of some versions who made them.
	Audited() bool
}

// Version is a line about an object.
type Version struct {
	Ref
	Resource string // plural
	Stream   string
	Seq      uint64
	Time     time.Time // received
	Made     time.Time // when the change was made, as far as that is known
	Type     line.Type
	Origin   line.Origin
	Version  uint64 // resourceVersion; 0 where it is no number
	Manager  string // with "/" and its subresource; empty where the writer is not known
	Person   *audit.Person
	Selects  bool // the stream has a selector: DELETED may be that the object left it
	Partial  bool // the line does not have the whole object
	Missed   bool // lines were removed that may have had the version before
	Event    *Event
	Raw      []byte // the object as JSON; nil where the line has none
	Changes  []byte // what the line says has changed, as JSON; nil where it does not say so

	object map[string]any
}

// Event is what a line says of a Kubernetes Event.
type Event struct {
	Reason, Message, Type, Reporter string
	LastTime                        time.Time
	Regarding                       Ref
}

// Question is what is answered about an object.
type Question string

// The questions.
const (
	Gone       Question = "gone"
	NotRunning Question = "not running"
	Changed    Question = "changed"
)

// Answer is a chain of causes. Its JSON is what why -o json prints; fields may be added.
type Answer struct {
	Question Question `json:"question"`
	Links    []Link   `json:"links"`
	// Ends says why the chain goes no further, and what would be needed for that.
	Ends string `json:"ends,omitempty"`
	// Before are changes of the minute before the last link that are no known cause.
	Before []Link `json:"before,omitempty"`
	// Restore are the objects to give back, as they were at the line RestoreAt, before RestoreBefore.
	Restore       []Ref     `json:"restore,omitempty"`
	RestoreAt     uint64    `json:"restoreAt,omitempty"`
	RestoreBefore time.Time `json:"-"`

	// Looked are the objects on which the answer depends, and Begun when each of them was created; zero where no line
	// says so.
	Looked []Ref       `json:"-"`
	Begun  []time.Time `json:"-"`
	// Versions are the lines of the links.
	Versions []*Version `json:"-"`
}

// Link is something that happened, and why, which is what the next link is about.
type Link struct {
	Ref
	Resource string    `json:"resource"`
	Seq      uint64    `json:"seq"`             // its line
	Lines    []uint64  `json:"lines,omitempty"` // what else proves why
	Time     time.Time `json:"time"`
	What     string    `json:"what"`
	Manager  string    `json:"manager,omitempty"` // that wrote it
	Why      string    `json:"why,omitempty"`
	Rule     string    `json:"rule,omitempty"` // that found why
	Certain  bool      `json:"certain"`        // that is why

	// Changes are what a last change changed, as the changes of a line.
	Changes json.RawMessage `json:"changes,omitempty"`
	// Person is who did so, as an audit log says: of a deletion, who asked for it.
	Person *audit.Person `json:"person,omitempty"`
	// Own says that Kubernetes itself did so, as the rule has it.
	Own bool `json:"-"`

	version *Version
}

// asker follows one chain. The first error of its Past ends it.
type asker struct {
	ctx    context.Context
	past   Past
	known  map[Query][]*object
	answer *Answer
	depth  int
	// complete says that the last link is what began it: nothing is needed to go on.
	complete bool
	err      error
}

// deepest bounds a chain.
const deepest = 24

// Ask answers why the object with a uid is as it is after its last version.
func Ask(ctx context.Context, past Past, of Ref) (*Answer, error) {
	w := &asker{ctx: ctx, past: past, known: map[Query][]*object{}, answer: &Answer{}}
	all := w.find(Query{Ref: Ref{Group: of.Group, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}})
	var o *object
	for _, one := range all {
		if one.UID == of.UID {
			o = one
		}
	}
	if w.err != nil || o == nil {
		return w.answer, w.err
	}
	switch {
	case o.gone(all):
		w.answer.Question = Gone
		w.again(o, all)
		w.gone(o)
		looked := len(w.answer.Looked)
		if w.restore(o, all); len(w.answer.Restore) == 0 {
			w.answer.Looked = w.answer.Looked[:looked] // nothing is said of them
		}
	case o.asked() != nil:
		w.answer.Question = Gone
		w.going(o)
	case w.notRunning(o):
		w.answer.Question = NotRunning
	default:
		w.answer.Question = Changed
		w.changed(o, all)
	}
	for i := range w.answer.Links {
		w.answer.Versions = append(w.answer.Versions, w.answer.Links[i].version)
	}
	for _, ref := range w.answer.Looked {
		w.answer.Begun = append(w.answer.Begun, begun(w.known[Query{Ref: ref}]))
	}
	return w.answer, w.err
}

// begun returns when the first of some objects was created, zero where that is not known.
func begun(all []*object) (first time.Time) {
	for _, o := range all {
		v := o.first()
		if v.Type != line.Added || v.Origin != line.FromWatch {
			return time.Time{}
		}
		if first.IsZero() || v.Time.Before(first) {
			first = v.Time
		}
	}
	return first
}

// find returns the objects that a query selects.
func (w *asker) find(q Query) []*object {
	if q.About == "" && q.Owner == "" && q.Name != "" && !slices.Contains(w.answer.Looked, q.Ref) {
		w.answer.Looked = append(w.answer.Looked, q.Ref)
	}
	if all, known := w.known[q]; known || w.err != nil {
		return all
	}
	of, err := w.past.Versions(w.ctx, q)
	if err != nil {
		w.err = err
		return nil
	}
	var all []*object
	for _, versions := range of {
		if versions = once(versions); len(versions) > 0 {
			all = append(all, &object{Ref: versions[0].Ref, resource: versions[0].Resource, versions: versions})
		}
	}
	w.known[q] = all
	return all
}

// one returns the object with a uid, nil where the journal has no line about it.
func (w *asker) one(of Ref) *object {
	for _, o := range w.find(Query{Ref: of}) {
		if o.UID == of.UID {
			return o
		}
	}
	return nil
}

// watched reports whether the journal has a stream of a kind.
func (w *asker) watched(group, kind string) bool {
	resource, err := w.past.Watched(w.ctx, group, kind)
	if w.err == nil {
		w.err = err
	}
	return resource != ""
}

// ends says why the chain goes no further.
func (w *asker) ends(text string) {
	if w.answer.Ends == "" && !w.complete {
		w.answer.Ends = text
	}
}

// row adds a link, and returns whether the chain may go on.
func (w *asker) row(l Link, v *Version) bool {
	for i := range w.answer.Links {
		if w.answer.Links[i].Seq == v.Seq && w.answer.Links[i].What == l.What {
			return false // it was there before
		}
	}
	l.Ref, l.Resource, l.Seq, l.Time, l.version = v.Ref, v.Resource, v.Seq, v.Made, v
	w.answer.Links = append(w.answer.Links, l)
	w.depth++
	return w.depth < deepest
}

// decode reads the object of a version once.
func (v *Version) decode() map[string]any {
	if v.object == nil && v.Raw != nil {
		_ = json.Unmarshal(v.Raw, &v.object) // what is no JSON has no values
	}
	return v.object
}
