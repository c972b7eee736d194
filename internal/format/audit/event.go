package audit

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Request is what an audit log says of a request that may have written.
type Request struct {
	Person

	Received, Answered time.Time

	Group, Resource, Subresource, Namespace, Name string
	// Manager is the field manager under which the server notes the write; empty where that is not known.
	Manager string
	// UID is that of the object in the answer, or that the answer's Status names. Version is that of the object in the
	// answer: the one that was written or, where nothing changed, the one that was there.
	UID, Version string
	// Removed reports that the answer is a Status that names the object: it is gone.
	Removed bool
	// Ended reports that the write took the last finalizer off an object that was being deleted. The server removes the
	// object then, and its answer still has the version from before.
	Ended bool
	// Before is the version of the object in the request: a write is refused if that is not the present one.
	Before string
	// Failed reports that the answer is a fault of the server, or that nobody waited for it: the request may have
	// written.
	Failed bool
	// Refused reports that an eviction was refused: its pod may have its condition all the same, as the API server
	// writes that before it deletes.
	Refused bool
	// Created reports that the answer's status is 201.
	Created bool
	// Touched is the last time in the managedFields of the answer, in whole seconds; zero where they are not logged.
	Touched time.Time
	// Whole reports that the body of the request or of the answer is logged. Of others it is not known whether a
	// deletion was a dry run.
	Whole bool
	// Grace is the grace period that a deletion names, in seconds; empty where it names none, or that is not logged.
	Grace string
	// Items are the uids of the objects in the answer to a deletecollection; Listed reports that this is logged.
	Items  []string
	Listed bool
}

// writing are the verbs of requests that write.
var writing = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

// AKS has an event as a row of a table, whose columns are named like the members but for their case and two names.
func member(key []byte) string {
	switch name := strings.ToLower(string(key)); name {
	case "requestreceivedtime":
		return "requestreceivedtimestamp"
	case "stagereceivedtime":
		return "stagetimestamp"
	default:
		return name
	}
}

// isEvent reports whether a value is an event of an audit log.
func isEvent(value []byte) bool {
	found := 0
	for key, v := range rawjson.Members(value) {
		switch member(key) {
		case "kind":
			if string(rawjson.Inside(v)) != "Event" {
				return false
			}
		case "auditid", "verb", "stage", "user":
			found++
		}
	}
	return found == 4
}

// parseEvent reads an event; ok is false for a request that cannot have written.
func parseEvent(event []byte) (r Request, ok bool) {
	var stage, uri string
	var code int
	for key, v := range rawjson.Members(event) {
		switch member(key) {
		case "auditid":
			r.AuditID = text(v)
		case "stage":
			stage = text(v)
		case "verb":
			r.Verb = text(v)
		case "useragent":
			r.Agent = text(v)
		case "requesturi":
			uri = string(rawjson.Unquote(nil, rawjson.Inside(v)))
		case "user":
			r.User, r.Groups = user(v)
		case "impersonateduser":
			r.Impersonated, _ = user(v)
		case "sourceips":
			for ip := range rawjson.Elements(v) {
				r.Addresses = append(r.Addresses, text(ip))
			}
			const most = 5
			r.Addresses = r.Addresses[max(len(r.Addresses)-most, 0):]
		case "requestreceivedtimestamp":
			r.Received = instant(v)
		case "stagetimestamp":
			r.Answered = instant(v)
		case "objectref":
			r.takeReference(v)
		case "responsestatus":
			is := rawjson.Pick(v, "code", "details")
			code, _ = strconv.Atoi(string(is[0]))
			r.takeDetails(is[1])
		case "requestobject":
			if r.Whole = true; isDryRun(v) {
				return r, false
			}
			is := rawjson.Pick(v, "gracePeriodSeconds", "deleteOptions")
			r.Grace = grace(is[0]) + grace(rawjson.Pick(is[1], "gracePeriodSeconds")[0])
		}
	}
	r.Failed = code/100 == 5
	r.Refused = code/100 == 4 && r.Verb == "create" && r.Subresource == "eviction"
	if stage != "ResponseComplete" || !writing[r.Verb] || code/100 != 2 && !r.Failed && !r.Refused || r.Resource == "" ||
		r.Received.IsZero() || r.User == "" {
		return r, false
	}
	for key, v := range rawjson.Members(event) { // only now: most events are of requests that read
		if member(key) == "responseobject" {
			r.Whole = true
			r.takeAnswer(v)
		}
	}
	_, rest, _ := strings.Cut(uri, "?")
	query, err := url.ParseQuery(rest)
	if err != nil {
		return r, false // the server may have read it otherwise
	}
	if query.Has("dryRun") {
		return r, false
	}
	if query.Has("gracePeriodSeconds") {
		r.Grace = grace([]byte(query.Get("gracePeriodSeconds")))
	}
	r.Created = code == 201
	r.Manager = managerOf(query.Get("fieldManager"), r.Agent)
	if r.Answered.Before(r.Received) {
		r.Answered = r.Received
	}
	return r, true
}

func (r *Request) takeReference(v []byte) {
	for key, v := range rawjson.Members(v) {
		switch string(key) {
		case "resource":
			r.Resource = text(v)
		case "apiGroup":
			r.Group = text(v)
		case "subresource":
			r.Subresource = text(v)
		case "namespace":
			r.Namespace = text(v)
		case "name":
			r.Name = text(v)
		case "resourceVersion":
			r.Before = text(v)
		}
	}
	if r.Resource == "namespaces" && r.Group == "" {
		r.Namespace = "" // where its line has none
	}
}

// takeDetails takes the uid that a Status names.
func (r *Request) takeDetails(details []byte) {
	if uid := text(rawjson.Pick(details, "uid")[0]); uid != "" {
		r.UID, r.Removed = uid, true
	}
}

// takeAnswer takes what the answer says of the object, and nothing of its content.
func (r *Request) takeAnswer(answer []byte) {
	is := rawjson.Pick(answer, "kind", "metadata", "details", "items")
	if string(rawjson.Inside(is[0])) == "Status" {
		r.takeDetails(is[2])
		return
	}
	if r.Verb == "deletecollection" {
		r.Listed = is[3] != nil
		for item := range rawjson.Elements(is[3]) {
			if uid := text(rawjson.Pick(rawjson.Pick(item, "metadata")[0], "uid")[0]); uid != "" {
				r.Items = append(r.Items, uid)
			}
		}
		return
	}
	of := rawjson.Pick(is[1], "uid", "resourceVersion", "managedFields", "name")
	end := rawjson.Pick(is[1], "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")
	r.Ended = (r.Verb == "update" || r.Verb == "patch") && end[0] != nil && string(end[1]) == "0"
	for range rawjson.Elements(end[2]) {
		r.Ended = false
	}
	if uid := text(of[0]); uid != "" {
		r.UID, r.Version, r.Removed = uid, text(of[1]), false
	}
	if r.Name == "" { // of a generated name
		r.Name = text(of[3])
	}
	for entry := range rawjson.Elements(of[2]) {
		if at := instant(rawjson.Pick(entry, "time")[0]); at.After(r.Touched) {
			r.Touched = at
		}
	}
}

// grace returns a number of seconds, and nothing else that an object may have there.
func grace(v []byte) string {
	if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
		return ""
	}
	return string(v)
}

// isDryRun reports whether options that were sent as a body ask for one, those of an eviction too.
func isDryRun(body []byte) bool {
	is := rawjson.Pick(body, "dryRun", "deleteOptions")
	for _, list := range [][]byte{is[0], rawjson.Pick(is[1], "dryRun")[0]} {
		for range rawjson.Elements(list) {
			return true
		}
	}
	return false
}

// managerOf returns the field manager that the server notes: the one that the request names, else what its user agent
// begins with.
func managerOf(named, agent string) string {
	if named != "" {
		return named
	}
	const most = 128 // bytes
	name, _, _ := strings.Cut(agent, "/")
	return name[:min(len(name), most)]
}

func user(v []byte) (name string, groups []string) {
	is := rawjson.Pick(v, "username", "groups")
	const most = 100 // groups
	for group := range rawjson.Elements(is[1]) {
		if groups = append(groups, text(group)); len(groups) == most {
			break
		}
	}
	return text(is[0]), groups
}

// maxText bounds a text, in bytes: clients choose some of them.
const maxText = 1 << 10

func text(v []byte) string {
	is := rawjson.Unquote(nil, rawjson.Inside(v))
	return string(bytes.ToValidUTF8(is[:min(len(is), maxText)], []byte("\uFFFD")))
}

func instant(v []byte) (t time.Time) {
	if t.UnmarshalText(rawjson.Inside(v)) != nil {
		return time.Time{}
	}
	return t
}

// parseGoogle reads an entry of Google's audit logs with the protoPayload of a request to a cluster.
func parseGoogle(entry, payload []byte) (r Request, ok bool) {
	at := rawjson.Pick(entry, "timestamp", "receiveTimestamp", "operation", "insertId")
	r.Received, r.Answered = instant(at[0]), instant(at[1])
	if r.AuditID = text(rawjson.Pick(at[2], "id")[0]); r.AuditID == "" {
		r.AuditID = text(at[3])
	}
	var method string
	var code int
	dry := false
	for key, v := range rawjson.Members(payload) {
		switch string(key) {
		case "authenticationInfo":
			r.User = text(rawjson.Pick(v, "principalEmail")[0])
		case "requestMetadata":
			is := rawjson.Pick(v, "callerIp", "callerSuppliedUserAgent")
			r.Addresses, r.Agent = []string{text(is[0])}, text(is[1])
		case "methodName":
			method = text(v)
		case "resourceName":
			r.takePath(text(v))
		case "status": // of google.rpc: a code where it failed
			code, _ = strconv.Atoi(string(rawjson.Pick(v, "code")[0]))
		case "request":
			dry = isDryRun(v)
		}
	}
	r.Verb = method[strings.LastIndexByte(method, '.')+1:]
	if !writing[r.Verb] || code != 0 || dry || r.Resource == "" || r.Received.IsZero() || r.User == "" {
		return r, false
	}
	r.takeAnswer(rawjson.Pick(payload, "response")[0])
	r.Created, r.Whole = r.Verb == "create", true
	if r.Answered.Before(r.Received) {
		r.Answered = r.Received.Add(time.Second)
	}
	return r, true
}

// takePath takes group/version/namespaces/NAMESPACE/resource/NAME/subresource apart; the group of core is core.
func (r *Request) takePath(path string) {
	p := strings.Split(path, "/")
	if len(p) < 3 {
		return
	}
	if r.Group = p[0]; r.Group == "core" {
		r.Group = ""
	}
	if p = p[2:]; p[0] == "namespaces" && len(p) > 2 && p[2] != "status" && p[2] != "finalize" {
		r.Namespace, p = p[1], p[2:]
	}
	p = append(p, "", "")
	r.Resource, r.Name, r.Subresource = p[0], p[1], p[2]
}
