package encode

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// truth is who really wrote a version, and when by the server's clock.
type truth struct {
	manager, subresource string // "": nobody whom managedFields could name
	at                   int64
	how                  string
}

// writtenVersion is one version of the object as a watch shows it.
type writtenVersion struct {
	truth
	typ    line.Type
	raw    []byte
	number int
	object int
}

// apiServer keeps one object and its managedFields with the API server's own code, and does to it what clients do.
type apiServer struct {
	rnd                 *rand.Rand
	main, status, scale *managedfields.FieldManager
	live                *unstructured.Unstructured // nil: there is none
	version, objects    int
	copies              []*unstructured.Unstructured // of the live object, as it was
	skewed              bool                         // the servers' clocks differ
}

func newAPIServer(rnd *rand.Rand) *apiServer {
	parser, err := typed.NewParser(typed.YAMLObject(thingSchema))
	if err != nil {
		panic(err)
	}
	kinds := converter{"Thing": parser.Type("thing"), "Scale": parser.Type("scale")}
	manager := func(group, kind, subresource string, reset ...string) *managedfields.FieldManager {
		gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
		set := fieldpath.NewSet()
		for _, field := range reset {
			set.Insert(fieldpath.MakePathOrDie(field))
		}
		filters := map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewExcludeSetFilter(set)}
		m, err := managedfields.NewDefaultFieldManager(kinds, kinds, kinds, kinds, gvk, gvk.GroupVersion(), subresource, filters)
		if err != nil {
			panic(err)
		}
		return m
	}
	return &apiServer{
		rnd: rnd, main: manager("example.com", "Thing", "", "status"), status: manager("example.com", "Thing", "status", "spec"),
		scale: manager("autoscaling", "Scale", "scale"), skewed: rnd.IntN(4) == 0,
	}
}

func (s *apiServer) one(of ...string) string { return of[s.rnd.IntN(len(of))] }
func (s *apiServer) manager() string {
	return s.one("kubectl", "kubelet", "helm", "operator", "kube-controller-manager")
}

// nested returns what path leads to in o, made where it is not there.
func nested(o map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := o[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[key] = next
		}
		o = next
	}
	return o
}

// setOrDrop sets a member to one of some values, or removes it.
func (s *apiServer) setOrDrop(o map[string]any, key string, values ...any) {
	if n := s.rnd.IntN(len(values) + 1); n < len(values) {
		o[key] = runtime.DeepCopyJSONValue(values[n])
	} else {
		delete(o, key)
	}
}

// change changes a list: an element is added, removed or changed, or they are shuffled.
func (s *apiServer) change(o map[string]any, field string, add func(list []any) []any) {
	list, _ := o[field].([]any)
	switch n := s.rnd.IntN(6); {
	case n == 0 && len(list) > 0:
		i := s.rnd.IntN(len(list))
		list = slices.Delete(slices.Clone(list), i, i+1)
	case n == 1:
		s.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	default:
		list = add(list)
	}
	if o[field] = list; len(list) == 0 && s.rnd.IntN(2) == 0 {
		delete(o, field)
	}
}

// element returns the element of a list that has this key, made where there is none.
func element(list []any, key map[string]any) (map[string]any, []any) {
	for _, e := range list {
		e := e.(map[string]any)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(key)), func(k string) bool { return e[k] != key[k] }) {
			return e, list
		}
	}
	e := maps.Clone(key)
	return e, append(list, e)
}

func (s *apiServer) changeSpec(o map[string]any) {
	spec := nested(o, "spec")
	addText := func(list []any) []any {
		if v := s.one("x", "y", `z"\<é`); !slices.Contains(list, any(v)) {
			return append(list, v)
		}
		return list
	}
	switch s.rnd.IntN(9) {
	case 0:
		s.setOrDrop(nested(o, "metadata", "labels"), s.one("a", "b", "c/d"), "1", "2")
	case 1:
		s.setOrDrop(nested(o, "metadata", "annotations"), s.one("a", object.LastApplied), "1", "2")
	case 2:
		s.change(nested(o, "metadata"), "finalizers", addText)
	case 3:
		s.setOrDrop(spec, "replicas", int64(1), int64(2), int64(10), int64(11))
	case 4:
		s.setOrDrop(spec, "selector", map[string]any{"a": "1"}, map[string]any{"a": "2", "b": "1"}, map[string]any{})
	case 5:
		s.change(spec, "tags", addText)
	case 6:
		if s.rnd.IntN(3) == 0 {
			s.setOrDrop(spec, "security", map[string]any{}, map[string]any{"user": "1"})
		} else {
			s.setOrDrop(nested(spec, "security"), s.one("user", "group"), "1", "2")
		}
	default:
		s.change(spec, "items", s.changeItem)
	}
}

func (s *apiServer) changeItem(list []any) []any {
	item, list := element(list, map[string]any{"name": s.one("web", `si"de`, "log")})
	switch s.rnd.IntN(5) {
	case 0, 1:
		s.setOrDrop(item, "image", "1", "2", "3")
	case 2:
		s.setOrDrop(item, "args", []any{"a"}, []any{"a", "b"}, []any{"b", "a"}, []any{})
	case 3:
		s.setOrDrop(nested(item, "security"), s.one("user", "group"), "1", "2")
	default:
		s.change(item, "ports", func(ports []any) []any {
			port, ports := element(ports, map[string]any{"port": int64(80 + s.rnd.IntN(2)), "protocol": s.one("TCP", "UDP")})
			s.setOrDrop(port, "target", "a", "b")
			return ports
		})
	}
	return list
}

func (s *apiServer) changeStatus(o map[string]any) {
	status := nested(o, "status")
	switch s.rnd.IntN(4) {
	case 0:
		s.setOrDrop(status, "phase", "Pending", "Running")
	case 1:
		s.setOrDrop(status, "count", int64(1), int64(2))
	default:
		s.change(status, "conditions", func(list []any) []any {
			c, list := element(list, map[string]any{"type": s.one("Ready", "Bound", "Evicted")})
			c["status"] = s.one("True", "False")
			s.setOrDrop(c, "reason", "a", "b")
			return list
		})
	}
}

// create makes a new object.
func (s *apiServer) create() *writtenVersion {
	s.objects++
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	empty := o.DeepCopy()
	nested(o.Object, "metadata")["name"] = "a"
	for range s.rnd.IntN(8) {
		s.changeSpec(o.Object)
	}
	t := truth{manager: s.manager(), at: time.Now().Unix(), how: "create"}
	next, err := s.main.Update(empty, o, t.manager)
	if err != nil {
		panic(err)
	}
	s.live = next.(*unstructured.Unstructured)
	s.live.SetUID(types.UID(fmt.Sprint("u-", s.objects)))
	s.live.SetCreationTimestamp(metav1.Now())
	s.live.SetGeneration(1)
	if len(s.live.GetManagedFields()) == 0 {
		t.manager = "" // nothing to own
	}
	return s.shown(line.Added, t)
}

// shown is the live object as a watch shows it.
func (s *apiServer) shown(t line.Type, by truth) *writtenVersion {
	s.version++
	s.live.SetResourceVersion(strconv.Itoa(s.version))
	raw, err := json.Marshal(s.live.Object)
	if err != nil {
		panic(err)
	}
	return &writtenVersion{by, t, raw, s.version, s.objects}
}

// step does something to the object; it returns nil where that changes nothing.
func (s *apiServer) step() *writtenVersion {
	if s.live == nil {
		return s.create()
	}
	next, t := s.live.DeepCopy(), truth{at: time.Now().Unix()}
	switch n := s.rnd.IntN(20); {
	case n < 6:
		t.how, t.manager = "update", s.manager()
		for range 1 + s.rnd.IntN(2) {
			s.changeSpec(next.Object)
		}
		next = s.updated(s.main, next, t.manager)
	case n < 10:
		t.how, t.manager, t.subresource = "status", s.manager(), "status"
		for range 1 + s.rnd.IntN(2) {
			s.changeStatus(next.Object)
		}
		next = s.updated(s.status, next, t.manager)
	case n < 13:
		t.how, t.manager = "apply", s.manager()
		next = s.applied(t.manager)
	case n < 15:
		t.how, t.manager, t.subresource = "scale", s.manager(), "scale"
		next = s.scaled(t.manager)
	case n == 15:
		t.how = "bind"
		s.bind(next.Object)
	case n == 16:
		t.how = "condition" // as eviction does
		c, list := element(asList(nested(next.Object, "status")["conditions"]), map[string]any{"type": "Disruption"})
		c["status"], c["reason"] = "True", s.one("a", "b")
		nested(next.Object, "status")["conditions"] = list
	case n == 17:
		t.how = "delete"
		if next.GetDeletionTimestamp() == nil {
			grace := int64(s.rnd.IntN(31))
			next.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)})
			next.SetDeletionGracePeriodSeconds(&grace)
		}
	case n == 18 && s.rnd.IntN(4) == 0:
		t.how, t.manager = "managedFields", "kubectl"
		next = s.updated(s.main, s.upgraded(next), t.manager)
	case n == 18 && s.rnd.IntN(3) == 0:
		t.how = "cleared"
		next.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
		next = s.updated(s.main, next, s.manager())
	case n == 18 && len(s.copies) > 0:
		t.how, t.manager = "replace", s.manager()
		next = s.replaced(t.manager)
	case n == 19 && s.rnd.IntN(4) == 0:
		gone := s.shown(line.Deleted, truth{how: "gone"})
		s.live, s.copies = nil, nil
		return gone
	}
	if next == nil || sameButTimes(s.live.Object, next.Object) {
		return nil
	}
	if s.skewed && t.how != "managedFields" {
		skew(s.live, next, time.Duration(s.rnd.IntN(3)-1)*time.Second, &t)
	}
	if !reflect.DeepEqual(next.Object["spec"], s.live.Object["spec"]) {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	s.copies = append(s.copies, s.live)
	s.live = next
	return s.shown(line.Modified, t)
}

func (s *apiServer) updated(by *managedfields.FieldManager, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	o, err := by.Update(s.live, next, manager)
	if err != nil {
		panic(err)
	}
	return o.(*unstructured.Unstructured)
}

// applied is the object after a server-side apply.
func (s *apiServer) applied(manager string) *unstructured.Unstructured {
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	nested(config.Object, "metadata")["name"] = "a"
	for range 1 + s.rnd.IntN(3) {
		s.changeSpec(config.Object)
	}
	o, err := s.main.Apply(s.live, config, manager, true)
	if err != nil {
		panic(err)
	}
	next := o.(*unstructured.Unstructured)
	next.SetResourceVersion(s.live.GetResourceVersion())
	return next
}

// scaled is the object after a write of its scale, as the API server's ScaleREST has it.
func (s *apiServer) scaled(manager string) *unstructured.Unstructured {
	paths := managedfields.ResourcePathMappings{"example.com/v1": fieldpath.MakePathOrDie("spec", "replicas")}
	h := managedfields.NewScaleHandler(s.live.GetManagedFields(), schema.GroupVersion{Group: "example.com", Version: "v1"}, paths)
	entries, err := h.ToSubresource()
	if err != nil {
		panic(err)
	}
	replicas, ok := nested(s.live.Object, "spec")["replicas"].(int64)
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{},
	}}
	if ok {
		scale.Object["spec"] = map[string]any{"replicas": replicas}
	}
	scale.SetManagedFields(entries)
	next := scale.DeepCopy()
	to := int64(1 + s.rnd.IntN(20))
	next.Object["spec"] = map[string]any{"replicas": to}
	o, err := s.scale.Update(scale, next, manager)
	if err != nil {
		panic(err)
	}
	if entries, err = h.ToParent(o.(*unstructured.Unstructured).GetManagedFields()); err != nil {
		panic(err)
	}
	if to == replicas {
		return nil
	}
	parent := s.live.DeepCopy()
	nested(parent.Object, "spec")["replicas"] = to
	parent.SetManagedFields(entries)
	return parent
}

// bind does what the API server does to a pod that is bound to a node.
func (s *apiServer) bind(o map[string]any) {
	if spec := nested(o, "spec"); spec["nodeName"] == nil {
		spec["nodeName"] = "n"
		c, list := element(asList(nested(o, "status")["conditions"]), map[string]any{"type": "Bound"})
		c["status"] = "True"
		delete(c, "reason")
		nested(o, "status")["conditions"] = list
	}
}

// replaced puts back an older copy of the object, with the managedFields that it has.
func (s *apiServer) replaced(manager string) *unstructured.Unstructured {
	next, entries := s.live.DeepCopy(), s.copies[s.rnd.IntN(len(s.copies))]
	if s.rnd.IntN(2) == 0 {
		next.Object["spec"] = runtime.DeepCopyJSONValue(entries.Object["spec"])
	}
	next.SetManagedFields(entries.DeepCopy().GetManagedFields())
	return s.updated(s.main, next, manager)
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// upgraded gives what one manager has updated to it as what it has applied, as kubectl apply --server-side does at first.
func (s *apiServer) upgraded(o *unstructured.Unstructured) *unstructured.Unstructured {
	entries := o.GetManagedFields()
	for i := range entries {
		if entries[i].Operation == metav1.ManagedFieldsOperationUpdate && entries[i].Subresource == "" {
			entries[i].Operation = metav1.ManagedFieldsOperationApply
			break
		}
	}
	o.SetManagedFields(entries)
	return o
}

// sameButTimes reports whether two versions differ in nothing but the times of managedFields: then the server writes none.
func sameButTimes(a, b map[string]any) bool {
	plain := func(o map[string]any) map[string]any {
		u := (&unstructured.Unstructured{Object: o}).DeepCopy()
		entries := u.GetManagedFields()
		for i := range entries {
			entries[i].Time = nil
		}
		u.SetManagedFields(entries)
		return u.Object
	}
	text := func(o map[string]any) string {
		b, err := json.Marshal(plain(o))
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	return text(a) == text(b)
}

// skew makes the write that of an API server whose clock is off.
func skew(live, next *unstructured.Unstructured, by time.Duration, t *truth) {
	if live.GetDeletionTimestamp() == nil && next.GetDeletionTimestamp() != nil {
		return
	}
	had := map[string]string{}
	key := func(e *metav1.ManagedFieldsEntry) string {
		return fmt.Sprint(e.Manager, e.Operation, e.APIVersion, e.Subresource)
	}
	before := live.GetManagedFields()
	for i := range before {
		had[key(&before[i])] = fmt.Sprint(before[i].Time)
	}
	entries, now := next.GetManagedFields(), t.at
	for i, e := range entries {
		if e.Time != nil && e.Time.Unix() == now && had[key(&entries[i])] != fmt.Sprint(e.Time) {
			entries[i].Time = &metav1.Time{Time: e.Time.Add(by)}
			t.at = now + int64(by/time.Second)
		}
	}
	next.SetManagedFields(entries)
}
