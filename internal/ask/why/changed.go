package why

import (
	"cmp"
	"slices"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
)

// changed follows the last change of what an object is to be: everything but its status and what the server sets.
func (w *asker) changed(o *object, all []*object) {
	c, ok := o.changeOf(nil, func(a, b *Version) bool { return !equal(wanted(a), wanted(b)) })
	if ok {
		what := fields(c) + " changed"
		switch {
		case fewer(c.before, c.Version) || more(c.before, c.Version):
			w.scaled(o, c)
		case o.Kind == "Deployment" && templateChanged(c.before, c.Version):
			w.rolled(c)
		default:
			w.wrote(c, what)
		}
		w.around(o, c.Version)
		return
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

// fields names the fields that a change gave other values, the first few of them.
func fields(c change) string {
	operations, err := changes.Append(nil, c.before.Raw, c.Raw)
	if err != nil {
		return "something"
	}
	return cmp.Or(paths(operations), "something")
}

// paths returns the first few paths of changes, without those that say nothing.
func paths(operations []byte) string {
	if operations == nil {
		return ""
	}
	var all []string
	for _, op := range (&Version{Raw: append(append([]byte(`{"o":`), operations...), '}')}).list("o") {
		path := strings.TrimPrefix(str(op, "path"), "/")
		part, _, _ := strings.Cut(path, "/")
		skip := part == "status" || slices.ContainsFunc([]string{
			"metadata/resourceVersion", "metadata/generation", "metadata/managedFields",
			"metadata/annotations/kubectl.kubernetes.io~1last",
		}, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
		if !skip && path != "" {
			all = append(all, strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(path))
		}
	}
	const few = 2
	if len(all) > few {
		all = append(all[:few], "…")
	}
	return strings.Join(all, ", ")
}

// noPeople are writers that follow what others have written.
var noPeople = []string{"", controllers, "kubelet", "kube-scheduler"}

// around adds what else was changed in the namespace within the minute before, as far as its writer is no controller.
func (w *asker) around(o *object, v *Version) {
	if o.Namespace == "" {
		return
	}
	const most = 5
	var all []Link
	for _, other := range w.find(Query{Ref: Ref{Namespace: o.Namespace}, Lately: v}) {
		for _, is := range other.versions {
			who, _, _ := strings.Cut(is.Manager, "/")
			if other.UID == o.UID || is.Event != nil || is.Origin != line.FromWatch ||
				apart(is.Time, v.Time) > lately || slices.Contains(noPeople, who) {
				continue
			}
			if earlier, _ := before(is, v); !earlier {
				continue
			}
			what := "created"
			if is.Type == line.Modified {
				if what = paths(is.Changes); what == "" {
					continue
				}
				what += " changed"
			}
			all = append(all, Link{
				Ref: is.Ref, Resource: is.Resource, Seq: is.Seq, Time: is.Made, What: what, Manager: is.Manager,
				Person: personOf(is), version: is,
			})
		}
	}
	slices.SortFunc(all, func(a, b Link) int { return cmp.Compare(b.Seq, a.Seq) })
	w.answer.Before = all[:min(len(all), most)]
}
