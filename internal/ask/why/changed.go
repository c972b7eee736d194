package why

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// changed follows the last change of what an object is to be: everything but its status and what the server sets.
func (w *asker) changed(o *object, all []*object) {
	c, ok := o.changeOf(nil, func(a, b *Version) bool { return !equal(wanted(a), wanted(b)) })
	if ok {
		operations := meant(difference(c.before, c.Version))
		switch {
		case fewer(c.before, c.Version) || more(c.before, c.Version):
			w.scaled(o, c)
		case o.Kind == "Deployment" && templateChanged(c.before, c.Version):
			w.rolled(c)
		default:
			w.wrote(c, cmp.Or(fields(operations), "something")+" changed")
		}
		w.answer.Links[0].Changes = operations
		w.around(o, c.Version)
		return
	}
	if v := o.whole(); v == nil || o.Kind == "Pod" && !v.has("spec") && !v.has("status") {
		w.ends("the journal has no more of it: its stream has another payload, or its lines are truncated")
	}
	if o.Kind == "Pod" && o.Group == "" && o.first().Origin == line.FromWatch {
		if w.broughtBy(o, o.first(), failure{}); len(w.answer.Links) > 0 {
			return
		}
	}
	v := o.first()
	what := "created"
	if v.Origin == line.FromSnapshot {
		what = "there when the journal begins"
	}
	earlier := replaced(o, all)
	l := Link{What: what, Manager: v.Manager}
	if earlier != nil {
		l.Why, l.Rule, l.Certain = "the one before of its name was deleted", "uid", true
	}
	w.made(l, v)
	if earlier != nil {
		w.gone(earlier)
		return
	}
	w.complete = true
}

// replaced returns the last object whose name another one has taken, nil for none.
func replaced(o *object, all []*object) (last *object) {
	for _, other := range all {
		if other.UID != o.UID && other.deleted() != nil && other.last().Seq < o.first().Seq &&
			(last == nil || other.last().Seq > last.last().Seq) {
			last = other
		}
	}
	return last
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// wanted returns an object without its status, and without what the server and controllers note in its metadata.
func wanted(v *Version) map[string]any {
	all := map[string]any{}
	for key, value := range v.decode() {
		if key != "status" && key != "metadata" {
			all[key] = value
		}
	}
	if spec, ok := all["spec"].(map[string]any); ok && v.Kind == "Pod" && v.Group == "" {
		spec = maps.Clone(spec)
		delete(spec, "nodeName") // the scheduler sets it, on each
		all["spec"] = spec
	}
	for _, key := range []string{"labels", "finalizers", "ownerReferences"} {
		all["metadata."+key] = v.get("metadata", key)
	}
	annotations := map[string]any{}
	of, _ := v.get("metadata", "annotations").(map[string]any)
	for key, value := range of {
		if key != lastApplied && !strings.HasPrefix(key, "deployment.kubernetes.io/") {
			annotations[key] = value
		}
	}
	all["metadata.annotations"] = annotations
	return all
}

// fields names the fields that operations gave other values, the first few of them.
func fields(operations []byte) string {
	var all []string
	for op := range rawjson.Elements(operations) {
		path := string(rawjson.Unquote(nil, rawjson.Inside(rawjson.Pick(op, "path")[0])))
		all = append(all, strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(strings.TrimPrefix(path, "/")))
	}
	const few = 2
	if len(all) > few {
		all = append(all[:few], "…")
	}
	return strings.Join(all, ", ")
}

// meant returns the operations of changes that say what an object is to be, nil for none.
func meant(operations []byte) (kept []byte) {
	for op := range rawjson.Elements(operations) {
		path := rawjson.Inside(rawjson.Pick(op, "path")[0])
		skip := len(path) == 0 || slices.ContainsFunc([]string{
			"/status", "/metadata/resourceVersion", "/metadata/generation", "/metadata/managedFields",
			"/metadata/annotations/kubectl.kubernetes.io~1last",
		}, func(prefix string) bool { return bytes.HasPrefix(path, []byte(prefix)) })
		if !skip {
			kept = append(append(kept, ','), op...)
		}
	}
	if kept != nil {
		kept[0] = '['
		kept = append(kept, ']')
	}
	return kept
}

// meantBy returns the same of a version, which a line may not have.
func (w *asker) meantBy(v *Version) []byte {
	operations := v.Changes
	if o := w.one(v.Ref); operations == nil && o != nil {
		operations = difference(o.previous(o.same(v)), v)
	}
	return meant(operations)
}

func difference(was, v *Version) []byte {
	if was == nil {
		return nil
	}
	operations, err := changes.Append(nil, was.Raw, v.Raw)
	if err != nil {
		return nil
	}
	return operations
}

// same returns the object's own version of a line.
func (o *object) same(v *Version) *Version {
	for _, own := range o.versions {
		if own.Seq == v.Seq {
			return own
		}
	}
	return nil
}

// noPeople are writers that follow what others have written.
var noPeople = []string{"", controllers, "kubelet", "kube-scheduler"}

// around adds what else was changed in the namespace within the minute before, as far as its writer is no controller:
// first what the object has most to do with.
func (w *asker) around(o *object, v *Version) {
	if o.Namespace == "" {
		return
	}
	const most = 5
	names := mentioned(v)
	var all []Link
	ranks := map[uint64]int{}
	for _, other := range w.find(Query{Ref: Ref{Namespace: o.Namespace}, Lately: v}) {
		for _, is := range other.versions {
			who, _, _ := strings.Cut(is.Manager, "/")
			if is.Event != nil || is.Origin != line.FromWatch || apart(is.Time, v.Time) > lately ||
				slices.Contains(noPeople, who) {
				continue
			}
			if earlier, _ := before(is, v); !earlier {
				continue
			}
			l := Link{
				Ref: is.Ref, Resource: is.Resource, Seq: is.Seq, Time: is.Made, What: "created", Manager: is.Manager,
				Person: personOf(is), version: is,
			}
			if is.Type == line.Modified {
				operations := w.meantBy(is)
				if operations == nil {
					continue
				}
				l.What = fields(operations) + " changed"
			}
			ranks[is.Seq] = related(o, v, is, names)
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Link) int {
		return cmp.Or(cmp.Compare(ranks[a.Seq], ranks[b.Seq]), cmp.Compare(b.Seq, a.Seq))
	})
	w.answer.Before = all[:min(len(all), most)]
}

// related returns how much another version has to do with one of an object: it is of the same one; of what owns it or
// is owned by it, or of a ConfigMap, Secret, volume claim or account whose name it has somewhere; or of neither.
func related(o *object, v, other *Version, names map[string]bool) int {
	owns := func(a, b *Version) bool {
		return slices.ContainsFunc(a.owners(), func(r owner) bool { return r.UID == b.UID })
	}
	holds := []string{"ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount"}
	switch {
	case other.UID == o.UID:
		return 0
	case owns(v, other), owns(other, v), slices.Contains(holds, other.Kind) && names[other.Name]:
		return 1
	}
	return 2
}

// mentioned returns the strings in an object.
func mentioned(v *Version) map[string]bool {
	all := map[string]bool{}
	var look func(any)
	look = func(value any) {
		switch is := value.(type) {
		case string:
			all[is] = true
		case []any:
			for _, one := range is {
				look(one)
			}
		case map[string]any:
			for _, one := range is {
				look(one)
			}
		}
	}
	look(v.get("spec"))
	return all
}
