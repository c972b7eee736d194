package why

import (
	"slices"
	"strings"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/line"
)

// deleter is who deletes for the reason of a rule: service accounts in kube-system, those of Kubernetes' controllers.
type deleter struct {
	accounts []string
	only     bool // they delete such an object for no other reason
}

// deleters are those of the rules for which Kubernetes itself deletes. Where an audit log names another user, such a
// rule has not found the cause.
var deleters = map[string]deleter{
	"controller-event": {
		accounts: []string{
			"replicaset-controller", "statefulset-controller", "daemon-set-controller", "job-controller",
			"cronjob-controller", "replication-controller",
		},
	},
	"garbage-collection":  {accounts: []string{"generic-garbage-collector"}},
	"foreground-deletion": {accounts: []string{"generic-garbage-collector"}},
	"namespace-deletion":  {accounts: []string{"namespace-controller"}},
	"definition-deletion": {},
	"scale-down": {
		accounts: []string{"replicaset-controller", "statefulset-controller", "replication-controller"}, only: true,
	},
	"revision":         {accounts: []string{"statefulset-controller", "daemon-set-controller"}, only: true},
	"node-gone":        {accounts: []string{"pod-garbage-collector", "node-controller"}},
	"job-ttl":          {accounts: []string{"ttl-after-finished-controller"}, only: true},
	"job-history":      {accounts: []string{"cronjob-controller"}, only: true},
	"revision-history": {accounts: []string{"deployment-controller"}, only: true},
}

// allowed reports whether the user who asked for a deletion may have done so for the reason of a rule, and whether that
// alone proves it. Controllers may share one user of Kubernetes' own.
func (r *rule) allowed(p *audit.Person) (ok, proven bool) {
	of, own := deleters[r.name]
	if p == nil || !own {
		return true, false
	}
	user := userOf(p)
	if account, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		name, system := strings.CutPrefix(account, "kube-system:")
		ok = system && slices.Contains(of.accounts, name)
		return ok, ok && of.only && p.Match != audit.Name
	}
	return strings.HasPrefix(user, "system:") && !strings.HasPrefix(user, "system:node:"), false
}

// personOf returns who made a version, nil where that is not known, or where changes before it have no line.
func personOf(v *Version) *audit.Person {
	if v.Type == line.Deleted || v.Origin == line.FromWatch && !v.Missed {
		return v.Person
	}
	return nil
}

// askedBy returns who asked for the deletion that one version asks for, and another one shows.
func askedBy(v, shown *Version, exact bool) *audit.Person {
	if shown.Type == line.Deleted && shown.Person != nil {
		return shown.Person
	}
	if exact || v.Type == line.Deleted {
		return v.Person
	}
	return nil
}

// made adds a link about what a version made, with who did so.
func (w *asker) made(l Link, v *Version) {
	l.Person = personOf(v)
	w.row(l, v)
}

// isPerson reports whether a user is none of Kubernetes' own.
func isPerson(user string) bool { return user != "" && !strings.HasPrefix(user, "system:") }

// audited says that an audit log has an answer.
func (w *asker) audited(answer string) string {
	if w.past.Audited() {
		return "the audit logs that were read do not say " + answer
	}
	return "an audit log says " + answer + " (kubejournal audit FILE)"
}

// by ends the chain with a person, who is what began it. Of a program of Kubernetes' own it is not known why.
func (w *asker) by(p *audit.Person) {
	switch user := userOf(p); {
	case isPerson(user):
		w.complete = true
	case user != "":
		w.ends("the journal has no line that says why " + user + " did so")
	}
}

// userOf returns as whom a request was made. What acts as a user of Kubernetes' own is not that one.
func userOf(p *audit.Person) string {
	switch {
	case p == nil:
		return ""
	case isPerson(p.Impersonated):
		return p.Impersonated
	}
	return p.User
}

// Object returns the object as the link's line has it, nil where it does not.
func (l *Link) Object() []byte {
	if l.version == nil {
		return nil
	}
	return l.version.Raw
}

// Changed reports whether the link is a change of the object, and not of its deletion.
func (l *Link) Changed() bool { return !strings.HasPrefix(l.What, "deletion asked for") }

// Absent returns the resources of which a link's rule takes for granted that what they have no line of did not change.
func Absent(l *Link) []string {
	switch l.Rule {
	case "rollout", "deployment-replicas":
		return []string{"deployments", "replicasets"}
	case "status", "finalizers", "node-condition":
		return []string{l.Resource}
	}
	return nil
}
