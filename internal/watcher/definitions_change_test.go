package watcher_test

import (
	"slices"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

// A resource goes and comes back as another kind, or in another scope, before its stream notices that it was gone: a
// definition that was replaced, or an aggregated API with another server behind it. The stream says so, and continues once
// the server was asked what it serves.
func TestResourceChanges(t *testing.T) {
	for name, change := range map[string]func(*fake.Resource){
		"kind":  func(r *fake.Resource) { r.Kind = "Gizmo" },
		"scope": func(r *fake.Resource) { r.Namespaced = false },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("widgets.example.com", "configmaps"), func(w *harness) {
				w.srv.AddResource(widget("v1"))
				w.put(widgets, "w")
				w.start()
				w.synced()
				now := widget("v1")
				change(&now)
				w.srv.RemoveResource(widgets.GroupResource())
				w.srv.AddResource(now)
				meta := map[string]any{"name": "new"}
				if now.Namespaced {
					meta["namespace"] = "default"
				}
				_, err := w.srv.Create(widgets, map[string]any{"metadata": meta})
				must(t, err)
				w.srv.DropHistory()
				// What the server serves is not known again before the stream has met what it serves.
				w.srv.SetStale(widgets.GroupVersion(), true)
				w.srv.RestartAPIServer()
				reason := map[string]string{"kind": "OtherKind", "scope": "OtherScope"}[name]
				w.await("it is said", func() bool { return w.state("widgets.example.com").Reason == reason })
				w.srv.SetStale(widgets.GroupVersion(), false)
				w.await("it goes on", func() bool {
					told := slices.Contains(w.only("widgets.example.com"), "ADDED relist new")
					return told && w.state("widgets.example.com").State == watcher.Watching
				})
				w.pass(5 * time.Minute)
				if got := w.state("widgets.example.com"); got.State != watcher.Watching || got.Reason == reason {
					t.Errorf("%s, %s", got.State, got.Reason)
				}
			})
		})
	}
}
