package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// prompted is how far apart, by the server's clock in whole seconds, a condition and the deletion are that go together.
const prompted = 5 * time.Second

// disruptors are the managers that write the condition DisruptionTarget, by its reason. Everybody who may write a pod's
// status can write it, too. Of an eviction the API server writes it, without naming a manager.
var disruptors = map[string]string{
	"PreemptionByScheduler":  "kube-scheduler",
	"DeletionByTaintManager": controllers,
	"DeletionByPodGC":        controllers,
}

// disrupted finds what the condition DisruptionTarget says.
func disrupted(w *asker, o *object, v *Version) *cause {
	if o.Kind != "Pod" || o.Group != "" {
		return nil
	}
	is := v.condition("DisruptionTarget")
	if is == nil || str(is, "status") != "True" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, str(is, "lastTransitionTime"))
	asked := v.requestedAt()
	if err != nil || asked.IsZero() || apart(asked, at) > prompted {
		return nil // that was for another attempt
	}
	message, reason := str(is, "message"), str(is, "reason")
	set, ok := o.changeOf(v, func(a, b *Version) bool {
		return !equal(a.condition("DisruptionTarget"), is) && equal(b.condition("DisruptionTarget"), is)
	})
	writer, _, _ := strings.Cut(set.writer(), "/")
	c := &cause{proven: !ok || writer == "" || writer == disruptors[reason]}
	switch reason {
	case "EvictionByEvictionAPI":
		c.why = "evicted through the eviction API"
		c.next = func() { w.drained(v) }
		c.ends = w.audited("who evicted it")
	case "PreemptionByScheduler":
		c.why = "preempted by the scheduler for a pod of higher priority"
		c.next = func() { w.preempted(o) }
		c.ends = "the journal has no Event that names the pod that took its place"
	case "DeletionByTaintManager":
		c.why = "its node got a taint that it does not tolerate"
		c.next = func() { w.tainted(v) }
		c.ends = w.nodeUnknown(v)
	case "DeletionByPodGC":
		c.why = "pod garbage collector: " + strings.TrimPrefix(message, "PodGC: ")
		if strings.Contains(message, "node no longer exists") {
			c.next = func() { w.nodeGone(v) }
		}
		c.ends = w.nodeUnknown(v)
	default: // TerminationByKubelet fails a pod, and deletes none
		return nil
	}
	return c
}

// nodeOf returns the pod's node as it was at a version.
func (w *asker) nodeOf(pod *Version) *object {
	name := pod.text("spec", "nodeName")
	if name == "" {
		return nil
	}
	var last *object
	for _, o := range w.find(Query{Ref: Ref{Kind: "Node", Name: name}}) {
		if begun, _ := before(o.first(), pod); begun {
			last = o
		}
	}
	return last
}

func (w *asker) nodeUnknown(pod *Version) string {
	if !w.watched("", "Node") {
		return "the journal does not watch nodes"
	}
	return "the journal has no line that says more about node " + pod.text("spec", "nodeName")
}

// drained adds that the pod's node had been cordoned.
func (w *asker) drained(pod *Version) {
	node := w.nodeOf(pod)
	if node == nil {
		return
	}
	cordoned := func(v *Version) bool { return v.get("spec", "unschedulable") == true }
	at := node.at(pod)
	c, ok := node.changeOf(pod, func(a, b *Version) bool { return !cordoned(a) && cordoned(b) })
	const drain = time.Hour
	if at == nil || !cordoned(at) || !ok || apart(c.Time, pod.Time) > drain {
		return
	}
	w.row(Link{What: "evicted", Why: "its node was being drained", Rule: "drain"}, pod)
	w.made(Link{What: "cordoned", Manager: c.writer()}, c.Version)
}

// writer returns who made a change, where no version is missing.
func (c *change) writer() string {
	if !c.exact {
		return ""
	}
	return c.Manager
}

var uidForm = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// preempted adds the pod that took the place of one, where an Event names it.
func (w *asker) preempted(o *object) {
	for _, e := range w.events(o.Ref, o.last().Time) {
		if e.Event.Reason != "Preempted" {
			continue
		}
		uid := uidForm.FindString(e.Event.Message)
		if uid == "" || uid == o.UID {
			continue
		}
		if other := w.one(Ref{Kind: "Pod", UID: uid}); other != nil {
			v := other.first()
			what := "created"
			if p, ok := v.number("spec", "priority"); ok {
				what += fmt.Sprintf(", priority %d", p)
			}
			w.made(Link{What: what, Manager: v.Manager, Lines: []uint64{e.Seq}}, v)
			w.complete = true
			return
		}
		w.ends("the journal has no line about the pod with uid " + uid + ", which took its place")
		return
	}
}

// tainted adds the taint of the pod's node, and the condition that it stands for.
func (w *asker) tainted(pod *Version) {
	node := w.nodeOf(pod)
	if node == nil || node.at(pod) == nil {
		return
	}
	taints := func(v *Version) (keys []string) {
		for _, t := range v.list("spec", "taints") {
			if str(t, "effect") == "NoExecute" {
				keys = append(keys, str(t, "key"))
			}
		}
		return keys
	}
	now := taints(node.at(pod))
	c, ok := node.changeOf(pod, func(a, b *Version) bool {
		return slices.ContainsFunc(taints(b), func(key string) bool { return !slices.Contains(taints(a), key) })
	})
	if !ok || len(now) != 1 || !slices.Contains(taints(c.Version), now[0]) {
		return
	}
	l := Link{What: "taint " + now[0] + ":NoExecute", Manager: c.writer()}
	ready := c.condition("Ready")
	fits := map[string]string{"node.kubernetes.io/not-ready": "False", "node.kubernetes.io/unreachable": "Unknown"}
	if status, ok := fits[now[0]]; ok && str(ready, "status") == status {
		l.Manager = ""
		l.Why = "the node's condition Ready is " + status
		if m := str(ready, "message"); m != "" {
			l.Why += ": " + m
		}
		l.Rule, l.Certain = "node-condition", c.exact
		w.made(l, c.Version)
		w.ends("the log of the node's kubelet says why")
		return
	}
	w.made(l, c.Version)
	w.by(personOf(c.Version))
	w.ends(w.audited("who tainted the node"))
}

// nodeGone follows why the pod's node was deleted.
func (w *asker) nodeGone(pod *Version) {
	node := w.nodeOf(pod)
	if node == nil || node.deleted() == nil {
		return
	}
	if gone, _ := before(node.deleted(), pod); gone {
		w.gone(node)
	}
}

// withNode finds that the pod's node was deleted before. Of a pod that had not ended, the controller writes that into
// its status first.
func withNode(w *asker, o *object, v *Version) *cause {
	if o.Kind != "Pod" || o.Group != "" || v.alive() && o.exact(v) {
		return nil
	}
	name := v.text("spec", "nodeName")
	gone := func(o *object) bool {
		d := o.deleted()
		is, _ := before(d, v)
		return is && !d.Selects
	}
	// A Node has many lines, of which this needs few.
	node := Query{Ref: Ref{Kind: "Node", Name: name}, Ends: true}
	if name == "" || !slices.ContainsFunc(w.find(node), gone) {
		return nil
	}
	of := w.nodeOf(v)
	if of == nil || !gone(of) {
		return nil
	}
	return &cause{
		why: "its node is gone", lines: []*Version{of.deleted()}, next: func() { w.gone(of) },
	}
}

// events returns the versions of Events about an object, by its uid, that came near a time, or all.
func (w *asker) events(of Ref, near time.Time) (all []*Version) {
	if of.UID == "" {
		return nil
	}
	for _, o := range w.find(Query{Ref: Ref{Kind: "Event", Namespace: of.Namespace}, About: of.UID, Near: near}) {
		for _, v := range o.versions {
			if v.Event != nil && v.Event.Regarding.UID == of.UID && v.Type != "DELETED" {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Version) int { return int(a.Seq) - int(b.Seq) })
	return all
}
