package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// directManager stands in the managedFields of what the Go methods write.
const directManager = "kubefake"

// Create stores a new object and returns it as stored; when it returns, the
// write is acknowledged. Its error is the Status that a client would get.
func (s *Server) Create(gvr schema.GroupVersionResource, object map[string]any) (map[string]any, error) {
	return s.direct(gvr, func(r *resource) (*record, error) {
		return s.create(r, text(metadata(object), "namespace"), deepCopy(object), directManager)
	})
}

// Update replaces an object; a metadata.resourceVersion or metadata.uid in it
// must be the current one. An update that changes nothing is no write.
func (s *Server) Update(gvr schema.GroupVersionResource, object map[string]any) (map[string]any, error) {
	return s.direct(gvr, func(r *resource) (*record, error) {
		m := metadata(object)
		return s.update(r, text(m, "namespace"), text(m, "name"), deepCopy(object), directManager)
	})
}

// Patch applies a JSON merge patch.
func (s *Server) Patch(gvr schema.GroupVersionResource, namespace, name string,
	patch map[string]any) (map[string]any, error) {
	return s.direct(gvr, func(r *resource) (*record, error) {
		return s.patch(r, namespace, name, deepCopy(patch), directManager)
	})
}

// Delete removes an object, or marks it for deletion while it has finalizers,
// and returns its last state.
func (s *Server) Delete(gvr schema.GroupVersionResource, namespace, name string) (map[string]any, error) {
	return s.direct(gvr, func(r *resource) (*record, error) {
		return s.remove(r, namespace, name, nil)
	})
}

// Get returns one object.
func (s *Server) Get(gvr schema.GroupVersionResource, namespace, name string) (map[string]any, error) {
	return s.direct(gvr, func(r *resource) (*record, error) { return s.get(r, namespace, name) })
}

// List returns the objects of a namespace ("" for all) in key order.
func (s *Server) List(gvr schema.GroupVersionResource, namespace string) ([]map[string]any, error) {
	return s.ListAt(gvr, namespace, s.Version())
}

// ListAt is List as it would have answered at a version, also one that a client cannot ask for any more.
func (s *Server) ListAt(gvr schema.GroupVersionResource, namespace string, version uint64) ([]map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.lookup(gvr)
	if r == nil {
		return nil, fmt.Errorf("list %s: not served", gvr)
	}
	var out []map[string]any
	for _, rec := range r.store.at(version, prefixOf(namespace)) {
		out = append(out, r.present(rec, gvr.Version))
	}
	return out, nil
}

func (s *Server) direct(gvr schema.GroupVersionResource, do func(*resource) (*record, error)) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.lookup(gvr)
	if r == nil {
		return nil, fmt.Errorf("find resource %s: not served", gvr)
	}
	rec, err := do(r)
	if err != nil {
		return nil, err
	}
	return r.present(rec, gvr.Version), nil
}

// present is a copy of a stored object as a client of version sees it.
func (r *resource) present(rec *record, version string) map[string]any {
	object := deepCopy(rec.object)
	if r.outward != nil {
		r.outward(object)
	}
	object["apiVersion"], object["kind"] = r.apiVersion(version), r.Kind
	return object
}

// The methods below are called with mu held and own the object given to them.

func (s *Server) get(r *resource, namespace, name string) (*record, error) {
	rec := r.store.live(keyOf(namespace, name))
	if rec == nil {
		return nil, apierrors.NewNotFound(r.groupResource(), name)
	}
	return rec, nil
}

func (s *Server) create(r *resource, namespace string, object map[string]any, manager string) (*record, error) {
	m := metadata(object)
	if r.Namespaced {
		if ns := text(m, "namespace"); ns != "" && ns != namespace {
			return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace " +
				"sent on the request")
		}
		if namespace == "" {
			return nil, apierrors.NewBadRequest("an empty namespace may not be set during creation")
		}
		m["namespace"] = namespace
	} else {
		delete(m, "namespace")
	}
	uid := s.newUID()
	if text(m, "name") == "" {
		if text(m, "generateName") == "" {
			return nil, apierrors.NewBadRequest("name or generateName is required")
		}
		m["name"] = text(m, "generateName") + uid[3:8]
	}
	if text(m, "resourceVersion") != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	name := text(m, "name")
	if r.store.live(keyOf(namespace, name)) != nil {
		return nil, apierrors.NewAlreadyExists(r.groupResource(), name)
	}
	delete(m, "deletionTimestamp")
	s.stamp(r, object, uid, manager)
	return s.put(r.store, object, false), nil
}

// stamp gives a new object what the server gives it, except for its version.
func (s *Server) stamp(r *resource, object map[string]any, uid, manager string) {
	r.normalize(object)
	m := metadata(object)
	m["uid"] = uid
	m["creationTimestamp"] = timestamp()
	delete(m, "generation")
	if _, ok := object["spec"]; ok {
		m["generation"] = int64(1)
	}
	m["managedFields"] = []any{managedEntry(r, object, manager)}
}

// normalize brings an object into the form in which it is stored.
func (r *resource) normalize(object map[string]any) {
	delete(object, "apiVersion")
	delete(object, "kind")
	if r.inward != nil {
		r.inward(object)
	}
}

func (s *Server) update(r *resource, namespace, name string, object map[string]any, manager string) (*record, error) {
	old, err := s.get(r, namespace, name)
	if err != nil {
		return nil, err
	}
	r.normalize(object)
	m, was := metadata(object), metadata(old.object)
	if contradicts(m, was) {
		return nil, conflict(r, name)
	}
	for _, key := range []string{"name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields"} {
		if v, ok := was[key]; ok {
			m[key] = v
		} else {
			delete(m, key)
		}
	}
	m["resourceVersion"] = was["resourceVersion"]
	if reflect.DeepEqual(object, old.object) {
		return old, nil
	}
	if g, ok := was["generation"].(int64); ok && !reflect.DeepEqual(withoutStatus(object), withoutStatus(old.object)) {
		m["generation"] = g + 1
	}
	m["managedFields"] = replaceEntry(was["managedFields"], managedEntry(r, object, manager))
	if m["deletionTimestamp"] != nil && len(finalizers(object)) == 0 {
		return s.put(r.store, deepCopy(old.object), true), nil
	}
	return s.put(r.store, deepCopy(object), false), nil
}

func (s *Server) patch(r *resource, namespace, name string, patch map[string]any, manager string) (*record, error) {
	old, err := s.get(r, namespace, name)
	if err != nil {
		return nil, err
	}
	object := deepCopy(old.object)
	if r.outward != nil {
		r.outward(object)
	}
	mergePatch(object, patch)
	return s.update(r, namespace, name, object, manager)
}

// remove deletes an object if it has the uid and the version that given names, if any.
func (s *Server) remove(r *resource, namespace, name string, given map[string]any) (*record, error) {
	old, err := s.get(r, namespace, name)
	if err != nil {
		return nil, err
	}
	m := metadata(old.object)
	if contradicts(given, m) {
		return nil, conflict(r, name)
	}
	if len(finalizers(old.object)) == 0 {
		return s.put(r.store, deepCopy(old.object), true), nil
	}
	if m["deletionTimestamp"] != nil {
		return old, nil
	}
	object := deepCopy(old.object)
	m = metadata(object)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = timestamp(), int64(0)
	if g, ok := m["generation"].(int64); ok {
		m["generation"] = g + 1
	}
	return s.put(r.store, object, false), nil
}

// contradicts reports whether a client expects another version or uid than an object has.
func contradicts(expected, meta map[string]any) bool {
	return slices.ContainsFunc([]string{"resourceVersion", "uid"}, func(key string) bool {
		given := text(expected, key)
		return given != "" && given != text(meta, key)
	})
}

func conflict(r *resource, name string) error {
	return apierrors.NewConflict(r.groupResource(), name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// newUID counts up, so that a run can be repeated; the cluster's own uid keeps
// it apart from other clusters.
func (s *Server) newUID() string {
	s.lastUID++
	if s.opts.UID != nil {
		return s.opts.UID(s.lastUID)
	}
	return fmt.Sprintf("%08x%s", s.lastUID, s.opts.ClusterUID[8:]) // what is first moves all bits of a shard's hash
}

func managedEntry(r *resource, object map[string]any, manager string) map[string]any {
	return map[string]any{
		"manager":    manager,
		"operation":  "Update",
		"apiVersion": r.apiVersion(r.Version),
		"time":       timestamp(),
		"fieldsType": "FieldsV1",
		"fieldsV1":   fieldSet(object, "metadata"),
	}
}

// replaceEntry puts entry in the place of the one of the same manager.
func replaceEntry(entries any, entry map[string]any) []any {
	list, _ := entries.([]any)
	return append(slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		return e.(map[string]any)["manager"] == entry["manager"]
	}), entry)
}

// fieldSet names the fields of an object in the way of managedFields.
func fieldSet(v map[string]any, except ...string) map[string]any {
	out := map[string]any{}
	for key, child := range v {
		if slices.Contains(except, key) {
			continue
		}
		if sub, ok := child.(map[string]any); ok {
			out["f:"+key] = fieldSet(sub)
		} else {
			out["f:"+key] = map[string]any{}
		}
	}
	return out
}

func withoutStatus(object map[string]any) map[string]any {
	out := maps.Clone(object)
	delete(out, "status")
	delete(out, "metadata")
	return out
}

// mergePatch is RFC 7386, in place.
func mergePatch(object, patch map[string]any) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			sub, ok := object[k].(map[string]any)
			if !ok {
				sub = map[string]any{}
				object[k] = sub
			}
			mergePatch(sub, v)
		default:
			object[k] = v
		}
	}
}

// metadata returns the object's metadata, which it makes when there is none.
func metadata(object map[string]any) map[string]any {
	m, ok := object["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		object["metadata"] = m
	}
	return m
}

func text(m map[string]any, key string) string {
	v, _ := m[key].(string)
	return v
}

func finalizers(object map[string]any) []any {
	list, _ := metadata(object)["finalizers"].([]any)
	return list
}

// keyOf is the key of an object below its resource, as in etcd: it sorts as the
// server lists.
func keyOf(namespace, name string) string { return prefixOf(namespace) + name }

// prefixOf is what all keys of a namespace begin with.
func prefixOf(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// deepCopy also brings every value into the form of decoded JSON, with int64
// for whole numbers.
func deepCopy(object map[string]any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("fake: object is not JSON: %v", err))
	}
	copied, err := decodeObject(data)
	if err != nil {
		panic(fmt.Sprintf("fake: object is not JSON: %v", err))
	}
	return copied
}

func decodeObject(data []byte) (map[string]any, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(bytes.TrimSpace(data), &object); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	if object == nil {
		object = map[string]any{}
	}
	return object, nil
}
