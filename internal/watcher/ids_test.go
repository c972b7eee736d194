package watcher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// No id stands twice in a journal whose streams have the same objects: by labels, by fields, in one namespace and in
// all. The ids of streams whose objects no other one has are as they always were, and none is longer than Elasticsearch
// takes.
func TestIDsOfOverlappingStreams(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("application-of-team-%02d", i))
	}
	in := func(namespace string) []string { return []string{namespace} }
	bubble(t, fake.Options{}, []config.Resource{
		{Name: "configmaps", LabelSelector: "app=web"},
		{Name: "configmaps", LabelSelector: "tier=front"},
		{Name: "configmaps", LabelSelector: "app=db"},
		{Name: "configmaps", FieldSelector: "metadata.name=a"},
		{Name: "configmaps", LabelSelector: "app in (web," + strings.Join(many, ",") + ")"},
		{Name: "configmaps", Namespaces: in("shop"), LabelSelector: "app=web"},
		{Name: "configmaps", Namespaces: in("shop")},
		{Name: "configmaps"},
		{Name: "secrets", LabelSelector: "app=web"},
		{Name: "deployments.apps", Namespaces: in("shop")},
		{Name: "deployments.apps", Namespaces: in("test")},
	}, func(w *harness) {
		w.start()
		w.settled()
		put := func(name string, labels map[string]any) {
			t.Helper()
			w.putIn(configMaps, "shop", name, labels)
			w.settled()
		}
		web, db := map[string]any{"app": "web", "tier": "front"}, map[string]any{"app": "db", "tier": "front"}
		other := map[string]any{"app": "x"}
		for range 2 {
			put("a", web)
			put("a", db)
			put("a", web)
			put("a", other) // leaves several selections at once
			put("a", web)
			w.putIn(secrets, "shop", "a", web)
			w.putIn(deployments, "shop", "a", web)
			w.stop()
			w.putIn(configMaps, "shop", "b", web)
			w.srv.DropHistory()
			w.start()
			w.settled()
			put("b", db)
			w.stop()
			_, err := w.srv.Delete(configMaps, "shop", "a")
			must(t, err)
			_, err = w.srv.Delete(configMaps, "shop", "b")
			must(t, err)
			w.srv.DropHistory()
			w.start()
			w.settled()
		}
		w.stop()
		lines := w.lines()
		must(t, invariant.Shape(lines))
		must(t, invariant.Unique(lines))
		streams := map[string]bool{}
		for _, l := range lines {
			plain := l.UID + "/" + l.ResourceVersion + "/" + l.Type
			if alone := l.Stream == "configmaps" || l.Resource == "deployments"; l.UID != "" && alone != (l.ID == plain) {
				t.Errorf("%s: id %s in stream %s", l.Where, l.ID, l.Stream)
			}
			if len(l.ID) > 512 {
				t.Errorf("%s: an id of %d bytes", l.Where, len(l.ID))
			}
			streams[l.Stream] = streams[l.Stream] || l.UID != ""
		}
		for stream, has := range streams {
			if !has && !strings.HasPrefix(stream, "deployments.apps?namespace=test") {
				t.Errorf("%s has no objects", stream)
			}
		}
	})
}

// A stream of all namespaces that is added to one of a single namespace changes the ids of that one's lines from then
// on, and does not restart it.
func TestIDsWhereAStreamIsAdded(t *testing.T) {
	one := config.Resource{Name: "configmaps", Namespaces: []string{"shop"}}
	bubble(t, fake.Options{}, []config.Resource{one}, func(w *harness) {
		w.start()
		w.settled()
		put := func(name string) (ids []string) {
			t.Helper()
			n := len(w.lines())
			w.putIn(configMaps, "shop", name, map[string]any{"app": "web"})
			w.settled()
			for _, l := range w.lines()[n:] {
				ids = append(ids, strings.ReplaceAll(l.Stream+" "+l.ID, l.UID, "UID"))
			}
			slices.Sort(ids)
			return ids
		}
		want := func(got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		want(put("a"), "configmaps?namespace=shop UID/5/ADDED")
		_, err := w.srv.Delete(configMaps, "shop", "a") // else it is the same fact in both
		must(t, err)
		w.settled()
		n := len(w.srv.Requests())
		_, err = w.apply([]config.Resource{one, {Name: "configmaps"}}, nil)
		must(t, err)
		w.settled()
		if asked := w.askedFor(n)["configmaps?namespace=shop"]; asked > 0 {
			t.Errorf("the stream was restarted: %d requests", asked)
		}
		want(put("b"), "configmaps UID/7/ADDED", "configmaps?namespace=shop UID/configmaps?namespace=shop/7/ADDED")
		_, err = w.apply([]config.Resource{one}, nil)
		must(t, err)
		want(put("b"), "configmaps?namespace=shop UID/8/MODIFIED")
	})
}
