package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/line"
)

// prompt is how soon the garbage collector deletes what has lost its owners, unless it is in trouble.
const prompt = 10 * time.Minute

const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

// collected finds that all owners of an object were deleted before its deletion was asked for.
func collected(w *asker, o *object, v *Version) *cause { return w.collected(o, v, false) }

// collectedBefore finds that the owners delete what they own before they go themselves.
func collectedBefore(w *asker, o *object, v *Version) *cause { return w.collected(o, v, true) }

// collected finds that every owner is gone or, with waiting, that one of them at least waits for what it owns.
func (w *asker) collected(own *object, v *Version, waiting bool) *cause {
	owners := v.owners()
	if len(owners) == 0 || own.hurried(v) {
		return nil
	}
	c := &cause{proven: true}
	var of *object
	waits := false
	for _, r := range owners {
		o := w.one(r.Ref)
		if o == nil {
			return nil // it may be there
		}
		d, asked := o.deleted(), o.asked()
		gone, proven := before(d, v)
		if d != nil && d.Selects {
			gone = false
		}
		switch {
		case gone:
			c.lines = append(c.lines, d)
			c.proven = c.proven && proven && d.Origin == "watch" && apart(d.Time, v.Time) < prompt
		case asked != nil && slices.Contains(asked.texts("metadata", "finalizers"), foreground):
			earlier, proven := before(asked, v)
			if !earlier {
				return nil
			}
			c.lines, c.proven, waits = append(c.lines, asked), c.proven && proven, true
		default:
			return nil // one that is there keeps it
		}
		if of == nil || r.controller {
			of = o
		}
	}
	if waits != waiting {
		return nil
	}
	c.why = "its owner is gone"
	if len(owners) > 1 {
		c.why = "its owners are gone"
	}
	c.next = func() { w.gone(of) }
	if waits {
		c.why = "its owner deletes first what it owns (foreground)"
		c.next = func() { w.asked(of, of.asked(), "foreground") }
	}
	return c
}

// hurried reports whether the deletion of a pod that runs on a node was asked for without its grace period, which no
// controller does that deletes what others have left. The line of a deletion says so of every pod in the end: it counts
// where the journal has the changes before.
func (o *object) hurried(v *Version) bool {
	is, asked := v.number("metadata", "deletionGracePeriodSeconds")
	own, set := v.number("spec", "terminationGracePeriodSeconds")
	changes := slices.ContainsFunc(o.versions, func(v *Version) bool { return v.Type == line.Modified })
	return o.Kind == "Pod" && o.Group == "" && asked && set && is < own && v.text("spec", "nodeName") != "" &&
		v.alive() && changes && o.exact(v)
}

// alive reports whether a pod's status says that it has not ended.
func (v *Version) alive() bool {
	return slices.Contains([]string{"Running", "Pending"}, v.text("status", "phase"))
}

// withNamespace finds that the Namespace was being deleted.
func withNamespace(w *asker, o *object, v *Version) *cause {
	if v.Namespace == "" || o.hurried(v) {
		return nil
	}
	for _, ns := range w.find(Query{Ref: Ref{Kind: "Namespace", Name: v.Namespace}}) {
		asked := ns.asked()
		if asked == nil {
			continue
		}
		earlier, proven := before(asked, v)
		if !earlier {
			continue
		}
		if d := ns.deleted(); d != nil {
			over, sure := before(d, v)
			if over {
				continue // another one of the name
			}
			proven = proven && sure
		}
		return &cause{
			why: "the namespace was being deleted", proven: proven, lines: []*Version{asked},
			next: func() { w.asked(ns, asked, "") },
		}
	}
	return nil
}

const cleanup = "customresourcecleanup.apiextensions.k8s.io"

// withDefinition finds that the CustomResourceDefinition of an object was being deleted.
func withDefinition(w *asker, _ *object, v *Version) *cause {
	if !strings.Contains(v.Group, ".") {
		return nil
	}
	name := v.Resource + "." + v.Group
	definition := Ref{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: name}
	for _, crd := range w.find(Query{Ref: definition}) {
		asked := crd.asked()
		if asked == nil || !slices.Contains(asked.texts("metadata", "finalizers"), cleanup) {
			continue
		}
		earlier, proven := before(asked, v)
		if !earlier {
			continue
		}
		if d := crd.deleted(); d != nil {
			over, sure := before(d, v)
			if over {
				continue
			}
			proven = proven && sure
		}
		return &cause{
			why: "its CustomResourceDefinition was being deleted", proven: proven, lines: []*Version{asked},
			next: func() { w.asked(crd, asked, "") },
		}
	}
	return nil
}

// reclaimed finds that the claim of a volume is gone, which its reclaim policy makes its end.
func reclaimed(w *asker, _ *object, v *Version) *cause {
	if v.Kind != "PersistentVolume" || v.text("spec", "persistentVolumeReclaimPolicy") != "Delete" {
		return nil
	}
	claim := Ref{
		Kind: "PersistentVolumeClaim", Namespace: v.text("spec", "claimRef", "namespace"),
		Name: v.text("spec", "claimRef", "name"), UID: v.text("spec", "claimRef", "uid"),
	}
	o := w.one(claim)
	if claim.UID == "" || o == nil || o.deleted() == nil || o.deleted().Selects {
		return nil
	}
	if gone, _ := before(o.deleted(), v); !gone {
		return nil
	}
	return &cause{
		why: "its claim is gone, and the reclaim policy is Delete", lines: []*Version{o.deleted()},
		next: func() { w.gone(o) },
	}
}

// ownFinalizers are set and taken away by Kubernetes itself, which is a cause of its own.
var ownFinalizers = []string{foreground, orphan, cleanup, "batch.kubernetes.io/job-tracking"}

// held returns the row of a deletion that finalizers held up, apart from Kubernetes' own; nil where none did.
func (w *asker) held(o *object, asked, d *Version) *Link {
	if asked == nil {
		return nil
	}
	took := d.Time.Sub(asked.Time)
	l := &Link{
		What: "deleted", Rule: "finalizers", Lines: []uint64{asked.Seq},
		Certain: d.Origin == "watch" && asked.Origin == "watch",
	}
	if o.Kind == "Namespace" && o.Group == "" {
		l.Rule = ""
		if is := o.previous(d).condition("NamespaceContentRemaining"); str(is, "status") == "False" {
			l.Why, l.Rule = "all that was in it is gone", "namespace-content"
		}
		l.Certain = l.Certain && l.Rule != ""
		return l
	}
	left := asked.finalizers()
	if len(left) == 0 {
		return nil
	}
	held := took.Round(time.Second).String()
	if took < time.Second {
		held = "less than a second"
	}
	l.Why = fmt.Sprintf("held for %s by %s", held, strings.Join(left, ", "))
	// The write that takes the last one away deletes the object, and has no line: that of the deletion still has it.
	for _, v := range o.versions {
		if v.Seq <= asked.Seq || v.Raw == nil || v.Partial || v == d {
			continue
		}
		for _, f := range left {
			if !slices.Contains(v.finalizers(), f) {
				l.Lines = append(l.Lines, v.Seq)
				who := v.Manager
				if user := userOf(personOf(v)); isPerson(user) {
					who = strings.TrimSuffix(user+", "+who, ", ")
				}
				if who != "" && v.Origin == "watch" {
					l.Why += fmt.Sprintf("; %s taken away by %s", f, who)
				}
			}
		}
		left = v.finalizers()
	}
	if len(left) == 0 {
		return nil // it went for another reason, such as the end of a grace period
	}
	return l
}

// finalizers returns those of the object that are not Kubernetes' own.
func (v *Version) finalizers() []string {
	return slices.DeleteFunc(v.texts("metadata", "finalizers"), func(f string) bool {
		return slices.Contains(ownFinalizers, f)
	})
}
