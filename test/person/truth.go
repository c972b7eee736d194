package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a line of the journal, and whom an answer names for it.
type entry struct {
	Seq                       int
	Time                      time.Time
	Type, Origin              string
	Resource, Namespace, Name string
	UID, ResourceVersion      string
	Object                    tree
	Person                    *struct{ User, Impersonated, Match, AuditID string }
}

// truth is who made a line. Where there are several, their requests overlapped and nothing says which of them did.
type truth struct {
	makers []*request
	what   string
}

// court finds out who made lines, from the marks in them and from the answers of the requests.
type court struct {
	*town
	byMark map[int]*request
	byUID  map[string][]*request // those that succeeded, and named the object
	byName map[key][]*request    // evictions, refused ones too: such a one may have written its condition
	listed map[key][]*request    // deletions of collections
	last   map[string]tree       // by uid
	asked  map[string]truth      // for its deletion, by uid
	made   map[string]*request   // by uid
	before map[string]time.Time  // when the request was sent that made the line before this one, by uid
	spent  map[line]bool         // deletions that have made a version
}

// line is a change of an object that a request makes once at most.
type line struct {
	by   *request
	uid  string
	what string
}

func (t *town) court() *court {
	c := &court{
		town: t, byMark: map[int]*request{}, byUID: map[string][]*request{},
		byName: map[key][]*request{}, listed: map[key][]*request{},
		last: map[string]tree{}, asked: map[string]truth{}, made: map[string]*request{},
		before: map[string]time.Time{}, spent: map[line]bool{},
	}
	for _, r := range t.requests {
		c.byMark[r.mark] = r
		if r.what == "dry run" {
			continue
		}
		if r.evicts && r.code != 0 {
			k := key{r.resource, r.ns, r.name}
			c.byName[k] = append(c.byName[k], r)
		}
		if !r.ok() {
			continue
		}
		if r.uid != "" {
			c.byUID[r.uid] = append(c.byUID[r.uid], r)
		}
		for _, uid := range r.items {
			c.byUID[uid] = append(c.byUID[uid], r)
		}
		for _, name := range r.names {
			k := key{r.resource, r.ns, name}
			c.listed[k] = append(c.listed[k], r)
		}
	}
	return c
}

// marks are what requests leave in an object.
type marks struct{ annotation, status, replicas, grace, node, deletion, finalizers string }

func marksOf(o tree) (m marks) {
	metadata, _ := o["metadata"].(tree)
	annotations, _ := metadata["annotations"].(tree)
	m.annotation, _ = annotations[mark].(string)
	status, _ := o["status"].(tree)
	m.status, _ = status[mark].(string)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c := c.(tree); c["type"] == "Truth" {
			m.status, _ = c["message"].(string)
		}
	}
	spec, _ := o["spec"].(tree)
	if n, _ := spec["replicas"].(float64); n > first {
		m.replicas = strconv.Itoa(int(n))
	}
	m.node, _ = spec["nodeName"].(string)
	m.deletion, _ = metadata["deletionTimestamp"].(string)
	if n, _ := metadata["deletionGracePeriodSeconds"].(float64); n > first {
		m.grace = strconv.Itoa(int(n))
	} else {
		m.deletion += fmt.Sprint(" ", n)
	}
	m.finalizers = fmt.Sprint(metadata["finalizers"])
	return m
}

// of returns who made a line; ok is false for one that no user made.
func (c *court) of(e *entry) (t truth, ok bool) {
	if e.Origin != "watch" || e.UID == "" || strings.HasPrefix(e.Namespace, "kube-") {
		return t, false
	}
	t, ok = c.maker(e)
	for i, r := range t.makers {
		if i == 0 || r.sent.Before(c.before[e.UID]) {
			c.before[e.UID] = r.sent
		}
	}
	return t, ok
}

func (c *court) maker(e *entry) (t truth, ok bool) {
	was, seen := c.last[e.UID]
	c.last[e.UID] = e.Object
	is := marksOf(e.Object)
	switch e.Type {
	case "ADDED":
		r := c.marked(is.annotation)
		if r == nil {
			return t, false
		}
		c.made[e.UID] = r
		return truth{[]*request{r}, r.what}, true
	case "MODIFIED":
		if !seen {
			return t, false
		}
		return c.modified(e, marksOf(was), is)
	case "DELETED":
		if t, ok := c.asked[e.UID]; ok {
			return truth{t.makers, "the end of a deletion (" + t.what + ")"}, true
		}
		return c.deleted(e, c.byUID[e.UID]), true
	}
	return t, false
}

func (c *court) marked(text string) *request {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return c.byMark[n]
}

func (c *court) modified(e *entry, was, is marks) (t truth, ok bool) {
	by := func(text string) (truth, bool) {
		r := c.marked(text)
		if r == nil {
			return t, false
		}
		return truth{[]*request{r}, r.what}, true
	}
	switch {
	case is.annotation != was.annotation:
		return by(is.annotation)
	case is.status != was.status:
		return by(is.status)
	case is.replicas != was.replicas:
		return by(is.replicas)
	case is.node != was.node:
		return by(is.node[len("node-"):])
	case is.deletion != was.deletion || is.grace != was.grace:
		if is.grace != "" && is.grace != was.grace {
			t, ok = by(is.grace)
		} else {
			_, before := c.asked[e.UID]
			t, ok = c.asking(e, "deletion", func(r *request) bool { return !before || r.grace == 0 }), true
		}
		if _, before := c.asked[e.UID]; !before {
			c.asked[e.UID] = t
		} else {
			t.what = "a deletion with less grace"
		}
		return t, ok
	}
	// What leaves no mark: the removal of a finalizer, an apply that changes managedFields alone; a deletion that asks
	// for another finalizer than the one before; an eviction.
	// Nothing but a deletion or the removal of a finalizer changes this one.
	const foreground = "foregroundDeletion"
	changed := strings.Contains(is.finalizers, foreground) != strings.Contains(was.finalizers, foreground)
	var answered []*request
	for _, r := range c.byUID[e.UID] {
		// One that removed the last finalizer is answered with the version from before: another request's.
		removed := r.removes != "" && strings.Contains(was.finalizers, r.removes) &&
			!strings.Contains(is.finalizers, r.removes)
		if r.version == e.ResourceVersion && !r.deletes && (removed || r.removes == "" && !changed) {
			answered = append(answered, r)
		}
	}
	if t = one(e, answered); len(t.makers) > 0 {
		return t, true
	}
	t = c.asking(e, "condition", func(r *request) bool { return r.evicts && !changed })
	if len(t.makers) > 0 && t.makers[0].evicts {
		t.what = "the condition of an eviction"
	}
	return t, true
}

// asking returns the deletions that may have made a version: the one that is answered with it; else of those that are
// answered with a later one, as they have made two, and of evictions, whose answers have none, the first one, and what
// overlaps with it.
func (c *court) asking(e *entry, what string, can func(*request) bool) truth {
	var all, answered []*request
	add := func(r *request) {
		fits := can(r) && (r.ok() || what == "condition")
		if fits && !c.spent[line{r, e.UID, what}] && !r.answered.Before(c.before[e.UID]) {
			all = append(all, r)
		}
	}
	for _, r := range c.byUID[e.UID] {
		switch {
		case !r.deletes:
		case r.version == e.ResourceVersion && !c.spent[line{r, e.UID, what}]:
			answered = append(answered, r)
		case r.version == "" || number(r.version) > number(e.ResourceVersion):
			add(r)
		}
	}
	for _, r := range c.byName[key{e.Resource, e.Namespace, e.Name}] {
		if made := c.made[e.UID]; made == nil || !r.answered.Before(made.sent) {
			add(r)
		}
	}
	t := one(e, append(all, answered...))
	// It deletes by name what it has listed, and another object may have this name by then.
	if len(t.makers) == 0 && what == "deletion" {
		t = one(e, c.listed[key{e.Resource, e.Namespace, e.Name}])
		t.what = "deletecollection of another object of this name"
	}
	if len(t.makers) == 1 {
		c.spent[line{t.makers[0], e.UID, what}] = true
	}
	return t
}

func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		panic(err) // the server's own are
	}
	return n
}

// one returns the first of some requests that all can have made a line, and those that overlap with it. One that was
// refused may have done nothing.
func one(e *entry, all []*request) (t truth) {
	var earliest *request
	for _, r := range all {
		if r.sent.After(e.Time) { // the same machine's clock
			continue
		}
		if earliest != nil && earliest.ok() && !r.ok() {
			continue
		}
		if earliest == nil || r.ok() && !earliest.ok() || r.answered.Before(earliest.answered) {
			earliest = r
		}
	}
	for _, r := range all {
		if earliest != nil && !r.sent.After(earliest.answered) && !r.sent.After(e.Time) {
			t.makers = append(t.makers, r)
			t.what = r.what
		}
	}
	return t
}

// deleted returns who made an object disappear at once: the one that was told so, or of the deletions of collections
// that list it.
func (c *court) deleted(e *entry, all []*request) truth {
	var told, lists []*request
	for _, r := range all {
		switch {
		case r.deletes && r.gone:
			told = append(told, r)
		case r.deletes && len(r.items) > 0:
			lists = append(lists, r)
		}
	}
	if len(told) == 1 {
		return truth{told, told[0].what}
	}
	if len(told) > 0 {
		return one(e, told)
	}
	if len(lists) == 0 {
		t := one(e, c.listed[key{e.Resource, e.Namespace, e.Name}])
		t.what = "deletecollection of another object of this name"
		return t
	}
	return one(e, lists)
}

// verdict is what comes of a line.
type verdict int

const (
	right verdict = iota
	nobody
	wrong
	unknown // the test does not know who made it
)

// judge compares whom a line names with who made it.
func (t truth) judge(e *entry) verdict {
	switch {
	case len(t.makers) == 0:
		return unknown
	case e.Person == nil:
		return nobody
	}
	for _, r := range t.makers {
		if r.id() == e.Person.AuditID && account+r.user == e.Person.User && r.as == e.Person.Impersonated {
			return right
		}
	}
	return wrong
}

// beside returns what else was asked for of the object, by which nobody can tell who made a line: a request that
// overlaps with its maker's, has changed nothing and is answered with the same version; an eviction that is refused in
// the second of another; or one whose answer the client did not wait for, in the seconds before.
func (t truth) beside(e *entry, all []*request) string {
	if len(t.makers) != 1 {
		return ""
	}
	by := t.makers[0]
	for _, r := range all {
		together := !r.sent.After(by.answered) && !by.sent.After(r.answered)
		if by.what == "eviction" && r.deletes || by.deletes && r.evicts { // whose answer does not name the pod
			together = together || r.sent.Truncate(time.Second).Equal(by.sent.Truncate(time.Second))
		}
		named := r.resource == e.Resource && r.ns == e.Namespace && r.name == e.Name
		of := r.uid == e.UID || slices.Contains(r.items, e.UID) || r.evicts && named
		switch {
		case by.deletes && r.deletes && r != by && r.ok() && together && of:
			return "two at once delete or evict it"
		case r == by || !named:
		case by.what == "eviction" && r.evicts && r.code/100 == 4 && together:
			return "beside an eviction that was refused"
		case r.version == e.ResourceVersion && together:
			return "beside one without effect in the same moment"
		case r.code == 0 && !r.sent.After(by.answered) && by.sent.Sub(r.answered) < 10*time.Second:
			return "beside one that was given up"
		}
	}
	return ""
}

const account = "system:serviceaccount:kube-system:"

func parse(text []byte) (e entry, err error) {
	err = json.Unmarshal(text, &e)
	return e, err
}
