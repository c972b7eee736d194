package why

import (
	"fmt"
	"strings"

	"kubejournal/internal/format/audit"
)

// level is what a rule can prove.
type level int

const (
	likely level = iota // circumstances
	given               // the cause was there before, and is enough by itself
	named               // the object, or its controller's Event that names it, says so
)

// String returns the level as docs have it.
func (l level) String() string {
	if l == likely {
		return "likely"
	}
	return "certain"
}

// rule finds one cause of a deletion.
type rule struct {
	name  string
	level level
	looks string // at what it looks
	find  func(w *asker, o *object, v *Version) *cause
}

// cause is what a rule has found.
type cause struct {
	why      string
	proven   bool       // the order of the lines, and that none is missing
	lines    []*Version // that prove it
	next     func()     // follows it further; nil: it is the end
	ends     string     // what would be needed to go on
	complete bool       // nothing would
	only     bool       // who asked for the deletion does so for this reason alone
	several  bool       // who asks for deletions for this reason does so for others too

	rule *rule
}

// deletions returns the rules for why the deletion of an object was asked for. Of the certain ones the first counts; of
// the likely ones the only one.
func deletions() []rule {
	return []rule{
		{
			"disruption-target", named,
			"the pod's condition DisruptionTarget, made true by its reason's controller when the deletion was asked for",
			disrupted,
		},
		{
			"controller-event", named,
			"an Event about the owner, by its uid, that names what its controller deleted", byController,
		},
		{"garbage-collection", given, "owner references: every owner, by its uid, was deleted before", collected},
		{
			"foreground-deletion", given,
			"owner references: every owner was deleted, or is deleted in the foreground", collectedBefore,
		},
		{"namespace-deletion", given, "the deletionTimestamp of the Namespace", withNamespace},
		{
			"definition-deletion", given,
			"the deletionTimestamp of the CustomResourceDefinition, and its finalizer", withDefinition,
		},
		{
			"scale-down", likely,
			"spec.replicas of the owner, within the minute before, for which too few others went", scaledDown,
		},
		{
			"revision", likely,
			"the pod's controller-revision-hash: its StatefulSet or DaemonSet has another one", replacedByRevision,
		},
		{"node-gone", likely, "the pod's Node was deleted before; no condition would say so", withNode},
		{"job-ttl", likely, "ttlSecondsAfterFinished of a finished Job had just passed", afterTTL},
		{"job-history", likely, "the CronJob has as many later Jobs that ended so as its history limit", beyondHistory},
		{"revision-history", likely, "a ReplicaSet without pods, its Deployment has newer ones", beyondRevisions},
		{
			"claim-gone", likely,
			"a released PersistentVolume with reclaim policy Delete, whose claim was deleted before", reclaimed,
		},
		{"helm", likely, "a release of the object's Helm annotation was written within the minute", prunedByHelm},
		{
			"argocd", likely,
			"an Argo CD Application says that it pruned the object, or was deleted within the minute before", prunedByArgo,
		},
	}
}

// cause finds why the deletion was asked for that a version says; nil where no rule has found it, and then why not.
func (w *asker) cause(o *object, v *Version, by *audit.Person) (c *cause, ends string) {
	switch {
	case v.Partial:
		return nil, "the line of the deletion is truncated"
	case v.Raw == nil:
		return nil, "the journal does not have the object: its stream has another payload"
	}
	looked := len(w.answer.Looked)
	var best *cause
	var guesses []*cause
	for _, r := range deletions() {
		allowed, only := r.allowed(by)
		if !allowed {
			continue
		}
		found := r.find(w, o, v)
		switch {
		case w.err != nil:
			return nil, ""
		case found == nil:
			continue
		}
		found.rule, found.only = &r, only && !found.several
		switch {
		case r.level == likely:
			guesses = append(guesses, found)
		case best == nil || !best.proven && found.proven:
			if best != nil && best.rule.level == named {
				found.proven = false // as below
			}
			best = found
		}
	}
	switch {
	case best != nil:
		// What also fits may have come first.
		best.proven = best.proven && (best.rule.level == named || len(guesses) == 0)
		if best.proven {
			w.answer.Looked = w.answer.Looked[:looked] // what is certain depends on nothing else
		}
		return best, ""
	case len(guesses) == 1:
		return guesses[0], ""
	case len(guesses) > 1:
		return nil, fmt.Sprintf("two causes are likely (%s, %s): %s", guesses[0].rule.name, guesses[1].rule.name,
			w.audited("who asked for it"))
	}
	return nil, ""
}

func (c *cause) certain() bool { return c.only || c.rule.level != likely && c.proven }

// gone follows why an object was deleted.
func (w *asker) gone(o *object) {
	d := o.deleted()
	if d == nil {
		l := Link{What: "gone", Why: "another object has its name since; no line says when it was deleted"}
		w.row(l, o.last())
		w.ends("nobody watched when it was deleted")
		return
	}
	if d.Selects {
		w.made(Link{What: "deleted", Why: "or it left the selection of " + d.Stream}, d)
		w.ends("a stream without a selector says which of both")
		return
	}
	asked := o.asked()
	if held := w.held(o, asked, d); held != nil {
		if w.row(*held, d) {
			w.asked(o, asked, "")
		}
		return
	}
	v, exact := o.request()
	w.follow(o, v, d, exact, "deleted")
}

// going follows why an object is being deleted that is still there.
func (w *asker) going(o *object) {
	asked, last := o.asked(), o.whole()
	l := Link{What: "being deleted"}
	if left := last.finalizers(); len(left) > 0 {
		l.Why, l.Rule, l.Certain = "held by "+strings.Join(left, ", "), "finalizers", true
	} else if o.Kind == "Namespace" && o.Group == "" {
		if says := remaining(last); says != "" {
			l.Why, l.Rule, l.Certain = says, "namespace-content", true
		}
	}
	if w.row(l, last) {
		w.asked(o, asked, "")
	}
}

// remaining returns what the conditions of a Namespace say that keeps it from being gone: first what its controller
// cannot do, then what waits.
func remaining(v *Version) string {
	var all []string
	for _, typ := range []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
		"NamespaceDeletionContentFailure", "NamespaceFinalizersRemaining", "NamespaceContentRemaining",
	} {
		if c := v.condition(typ); str(c, "status") == "True" && str(c, "message") != "" {
			all = append(all, str(c, "message"))
		}
	}
	return strings.Join(all, "; ")
}

// asked follows why the deletion of an object was asked for that is not gone yet, or was held up.
func (w *asker) asked(o *object, v *Version, how string) {
	what := "deletion asked for"
	if how != "" {
		what += " (" + how + ")"
	}
	w.follow(o, v, v, o.exact(v), what)
}

// follow adds the row of a deletion, which a version asks for and another one shows, and goes on with its cause.
func (w *asker) follow(o *object, v, shown *Version, exact bool, what string) {
	by := askedBy(v, shown, exact)
	c, ends := w.cause(o, v, by)
	l := Link{What: what, Person: by}
	if v.Seq != shown.Seq {
		l.Lines = append(l.Lines, v.Seq)
	}
	if c == nil {
		if shown.Origin == "relist" {
			l.Why = "in a gap: nobody watched then"
		}
		w.row(l, shown)
		w.ends(ends)
		w.by(by)
		w.ends(w.unexplained(v))
		return
	}
	c.proven = c.proven && exact
	l.Why, l.Rule, l.Certain = c.why, c.rule.name, c.certain()
	if c.rule.name == "garbage-collection" && userOf(by) == "system:serviceaccount:kube-system:generic-garbage-collector" {
		l.Why = "garbage collected: " + l.Why // without a user no line says who deleted it
	}
	_, l.Own = deleters[c.rule.name]
	for _, p := range c.lines {
		l.Lines = append(l.Lines, p.Seq)
	}
	if !w.row(l, shown) {
		return
	}
	if c.next != nil {
		c.next()
	}
	w.complete = w.complete || c.complete
	if !l.Own {
		w.by(by)
	}
	w.ends(c.ends)
}

// unexplained says what would be needed to find out why the deletion was asked for that a version says.
func (w *asker) unexplained(v *Version) string {
	if v.Origin == "relist" {
		return "the deletion lies in a gap; " + w.audited("who asked for it")
	}
	for _, r := range v.owners() {
		if of := w.one(r.Ref); of != nil {
			if d := of.deleted(); d != nil && d.Selects {
				return "its owner " + word(r.Kind) + " " + r.Name + " was deleted, or left the selection of " + d.Stream
			}
			continue
		}
		if !w.watched(r.Group, r.Kind) {
			return "the journal does not watch the kind " + r.Kind + ", which owns it"
		}
		return "the journal has no line about its owner " + word(r.Kind) + " " + r.Name + " with that uid"
	}
	if v.Namespace != "" && !w.watched("", "Namespace") {
		return "the journal does not watch namespaces; " + w.audited("who asked for it")
	}
	return w.audited("who asked for it")
}

// again adds that an object of the same name is there since.
func (w *asker) again(o *object, all []*object) {
	if next := after(o, all); next != nil && next.deleted() == nil {
		v := next.first()
		what := "created again"
		if v.Origin != "watch" {
			what = "there again"
		}
		w.made(Link{
			What: what, Why: "another object, with another uid", Certain: true, Rule: "uid", Manager: v.Manager,
		}, v)
	}
}

// after returns the last of those objects that has taken the name of one, nil for none.
func after(o *object, all []*object) (next *object) {
	for _, other := range all {
		if other.UID != o.UID && other.first().Seq > o.last().Seq &&
			(next == nil || other.first().Seq > next.first().Seq) {
			next = other
		}
	}
	return next
}
