package fake

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Habit is how a server that is almost Kubernetes answers for one resource: each switch breaks one statement of the API
// about lists, pages, streamed lists, watches, bookmarks, versions, uids, names or scopes. The zero Habit breaks none.
// What is stored stays true, see History. A Habit must not be shared between servers, nor changed after SetHabit.
type Habit struct {
	// What a request selects.
	IgnoreNamespace, IgnoreLabels, IgnoreFields bool
	IgnoredBy                                   Verbs // the requests that ignore it; 0 is all
	// OtherKind adds an object of another kind to each list, and an event of it before each event.
	OtherKind bool

	// Unreadable is the name of objects that are stored and cannot be read. As kube-apiserver, which cannot decode what
	// is nested too deep, or what a conversion webhook fails for, it answers 500 to each page with one, and to what
	// names one. While there is one, 429 is the answer to all that its watch cache is for: watches, streamed lists, and
	// selections but those at an exact version.
	Unreadable string
	// StillWatches leaves watches out of that, as a server without a watch cache does.
	StillWatches bool

	// Objects, wherever they are sent.

	NoNamespace    bool // metadata.namespace is left out
	UIDs           UIDs
	ObjectVersions Versions // Constant is that of the first write, Lagging is of every second one

	// Lists, streamed ones included.

	Forms       Forms // the forms of lists that LeaveOut, Double and ListVersions are for; 0 is all
	LeaveOut    Some
	Double      Some
	ListVersion Versions // also of the bookmark that ends a streamed list
	Behind      uint64   // lists show the state of so many versions ago, and say so
	BehindOften bool     // only every second list is behind
	Pages       Pages
	Remaining   int64 // remainingItemCount; 0 tells the truth, NoRemaining nothing
	IgnoreLimit bool
	Initial     Initial

	// Watches.

	Start           Start
	Twice           bool // each event
	Swapped         bool // each two events are sent in the other order
	AddedAsModified bool
	ModifiedAsAdded bool
	LeftAsModified  bool // an object that leaves the selection is MODIFIED
	FalseDeleted    bool // every second MODIFIED is followed by a DELETED
	DeletedTwice    bool
	NoDeleted       bool
	NoEvents        bool // bookmarks only
	NoAdded         bool
	NoModified      bool
	EventVersion    Versions
	DeletedVersion  Versions // Constant is the object's last one
	BookmarkVersion Versions
	BookmarkFirst   bool // each event is preceded by the bookmark that covers it
	SilentUntilEnd  bool // events are held back until the watch ends
	EventsLate      bool // events are held back until after the bookmark that covers them

	ListForWatch bool // a watch is answered with a list
	EndsAtOnce   bool // so does a watch that has a position

	// What is sent is changed on its way out by these, where they are set. They must keep no state.

	Object func(typ string, object map[string]any) // typ is that of the event, "" in a list
	Body   func(list []byte) []byte
	Frame  func(event []byte) []byte

	said   []Said // guarded by Server.mu, as are the counters
	lists  uint64
	events uint64
}

// Verbs are requests for more than one object.
type Verbs uint8

// The requests.
const (
	Lists   Verbs = 1 << iota // streamed ones included
	Watches                   // what follows them
)

// Versions is what is said in the place of a version.
type Versions uint8

// The ways to say a version.
const (
	AsIs         Versions = iota
	NoVersion             // the field is left out
	EmptyVersion          // ""
	ZeroVersion           // "0"
	NotANumber            // "v" before it; watches take that
	Constant              // one and the same
	Lagging               // lower by lag
	Alternating           // lower by lag every second time
	AheadOf               // higher by a thousand
	NewestObject          // that of the newest object that is there
	OwnCounter            // how often the object was written
	EachPage              // higher on each page
	Negative              // "-" before it
	Huge                  // beyond 64 bits
)

// NoRemaining leaves remainingItemCount out.
const NoRemaining = -1 << 32

// lag is by how much Lagging versions are lower.
const lag = 6

// UIDs is what is said in the place of a uid.
type UIDs uint8

// The ways to say a uid.
const (
	OwnUID      UIDs = iota
	NoUID            // the field is left out
	SharedUID        // one of all objects
	NewUID           // another with each write
	UIDOfName        // of the name: a name that is used again has it again
	UIDOfAnswer      // another with each list, and that of the store in events
)

// Forms are forms of lists.
type Forms uint8

// The forms of lists.
const (
	Streamed   Forms = 1 << iota
	Paged            // with limit or continue
	Unlimited        // neither
	LaterPages       // with continue
)

// Some are some of a list's objects.
type Some uint8

// Which objects of a list.
const (
	None Some = iota
	First
	Last
	EverySecond
	All
)

// Pages is how a list is cut into pages.
type Pages uint8

// The ways to page.
const (
	PagesAsAsked   Pages = iota
	PagesRepeat          // the first page again and again, with one token
	PagesEndless         // the same, with another token each time
	PagesSkip            // the first object of each page but the first is left out
	PagesOverlap         // each page begins with the last object of the one before
	PagesEmpty           // no objects, and another token each time
	PagesNoItems         // no field items
	PagesNullItems       // items is null
	PagesStale           // later pages show the state of lag versions ago
	PagesCut             // the second page has no token, whatever is left
)

// Initial is how sendInitialEvents is answered.
type Initial uint8

// The ways to stream a list.
const (
	InitialAsAsked    Initial = iota
	InitialUnknown            // the objects without an end
	InitialFromNow            // events from now on only
	InitialEndFirst           // the end before the objects
	InitialEndTwice           // the end, after half of the objects and after all
	InitialEndOnly            // the end without the objects
	InitialAsModified         // the objects as MODIFIED
)

// Start is how a watch begins that has a position.
type Start uint8

// The ways to begin a watch.
const (
	StartAsAsked  Start = iota
	StartOver           // all that is there is ADDED
	StartOverSlow       // the same, the newest first, with pauses
	StartHistory        // all events that ever were
	StartNow            // no event before now
	StartWithLast       // the event at the position is sent again
)

// Said is an object that was sent while a Habit was in force.
type Said struct {
	Type   string // of the event; "" in a list
	Object map[string]any
}

// Write is one write, as it is stored.
type Write struct {
	Version uint64
	Time    time.Time
	Deleted bool
	// Object is the state from then on, or the last one before a deletion, with the version of that.
	Object map[string]any
}

// SetHabit gives a resource a habit, also in watches that are open; nil takes it away.
func (s *Server) SetHabit(gvr schema.GroupVersionResource, h *Habit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.habits, gvr.GroupResource())
		return
	}
	s.habits[gvr.GroupResource()] = h
}

// Said returns what was sent of a resource with the habit.
func (s *Server) Said(h *Habit) []Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(h.said)
}

// History returns the writes to a resource after a version.
func (s *Server) History(gvr schema.GroupVersionResource, after uint64) []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustFind(gvr.GroupResource())
	var all []Write
	for _, rec := range r.store.after(after) {
		all = append(all, Write{rec.version, rec.time, rec.deleted, r.present(rec, gvr.Version)})
	}
	return all
}

// habitOf returns the habit of a resource, nil for none.
func (s *Server) habitOf(r *resource) *Habit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.habits[r.groupResource()]
}

// The methods below are called with Server.mu held, and on nil where a server has no habit.

// version reads what this server says in the place of a version.
func (h *Habit) version(text string) string {
	if h == nil || len(text) < 2 || text[0] != 'v' && text[0] != '-' {
		return text
	}
	return text[1:]
}

// selects returns what a request selects.
func (h *Habit) selects(sel selection, of Verbs) selection {
	if h.IgnoredBy != 0 && h.IgnoredBy&of == 0 {
		return sel
	}
	all := everything()
	if h.IgnoreNamespace {
		sel.namespace = ""
	}
	if h.IgnoreLabels {
		sel.labels = all.labels
	}
	if h.IgnoreFields {
		sel.fields = all.fields
	}
	return sel
}

// say sets a version in metadata, n is the number of the answer.
func (v Versions) say(meta map[string]any, at, n uint64) {
	switch v {
	case NoVersion:
		delete(meta, "resourceVersion")
		return
	case EmptyVersion:
		meta["resourceVersion"] = ""
		return
	case ZeroVersion:
		at = 0
	case Constant:
		at = 7
	case Lagging:
		at -= min(at-1, lag)
	case Alternating:
		if n%2 == 1 {
			at -= min(at-1, lag)
		}
	case AheadOf:
		at += 1000
	case EachPage:
		at += n
	case OwnCounter:
		at = n
	case AsIs, NewestObject, NotANumber, Negative, Huge:
	}
	text := formatVersion(at)
	switch v {
	case NotANumber:
		text = "v" + text
	case Negative:
		text = "-" + text
	case Huge:
		text += "00000000000000000000"
	}
	meta["resourceVersion"] = text
}

// writes counts the writes of the life that the record belongs to, itself included.
func (r *record) writes() uint64 {
	n := uint64(0)
	for ; r != nil && (n == 0 || !r.deleted); r = r.prev {
		n++
	}
	return n
}

// object returns a copy of a state as it is sent; rec is the write that made it.
func (h *Habit) object(object map[string]any, rec *record, typ string) map[string]any {
	object = deepCopy(object)
	meta := metadata(object)
	if h.NoNamespace {
		delete(meta, "namespace")
	}
	switch h.UIDs {
	case NoUID:
		delete(meta, "uid")
	case SharedUID:
		meta["uid"] = "00000000-5555-4444-3333-222222222222"
	case NewUID:
		meta["uid"] = fmt.Sprintf("%08x-6666-4444-3333-222222222222", rec.version)
	case UIDOfName:
		meta["uid"] = fmt.Sprintf("%08x-7777-4444-3333-222222222222", rec.key)[:36]
	case UIDOfAnswer:
		if typ == "" {
			meta["uid"] = fmt.Sprintf("%08x-8888-4444-3333-222222222222", h.lists)
		}
	case OwnUID:
	}
	switch v := h.ObjectVersions; v {
	case AsIs:
	case Constant:
		first := rec
		for first.before() != nil && first.prev != nil {
			first = first.prev
		}
		meta["resourceVersion"] = formatVersion(first.version)
	case Lagging:
		if rec.writes()%2 == 0 {
			v.say(meta, rec.version, 0)
		}
	default:
		v.say(meta, rec.version, rec.writes())
	}
	h.said = append(h.said, Said{typ, object})
	return object
}

// pick reports whether the object at i of n is one of some.
func (some Some) pick(i, n int) bool {
	switch some {
	case First:
		return i == 0
	case Last:
		return i == n-1
	case EverySecond:
		return i%2 == 1
	case All:
		return true
	case None:
	}
	return false
}
