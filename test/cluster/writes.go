package cluster

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Writes is who wrote the versions of objects, and when, as an audit log of AuditWrites says. Most answers name the
// version that was written. Of the others, such as a Status, the time says which it was: versions are numbered in one
// sequence.
type Writes struct {
	Made    map[Version][]*Request // by the version in the answer: who wrote it, and then who found nothing to change
	all     map[string][]*Request  // by their object
	created []created              // in the order of their versions
}

// Version is one of an object.
type Version struct{ UID, Number string }

// created is a version that was made between two times, as all later ones were after the first, and all earlier ones
// before the second.
type created struct {
	number        uint64
	after, before time.Time
}

// NewWrites takes the requests of an audit log.
func NewWrites(requests []Request) (*Writes, error) {
	w := &Writes{Made: make(map[Version][]*Request), all: make(map[string][]*Request)}
	for i := range requests {
		r := &requests[i]
		query, err := r.Query()
		if err != nil {
			return nil, err
		}
		if r.Code/100 != 2 || query.Has("dryRun") || r.Resource == "" {
			continue
		}
		resource, _, _ := strings.Cut(r.Resource, "/")
		of := place(resource, r.Namespace, r.Name)
		w.all[of] = append(w.all[of], r)
		if r.UID == "" || r.Version == "" {
			continue
		}
		v := Version{r.UID, r.Version}
		w.Made[v] = append(w.Made[v], r)
		if r.Code == 201 { // anything else may have found nothing to change
			w.created = append(w.created, created{number(r.Version), r.Received, r.Answered})
		}
	}
	for _, by := range w.Made {
		slices.SortStableFunc(by, byReceived)
	}
	slices.SortFunc(w.created, func(a, b created) int { return cmp.Compare(a.number, b.number) })
	for i, last := 1, len(w.created)-1; i <= last; i++ {
		if c := &w.created[i]; c.after.Before(w.created[i-1].after) {
			c.after = w.created[i-1].after
		}
		if c := &w.created[last-i]; c.before.After(w.created[last-i+1].before) {
			c.before = w.created[last-i+1].before
		}
	}
	return w, nil
}

// place names an object. The audit log has a Namespace in itself, and an Event in either of its groups.
func place(resource, namespace, name string) string {
	switch resource {
	case "namespaces":
		namespace = ""
	case "events.events.k8s.io":
		resource = "events"
	}
	return resource + " " + namespace + "/" + name
}

func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

// window returns the times between which a version was made; before is zero if nothing says.
func (w *Writes) window(version string) (after, before time.Time) {
	v := number(version)
	i, found := slices.BinarySearchFunc(w.created, v, func(c created, v uint64) int { return cmp.Compare(c.number, v) })
	if i > 0 {
		after = w.created[i-1].after
	}
	if found {
		after = w.created[i].after
	}
	if i < len(w.created) {
		before = w.created[i].before
	}
	return after, before
}

// By returns the requests of which one wrote a version of an object: nearly always one. resource is with its group, as
// in deployments.apps; isNew says that it is the object's first version.
//
// An answer with the version does not prove that its request wrote it, unless it created the object: a second deletion
// is answered with the version of the first, and that may have been an eviction, whose answer has no version.
func (w *Writes) By(v Version, resource, namespace, name string, isNew bool) (found []*Request) {
	after, before := w.window(v.Number)
	could := func(r *Request) bool {
		return (before.IsZero() || !r.Received.After(before)) && !r.Answered.Before(after) && (!isNew || r.Code == 201)
	}
	for _, r := range w.Made[v] {
		if len(found) > 0 && r.Received.After(found[0].Answered) {
			break // the version was there
		}
		if could(r) {
			found = append(found, r)
		}
	}
	answered := time.Time{} // when the version was there, if that is known
	if len(found) > 0 {
		if answered = found[0].Answered; found[0].Code == 201 {
			return found
		}
	}
	for _, name := range []string{name, ""} { // all of a collection have no name
		for _, r := range w.all[place(resource, namespace, name)] {
			if !answered.IsZero() && (r.Version != "" || r.Received.After(answered)) {
				continue
			}
			by := w.Made[Version{r.UID, r.Version}]
			wroteAnother := len(by) > 0 && by[0] == r
			if r.Verb == "delete" && number(r.Version) > number(v.Number) {
				wroteAnother = false // it may write a version before it deletes
			}
			if r.Verb == "deletecollection" && r.Object != nil && !bytes.Contains(r.Object, []byte(v.UID)) {
				continue // the answer lists what it deleted
			}
			if could(r) && !wroteAnother && (r.UID == "" || r.UID == v.UID) {
				found = append(found, r)
			}
		}
	}
	slices.SortStableFunc(found, byReceived)
	return found
}

func byReceived(a, b *Request) int { return a.Received.Compare(b.Received) }

// Manager is who writes, as managedFields names it: the server's rule is the field manager that the request names, else
// the product in its user agent. The subresource is beside it.
func (r *Request) Manager() (manager, subresource string) {
	_, subresource, _ = strings.Cut(r.Resource, "/")
	if query, err := r.Query(); err == nil && query.Get("fieldManager") != "" {
		return query.Get("fieldManager"), subresource
	}
	return r.Agent, subresource
}
