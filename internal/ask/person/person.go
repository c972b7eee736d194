// Package person finds out which requests of an audit log made the lines of a journal.
//
// A line gets a request only where that is certain, or where one request alone fits. A request that is not in the log
// may have made a line too, and one that is in it may have changed nothing: it is answered with the version that was
// there. So the answer's version alone proves nothing; what else does is in could.
package person

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

const (
	// skew is how far the clocks of kubejournal and of the API server may lie apart.
	skew = 2 * time.Second
	// delay is how much later than its answer the line of a request is received where nothing holds it up.
	delay = 10 * time.Second
	// apart is how far the clocks of several API servers may lie apart.
	apart = time.Second
	// many is how many lines in a row are enough to see that the clocks of kubejournal and of the API server differ.
	many = 8
	// margin is by how much a line may come sooner after its request than the fastest line whose request is certain.
	margin = 50 * time.Millisecond
)

// Result is which requests made the lines of a journal.
type Result struct {
	Entries []audit.Entry // in the order of seq
	Lines   int           // about objects, in the time of the logs
	Named   map[audit.Match]int
	Several int // lines that several requests fit
}

// Match finds out which requests made the lines of a journal.
func (q *Requests) Match(ctx context.Context, j *archive.Journal) (*Result, error) {
	m := newMatching(q)
	next := uint64(1)
	var in archive.Reader
	defer in.Close()
	for i, s := range j.Segments {
		if i+1 < len(j.Segments) && j.Segments[i+1].FirstTime.Before(q.oldest.Add(-time.Hour)) {
			continue // also where the clock was set
		}
		err := in.Open(s, 0)
		for n := 0; err == nil; n++ {
			if n%1000 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			raw, e := in.Next()
			var l line.Fields
			if err = e; err != nil || raw.Seq < next || l.Parse(raw.Bytes) != nil {
				continue
			}
			next = l.Next()
			m.line(&l)
		}
		if !errors.Is(err, io.EOF) {
			j.Notice(s.Path + " cannot be read to its end: " + err.Error())
		}
	}
	return m.end(), nil
}

// matching is a walk through a journal.
type matching struct {
	*Requests
	Result
	fits     map[fit]int                 // how many lines
	alone    map[fit]int                 // of these, those that no other request fits
	askers   map[string][]*audit.Request // for the deletion of an object, by uid
	pending  []found
	since    map[string]time.Time // before which no request was over that makes the next line, by stream
	soonest  time.Duration        // how long after its request a line was received at least: the clocks may differ
	untimely int                  // how many lines in a row were not received as the server says that they were written
}

func newMatching(q *Requests) *matching {
	return &matching{
		Requests: q, fits: make(map[fit]int), alone: make(map[fit]int), askers: make(map[string][]*audit.Request),
		since: make(map[string]time.Time), soonest: skew,
		Result: Result{Named: make(map[audit.Match]int)},
	}
}

// fit is a request that fits lines of a type by name and time. One makes a line of a type at most: a deletion may make
// one as it is asked for, and one at its end.
type fit struct {
	by *audit.Request
	of line.Type
}

// found is what was found of a line.
type found struct {
	fit                    // by is nil where several fit
	all   []*audit.Request // those, where they delete
	seq   uint64
	line  uint32
	match audit.Match
	at    time.Time // of the line
	since time.Time // when the first of the requests was received
	// how long after the request the line was received; timed says that it is known by that alone
	after time.Duration
	timed bool
}

// is is what is asked of a line.
type is struct {
	*line.Fields
	uid, version, manager string
	written               time.Time // zero where the line does not say
	of                    line.Type // a request makes one line of it at most
	live                  bool      // it was received as its change was made, if nothing held it up
	selects               bool      // its stream has a selector
}

func (m *matching) line(l *line.Fields) {
	typ := l.Type()
	if typ != line.Added && typ != line.Modified && typ != line.Deleted {
		return
	}
	x := &is{
		Fields: l, uid: l.Unquoted(line.FieldUID), version: l.Unquoted(line.FieldResourceVersion),
		of: typ, manager: l.Unquoted(line.FieldManager), live: l.Origin() == line.FromWatch,
		selects: l.StreamName().Selects(),
	}
	if l.Time.Before(m.oldest.Add(-skew)) || x.uid == "" {
		return
	}
	m.Lines++
	if len(l.Value(line.FieldEvent)) == 0 || x.manager != "" { // else by the clock of its reporter
		x.written, _ = l.Written()
	}
	m.compare(x)
	if typ == line.Deleted {
		m.deleted(x)
		return
	}
	if at, ok := deletionAsked(x); ok && x.live && typ == line.Modified && x.manager == "" && at.Equal(x.written) {
		m.asked(x, at)
		return
	}
	all := m.exact(x)
	if m.indirect(x, all) {
		return
	}
	if len(all) > 0 {
		stream, at := x.Unquoted(line.FieldStream), all[0].Received
		if len(all) == 1 && strong(all[0]) && at.After(m.since[stream]) {
			m.since[stream] = at
		}
		m.found(x, all, audit.Exact)
		return
	}
	m.named(x)
	m.shortened(x)
}

// compare notes whether a line was received about when the server says that it was written.
func (m *matching) compare(x *is) {
	if !x.live || x.written.IsZero() || len(x.Value(line.FieldEvent)) > 0 {
		return
	}
	if after := x.Time.Sub(x.written); after < -skew || after > delay {
		m.untimely++
	} else {
		m.untimely = -many // one writer's times do not hide that the clocks agree
	}
}

// unclear reports whether the time at which a line was received does not tell which of the requests for its name made
// it: the clocks differ, or lines were held up.
func (m *matching) unclear(all []*audit.Request) bool {
	return m.untimely > 0 && matchOf(all) == audit.Name
}

// found notes the requests of which one made the line.
func (m *matching) found(x *is, all []*audit.Request, match audit.Match) {
	if len(all) == 0 {
		return
	}
	by := all[0]
	f := found{
		fit: fit{by, x.of}, seq: x.Seq, line: audit.LineSum(x.Text(line.FieldID)), match: match,
		at: x.Time, since: by.Received,
		after: x.Time.Sub(by.Received), timed: !strong(by) && !weak(by) && x.written.IsZero(),
	}
	if match == audit.Exact && x.live && !f.timed && f.after < m.soonest {
		m.soonest = f.after
	}
	switch {
	case same(all):
		m.alone[f.fit]++
	case !slices.ContainsFunc(all, func(r *audit.Request) bool { return !surelyDeletes(r) }):
		f.by, f.all = nil, all
	default:
		f.by = nil
	}
	for _, r := range all {
		if r.Received.Before(f.since) {
			f.since = r.Received
		}
		if match == audit.Name {
			m.fits[fit{r, x.of}]++
		}
	}
	m.pending = append(m.pending, f)
}

// same reports whether it is one request, which two API servers have logged where one has passed it on.
func same(all []*audit.Request) bool {
	return !slices.ContainsFunc(all, func(r *audit.Request) bool {
		return r.AuditID != all[0].AuditID || r.User != all[0].User || r.Verb != all[0].Verb
	})
}

// end returns the result. A request that fits several lines by name and time has made one of them at most.
func (m *matching) end() *Result {
	for _, f := range m.pending {
		if e, ok := m.entry(&f); ok {
			m.Entries = append(m.Entries, e)
		}
	}
	return &m.Result
}

// entry returns what is known of a line; ok is false where that is nothing.
func (m *matching) entry(f *found) (e audit.Entry, ok bool) {
	if f.match == audit.Exact && f.timed && f.after < m.soonest-margin && m.soonest < skew {
		return e, false // it found the version there
	}
	e = audit.Entry{Seq: f.seq, Line: f.line, Person: audit.Person{Match: f.match}}
	one := f.match != audit.Name
	if f.by != nil {
		one = one || m.fits[f.fit] == 1 || m.alone[f.fit] == 1 && surelyDeletes(f.by)
	} else if left := m.left(f); len(left) > 0 && same(left) && matchOf(left) == audit.UID {
		f.by, f.match, one = left[0], audit.UID, true
	}
	if f.by != nil && one {
		e.Person = f.by.Person
		e.Match = f.match
		m.Named[f.match]++
	} else {
		m.Several++
	}
	return e, true
}

// left returns the requests that fit a line, but for those that have made another one, as no other request fits that.
// The deletion of a collection makes one for each object.
func (m *matching) left(f *found) []*audit.Request {
	return slices.DeleteFunc(slices.Clone(f.all), func(r *audit.Request) bool {
		return r.Verb != "deletecollection" && m.alone[fit{r, f.of}] == 1
	})
}

// second cuts a time down to what the server notes of it.
func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// during reports whether a time of the server's, in whole seconds, can be one at which the request was handled.
func during(r *audit.Request, at time.Time) bool {
	return !at.Before(second(r.Received)) && !at.After(r.Answered)
}

// strong reports whether a request has certainly written the version in its answer.
func strong(r *audit.Request) bool {
	return r.Created && r.Subresource == "" ||
		r.Verb == "update" && r.Before != "" && r.Version != "" && r.Before != r.Version
}

// weak reports whether something was written in the seconds of the request, as managedFields say: a request that
// changes nothing leaves the times in them as they were.
func weak(r *audit.Request) bool { return !r.Touched.IsZero() && !r.Touched.Before(second(r.Received)) }

// could reports whether a request whose answer has the line's version can have written it.
func could(x *is, r *audit.Request) bool {
	switch {
	case r.Received.After(x.Time.Add(skew)) || r.Ended: // the version was there
		return false
	case strong(r):
		return true
	case r.Verb == "update" && r.Before == r.Version: // nothing changed
		return false
	case r.Verb == "delete" && (x.manager != "" || !ofDeletion(x)):
		return false
	case x.manager != "" && r.Subresource != x.Unquoted(line.FieldSubresource):
		return false
	case x.manager != "" && r.Manager != "" && x.manager != r.Manager:
		return false
	case !x.written.IsZero():
		return during(r, x.written)
	case weak(r):
		return true
	}
	return x.live && x.Time.Before(r.Answered.Add(delay))
}

// deletion begins the paths of what the server notes of a deletion.
const deletion = `"/metadata/deletion`

// exact returns the requests of which one wrote the version: those that it is the answer of, but for those that found
// it there.
func (m *matching) exact(x *is) []*audit.Request {
	var all []*audit.Request
	for _, r := range m.byVersion[[2]string{x.uid, x.version}] {
		if could(x, r) {
			all = append(all, r)
		}
	}
	if slices.ContainsFunc(all, strong) {
		all = slices.DeleteFunc(all, func(r *audit.Request) bool { return !strong(r) })
	} else if slices.ContainsFunc(all, weak) { // an answer without managedFields says nothing
		all = slices.DeleteFunc(all, func(r *audit.Request) bool { return !weak(r) && !r.Touched.IsZero() })
	}
	if len(all) > 0 && !strong(all[0]) {
		all = firstOf(all) // the others found it there
		for _, r := range m.byName[nameOf(x)] {
			if r.Failed && !r.Received.After(all[0].Answered) && !m.over(x, r) && perhaps(x, r) {
				all = append(all, r) // the first one has found it there too, perhaps
			}
		}
	}
	return all
}

// nameOf names the object of a line.
func nameOf(x *is) object {
	return objectOf(x.Unquoted(line.FieldGroup), x.Unquoted(line.FieldResource), x.Unquoted(line.FieldNamespace),
		x.Unquoted(line.FieldName))
}

// named notes the request that fits by name and time, among those of which no answer is logged.
func (m *matching) named(x *is) {
	if !x.live || x.written.IsZero() || x.manager == "" {
		return
	}
	var all []*audit.Request
	for _, r := range m.byName[nameOf(x)] {
		if writes(x, r) {
			all = append(all, r)
		}
	}
	m.found(x, all, audit.Name)
}

// indirect notes the request that made the API server write a pod without naming a manager: its binding, or the
// condition that its eviction sets before deletionTimestamp. ok is false for any other line. A request that was
// answered with the version found it there, except a write of the status, which may set any condition.
func (m *matching) indirect(x *is, answered []*audit.Request) (ok bool) {
	subresource, at := wroteIndirectly(x)
	if !x.live || x.manager != "" || subresource == "" ||
		slices.ContainsFunc(answered, func(r *audit.Request) bool { return r.Subresource == "status" }) {
		return false
	}
	var all []*audit.Request
	for _, r := range m.byName[nameOf(x)] {
		if r.Verb == "create" && r.Subresource == subresource && during(r, at) && !r.Received.After(x.Time.Add(skew)) {
			all = append(all, r)
		}
	}
	x.of = line.Type(subresource)
	m.found(x, earliest(x, all, at), audit.Name)
	return true
}

// wroteIndirectly returns the subresource through which a line was written, as its changes say, and the time of the
// condition that this has left.
func wroteIndirectly(x *is) (subresource string, at time.Time) {
	if x.Unquoted(line.FieldResource) != "pods" {
		return "", at
	}
	condition := ""
	for change := range rawjson.Elements(x.Value(line.FieldChanges)) {
		is := rawjson.Pick(change, "op", "path", "value")
		path := rawjson.Inside(is[1])
		switch {
		case string(rawjson.Inside(is[0])) != "add":
		case string(path) == "/spec/nodeName":
			subresource, condition = "binding", "PodScheduled"
		case bytes.HasPrefix(path, []byte("/status/conditions")) && bytes.Contains(is[2], []byte(`"EvictionByEvictionAPI"`)):
			subresource, condition = "eviction", "DisruptionTarget"
		}
	}
	conditions := rawjson.Pick(rawjson.Pick(x.Object, "status")[0], "conditions")[0]
	for c := range rawjson.Elements(conditions) {
		is := rawjson.Pick(c, "type", "lastTransitionTime")
		if string(rawjson.Inside(is[0])) == condition && at.UnmarshalText(rawjson.Inside(is[1])) != nil {
			return "", time.Time{}
		}
	}
	return subresource, at
}

// over reports whether a request was over before the one was received that made an earlier line of the stream, whose
// lines are in the order in which they were made.
func (m *matching) over(x *is, r *audit.Request) bool {
	return r.Answered.Add(apart).Before(m.since[x.Unquoted(line.FieldStream)])
}

// perhaps reports whether a request that has failed may have made a line.
func perhaps(x *is, r *audit.Request) bool {
	switch {
	case !x.written.IsZero():
		return writes(x, r)
	case r.Verb != "update" && r.Verb != "patch" || r.Received.After(x.Time.Add(skew)):
		return false
	}
	return x.live && x.Time.Before(r.Answered.Add(delay))
}

// writes reports whether a request of which no answer is logged fits what a line says of its writer.
func writes(x *is, r *audit.Request) bool {
	added := x.Type() == line.Added
	can := r.Verb == "update" || r.Verb == "patch" || added && r.Verb == "create"
	return can && (r.Failed || r.Created == added) && r.Subresource == x.Unquoted(line.FieldSubresource) &&
		r.Manager == x.manager && during(r, x.written) && !r.Received.After(x.Time.Add(skew))
}
