package fake

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Resource describes one resource that the server serves.
type Resource struct {
	Group, Version, Resource, Kind string
	// Singular defaults to the kind in lower case.
	Singular   string
	ShortNames []string
	Namespaced bool
	// Verbs defaults to all eight.
	Verbs []string
	// Categories and Subresources are listed in discovery and have no other effect.
	Categories, Subresources []string
	// ExtraVersions are served besides Version, which is the preferred one.
	ExtraVersions []string
	// Fields are what a field selector may name besides metadata.name and
	// metadata.namespace, as dotted paths.
	Fields []string
	// Compiled encodes as the server does the kinds that it is compiled with:
	// kind before apiVersion, and neither of them on the items of a list. Left
	// false, it encodes as for a custom resource.
	Compiled bool
	// Uncached leaves out the watch cache, as the server does for events: then
	// a watch expires by compaction only.
	Uncached bool
	// Indent sends watch frames over several lines, as an aggregated API server
	// may.
	Indent bool
}

// resource is one served resource. Two of them may share a store.
type resource struct {
	Resource
	store *store
	// outward turns a stored object, in place, into this resource's shape, and
	// inward turns it back; nil where they are the same.
	outward, inward func(map[string]any)
	removedAt       uint64 // the version after which its store is another resource's; 0 while it is served
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource.Resource}
}

func (r *resource) versions() []string { return append([]string{r.Version}, r.ExtraVersions...) }

func (r *resource) serves(version string) bool { return slices.Contains(r.versions(), version) }

func (r *resource) apiVersion(version string) string {
	return schema.GroupVersion{Group: r.Group, Version: version}.String()
}

// AddResource begins to serve a resource, as when a CustomResourceDefinition
// is created. Its watch cache begins at the current version.
func (s *Server) AddResource(r Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gr := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	st := s.removed[gr]
	if st == nil {
		st = newStore(0)
	}
	delete(s.removed, gr)
	st.window = s.version // etcd has what was before, the watch cache is new
	s.addResource(r, st)
}

func (s *Server) addResource(r Resource, st *store) *resource {
	if r.Singular == "" {
		r.Singular = strings.ToLower(r.Kind)
	}
	if r.Verbs == nil {
		r.Verbs = allVerbs
	}
	gr := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	if s.find(gr) != nil {
		panic(fmt.Sprintf("fake: add resource %s: served already", gr))
	}
	res := &resource{Resource: r, store: st}
	s.resources = append(s.resources, res)
	s.notify()
	return res
}

// RemoveResource deletes all objects of a resource, ends its watches in good
// order and stops serving it, as when a CustomResourceDefinition is deleted.
func (s *Server) RemoveResource(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := s.mustFind(gr)
	for _, rec := range res.store.at(s.version, "") {
		s.put(res.store, deepCopy(rec.object), true)
	}
	s.removed[gr], res.removedAt = res.store, s.version
	s.resources = slices.DeleteFunc(s.resources, func(r *resource) bool { return r == res })
	for st := range s.streams {
		if st.resource == res {
			st.end()
		}
	}
	s.notify()
}

// SetStale makes discovery say of one group version that its server did not
// answer: aggregated discovery calls it stale and leaves its resources out, the
// old form answers 503.
func (s *Server) SetStale(gv schema.GroupVersion, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale[gv] = stale
}

// find is called with mu held.
func (s *Server) find(gr schema.GroupResource) *resource {
	for _, r := range s.resources {
		if r.groupResource() == gr {
			return r
		}
	}
	return nil
}

// mustFind is find of a resource that a test names. It is called with mu held.
func (s *Server) mustFind(gr schema.GroupResource) *resource {
	r := s.find(gr)
	if r == nil {
		panic(fmt.Sprintf("fake: change resource %s: not served", gr))
	}
	return r
}

func (s *Server) addBuiltins() {
	eventFields := []string{
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
		"reason", "type",
	}
	for _, r := range []Resource{
		{Version: "v1", Resource: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"},
			Subresources: []string{"finalize", "status"}, Fields: []string{"status.phase"}},
		{Version: "v1", Resource: "pods", Kind: "Pod", ShortNames: []string{"po"}, Categories: []string{"all"},
			Subresources: []string{"log", "status"}, Namespaced: true,
			Fields: []string{"spec.nodeName", "status.phase"}},
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", ShortNames: []string{"cm"}, Namespaced: true},
		{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true, Fields: []string{"type"}},
		{Version: "v1", Resource: "events", Kind: "Event", ShortNames: []string{"ev"}, Namespaced: true,
			Fields: eventFields, Uncached: true},
		{Group: "events.k8s.io", Version: "v1", Resource: "events", Kind: "Event", ShortNames: []string{"ev"},
			Namespaced: true, Uncached: true},
		{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", ShortNames: []string{"deploy"},
			Categories: []string{"all"}, Subresources: []string{"scale", "status"}, Namespaced: true},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Kind: "Lease", Namespaced: true},
	} {
		r.Compiled = true
		st := newStore(0)
		if r.Group == "events.k8s.io" {
			st = s.find(schema.GroupResource{Resource: "events"}).store
		}
		res := s.addResource(r, st)
		if r.Group == "events.k8s.io" {
			res.outward = func(object map[string]any) { renameKeys(object, eventNames, false) }
			res.inward = func(object map[string]any) { renameKeys(object, eventNames, true) }
		}
	}
}

// eventNames are the fields that core/v1 and events.k8s.io/v1 call differently
// in one and the same stored object.
var eventNames = map[string]string{
	"involvedObject":     "regarding",
	"message":            "note",
	"source":             "deprecatedSource",
	"firstTimestamp":     "deprecatedFirstTimestamp",
	"lastTimestamp":      "deprecatedLastTimestamp",
	"count":              "deprecatedCount",
	"reportingComponent": "reportingController",
}

// renameKeys renames, in place, from the keys of names to its values; back is the other way.
func renameKeys(object map[string]any, names map[string]string, back bool) {
	for from, to := range names {
		if back {
			from, to = to, from
		}
		if v, ok := object[from]; ok {
			delete(object, from)
			object[to] = v
		}
	}
}

// addNamespaces writes the namespaces that every cluster has.
func (s *Server) addNamespaces() {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := s.find(schema.GroupResource{Resource: "namespaces"})
	for _, name := range []string{"kube-system", "default", "kube-public", "kube-node-lease"} {
		object := map[string]any{
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}},
			"status":   map[string]any{"phase": "Active"},
		}
		uid := s.newUID()
		if name == "kube-system" {
			uid = s.opts.ClusterUID
		}
		s.stamp(res, object, uid, "kube-apiserver")
		s.put(res.store, object, false)
	}
}

// SetVersions makes a served resource one of other versions, the first of which is
// the preferred one, as an edit of a CustomResourceDefinition does. Watches that
// are open stay so.
func (s *Server) SetVersions(gr schema.GroupResource, version string, extra ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustFind(gr)
	r.Version, r.ExtraVersions = version, extra
	s.notify()
}

// SetShortNames gives a served resource other short names.
func (s *Server) SetShortNames(gr schema.GroupResource, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustFind(gr).ShortNames = names
	s.notify()
}
