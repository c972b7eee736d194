package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// The definition of a custom resource comes when the daemon runs already; the others do not wait for it.
func TestCustomResourceComesLater(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	crd := workload.Definition("gadgets", "Gadget", "v1beta1", "v1")
	old := widgets // of the same content
	old.Kind, old.Resource = "Gadget", workload.Defined(crd)
	gadgets := old
	gadgets.Resource.Version = "v1"
	entries := []entry{{Kind: gadgets, Namespaces: []string{ns}}, {Kind: configMaps, Namespaces: []string{ns}}}
	sc := play(t, s, entries)
	ctx := t.Context()

	sc.daemon.start() // what is pending does not hold it up
	sc.daemon.await("gadgets", "Pending")
	sc.made(configMaps, ns, "first", 1)
	sc.grown(2) // SYNCED and the object
	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	one := sc.made(gadgets, ns, "one", 1)
	two := sc.made(old, ns, "two", 1) // through the old version
	sc.daemon.await(sc.Ledger.Sources[0].Stream(), "Watching")
	sc.must(sc.Update(ctx, &one, "db", 2))
	sc.must(sc.Update(ctx, &two, "db", 2))
	sc.caughtUp()
	for _, l := range sc.daemon.tell() {
		if l.Resource == "gadgets" && l.Version != "v1" {
			t.Errorf("%s: version %s, want the preferred one, v1", l.Where, l.Version)
		}
	}

	// The other version continues with the same stream.
	sc.daemon.stop()
	before := len(sc.daemon.tell())
	entries[0].Version = "v1beta1"
	sc.daemon.configure(s.Kubeconfig(), entries)
	sc.must(sc.Delete(ctx, two))
	sc.daemon.start()
	sc.must(sc.Update(ctx, &one, "web", 3))
	lines := sc.verify(false)
	noGap(t, lines)
	for _, l := range lines[before:] {
		if l.Resource == "gadgets" && l.Version != "v1beta1" {
			t.Errorf("%s: version %s, want the one of the config, v1beta1", l.Where, l.Version)
		}
	}
}

// A definition is deleted and made again while the daemon runs: the server's deletions of its objects are told once, the
// entry waits, and the new objects are told soon.
func TestCustomResourceGoesAndComesBack(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	ctx := t.Context()
	crd := workload.Definition("sprockets", "Sprocket", "v1")
	sprockets := widgets // of the same content
	sprockets.Kind, sprockets.Resource = "Sprocket", workload.Defined(crd)
	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	sc := play(t, s, []entry{{Kind: sprockets, Namespaces: []string{ns}}})
	stream := sc.Ledger.Sources[0].Stream()
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			sc.made(sprockets, ns, name, 1)
		}
	}
	told := func() (deleted int) {
		for _, l := range sc.daemon.tell() {
			if l.Type == invariant.Deleted {
				deleted++
			}
		}
		return deleted
	}
	sc.daemon.start()
	sc.daemon.await(stream, "Watching")
	create("one", "two")
	sc.caughtUp()
	if err := s.client.Resource(workload.Definitions).Delete(ctx, "sprockets."+workload.Group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sc.daemon.await("sprockets", "Pending")
	eventually(t, soon, "the two objects are told as deleted", func() error {
		if got := told(); got != 2 {
			return fmt.Errorf("%d deletions are told", got)
		}
		return nil
	})
	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sc.daemon.await(stream, "Watching")
	t.Logf("watching %s after the definition was served", time.Since(began).Round(time.Millisecond))
	create("one", "two")
	sc.caughtUp()
	if got := told(); got != 2 {
		t.Errorf("%d deletions are told in the end", got)
	}
	if log := sc.daemon.process.log(); strings.Contains(log, "cannot be watched") {
		t.Error("the log says that definitions cannot be watched")
	}
	sc.verify(false)
}

// A resource that the daemon's identity may not watch: at first, and again later. That it cannot be seen never reads as
// that it is gone.
func TestForbiddenResource(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	watch := func(resources ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: resources}}
	}
	const user = "narrow"
	kubeconfig, err := s.User(t.Context(), user, watch("configmaps"))
	if err != nil {
		t.Fatal(err)
	}
	grant := func(resources ...string) {
		t.Helper()
		if err := s.Grant(t.Context(), user, "", watch(resources...)); err != nil {
			t.Fatal(err)
		}
	}
	entries := every(ns)[:2] // configmaps, secrets
	sc := play(t, s, entries)
	sc.daemon.configure(kubeconfig, entries)
	stream := sc.Ledger.Sources[1].Stream()
	var objects []live
	for _, k := range []kind{configMaps, secrets} {
		objects = append(objects, sc.made(k, ns, "one", 1))
	}
	update := func(n int) {
		t.Helper()
		for i := range objects {
			sc.must(sc.Update(t.Context(), &objects[i], "web", n))
		}
	}

	sc.daemon.launch() // it is not ready with less than its rights
	sc.daemon.await(stream, "Pending")
	sc.grown(2) // the config map and its SYNCED
	update(2)
	sc.grown(3)
	grant("configmaps", "secrets")
	sc.daemon.await(stream, "Watching")
	sc.daemon.ready()
	sc.caughtUp()

	sc.daemon.stop()
	grant("configmaps")
	update(3)
	sc.daemon.launch() // it is not ready with less than its rights
	sc.daemon.await(stream, "Pending")
	update(4)
	grant("configmaps", "secrets")
	lines := sc.verify(false)
	noGap(t, lines)
	for _, l := range lines {
		if l.Type == invariant.Deleted {
			t.Errorf("%s: DELETED of what was only forbidden", l.Where)
		}
	}
	if log := sc.daemon.process.log(); !strings.Contains(log, `"reason":"Forbidden"`) {
		t.Error("the log does not say that the resource is forbidden")
	}
}
