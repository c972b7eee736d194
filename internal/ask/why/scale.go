package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lately is how long before an effect a change may have been made that a controller acts on at once.
const lately = time.Minute

// controllers is the field manager of Kubernetes' own controllers.
const controllers = "kube-controller-manager"

// byController finds an Event of the owner's controller that says that it has deleted the object. A field manager is
// what a writer calls itself: it is certain only where the owner shows a reason too.
func byController(w *asker, o *object, v *Version) *cause {
	ref, ok := v.controller()
	if !ok {
		return nil
	}
	of := w.one(ref)
	if of == nil {
		return nil
	}
	at := v.requestedAt()
	if at.IsZero() {
		at = v.Made
	}
	for _, e := range w.events(of.Ref, v.Time) {
		when := e.Event.LastTime
		if when.IsZero() {
			when = e.Made
		}
		// Anybody may write an Event. One from before is about another pod of the name.
		earlier, _ := before(e, o.first())
		if earlier || e.Event.Reason != "SuccessfulDelete" || e.Manager != controllers || apart(when, at) > lately ||
			!slices.Contains(strings.Fields(e.Event.Message), o.Name) {
			continue
		}
		c := &cause{
			why: "deleted by its " + of.Kind, lines: []*Version{e},
			ends: "the journal has no line that says why its " + of.Kind + " did so",
		}
		w.why(c, o, of, v)
		return c
	}
	return nil
}

// why adds to a cause, which is that the controller of an owner has deleted an object, why it has done so.
func (w *asker) why(c *cause, o, of *object, v *Version) {
	switch of.Kind {
	case "ReplicaSet", "StatefulSet":
		if down, ok := scaledFor(o, of, v); ok {
			c.why, c.ends = "its "+of.Kind+" was scaled down", ""
			c.next = func() { w.scaled(of, down) }
			c.proven = down.exact && (of.Kind == "StatefulSet" || !w.enough(o, of, v))
		} else if t, ok := outdated(of, v); ok {
			c.rolled(w, of, t, v)
		}
	case "CronJob":
		c.why, c.ends = "its CronJob keeps no more Jobs (history limit)", ""
		c.proven = beyondHistory(w, o, v) != nil
		if c.complete = finished(v); !c.complete {
			c.why = "its CronJob replaced it by the next one"
			if p := of.at(v); p == nil || p.text("spec", "concurrencyPolicy") != "Replace" {
				c.why = "deleted by its CronJob"
			}
		}
	case "Job":
		if s, ok := of.changeOf(v, func(a, b *Version) bool {
			return a.get("spec", "suspend") != true && b.get("spec", "suspend") == true
		}); ok && apart(s.Time, v.Time) < lately {
			c.why, c.ends = "its Job was suspended", ""
			c.next = func() { w.wrote(s, "suspended") }
		}
	case "DaemonSet":
		if t, ok := outdated(of, v); ok {
			c.rolled(w, of, t, v)
		}
	}
}

// rolled adds that a set was rolled out, whose controller has deleted the object.
func (c *cause) rolled(w *asker, of *object, t change, v *Version) {
	c.why, c.ends = "its "+of.Kind+" was rolled out", ""
	c.next = func() { w.rolled(t) }
	c.proven = t.exact && !over(v)
}

// hashOf returns the revision that a pod is of.
func hashOf(v *Version) string { return v.text("metadata", "labels", "controller-revision-hash") }

// newest reports whether a pod's template generation is that of its DaemonSet.
func newest(of *object, v *Version) bool {
	now := of.at(v)
	generation := v.text("metadata", "labels", "pod-template-generation")
	is := now.text("metadata", "annotations", "deprecated.daemonset.template.generation")
	return generation == "" || is == "" || generation == is
}

// scaledDown finds that the owner was scaled down just before, where no Event says so.
func scaledDown(w *asker, o *object, v *Version) *cause {
	ref, ok := v.controller()
	if !ok || o.Kind != "Pod" {
		return nil
	}
	of := w.one(ref)
	if of == nil {
		return nil
	}
	down, ok := scaledFor(o, of, v)
	if !ok || !of.there(v) || w.enough(o, of, v) {
		return nil
	}
	return &cause{
		why: "its " + of.Kind + " was scaled down", lines: []*Version{down.Version},
		next: func() { w.scaled(of, down) },
	}
}

// enough reports whether as many other pods of an owner were deleted before a version as it had too many: those that it
// was scaled down by within the minute before, and those that it has made since.
func (w *asker) enough(o, of *object, v *Version) bool {
	var since *Version
	left := 0
	of.changeOf(v, func(a, b *Version) bool {
		if fewer(a, b) && apart(b.Time, v.Time) < lately {
			was, _ := a.number("spec", "replicas")
			is, _ := b.number("spec", "replicas")
			left += was - is
			since = cmp.Or(since, b)
		}
		return false
	})
	for _, other := range w.find(Query{Ref: Ref{Kind: "Pod", Namespace: of.Namespace}, Owner: of.UID}) {
		asked, _ := other.request()
		if between(since, other.first(), v) {
			left++
		}
		if other.UID != o.UID && between(since, asked, v) {
			left--
		}
	}
	return left <= 0
}

// between reports whether one version comes before another one, and that before a third.
func between(a, b, c *Version) bool {
	begun, _ := before(a, b)
	over, _ := before(b, c)
	return begun && over
}

// scaledFor returns the change of an owner's replicas for which a pod may have been deleted.
func scaledFor(o, of *object, v *Version) (change, bool) {
	if of.Kind != "ReplicaSet" && of.Kind != "StatefulSet" && of.Kind != "ReplicationController" {
		return change{}, false
	}
	down, ok := of.changeOf(v, fewer)
	if !ok || apart(down.Time, v.Time) > lately {
		return change{}, false
	}
	if begun, _ := before(o.first(), down.Version); !begun {
		return change{}, false // it was made later
	}
	if of.Kind == "StatefulSet" {
		n, numbered := ordinal(o.Name)
		start, _ := down.number("spec", "ordinals", "start")
		replicas, _ := down.number("spec", "replicas")
		if !numbered || n < start+replicas {
			return change{}, false
		}
		if back, again := of.changeOf(v, more); again && back.Seq > down.Seq {
			return change{}, false
		}
	}
	return down, true
}

func ordinal(name string) (int, bool) {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n, err == nil
}

func fewer(a, b *Version) bool {
	was, ok := a.number("spec", "replicas")
	is, there := b.number("spec", "replicas")
	return ok && there && is < was
}

func more(a, b *Version) bool { return fewer(b, a) }

func templateChanged(a, b *Version) bool {
	return !equal(a.get("spec", "template"), b.get("spec", "template"))
}

// arrow returns how replicas changed.
func arrow(c change) string {
	was, _ := c.before.number("spec", "replicas")
	is, _ := c.number("spec", "replicas")
	return fmt.Sprintf("replicas %d→%d", was, is)
}

// wrote adds what somebody wrote, and ends the chain.
func (w *asker) wrote(c change, what string) {
	l := Link{What: what, Manager: c.writer()}
	switch {
	case c.Missed:
		l.Why = "the version before was removed from the journal"
	case !c.exact:
		l.Why = "in a gap: nobody watched then"
	}
	w.made(l, c.Version)
	w.by(personOf(c.Version))
	if l.Manager == "" {
		w.ends("the writer is not known; " + w.audited("who it was"))
	} else {
		w.ends(w.audited("who was behind it"))
	}
}

// scaled follows why an object's replicas were changed.
func (w *asker) scaled(o *object, c change) {
	if ref, ok := c.controller(); ok && ref.Kind == "Deployment" && (c.Manager == "" || c.Manager == controllers) &&
		!isPerson(userOf(personOf(c.Version))) {
		w.scaledBy(c, ref)
		return
	}
	w.written(o, c)
}

// written follows who wrote an object's replicas.
func (w *asker) written(o *object, c change) {
	if c.writer() != controllers+"/scale" || isPerson(userOf(personOf(c.Version))) {
		w.wrote(c, arrow(c))
		return
	}
	// Of the controllers, the one for autoscalers alone writes through scale.
	var scalers []*object
	autoscaler := Ref{Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Namespace: o.Namespace}
	for _, hpa := range w.find(Query{Ref: autoscaler}) {
		v := hpa.at(c.Version)
		if hpa.there(c.Version) && v.text("spec", "scaleTargetRef", "kind") == o.Kind &&
			v.text("spec", "scaleTargetRef", "name") == o.Name {
			scalers = append(scalers, hpa)
		}
	}
	l := Link{What: arrow(c), Manager: c.Manager, Why: "an autoscaler set it", Rule: "autoscaler", Certain: true}
	if len(scalers) != 1 {
		w.made(l, c.Version)
		if !w.watched("autoscaling", "HorizontalPodAutoscaler") {
			w.ends("the journal does not watch horizontalpodautoscalers")
		}
		w.ends("the journal has no line that says which autoscaler it was")
		return
	}
	is, _ := c.number("spec", "replicas")
	for _, e := range w.events(scalers[0].Ref, c.Time) {
		text, ok := strings.CutPrefix(e.Event.Message, fmt.Sprintf("New size: %d; reason: ", is))
		ok = ok && e.Event.Reason == "SuccessfulRescale" && e.Manager == controllers
		if ok && apart(e.Event.LastTime, c.Made) < lately {
			l.Why = "autoscaler: " + text
			l.Lines = append(l.Lines, e.Seq)
		}
	}
	for _, v := range scalers[0].versions {
		wanted, _ := v.number("status", "desiredReplicas")
		scaled := v.when("status", "lastScaleTime")
		if wanted == is && !scaled.IsZero() && apart(scaled, c.Made) < lately && len(l.Lines) == 0 {
			l.Why = "autoscaler: its last scale was then"
			l.Lines = append(l.Lines, v.Seq)
		}
	}
	w.made(l, c.Version)
	v := scalers[0].at(c.Version)
	lowest, _ := v.number("spec", "minReplicas")
	most, _ := v.number("spec", "maxReplicas")
	w.made(Link{What: fmt.Sprintf("min %d, max %d", lowest, most), Manager: v.Manager}, v)
	w.ends("its metrics are not in the journal")
}

// scaledBy follows why the Deployment of a ReplicaSet had it scaled.
func (w *asker) scaledBy(c change, ref Ref) {
	l := Link{What: arrow(c)}
	d := w.one(ref)
	if d == nil {
		w.row(l, c.Version)
		if !w.watched(ref.Group, ref.Kind) {
			w.ends("the journal does not watch deployments, one of which owns it")
		}
		w.ends("the journal has no line about the Deployment that owns it")
		return
	}
	now := d.at(c.Version)
	if now == nil || !now.has("spec", "template") || !c.has("spec", "template") {
		w.row(l, c.Version)
		w.ends("the journal does not have the Deployment's template of that time")
		return
	}
	template, templated := d.changeOf(c.Version, templateChanged)
	replicas, scaled := d.changeOf(c.Version, func(a, b *Version) bool { return fewer(a, b) || more(a, b) })
	scaled = scaled && apart(replicas.Time, c.Time) < lately
	old := !sameTemplate(now, c.Version)
	_, proven := before(now, c.Version)
	proven = proven && c.exact && c.Manager == controllers && (!old || w.current(d, now, c))
	switch {
	case old && templated:
		l.Why, l.Rule = "the deployment was rolled out", "rollout"
		l.Certain = proven && !(scaled && replicas.Seq > template.Seq)
		l.Lines = append(l.Lines, template.Seq)
		if w.row(l, c.Version) {
			w.rolled(template)
		}
	case old:
		l.Why, l.Rule, l.Certain = "the deployment has another template", "rollout", proven && !scaled
		w.row(l, c.Version)
		w.ends("the change of the template is older than the journal's lines about it")
	case scaled && fewer(replicas.before, replicas.Version):
		l.Why, l.Rule, l.Certain = "the deployment was scaled down", "deployment-replicas", proven
		l.Lines = append(l.Lines, replicas.Seq)
		if w.row(l, c.Version) {
			w.written(d, replicas)
		}
	default:
		w.row(l, c.Version)
		w.ends("the journal has no change of the Deployment that explains it")
	}
}

// replicaSets returns those that a Deployment owns.
func (w *asker) replicaSets(d *object) []*object {
	return w.find(Query{Ref: Ref{Group: "apps", Kind: "ReplicaSet", Namespace: d.Namespace}, Owner: d.UID})
}

// current reports whether the journal has another ReplicaSet that is of the template that a Deployment has: then
// templates can be compared.
func (w *asker) current(d *object, now *Version, c change) bool {
	has := func(rs *object) bool {
		return rs.UID != c.UID && slices.ContainsFunc(rs.versions, func(v *Version) bool {
			return v.has("spec", "template") && !v.Partial && sameTemplate(now, v)
		})
	}
	// Mostly the line of its creation is there, and what it is made of does not change.
	made := Query{Ref: Ref{Group: "apps", Kind: "ReplicaSet", Namespace: d.Namespace}, Owner: d.UID, Ends: true}
	return slices.ContainsFunc(w.find(made), has) || slices.ContainsFunc(w.replicaSets(d), has)
}

// rolled adds the change of a template, and what it changed.
func (w *asker) rolled(c change) { w.wrote(c, templateDiff(c)) }

// templateDiff names the change of a template: the images, or which parts.
func templateDiff(c change) string {
	var all []string
	for _, list := range []string{"containers", "initContainers"} {
		was := map[string]string{}
		for _, one := range c.before.list("spec", "template", "spec", list) {
			was[str(one, "name")] = str(one, "image")
		}
		for _, one := range c.list("spec", "template", "spec", list) {
			if image, is := was[str(one, "name")], str(one, "image"); image != is && image != "" {
				all = append(all, fmt.Sprintf("image %s→%s", short(image), short(is)))
			}
		}
	}
	if len(all) > 0 {
		return strings.Join(all, ", ")
	}
	if at := c.text("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"); at !=
		c.before.text("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt") {
		return "restarted"
	}
	return "another template"
}

// short returns an image without its registry and path.
func short(image string) string { return image[strings.LastIndexByte(image, '/')+1:] }

// sameTemplate reports whether a ReplicaSet is of the template that its Deployment has.
func sameTemplate(deployment, rs *Version) bool {
	a, _ := deployment.get("spec", "template").(map[string]any)
	b, _ := rs.get("spec", "template").(map[string]any)
	return equal(withoutHash(a), withoutHash(b))
}

// withoutHash returns a template without what its ReplicaSet adds to it.
func withoutHash(template map[string]any) map[string]any {
	metadata, _ := template["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	labels, metadata, template = cloned(labels), cloned(metadata), cloned(template)
	delete(labels, "pod-template-hash")
	delete(metadata, "creationTimestamp")
	metadata["labels"], template["metadata"] = labels, metadata
	return template
}

func cloned(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}
