package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// mark is the annotation, or the condition, by which a write is known in what it leaves.
	mark = "truth"
	// first is the first mark. A mark is also a number of replicas and a grace period, which none else is as large as.
	first = 100000
)

// kind is a kind of object that the users write.
type kind struct {
	group, version, resource, name string
	status, scale                  bool // it has these subresources
	custom                         bool // no strategic patches
	upsert                         bool // an update may create it
}

var kinds = []kind{
	{"", "v1", "configmaps", "ConfigMap", false, false, false, false},
	{"", "v1", "secrets", "Secret", false, false, false, false},
	{"", "v1", "pods", "Pod", true, false, false, false},
	{"apps", "v1", "deployments", "Deployment", true, true, false, false},
	{"person.kubejournal.test", "v1", "widgets", "Widget", true, true, true, false},
	{"coordination.k8s.io", "v1", "leases", "Lease", false, false, false, true},
}

var namespaceKind = kind{"", "v1", "namespaces", "Namespace", true, false, false, false}

func (k kind) apiVersion() string { return strings.TrimPrefix(k.group+"/"+k.version, "/") }

func (k kind) path(namespace, name string) string {
	p := "/api/v1"
	if k.group != "" {
		p = "/apis/" + k.group + "/" + k.version
	}
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	if p += "/" + k.resource; name != "" {
		p += "/" + name
	}
	return p
}

// request is what a user asked for, and what the answer was.
type request struct {
	mark               int
	user, as           string
	what               string // for the table
	deletes, evicts    bool
	resource, ns, name string
	removes            string // a finalizer

	sent, answered time.Time
	code           int // 0 where the user did not wait for it
	uid, version   string
	gone           bool     // the answer is a Status with the uid
	items, names   []string // in the answer to the deletion of a collection
	grace          int      // that a deletion names; -1 for none
}

func (r *request) id() string { return "truth-" + strconv.Itoa(r.mark) }

func (r *request) ok() bool { return r.code/100 == 2 }

type tree = map[string]any

type key struct{ resource, ns, name string }

// town is where the users write: what they share.
type town struct {
	ctx    context.Context
	host   string
	secret string // begins each value of a Secret

	mu       sync.Mutex
	marks    int
	requests []*request
	known    map[key]tree // what was last answered
	wrote    int          // requests that succeeded
	err      error
}

// user sends one request after the other.
type user struct {
	*town
	name   string
	client *http.Client
	rand   *rand.Rand
}

func (u *user) one(of int) bool { return u.rand.IntN(of) == 0 }

// begin returns a new request.
func (u *user) begin(what string, k kind, ns, name string) *request {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.marks++
	r := &request{mark: first + u.marks, user: u.name, what: what, resource: k.resource, ns: ns, name: name, grace: -1}
	u.requests = append(u.requests, r)
	return r
}

const (
	asJSON      = "application/json"
	asMerge     = "application/merge-patch+json"
	asOps       = "application/json-patch+json"
	asStrategic = "application/strategic-merge-patch+json"
	asApply     = "application/apply-patch+yaml"
)

// send sends a request, which has a mark, and takes its answer.
func (u *user) send(r *request, method, path, query, contentType string, body any) {
	ctx, cancel := u.ctx, func() {}
	if strings.HasPrefix(r.what, "given up") {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(u.rand.IntN(6000))*time.Microsecond)
	}
	defer cancel()
	answer, code, err := u.exchange(ctx, r, method, path, query, contentType, body)
	r.answered = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		if u.ctx.Err() == nil && ctx.Err() == nil && u.err == nil {
			u.err = err
		}
		return
	}
	r.code = code
	if !r.ok() || strings.Contains(query, "dryRun") || strings.HasPrefix(r.what, "dry run") {
		if code == http.StatusNotFound || code == http.StatusConflict {
			delete(u.known, key{r.resource, r.ns, r.name})
		}
		return
	}
	u.wrote++
	metadata, _ := answer["metadata"].(tree)
	switch {
	case answer["kind"] == "Status":
		details, _ := answer["details"].(tree)
		r.uid, _ = details["uid"].(string)
		r.gone = r.uid != ""
		if r.deletes {
			delete(u.known, key{r.resource, r.ns, r.name})
		}
	case answer["items"] != nil:
		for _, item := range answer["items"].([]any) {
			m := item.(tree)["metadata"].(tree)
			r.items = append(r.items, m["uid"].(string))
			r.names = append(r.names, m["name"].(string))
			delete(u.known, key{r.resource, r.ns, m["name"].(string)})
		}
	default:
		r.uid, _ = metadata["uid"].(string)
		r.version, _ = metadata["resourceVersion"].(string)
		if name, _ := metadata["name"].(string); name != "" && answer["kind"] != "Scale" {
			u.known[key{r.resource, r.ns, name}] = answer
		}
	}
}

func (u *user) exchange(
	ctx context.Context, r *request, method, path, query, contentType string, body any,
) (answer tree, code int, err error) {
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, 0, err
		}
	}
	if query != "" {
		path += "?" + query
	}
	q, err := http.NewRequestWithContext(ctx, method, u.host+path, bytes.NewReader(content))
	if err != nil {
		return nil, 0, err
	}
	q.Header.Set("Content-Type", contentType)
	q.Header.Set("Accept", asJSON)
	q.Header.Set("Audit-ID", r.id())
	q.Header.Set("User-Agent", []string{"kubectl/v1.36.0 (linux/amd64)", "helm/v4"}[u.rand.IntN(2)])
	if r.as != "" {
		q.Header.Set("Impersonate-User", r.as)
		q.Header.Set("Impersonate-Group", "system:masters")
	}
	r.sent = time.Now()
	response, err := u.client.Do(q)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	if err == nil && len(content) > 0 && json.Unmarshal(content, &answer) != nil {
		answer = nil // a refusal may be text
	}
	return answer, response.StatusCode, err
}

// make returns a new object with a mark.
func (u *user) make(k kind, name string, r *request) tree {
	labels := tree{"group": strconv.Itoa(u.rand.IntN(12))}
	metadata := tree{"labels": labels, "annotations": tree{mark: strconv.Itoa(r.mark)}}
	if name != "" {
		metadata["name"] = name
	} else {
		metadata["generateName"] = "made-"
	}
	o := tree{"apiVersion": k.apiVersion(), "kind": k.name, "metadata": metadata}
	container := []any{tree{"name": "c", "image": "i"}}
	switch k.resource {
	case "configmaps":
		o["data"] = tree{"a": "1"}
	case "secrets":
		o["stringData"] = tree{"password": u.secret + strconv.Itoa(r.mark)}
	case "pods":
		spec := tree{"containers": container}
		if !u.one(3) {
			spec["nodeName"] = "node-a"
		}
		o["spec"] = spec
	case "deployments":
		web := tree{"app": "web"}
		o["spec"] = tree{"replicas": 1, "selector": tree{"matchLabels": web},
			"template": tree{"metadata": tree{"labels": web}, "spec": tree{"containers": container}}}
	case "widgets":
		o["spec"] = tree{"replicas": 1}
	}
	if u.one(6) && k.resource != "namespaces" {
		metadata["finalizers"] = []any{finalizer(r)}
	}
	return o
}

func finalizer(r *request) string { return "kubejournal.test/f" + strconv.Itoa(r.mark) }

// managers share a name with others, or are the beginning of the user agent.
func (u *user) manager() string {
	return []string{"", "fieldManager=kubectl-edit", "fieldManager=helm"}[u.rand.IntN(3)]
}

func (u *user) lookup(k kind, ns, name string) tree {
	u.mu.Lock()
	defer u.mu.Unlock()
	return copied(u.known[key{k.resource, ns, name}])
}

func copied(o tree) tree {
	if o == nil {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var c tree
	if err := json.Unmarshal(text, &c); err != nil {
		panic(err)
	}
	return c
}

func joined(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, "&")
}

// act is one thing that a user does.
func (u *user) act() {
	k := kinds[u.rand.IntN(len(kinds))]
	ns := []string{"shop", "stock"}[u.rand.IntN(2)]
	name := "hot-" + strconv.Itoa(u.rand.IntN(3)) // that all write
	if !u.one(3) {
		name = "cold-" + strconv.Itoa(u.rand.IntN(60))
	}
	if u.one(150) {
		u.namespace()
		return
	}
	o := u.lookup(k, ns, name)
	if o == nil {
		u.create(k, ns, name)
		return
	}
	u.change(k, ns, name, o)
}

// person chooses whom a user acts as.
func (u *user) person(r *request) {
	if u.one(8) {
		r.as = []string{"root", "auditor"}[u.rand.IntN(2)]
	}
}

func (u *user) create(k kind, ns, name string) {
	what, query := "create", u.manager()
	switch n := u.rand.IntN(20); {
	case n == 0:
		what, query = "dry run", joined(query, "dryRun=All")
	case n == 1:
		what = "given up: create"
	case n == 2 && k.resource != "leases":
		what, name = "create with a generated name", ""
	case n < 6:
		r := u.begin("apply that creates", k, ns, name)
		u.person(r)
		o := u.make(k, name, r)
		u.send(r, http.MethodPatch, k.path(ns, name), "fieldManager=argocd&force=true", asApply, o)
		return
	case n < 10 && k.upsert:
		r := u.begin("update that creates", k, ns, name)
		u.send(r, http.MethodPut, k.path(ns, name), query, asJSON, u.make(k, name, r))
		return
	}
	r := u.begin(what, k, ns, name)
	u.person(r)
	o := u.make(k, name, r)
	u.send(r, http.MethodPost, k.path(ns, ""), query, asJSON, o)
	if name != "" && (r.code == http.StatusConflict || what == "given up: create" || u.one(30)) { // a client tries again
		again := u.begin("create", k, ns, name)
		u.send(again, http.MethodPost, k.path(ns, ""), query, asJSON, u.make(k, name, again))
		if again.code == http.StatusConflict {
			u.refresh(k, ns, name)
		}
	}
}

// refresh reads what is there.
func (u *user) refresh(k kind, ns, name string) {
	o, code, err := u.exchange(u.ctx, &request{}, http.MethodGet, k.path(ns, name), "", asJSON, nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil && code == http.StatusOK {
		u.known[key{k.resource, ns, name}] = o
	} else {
		delete(u.known, key{k.resource, ns, name})
	}
}

func annotate(o tree, n int) {
	metadata := o["metadata"].(tree)
	annotations, _ := metadata["annotations"].(tree)
	if annotations == nil {
		annotations = tree{}
		metadata["annotations"] = annotations
	}
	annotations[mark] = strconv.Itoa(n)
}

// marked is a patch that leaves a mark.
func marked(n int) tree {
	return tree{"metadata": tree{"annotations": tree{mark: strconv.Itoa(n)}}}
}

func (u *user) change(k kind, ns, name string, o tree) {
	path, query := k.path(ns, name), u.manager()
	at := func(what string) *request {
		r := u.begin(what, k, ns, name)
		u.person(r)
		return r
	}
	metadata := o["metadata"].(tree)
	switch n := u.rand.IntN(100); {
	case n < 14:
		r := at("update")
		if u.one(12) {
			r.what = "given up: update"
		}
		annotate(o, r.mark)
		u.send(r, http.MethodPut, path, query, asJSON, o)
	case n < 24:
		r := at("patch (merge)")
		if u.one(12) {
			r.what = "given up: patch"
		}
		body := marked(r.mark)
		u.send(r, http.MethodPatch, path, query, asMerge, body)
		if u.one(6) { // the same again, as a client does whose answer was lost
			again := at("patch without effect")
			again.user, again.as = r.user, r.as
			body["metadata"].(tree)["resourceVersion"] = r.version
			if r.version != "" {
				u.send(again, http.MethodPatch, path, query, asMerge, body)
			}
		}
	case n < 30:
		r := at("patch (JSON)")
		ops := []any{tree{"op": "replace", "path": "/metadata/annotations/" + mark, "value": strconv.Itoa(r.mark)}}
		u.send(r, http.MethodPatch, path, query, asOps, ops)
	case n < 35 && !k.custom:
		r := at("patch (strategic)")
		u.send(r, http.MethodPatch, path, query, asStrategic, marked(r.mark))
	case n < 43:
		r := at("apply")
		applied := tree{"apiVersion": k.apiVersion(), "kind": k.name, "metadata": tree{"name": name, "annotations": tree{mark: strconv.Itoa(r.mark)}}}
		u.send(r, http.MethodPatch, path, "fieldManager=argocd&force=true", asApply, applied)
		if r.version != "" && u.one(2) {
			again := at("apply without effect")
			applied["metadata"].(tree)["resourceVersion"], applied["metadata"].(tree)["uid"] = r.version, r.uid
			u.send(again, http.MethodPatch, path, "fieldManager=argocd&force=true", asApply, applied)
		}
	case n < 46:
		u.send(at("update without effect"), http.MethodPut, path, query, asJSON, o)
	case n < 50:
		u.send(at("patch without effect"), http.MethodPatch, path, query, asMerge, tree{"metadata": tree{"annotations": tree{"never": nil}}})
	case n < 53:
		what := at("dry run")
		if u.one(2) {
			u.send(what, http.MethodPatch, path, joined(query, "dryRun=All"), asMerge, marked(what.mark))
		} else {
			u.send(what, http.MethodDelete, path, "", asJSON, tree{"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": []string{"All"}})
		}
	case n < 55:
		refused := at("refused")
		switch u.rand.IntN(3) {
		case 0:
			metadata["resourceVersion"] = "1"
			u.send(refused, http.MethodPut, path, query, asJSON, o)
		case 1:
			test := tree{"op": "test", "path": "/kind", "value": "No"}
			u.send(refused, http.MethodPatch, path, query, asOps, []any{test})
		case 2:
			u.send(refused, http.MethodDelete, path, "", asJSON, tree{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": tree{"uid": "no"}})
		}
	case n < 63 && k.status:
		u.status(k, ns, name, o, at)
	case n < 69 && k.scale:
		r := at("scale")
		if u.one(2) {
			u.send(r, http.MethodPatch, path+"/scale", query, asMerge, tree{"spec": tree{"replicas": r.mark}})
		} else {
			scale := tree{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": tree{"name": name, "namespace": ns}, "spec": tree{"replicas": r.mark}}
			u.send(r, http.MethodPut, path+"/scale", query, asJSON, scale)
		}
	case n < 66 && k.resource == "pods":
		r := at("bind a pod")
		binding := tree{"apiVersion": "v1", "kind": "Binding", "metadata": tree{"name": name, "namespace": ns}, "target": tree{"kind": "Node", "name": "node-" + strconv.Itoa(r.mark)}}
		u.send(r, http.MethodPost, path+"/binding", "", asJSON, binding)
		u.refresh(k, ns, name)
	case n < 72 && k.resource == "pods":
		u.evict(k, ns, name, at)
	case n < 80:
		u.finalizers(k, ns, name, o, at)
	case n < 83:
		u.collection(k, ns)
	default:
		u.delete(k, ns, name, o, at)
	}
}

func (u *user) status(k kind, ns, name string, o tree, at func(string) *request) {
	r := at("status")
	status := tree{"conditions": []any{tree{"type": "Truth", "status": "True", "message": strconv.Itoa(r.mark), "reason": "X"}}}
	if k.custom {
		status = tree{"truth": strconv.Itoa(r.mark)}
	}
	path := k.path(ns, name) + "/status"
	if u.one(2) {
		u.send(r, http.MethodPatch, path, u.manager(), asMerge, tree{"status": status})
		return
	}
	was, _ := o["status"].(tree)
	if was == nil {
		was = tree{}
	}
	maps.Copy(was, status)
	o["status"] = was
	u.send(r, http.MethodPut, path, u.manager(), asJSON, o)
}

func (u *user) evict(k kind, ns, name string, at func(string) *request) {
	r := at("eviction")
	r.deletes, r.evicts = true, true
	options := tree{}
	if !u.one(3) {
		options["gracePeriodSeconds"], r.grace = r.mark, r.mark
	}
	if u.one(6) {
		r.what, options["dryRun"] = "dry run", []string{"All"}
		r.deletes = false
	}
	eviction := tree{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": tree{"name": name, "namespace": ns}, "deleteOptions": options}
	u.send(r, http.MethodPost, k.path(ns, name)+"/eviction", "", asJSON, eviction)
	u.refresh(k, ns, name)
}

// finalizers adds one, or removes one and nothing else.
func (u *user) finalizers(k kind, ns, name string, o tree, at func(string) *request) {
	metadata := o["metadata"].(tree)
	list, _ := metadata["finalizers"].([]any)
	path, query := k.path(ns, name), u.manager()
	if len(list) == 0 || u.one(4) {
		r := at("update")
		metadata["finalizers"] = append(list, finalizer(r))
		annotate(o, r.mark)
		u.send(r, http.MethodPut, path, query, asJSON, o)
		return
	}
	is := list[0].(string)
	r := at("removal of a finalizer")
	r.removes = is
	if u.one(2) {
		metadata["finalizers"] = list[1:]
		u.send(r, http.MethodPut, path, query, asJSON, o)
	} else {
		ops := []any{tree{"op": "test", "path": "/metadata/finalizers/0", "value": is}, tree{"op": "remove", "path": "/metadata/finalizers/0"}}
		u.send(r, http.MethodPatch, path, query, asOps, ops)
	}
	u.refresh(k, ns, name)
}

func (u *user) collection(k kind, ns string) {
	r := u.begin("deletecollection", k, ns, "")
	u.person(r)
	r.deletes = true
	selector := "labelSelector=" + url.QueryEscape("group="+strconv.Itoa(u.rand.IntN(12)))
	u.send(r, http.MethodDelete, k.path(ns, ""), selector, asJSON, tree{"apiVersion": "v1", "kind": "DeleteOptions"})
}

func (u *user) delete(k kind, ns, name string, o tree, at func(string) *request) {
	r := at("delete")
	r.deletes = true
	options := tree{"apiVersion": "v1", "kind": "DeleteOptions"}
	query := ""
	switch u.rand.IntN(6) {
	case 0:
		options["propagationPolicy"] = "Foreground"
	case 1:
		options["gracePeriodSeconds"], r.grace = r.mark, r.mark
	case 2:
		options["preconditions"] = tree{"uid": o["metadata"].(tree)["uid"]}
	case 3:
		options = nil
		query = "propagationPolicy=Background"
	case 4:
		if k.resource == "pods" {
			options["gracePeriodSeconds"], r.grace = 0, 0
		}
	}
	var body any
	if options != nil {
		body = options
	}
	u.send(r, http.MethodDelete, k.path(ns, name), query, asJSON, body)
	if u.one(4) { // another time, and perhaps of another object with this name
		again := at("delete")
		again.deletes = true
		u.send(again, http.MethodDelete, k.path(ns, name), "", asJSON, nil)
	}
	if r.ok() && r.gone && u.one(2) { // the same name again at once
		u.create(k, ns, name)
	} else if !r.gone {
		u.refresh(k, ns, name)
		if left := u.lookup(k, ns, name); left != nil && k.resource == "pods" && u.one(2) { // as the kubelet does
			end := at("delete")
			end.deletes, end.grace = true, 0
			u.send(end, http.MethodDelete, k.path(ns, name), "", asJSON, tree{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
		}
	}
}

// namespace makes a namespace with something in it, and deletes it. What the namespace controller does then is done by
// the user of that name.
func (u *user) namespace() {
	r := u.begin("create", namespaceKind, "", "")
	name := fmt.Sprint("tmp-", r.mark)
	r.name = name
	u.send(r, http.MethodPost, namespaceKind.path("", ""), u.manager(), asJSON, u.make(namespaceKind, name, r))
	if !r.ok() {
		return
	}
	for _, k := range kinds {
		u.create(k, name, "in-it")
	}
	d := u.begin("delete", namespaceKind, "", name)
	d.deletes = true
	u.send(d, http.MethodDelete, namespaceKind.path("", name), "", asJSON, nil)
	for _, k := range kinds {
		c := u.begin("deletecollection", k, name, "")
		c.deletes, c.grace = true, 0
		u.send(c, http.MethodDelete, k.path(name, ""), "", asJSON, tree{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
	}
	f := u.begin("finalize", namespaceKind, "", name)
	body := tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": name}, "spec": tree{"finalizers": []any{}}}
	u.send(f, http.MethodPut, namespaceKind.path("", name)+"/finalize", "", asJSON, body)
}
