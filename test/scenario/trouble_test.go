package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// A namespace is deleted under the watches of it, and made again: its objects are told as deleted, the watches stay,
// and see what comes later.
func TestNamespaceIsDeletedUnderItsWatch(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	sc := play(t, s, []entry{{Kind: configMaps, Namespaces: []string{ns}}, {Kind: widgets, Namespaces: []string{ns}}})
	ctx := t.Context()
	var objects []live
	fill := func(n int) {
		t.Helper()
		objects = objects[:0]
		for _, k := range []kind{configMaps, widgets} {
			for i := range 3 {
				objects = append(objects, sc.made(k, ns, fmt.Sprint("o", i), n))
			}
		}
	}

	sc.daemon.start()
	fill(1)
	sc.caughtUp()
	before := len(sc.daemon.tell())
	// What the namespace's controller does, of which this control plane has none.
	all := s.client.Resource(workload.Namespaces)
	if err := all.Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		sc.must(sc.Delete(ctx, o))
	}
	gone, err := all.Get(ctx, ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone.Object["spec"] = map[string]any{"finalizers": []any{}}
	if _, err := all.Update(ctx, gone, metav1.UpdateOptions{}, "finalize"); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "namespace is gone", func() error {
		_, err := all.Get(ctx, ns, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	sc.grown(before + len(objects))
	for _, l := range sc.daemon.tell()[before:] {
		if l.Type != invariant.Deleted || l.Origin != "watch" {
			t.Errorf("%s: %s %s, want DELETED watch", l.Where, l.Type, l.Origin)
		}
	}
	for _, src := range sc.Ledger.Sources {
		sc.daemon.await(src.Stream(), "Watching")
	}

	o := object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}
	if _, err := all.Create(ctx, o.unstructured(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fill(2)
	noGap(t, sc.verify(false))
}

// A definition is deleted with all its objects, and made again with another version only. Its stream waits, and goes
// on with what there is then.
func TestDefinitionIsMadeAgain(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	old, now := workload.Definition("gizmos", "Gizmo", "v1"), workload.Definition("gizmos", "Gizmo", "v2")
	ctx := t.Context()
	if err := s.define(ctx, old); err != nil {
		t.Fatal(err)
	}
	gizmos := widgets // of the same content
	gizmos.Kind, gizmos.Resource = "Gizmo", workload.Defined(old)
	sc := play(t, s, []entry{{Kind: gizmos, Namespaces: []string{ns}}})
	create := func(k kind, names ...string) {
		t.Helper()
		for _, name := range names {
			sc.made(k, ns, name, 1)
		}
	}
	create(gizmos, "a", "b")
	sc.daemon.start()
	create(gizmos, "c")
	sc.caughtUp()

	if err := s.client.Resource(workload.Definitions).Delete(ctx, "gizmos."+workload.Group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stream := sc.Ledger.Sources[0].Stream()
	eventually(t, later, "stream waits", func() error {
		state, err := sc.daemon.state(stream)
		if err == nil && state == "Pending" {
			return nil
		}
		// Under the name of its entry, once discovery has noticed.
		if state, err = sc.daemon.state("gizmos"); err == nil && state != "Pending" {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	eventually(t, soon, "definition is gone", func() error {
		_, err := s.client.Resource(workload.Definitions).Get(ctx, "gizmos."+workload.Group, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if err := s.define(ctx, now); err != nil {
		t.Fatal(err)
	}
	gizmos.Resource = workload.Defined(now)
	sc.Ledger.Sources[0].Kind = gizmos
	create(gizmos, "a", "d")
	sc.daemon.await(stream, "Watching")
	create(gizmos, "e")

	deleted, versions := 0, make(map[string]bool)
	for _, l := range sc.verify(false) {
		switch {
		case l.Type == invariant.Deleted:
			deleted++
		case l.Name == "d" || l.Name == "e":
			versions[l.Version] = true
		}
	}
	if deleted != 3 || len(versions) != 1 || !versions["v2"] {
		t.Errorf("%d DELETED lines, want 3; the new ones are told as %v, want v2", deleted, versions)
	}
}

// The token in the daemon's kubeconfig is revoked, and the server, restarted, refuses it. Once the kubeconfig holds
// another, the streams continue; the daemon is not restarted.
func TestTokenIsReplaced(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	ctx := t.Context()
	const user = "rotated"
	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}},
	}
	entries := []entry{{Kind: configMaps, Namespaces: []string{ns}}}
	sc := play(t, s, entries)
	own := filepath.Join(t.TempDir(), "kubeconfig")
	token := func() {
		t.Helper()
		kubeconfig, err := s.User(ctx, user, rules)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(own+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(own+".new", own); err != nil {
			t.Fatal(err)
		}
	}
	token()
	sc.daemon.configure(own, entries)
	sc.daemon.start()
	o := sc.made(configMaps, ns, "a", 1)
	sc.caughtUp()

	accounts := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("kube-system")
	if err := accounts.Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	sc.must(sc.Update(ctx, &o, "web", 2))
	logged := func(text string) {
		t.Helper()
		eventually(t, later, text, func() error {
			if !strings.Contains(sc.daemon.process.log(), text) {
				return fmt.Errorf("not in the log")
			}
			return nil
		})
	}
	logged(`"reason":"Unauthorized"`)
	if status, body, err := sc.daemon.get("/readyz?verbose"); err != nil || status != 200 {
		t.Errorf("readiness while the server refuses us: %d %s, %v", status, body, err)
	}
	token()
	logged("the credentials have changed, using the new ones")
	sc.verify(false)
}
