package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// notRunning follows why a pod, or a pod of what has some, does not run; it reports whether it does not.
func (w *asker) notRunning(o *object) bool {
	switch {
	case o.Group == "" && o.Kind == "Pod":
		return w.podNotRunning(o)
	case o.Kind == "Deployment", o.Kind == "ReplicaSet", o.Kind == "StatefulSet", o.Kind == "DaemonSet", isJob(o):
		return w.workloadNotRunning(o)
	}
	return false
}

// failure is why a pod does not run, as its status says.
type failure struct {
	what, why string
	image     string // of the container, where that is at fault
	missing   Ref    // what is not there
	event     bool   // an Event may say more
}

// waits are the reasons of a container that waits as it should.
var waits = []string{"ContainerCreating", "PodInitializing", ""}

// failureOf returns why a pod does not run; ok is false where nothing says so.
func failureOf(v *Version) (f failure, ok bool) {
	switch phase := v.text("status", "phase"); {
	case phase == "Succeeded":
		return f, false
	case phase == "Failed" && v.text("status", "reason") != "":
		return failure{what: v.text("status", "reason"), why: v.text("status", "message")}, true
	}
	if c := v.condition("PodScheduled"); str(c, "status") == "False" {
		return failure{what: str(c, "reason"), why: str(c, "message")}, true
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range v.list("status", list) {
			if f, ok := containerFailure(v, c); ok {
				return f, true
			}
		}
	}
	if c := v.condition("Ready"); str(c, "status") == "False" && v.text("status", "phase") != "Succeeded" {
		return failure{what: "not ready", why: str(c, "message"), event: true}, true
	}
	return f, false
}

var missingForm = regexp.MustCompile(`(configmap|secret) "([^"]+)" not found`)

// containerFailure returns why a container does not run.
func containerFailure(pod *Version, c map[string]any) (f failure, ok bool) {
	state, _ := c["state"].(map[string]any)
	waiting, _ := state["waiting"].(map[string]any)
	terminated, _ := state["terminated"].(map[string]any)
	last, _ := c["lastState"].(map[string]any)
	before, _ := last["terminated"].(map[string]any)
	f.image = imageOf(pod, str(c, "name"))
	switch reason := str(waiting, "reason"); {
	case waiting != nil && !slices.Contains(waits, reason):
		f.what, f.why = reason, str(waiting, "message")
		if before != nil {
			f.why = "the container " + exited(before)
		}
		if m := missingForm.FindStringSubmatch(f.why); m != nil && reason == "CreateContainerConfigError" {
			kind := map[string]string{"configmap": "ConfigMap", "secret": "Secret"}[m[1]]
			f.missing = Ref{Kind: kind, Namespace: pod.Namespace, Name: m[2]}
		}
		return f, true
	case terminated != nil && fmt.Sprint(terminated["exitCode"]) != "0":
		f.what, f.why = "terminated", "the container "+exited(terminated)
		return f, true
	}
	return f, false
}

// exited says how a container ended.
func exited(state map[string]any) string {
	text := fmt.Sprintf("ended with exit code %v", state["exitCode"])
	if reason := str(state, "reason"); reason != "" && reason != "Error" && reason != "Completed" {
		text += " (" + reason + ")"
	}
	if m := strings.TrimSpace(str(state, "message")); m != "" {
		text += ": " + m
	}
	return text
}

// imageOf returns the image that a pod's container is to have.
func imageOf(pod *Version, container string) string {
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range pod.list("spec", list) {
			if str(c, "name") == container {
				return str(c, "image")
			}
		}
	}
	return ""
}

// podNotRunning follows why a pod does not run.
func (w *asker) podNotRunning(o *object) bool {
	v := o.whole()
	if v == nil {
		return false
	}
	f, ok := failureOf(v)
	if !ok {
		if v.text("status", "phase") != "Pending" {
			return false
		}
		f = failure{what: "pending", event: true}
	}
	// The first version that says so.
	at, _ := o.changeOf(nil, func(a, b *Version) bool {
		was, failed := failureOf(a)
		is, fails := failureOf(b)
		return fails && (!failed || was.what != is.what)
	})
	if at.Version == nil {
		at.Version = v
	}
	l := Link{What: f.what, Why: f.why, Rule: "status", Certain: true}
	if at.Version != v {
		l.Lines = append(l.Lines, v.Seq)
	}
	if f.event {
		if e := w.warning(o); e != nil {
			l.Why, l.Rule, l.Certain = e.Event.Reason+": "+e.Event.Message, "event", false
			l.Lines = append(l.Lines, e.Seq)
		}
	}
	if l.Why == "" {
		l.Rule, l.Certain = "", false
	}
	w.row(l, at.Version)
	if f.missing.Name != "" {
		w.missing(f.missing, at.Version)
		return true
	}
	w.broughtBy(o, v, f)
	w.complete = w.complete || f.image == "" && !f.event
	w.ends("the pod's log, which is not in the journal")
	return true
}

// whole returns the last version that has the whole object.
func (o *object) whole() *Version {
	for _, v := range slices.Backward(o.versions) {
		if v.Raw != nil && !v.Partial {
			return v
		}
	}
	return nil
}

// warning returns the last Event of the type Warning about an object that came after its last change but status.
func (w *asker) warning(o *object) (last *Version) {
	for _, e := range w.events(o.Ref, time.Time{}) {
		if e.Event.Type == "Warning" {
			last = e
		}
	}
	return last
}

// missing adds what became of an object that is not there.
func (w *asker) missing(of Ref, v *Version) {
	var last *object
	for _, o := range w.find(Query{Ref: of}) {
		if d := o.deleted(); d != nil {
			if gone, _ := before(d, v); gone {
				last = o
			}
		}
	}
	switch {
	case last != nil:
		w.gone(last)
	case !w.watched("", of.Kind):
		w.ends("the journal does not watch " + word(of.Kind) + "s")
	default:
		w.ends("the journal has no line about " + word(of.Kind) + " " + of.Name + " from before")
	}
}

// broughtBy adds the change of the template that a failing pod was made from, where it was made after that.
func (w *asker) broughtBy(o *object, v *Version, f failure) {
	ref, ok := v.controller()
	if !ok {
		return
	}
	of := w.one(ref)
	if of == nil {
		if !w.watched(ref.Group, ref.Kind) {
			w.ends("the journal does not watch the kind " + ref.Kind + ", which owns it")
		}
		return
	}
	top := of
	if up, ok := of.last().controller(); ok && of.Kind == "ReplicaSet" && of.whole() != nil {
		if top = w.one(up); top == nil {
			if !w.watched(up.Group, up.Kind) {
				w.ends("the journal does not watch deployments, one of which owns its ReplicaSet")
			}
			return
		}
	}
	c, ok := top.changeOf(o.first(), templateChanged)
	if !ok || of.Kind == "ReplicaSet" && (of.whole() == nil || top != of && !sameTemplate(c.Version, of.whole())) {
		// The template is older, or it came back.
		if w.ends("no change in the journal brought its template"); f.what != "" && w.answer.Ends != "" {
			w.answer.Ends += "; the pod's log may say more"
		}
		return
	}
	if f.image == "" || imageIn(c.before, f.image) || !imageIn(c.Version, f.image) {
		// It failed after that change, which is all that is known.
		w.row(Link{What: "created", Why: "from the template that was changed then", Rule: "rollout"}, o.first())
	} else {
		w.row(Link{What: "created", Why: "its image came with this change",
			Rule: "rollout", Certain: c.exact && w.answer.Links[len(w.answer.Links)-1].Certain}, o.first())
	}
	w.rolled(c)
}

// imageIn reports whether a template has an image.
func imageIn(v *Version, image string) bool {
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range v.list("spec", "template", "spec", list) {
			if str(c, "image") == image {
				return true
			}
		}
	}
	return false
}

// workloadNotRunning follows why pods of a workload do not run.
func (w *asker) workloadNotRunning(o *object) bool {
	v := o.whole()
	if v == nil {
		return false
	}
	for _, c := range []struct{ typ, status string }{{"ReplicaFailure", "True"}, {"Failed", "True"}} {
		if is := v.condition(c.typ); str(is, "status") == c.status {
			w.row(Link{What: str(is, "reason"), Why: str(is, "message"), Rule: "status", Certain: true}, v)
			w.failingPod(o)
			w.complete = true
			return true
		}
	}
	wants, ok := v.number("spec", "replicas")
	ready, _ := v.number("status", "readyReplicas")
	if o.Kind == "DaemonSet" {
		wants, ok = v.number("status", "desiredNumberScheduled")
		ready, _ = v.number("status", "numberReady")
	}
	switch {
	case !ok || isJob(o):
		return false
	case wants == 0:
		down, changed := o.changeOf(nil, fewer)
		if !changed {
			return false
		}
		w.row(Link{What: "no pods", Why: "it is scaled to 0", Rule: "status", Certain: true}, v)
		w.scaled(o, down)
		return true
	case ready >= wants, !v.has("status"):
		return false
	}
	l := Link{What: fmt.Sprintf("%d of %d pods ready", ready, wants)}
	w.row(l, v)
	if !w.failingPod(o) {
		w.ends("no pod of it says why; the journal may not watch pods")
	}
	return true
}

// failingPod follows why the newest failing pod below a workload does not run.
func (w *asker) failingPod(o *object) bool {
	var newest *object
	var look func(of *object, depth int)
	look = func(of *object, depth int) {
		for _, below := range w.find(Query{Ref: Ref{Namespace: of.Namespace}, Owner: of.UID}) {
			switch {
			case below.deleted() != nil || depth > 2:
			case below.Kind == "Pod":
				if v := below.whole(); v != nil {
					_, fails := failureOf(v)
					if fails && (newest == nil || below.first().Seq > newest.first().Seq) {
						newest = below
					}
				}
			default:
				look(below, depth+1)
			}
		}
	}
	look(o, 0)
	if newest == nil {
		return false
	}
	l := &w.answer.Links[len(w.answer.Links)-1]
	if l.Why == "" {
		l.Why, l.Rule, l.Certain = "pod "+newest.Name+" does not run", "owner", true
	}
	return w.podNotRunning(newest)
}
