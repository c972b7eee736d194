package person

import (
	"time"

	"kubejournal/internal/format/audit"
)

// Requests are the requests of audit logs, each once.
type Requests struct {
	seen        map[request]bool
	texts       map[string]string
	byVersion   map[[2]string][]*audit.Request // by uid and version of the answer
	deletions   map[string][]*audit.Request    // by uid of what they delete
	byName      map[object][]*audit.Request    // those whose answer has no version
	collections map[object][]*audit.Request    // deletions of collections whose objects are not logged
	oldest      time.Time
}

// request is what tells requests apart. Clients may choose the audit id, so that it is not enough.
type request struct {
	id, user, verb, name string
	at                   int64
}

// object names one, or a collection.
type object struct{ group, resource, namespace, name string }

// New returns an empty set of requests.
func New() *Requests {
	return &Requests{
		seen: make(map[request]bool), texts: make(map[string]string), byVersion: make(map[[2]string][]*audit.Request),
		deletions: make(map[string][]*audit.Request), byName: make(map[object][]*audit.Request),
		collections: make(map[object][]*audit.Request),
	}
}

// Add adds a request, unless it is there.
func (q *Requests) Add(r audit.Request) { q.add(&r) }

// add reports whether the request was not there.
func (q *Requests) add(r *audit.Request) bool {
	is := request{r.AuditID, r.User, r.Verb, r.Name, r.Received.UnixNano()}
	if q.seen[is] {
		return false
	}
	q.seen[is] = true
	for _, text := range []*string{&r.User, &r.Agent, &r.Impersonated, &r.Group, &r.Resource, &r.Manager} {
		if known, ok := q.texts[*text]; ok {
			*text = known
		} else {
			q.texts[*text] = *text
		}
	}
	if q.oldest.IsZero() || r.Received.Before(q.oldest) {
		q.oldest = r.Received
	}
	of := objectOf(r.Group, r.Resource, r.Namespace, r.Name)
	deletes := r.Verb == "delete"
	switch {
	case r.Verb == "deletecollection":
		for _, uid := range r.Items {
			q.deletions[uid] = append(q.deletions[uid], r)
		}
		if r.Failed || !r.Listed {
			q.collections[of] = append(q.collections[of], r)
		}
		return true
	case r.Version != "":
		v := [2]string{r.UID, r.Version}
		q.byVersion[v] = append(q.byVersion[v], r)
	case !deletes || r.UID == "":
		q.byName[of] = append(q.byName[of], r)
	}
	if deletes && r.UID != "" {
		q.deletions[r.UID] = append(q.deletions[r.UID], r)
	}
	return true
}

// objectOf names an object. Events are the same in both of their groups.
func objectOf(group, resource, namespace, name string) object {
	if resource == "events" {
		group = ""
	}
	return object{group, resource, namespace, name}
}
