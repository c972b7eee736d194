package question_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// TestRelatedToClusterScoped has objects in no namespace, whose children, and Events about them, are in any: found in
// one segment and over several.
func TestRelatedToClusterScoped(t *testing.T) {
	owned := func(namespace, name, uid, kind, owner string) string {
		if namespace != "" {
			namespace = fmt.Sprintf(`"namespace":%q,`, namespace)
		}
		return fmt.Sprintf(`{"metadata":{%s"name":%q,"uid":%q,"ownerReferences":[{"apiVersion":"v1","kind":%q,"name":"x",`+
			`"uid":%q}]}}`,
			namespace, name, uid, kind, journaltest.UID(owner))
	}
	event := func(namespace, name, uid, kind, about, aboutUID string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q},`+
			`"involvedObject":{"kind":%q,"name":%q,"uid":%q},"reason":"R","message":"m","type":"Normal","lastTimestamp":"2026-11-20T12:00:00Z"}`,
			namespace, name, uid, kind, about, aboutUID)
	}
	for _, rotated := range []bool{false, true} {
		w := begin(t)
		rotate := func() {
			if rotated {
				w.Rotate()
			}
		}
		nodes, pods := w.Stream("nodes", "Node"), w.Stream("pods", "Pod")
		leases := w.Stream("leases.coordination.k8s.io", "Lease")
		events, csi := w.Stream("events", "Event"), w.Stream("csinodes.storage.k8s.io", "CSINode")
		policies, deployments := w.Stream("policies.example.com", "Policy"), w.Stream("deployments.apps", "Deployment")
		all := []*journaltest.Stream{nodes, pods, leases, events, csi, policies, deployments}
		for _, s := range all {
			s.Snapshot()
			s.Synced()
		}
		w.Now = noon.Add(time.Second)
		leases.Put("kubelet", owned("kube-node-lease", "a", "b1", "Node", "a1")) // before its owner
		rotate()
		nodes.Put("kubelet", `{"metadata":{"name":"a","uid":"a1"}}`)
		nodes.Put("kubelet", `{"metadata":{"name":"b","uid":"a2"}}`)
		pods.Put("kubelet", owned("kube-system", "etcd-a", "c1", "Node", "a1"))
		pods.Put("kubelet", owned("kube-system", "etcd-b", "c2", "Node", "a2"))
		csi.Put("kubelet", owned("", "a", "d1", "Node", "a1"))
		rotate()
		events.Put("kubelet", event("default", "a.1", "e1", "Node", "a", journaltest.UID("a1")))
		events.Put("kubelet", event("default", "a.2", "e2", "Node", "a", "a")) // kubelets write the name there
		events.Put("kubelet", event("monitoring", "a.3", "e3", "Node", "a", journaltest.UID("a1")))
		events.Put("kubelet", event("default", "b.1", "e4", "Node", "b", journaltest.UID("a2")))
		events.Put("kubelet", event("kube-system", "etcd-a.1", "e5", "Pod", "etcd-a", journaltest.UID("c1")))
		events.Put("kubelet", event("shop", "other.1", "e6", "Pod", "other", journaltest.UID("c9")))
		rotate()
		policies.Put("kubectl", `{"metadata":{"name":"p","uid":"f1"}}`)
		deployments.Put("operator", owned("shop", "agent", "f2", "Policy", "f1"))
		pods.Put("operator", owned("shop", "agent-0", "f3", "Deployment", "f2"))
		w.Now = noon.Add(time.Minute)
		w.Confirm(false, all...)
		j := open(t, w)
		for asked, want := range map[string]string{
			"nodes/a":           "a a a a.1 a.2 a.3 etcd-a etcd-a.1",
			"nodes/b":           "b b.1 etcd-b",
			"csinodes/a":        "a", // and its owner, below
			"policies/p":        "agent agent-0 p",
			"deployments/agent": "agent agent-0 p",
			"pods/etcd-a":       "a etcd-a etcd-a.1",
		} {
			s := selectionOf(t, asked)
			if err := j.Resolve(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			related, err := j.Related(t.Context(), s, argument.Moment{}, argument.Moment{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for v, err := range j.History(t.Context(), related, argument.Moment{}, argument.Moment{}) {
				if err != nil {
					t.Fatal(err)
				}
				if !v.AboutStream() {
					got[string(v.Text(line.FieldUID))] = string(v.Text(line.FieldName))
				}
			}
			if asked == "csinodes/a" {
				want += " a"
			}
			if names := strings.Join(slices.Sorted(maps.Values(got)), " "); names != want {
				t.Errorf("%s, rotated %t: %s, want %s", asked, rotated, names, want)
			}
		}
	}
}

// TestRelatedToDefinition has objects that CustomResourceDefinitions define, with what those own, in any namespace and in any
// segment; and a definition whose objects nobody watched.
func TestRelatedToDefinition(t *testing.T) {
	w := begin(t)
	crds := w.Stream("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition")
	boxes, pods := w.Stream("boxes.example.com", "Box"), w.Stream("pods", "Pod")
	others, core := w.Stream("boxes.other.com", "Box"), w.Stream("configmaps", "ConfigMap")
	all := []*journaltest.Stream{crds, boxes, pods, others, core}
	for _, s := range all {
		s.Snapshot()
		s.Synced()
	}
	w.Now = noon.Add(time.Second)
	boxes.Put("kubectl", `{"metadata":{"namespace":"a","name":"early","uid":"b1"}}`)
	w.Rotate()
	for n, name := range []string{"boxes.example.com", "lids.example.com", "boxes.other.com"} {
		crds.Put("kubectl", fmt.Sprintf(`{"metadata":{"name":%q,"uid":"c%d"}}`, name, n))
	}
	others.Put("kubectl", `{"metadata":{"namespace":"a","name":"other","uid":"d1"}}`)
	core.Put("kubectl", `{"metadata":{"namespace":"a","name":"core","uid":"d2"}}`)
	w.Rotate()
	boxes.Put("kubectl", `{"metadata":{"namespace":"b","name":"late","uid":"b2"}}`)
	pods.Put("operator", fmt.Sprintf(`{"metadata":{"namespace":"b","name":"of-late","uid":"e1",`+
		`"ownerReferences":[{"kind":"Box","name":"late","uid":%q}]}}`, journaltest.UID("b2")))
	boxes.Delete("b1")
	w.Now = noon.Add(time.Minute)
	w.Confirm(false, all...)
	j := open(t, w)
	for asked, want := range map[string]string{
		"crd/boxes.example.com":  "boxes.example.com early early late of-late",
		"crd/lids.example.com":   "lids.example.com; the journal has no line about lids.example.com: nobody watched them",
		"crd/boxes.other.com":    "boxes.other.com other",
		"boxes.example.com/late": "late of-late", // a definition owns its objects, and not the other way round
	} {
		s := selectionOf(t, asked)
		if err := j.Resolve(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		related, err := j.Related(t.Context(), s, argument.Moment{}, argument.Moment{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for v, err := range j.History(t.Context(), related, argument.Moment{}, argument.Moment{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !v.AboutStream() {
				names = append(names, string(v.Text(line.FieldName)))
			}
		}
		slices.Sort(names)
		got := strings.Join(names, " ")
		for _, d := range related.Unwatched {
			got += "; " + d.Text
		}
		if got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
