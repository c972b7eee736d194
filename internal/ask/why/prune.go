package why

import (
	"fmt"
	"strings"
	"time"
)

// prunedByHelm finds that a release of the object's chart was written just then.
func prunedByHelm(w *asker, _ *object, v *Version) *cause {
	release := v.text("metadata", "annotations", "meta.helm.sh/release-name")
	if release == "" || v.text("metadata", "labels", "app.kubernetes.io/managed-by") != "Helm" {
		return nil
	}
	namespace := v.text("metadata", "annotations", "meta.helm.sh/release-namespace")
	if namespace == "" {
		namespace = v.Namespace
	}
	for _, kind := range []string{"Secret", "ConfigMap"} {
		for _, o := range w.find(Query{Ref: Ref{Kind: kind, Namespace: namespace}, Near: v.Time}) {
			if !strings.HasPrefix(o.Name, "sh.helm.release.v1."+release+".v") {
				continue
			}
			for _, is := range o.versions {
				status := is.text("metadata", "labels", "status")
				upgrade := is.Type == "ADDED" && strings.HasPrefix(status, "pending-") && is.Origin == "watch" &&
					!strings.HasSuffix(o.Name, ".v1")
				if is.text("metadata", "labels", "name") != release || !upgrade && status != "uninstalling" ||
					apart(is.Time, v.Time) > lately {
					continue
				}
				if earlier, _ := before(is, v); !earlier {
					continue
				}
				found, done := is, "uninstalled"
				if upgrade {
					done = "upgraded"
				}
				return &cause{
					why:   fmt.Sprintf("Helm release %s was %s", release, done),
					lines: []*Version{found},
					next: func() {
						w.made(Link{What: "release " + status, Manager: found.Manager}, found)
						w.by(personOf(found))
					},
					ends: w.audited("who ran helm"),
				}
			}
		}
	}
	return nil
}

// prunedByArgo finds that an Application says that it has pruned the object.
func prunedByArgo(w *asker, o *object, v *Version) *cause {
	tracking := v.text("metadata", "annotations", "argocd.argoproj.io/tracking-id")
	instance := v.text("metadata", "labels", "app.kubernetes.io/instance")
	if tracking == "" && instance == "" {
		return nil
	}
	app, _, _ := strings.Cut(tracking, ":")
	if app == "" {
		app = instance
	}
	app = app[strings.LastIndexByte(app, '_')+1:]
	application := Ref{Group: "argoproj.io", Kind: "Application", Name: app}
	for _, a := range w.find(Query{Ref: application, Near: v.Time}) {
		for _, is := range a.versions {
			earlier, _ := before(is, v)
			finalizers := strings.Join(is.texts("metadata", "finalizers"), " ")
			if is == a.asked() && earlier && apart(is.Time, v.Time) < lately &&
				strings.Contains(finalizers, "resources-finalizer.argocd.argoproj.io") {
				return &cause{
					why: "the Argo CD application " + app + " was being deleted", lines: []*Version{is},
					next: func() {
						if a := w.one(a.Ref); a != nil {
							w.asked(a, a.asked(), "")
						}
					},
				}
			}
			finished, _ := time.Parse(time.RFC3339, is.text("status", "operationState", "finishedAt"))
			if finished.IsZero() || apart(finished, v.Made) > lately {
				continue
			}
			for _, r := range is.list("status", "operationState", "syncResult", "resources") {
				if str(r, "status") == "Pruned" && str(r, "kind") == o.Kind && str(r, "group") == o.Group &&
					str(r, "name") == o.Name && str(r, "namespace") == o.Namespace {
					return &cause{
						why: "the Argo CD application " + app + " pruned it", lines: []*Version{is},
						next: func() {
							revision := is.text("status", "operationState", "syncResult", "revision")
							w.made(Link{What: "synced to " + revision, Manager: is.Manager}, is)
						},
						ends: "the repository says who took it out",
					}
				}
			}
		}
	}
	return nil
}
