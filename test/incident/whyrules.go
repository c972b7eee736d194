package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kubejournal/test/invariant"
)

// ruleOf has, by the rules of kubejournal why as docs/find-out.md has them, what has to be true of a link that was
// found by them.
var ruleOf = map[string]func(c *court, e *explained, i int) error{
	"disruption-target": func(c *court, e *explained, i int) error {
		for text, who := range map[string]string{
			"evicted": "eviction", "preempted": "kube-scheduler", "its node got a taint": "node-controller",
			"pod garbage collector": "pod-garbage-collector",
		} {
			if strings.HasPrefix(e.Links[i].Why, text) {
				return c.askedBy(e.Links[i].UID, who)
			}
		}
		return errors.New("that is no reason of a condition")
	},
	"controller-event":    (*court).byController,
	"scale-down":          (*court).byController,
	"garbage-collection":  func(c *court, e *explained, i int) error { return c.collected(&e.Links[i], false) },
	"foreground-deletion": func(c *court, e *explained, i int) error { return c.collected(&e.Links[i], true) },
	"namespace-deletion": func(c *court, e *explained, i int) error {
		l := &e.Links[i]
		if err := c.askedEarlier(c.names[" namespaces  "+l.Namespace], l); err != nil {
			return err
		}
		// Or, of the Endpoints of a Service, the API server itself.
		return c.first(l.UID, "namespace-controller", "generic-garbage-collector", "nobody")
	},
	"definition-deletion": func(c *court, e *explained, i int) error {
		l := &e.Links[i]
		name := c.bySeq[l.Seq].Resource + "." + l.Group
		if err := c.askedEarlier(c.names["apiextensions.k8s.io customresourcedefinitions  "+name], l); err != nil {
			return err
		}
		return c.first(l.UID, "nobody") // the API server itself
	},
	"revision": func(c *court, e *explained, i int) error {
		l := c.bySeq[e.Links[i].Seq]
		before, now := c.change(c.ownerOf(l), "/spec/template", l)
		if before == nil || revision(now) < revision(c.versions[l.UID][0]) {
			return errors.New("its template was not changed since it was made")
		}
		return c.askedBy(l.UID, "statefulset-controller", "daemon-set-controller")
	},
	"node-gone": func(c *court, e *explained, i int) error {
		return c.askedBy(e.Links[i].UID, "pod-garbage-collector")
	},
	"job-ttl": func(c *court, e *explained, i int) error {
		return c.askedBy(e.Links[i].UID, "ttl-after-finished-controller")
	},
	"job-history":      func(c *court, e *explained, i int) error { return c.askedBy(e.Links[i].UID, "cronjob-controller") },
	"revision-history": func(c *court, e *explained, i int) error { return c.askedBy(e.Links[i].UID, "deployment-controller") },
	"claim-gone": func(c *court, e *explained, i int) error {
		return c.askedBy(e.Links[i].UID, "persistent-volume-binder")
	},
	"helm": func(c *court, e *explained, i int) error { return c.askedBy(e.Links[i].UID, "Helm") },
	"argocd": func(c *court, e *explained, i int) error {
		return c.askedBy(e.Links[i].UID, "argocd-application-controller")
	},
	"finalizers": (*court).held,
	"namespace-content": func(c *court, e *explained, i int) error {
		return is("the writer", c.by(c.bySeq[e.Links[i].Seq]), "namespace-controller")
	},
	"uid": func(c *court, e *explained, i int) error {
		l := c.bySeq[e.Links[i].Seq]
		named := c.names[nameOfLine(l)]
		if at := slices.Index(named, l.UID); len(named) < 2 || at == 0 {
			return errors.New("nothing had its name before")
		}
		return nil
	},
	"drain": func(c *court, e *explained, i int) error {
		l := c.bySeq[e.Links[i].Seq]
		node, _ := value(c.object(l), "/spec/nodeName").(string)
		for _, uid := range c.names[" nodes  "+node] {
			if at := c.at(uid, l); value(at, "/spec/unschedulable") == true {
				for _, r := range c.requests(l) {
					if r.Agent != "kubectl" {
						return fmt.Errorf("%s evicted it", r.Agent)
					}
				}
				return nil
			}
		}
		return errors.New("its node was not cordoned")
	},
	"node-condition": func(c *court, e *explained, i int) error {
		l := c.bySeq[e.Links[i].Seq]
		if err := is("the writer", c.by(l), "node-controller"); err != nil {
			return err
		}
		conditions, _ := value(c.object(l), "/status/conditions").([]any)
		for _, one := range conditions {
			if value(one, "/type") == "Ready" && value(one, "/status") == "True" {
				return errors.New("the node is ready")
			}
		}
		return nil
	},
	"deployment-replicas": func(c *court, e *explained, i int) error {
		l := c.bySeq[e.Links[i].Seq]
		before, now := c.change(c.ownerOf(l), "/spec/replicas", l)
		if before == nil || replicas(c.object(now)) >= replicas(c.object(before)) {
			return errors.New("the Deployment was not scaled down")
		}
		return is("the writer", c.by(l), "deployment-controller")
	},
	"rollout": (*court).rolledOut,
	"autoscaler": func(c *court, e *explained, i int) error {
		return is("the writer", c.by(c.bySeq[e.Links[i].Seq]), "horizontal-pod-autoscaler")
	},
	"status": func(c *court, e *explained, i int) error {
		l := &e.Links[i]
		o := c.object(c.bySeq[l.Seq])
		if l.What == "no pods" {
			return is("replicas", fmt.Sprint(value(o, "/spec/replicas")), "0")
		}
		said := l.What
		if text, ended := strings.CutPrefix(l.Why, "the container ended with exit code "); ended {
			code, reason, _ := strings.Cut(text, " ")
			if reason != "" {
				said = strings.Trim(reason, "()")
			}
			if status := fmt.Sprint(value(o, "/status")); !strings.Contains(status, "exitCode:"+code) {
				return fmt.Errorf("it did not end with %s", code)
			}
		} else if l.Why != "" {
			said = l.Why
		}
		for _, seq := range append(l.Lines, l.Seq) {
			status := fmt.Sprint(value(c.object(c.bySeq[seq]), "/status"))
			if strings.Contains(status, said) && strings.Contains(status, l.What) {
				return nil
			}
		}
		return fmt.Errorf("the status does not say %q", said)
	},
	"event": func(c *court, e *explained, i int) error {
		l := &e.Links[i]
		for _, seq := range l.Lines {
			if v := c.bySeq[seq]; v.Event != nil && v.Event.Regarding.UID == l.UID && v.Event.Type == "Warning" &&
				l.Why == v.Event.Reason+": "+v.Event.Message {
				return nil
			}
		}
		return errors.New("no Event says so")
	},
	"owner": func(c *court, e *explained, i int) error {
		l := &e.Links[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(l.Why, "pod "), " ")
		for _, uid := range c.names[" pods "+l.Namespace+" "+name] {
			of := c.versions[uid][len(c.versions[uid])-1]
			for range 3 {
				owner := c.ownerOf(of)
				if owner == l.UID {
					return nil
				}
				if len(c.versions[owner]) == 0 {
					break
				}
				of = c.versions[owner][0]
			}
		}
		return errors.New("it does not own that pod")
	},
}

func is(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %s, not %s", what, got, want)
	}
	return nil
}

// replicas returns how many an object is to have.
func replicas(o map[string]any) float64 {
	n, _ := value(o, "/spec/replicas").(float64)
	return n
}

// askedBy checks who asked first for the deletion of an object.
func (c *court) askedBy(uid string, who ...string) error {
	if by := c.askers(uid); !slices.Contains(who, by) {
		return fmt.Errorf("%s asked for it", by)
	}
	return nil
}

// first is askedBy for a cause that was there and enough.
func (c *court) first(uid string, who ...string) error {
	for _, by := range strings.Split(c.askers(uid), " or ") {
		if !slices.Contains(who, by) {
			return overtaken{by}
		}
	}
	return nil
}

// askedEarlier checks that the deletion of one of some objects was asked for before that of another one.
func (c *court) askedEarlier(uids []string, l *link) error {
	own := c.asked(l.UID)
	for _, uid := range uids {
		if asked := c.asked(uid); asked != nil && revision(asked) <= revision(own) && !c.goneBefore(uid, own) {
			return nil
		}
	}
	return fmt.Errorf("nobody had asked for that: %d", len(uids))
}

// ownerOf returns the uid of the owner that controls an object.
func (c *court) ownerOf(l *invariant.Line) string {
	refs, _ := value(c.object(l), "/metadata/ownerReferences").([]any)
	for _, ref := range refs {
		if value(ref, "/controller") == true {
			uid, _ := value(ref, "/uid").(string)
			return uid
		}
	}
	return ""
}

// byController checks that an owner's controller deleted an object, and why.
func (c *court) byController(e *explained, i int) error {
	l := &e.Links[i]
	asked := c.asked(l.UID)
	owner := c.ownerOf(asked)
	if len(c.versions[owner]) == 0 {
		return errors.New("nothing is known of its owner")
	}
	kind := c.versions[owner][0].Kind
	controller := map[string]string{
		"ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller", "Job": "job-controller",
		"CronJob": "cronjob-controller", "DaemonSet": "daemon-set-controller",
		"ReplicationController": "replication-controller",
	}[kind]
	if err := c.askedBy(l.UID, controller); err != nil {
		return err
	}
	switch l.Why {
	case "its " + kind + " was scaled down":
		before, now := c.change(owner, "/spec/replicas", asked)
		if before == nil || replicas(c.object(now)) >= replicas(c.object(before)) {
			return errors.New("it was not scaled down")
		}
	case "its " + kind + " was rolled out":
		_, now := c.change(owner, "/spec/template", asked)
		if now == nil || revision(now) < revision(c.versions[l.UID][0]) {
			return errors.New("its template was not changed")
		}
	case "its CronJob keeps no more Jobs (history limit)":
		if value(c.object(asked), "/status/conditions") == nil {
			return errors.New("the Job has not ended")
		}
	case "its Job was suspended":
		if value(c.at(owner, asked), "/spec/suspend") != true {
			return errors.New("it was not")
		}
	case "deleted by its " + kind:
	default:
		return errors.New("nobody judges that reason")
	}
	return nil
}

// collected checks that all owners were gone, or one of them being deleted in the foreground, and who deleted it.
func (c *court) collected(l *link, foreground bool) error {
	asked := c.asked(l.UID)
	refs, _ := value(c.object(asked), "/metadata/ownerReferences").([]any)
	if len(refs) == 0 {
		return errors.New("it has no owner")
	}
	waits := false
	for _, ref := range refs {
		uid, _ := value(ref, "/uid").(string)
		if c.goneBefore(uid, asked) {
			continue
		}
		of := c.asked(uid)
		finalizers, _ := value(c.object(of), "/metadata/finalizers").([]any)
		if of == nil || revision(of) > revision(asked) || !slices.Contains(finalizers, any("foregroundDeletion")) {
			return fmt.Errorf("its owner %v was there", value(ref, "/name"))
		}
		waits = true
	}
	if waits != foreground {
		return errors.New("the owners wait, or do not")
	}
	if c.askedEarlier(c.names[" namespaces  "+l.Namespace], l) == nil {
		return c.first(l.UID, "generic-garbage-collector", "namespace-controller")
	}
	return c.first(l.UID, "generic-garbage-collector")
}

var takenForm = regexp.MustCompile(`(\S+) taken away by (\S+)`)

// held checks who took finalizers away, and that there were some.
func (c *court) held(e *explained, i int) error {
	l := &e.Links[i]
	asked := c.asked(l.UID)
	if asked == nil {
		return errors.New("nobody has asked for its deletion")
	}
	finalizers := fmt.Sprint(value(c.object(asked), "/metadata/finalizers"))
	_, by, _ := strings.Cut(l.Why, " by ")
	names, _, _ := strings.Cut(by, ";")
	for _, name := range strings.Split(names, ", ") {
		if !strings.Contains(finalizers, name) {
			return fmt.Errorf("it had no %s", name)
		}
	}
	for _, taken := range takenForm.FindAllStringSubmatch(l.Why, -1) {
		found := false
		for _, v := range c.versions[l.UID] {
			left := fmt.Sprint(value(c.object(v), "/metadata/finalizers"))
			if revision(v) > revision(asked) && !strings.Contains(left, taken[1]) {
				found = slices.Contains(c.wrote(v), taken[2])
				break
			}
		}
		if !found {
			return fmt.Errorf("%s did not take %s away", taken[2], taken[1])
		}
	}
	return nil
}

// rolledOut checks that a ReplicaSet has another template than its Deployment, whose controller scaled it, or that a
// pod was made from a template that was changed before.
func (c *court) rolledOut(e *explained, i int) error {
	l := &e.Links[i]
	v := c.bySeq[l.Seq]
	if l.What == "created" {
		if i+1 == len(e.Links) {
			return errors.New("no change comes before")
		}
		now := c.bySeq[e.Links[i+1].Seq]
		before, changed := c.change(now.UID, "/spec/template", v)
		if changed != now {
			return errors.New("that is not the last change of the template before")
		}
		image, _ := value(c.object(v), "/spec/containers/0/image").(string)
		was, is := fmt.Sprint(value(c.object(before), "/spec/template")), fmt.Sprint(value(c.object(now), "/spec/template"))
		if strings.HasPrefix(l.Why, "its image") && (strings.Contains(was, image) || !strings.Contains(is, image)) {
			return errors.New("its image did not come with it")
		}
		return nil
	}
	containers := "/spec/template/spec/containers"
	annotations := "/spec/template/metadata/annotations"
	of := c.at(c.ownerOf(v), v)
	if same(value(of, containers), value(c.object(v), containers)) &&
		same(value(of, annotations), value(c.object(v), annotations)) {
		return errors.New("it has the Deployment's template")
	}
	return is("the writer", c.by(v), "deployment-controller")
}
