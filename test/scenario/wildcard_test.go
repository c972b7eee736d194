package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// pickUp is how long a wildcard may take to begin with a resource that has just been defined.
const pickUp = 10 * time.Second

// One entry for all that can be watched: less what it excludes and what another entry names, each object once, also
// where two groups serve it; and with the resources that come and go.
func TestWildcard(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	ctx := t.Context()
	sc := play(t, s, nil)
	d := sc.daemon
	config := d.content(s.Kubeconfig(), []any{
		object{"resource": "*", "group": "*", "exclude": []any{"leases.coordination.k8s.io", "endpoints"}},
		object{"resource": "secrets", "payload": "none"},
	}, nil)
	d.rewrite(config)
	d.start()

	h := &hand{t: t, s: s, daemon: d, ns: []string{ns}}
	h.secrets().put("a-secret", secrets.Content("", 1))
	h.deployments().put("a-deployment", deployments.Content("", 1))
	h.put(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "a-lease", "namespace": ns}})
	h.put(newEvents, newEvent(ns, "an-event"))
	h.configMaps().put("a-map", data("k", "v"))

	// A resource that comes when the wildcard runs.
	crd := workload.Definition("gears", "Gear", "v1")
	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	gears := func() at { return at{h, workload.Defined(crd), "Gear", ns} }
	gears().put("one", nil)
	stream := "gears." + workload.Group
	h.tells(pickUp, stream, "ADDED one")
	gears().put("two", nil)
	h.tells(pickUp, stream, "ADDED one", "ADDED two")

	// It goes, with its objects, and comes again.
	name := crd.GetName()
	if err := s.client.Resource(workload.Definitions).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.tells(soon, stream, "ADDED one", "ADDED two", "DELETED one", "DELETED two")
	eventually(t, soon, "definition is gone", func() error {
		_, err := s.client.Resource(workload.Definitions).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	eventually(t, soon, "stream does not watch", func() error {
		if state, err := d.state(stream); err == nil && state != "Pending" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	if err := s.define(ctx, crd); err != nil {
		t.Fatal(err)
	}
	gears().put("three", nil)
	h.tells(pickUp, stream, "ADDED one", "ADDED two", "DELETED one", "DELETED two", "ADDED three")

	_, body, err := d.get("/streams")
	if err != nil {
		t.Fatal(err)
	}
	for _, excluded := range []string{`"leases.coordination.k8s.io"`, `"endpoints"`} {
		if strings.Contains(body, `"stream":`+excluded) || strings.Contains(body, `"stream": `+excluded) {
			t.Errorf("%s is excluded, and a stream", excluded)
		}
	}
	lines := d.tell()
	var told []string
	for _, l := range lines {
		if l.Namespace != ns || l.Kind == "Gear" {
			continue
		}
		told = append(told, l.Type+" "+l.Name)
		if (l.Object == nil) != (l.Resource == "secrets") {
			t.Errorf("%s: object of %s is %s", l.Where, l.Name, l.Object)
		}
	}
	slices.Sort(told)
	if want := []string{"ADDED a-deployment", "ADDED a-map", "ADDED a-secret", "ADDED an-event"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	// The definition's list may just be behind its GAP, and a stop there leaves the SYNCED to the next start.
	eventually(t, later, "all is synced", func() error { return invariant.All(d.tell(), invariant.Options{}) })
	d.stop()
	if err := s.client.Resource(workload.Definitions).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tells waits until exactly these lines are told of the objects in a stream.
func (h *hand) tells(patience time.Duration, stream string, want ...string) {
	h.t.Helper()
	eventually(h.t, patience, stream, func() error {
		var told []string
		for _, l := range h.daemon.tell() {
			if l.Stream == stream && l.Type != invariant.Gap && l.Type != invariant.Synced {
				told = append(told, l.Type+" "+l.Name)
			}
		}
		sorted := slices.Sorted(slices.Values(told))
		if !slices.Equal(sorted, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("told %q, want %q", told, want)
		}
		return nil
	})
}
