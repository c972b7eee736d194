package why

import (
	"fmt"
	"time"
)

// finishedAs returns which condition says that a Job has ended, and when.
func finishedAs(v *Version) (typ string, at time.Time) {
	for _, typ := range []string{"Complete", "Failed"} {
		if c := v.condition(typ); str(c, "status") == "True" {
			at, _ := time.Parse(time.RFC3339, str(c, "lastTransitionTime"))
			return typ, at
		}
	}
	return "", time.Time{}
}

func finished(v *Version) bool {
	typ, _ := finishedAs(v)
	return typ != ""
}

func isJob(o *object) bool { return o.Group == "batch" && o.Kind == "Job" }

// afterTTL finds that the time had just passed that a finished Job is to be kept.
func afterTTL(_ *asker, o *object, v *Version) *cause {
	if !isJob(o) {
		return nil
	}
	ttl, ok := v.number("spec", "ttlSecondsAfterFinished")
	typ, ended := finishedAs(v)
	at := v.requestedAt()
	if at.IsZero() {
		at = v.Made
	}
	due := ended.Add(time.Duration(ttl) * time.Second)
	if !ok || typ == "" || ended.IsZero() || at.Before(due) || at.Sub(due) > lately {
		return nil
	}
	how := map[string]string{"Complete": "completed", "Failed": "failed"}[typ]
	return &cause{
		why:      fmt.Sprintf("it had %s %s before, which is its TTL", how, at.Sub(ended)),
		complete: true,
	}
}

// beyondHistory finds that a CronJob has as many later Jobs that ended alike as it keeps.
func beyondHistory(w *asker, o *object, v *Version) *cause {
	ref, ok := v.controller()
	if !isJob(o) || !ok || ref.Kind != "CronJob" {
		return nil
	}
	of := w.one(ref)
	typ, _ := finishedAs(v)
	if of == nil || typ == "" || of.at(v) == nil {
		return nil
	}
	if !of.there(v) {
		return nil
	}
	field := "successfulJobsHistoryLimit"
	if typ == "Failed" {
		field = "failedJobsHistoryLimit"
	}
	limit, set := of.at(v).number("spec", field)
	if !set {
		return nil // the server sets it: the journal does not have it
	}
	later := 0
	for _, other := range w.find(Query{Ref: Ref{Group: "batch", Kind: "Job", Namespace: o.Namespace}, Owner: of.UID}) {
		is := other.at(v)
		if other.UID == o.UID || !other.there(v) || is == nil {
			continue
		}
		if how, _ := finishedAs(is); how == typ && is.when("status", "startTime").After(v.when("status", "startTime")) {
			later++
		}
	}
	if later < limit {
		return nil
	}
	return &cause{
		why:      fmt.Sprintf("its CronJob keeps %d such Jobs, and there were %d later ones", limit, later),
		complete: true,
	}
}

// beyondRevisions finds that a Deployment has as many later ReplicaSets without pods as it keeps.
func beyondRevisions(w *asker, o *object, v *Version) *cause {
	ref, ok := v.controller()
	if o.Group != "apps" || o.Kind != "ReplicaSet" || !ok || ref.Kind != "Deployment" {
		return nil
	}
	of := w.one(ref)
	replicas, ok := v.number("spec", "replicas")
	left, _ := v.number("status", "replicas")
	if of == nil || of.at(v) == nil || !ok || replicas+left > 0 {
		return nil
	}
	if !of.there(v) || !v.has("spec", "template") || sameTemplate(of.at(v), v) {
		return nil
	}
	limit, set := of.at(v).number("spec", "revisionHistoryLimit")
	if !set {
		return nil // as above
	}
	old := 0
	for _, other := range w.replicaSets(of) {
		is := other.at(v)
		if other.UID == o.UID || !other.there(v) || is == nil || sameTemplate(of.at(v), is) {
			continue
		}
		if revision(is) > revision(v) {
			old++
		}
	}
	if old < limit {
		return nil
	}
	return &cause{
		why:      fmt.Sprintf("its Deployment keeps %d old ReplicaSets, and there were %d later ones", limit, old),
		complete: true,
	}
}

func revision(v *Version) (n int) {
	_, _ = fmt.Sscan(v.text("metadata", "annotations", "deployment.kubernetes.io/revision"), &n) // 0 where it has none
	return n
}
