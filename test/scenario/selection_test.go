package scenario

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

func labelled(app string) object { return object{"metadata": object{"labels": object{"app": app}}} }

func data(pairs ...string) object {
	d := make(object)
	for i := 0; i < len(pairs); i += 2 {
		d[pairs[i]] = pairs[i+1]
	}
	return object{"data": d}
}

func podOn(node string) object {
	return object{"spec": object{"nodeName": node, "containers": []any{object{"name": "c", "image": "none"}}}}
}

// selections is a row for each key of an entry that selects.
var selections = []row{
	{
		name: "namespaces", namespaces: 3,
		patterns: func(ns []string) object { return object{"namespaces": ns[:2]} },
		before: func(h *hand) {
			h.configMaps(0).put("a", nil)
			h.configMaps(1).put("b", nil)
			h.configMaps(2).put("other", nil)
		},
		first: []string{"ADDED snapshot a", "ADDED snapshot b"},
		live: func(h *hand) {
			h.configMaps(2).put("another", nil)
			h.configMaps(0).put("c", nil)
			h.configMaps(1).delete("b")
		},
		then: []string{"ADDED watch c", "DELETED watch b"},
		down: func(h *hand) {
			h.configMaps(2).delete("other")
			h.configMaps(0).delete("c")
			h.configMaps(1).put("d", nil)
		},
		relist: []string{"ADDED relist d", "DELETED relist c"},
	},
	{
		name: "excludeNamespaces", resource: "widgets." + workload.Group, everywhere: true, namespaces: 3,
		patterns: func(ns []string) object {
			return object{"excludeNamespaces": []any{ns[1], ns[2][:len(ns[2])-1] + "[c-d]", ns[0] + "-late-*"}}
		},
		before: func(h *hand) {
			h.widgets(0).put("a", nil)
			h.widgets(1).put("held", nil)
			h.widgets(2).put("held", nil)
		},
		first: []string{"ADDED snapshot a"},
		live: func(h *hand) {
			late := h.ns[0] + "-late-1"
			o := object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": late}}
			if _, err := h.s.client.Resource(workload.Namespaces).Create(h.t.Context(), o.unstructured(), metav1.CreateOptions{}); err != nil {
				h.t.Fatal(err)
			}
			h.ns = append(h.ns, late)
			h.widgets(3).put("held", nil)
			h.widgets(1).touch("held")
			h.widgets(2).delete("held")
			h.widgets(2).put("held", nil)
			h.widgets(0).touch("a")
		},
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.widgets(3).touch("held"); h.widgets(1).delete("held"); h.widgets(0).put("b", nil) },
		relist: []string{"ADDED relist b"},
	},
	{
		name: "labelSelector", keys: object{"labelSelector": "app in (web, api)"},
		before: func(h *hand) { h.configMaps().put("a", labelled("web")); h.configMaps().put("b", labelled("db")) },
		first:  []string{"ADDED snapshot a"},
		live: func(h *hand) {
			h.configMaps().put("b", labelled("api"))
			h.configMaps().put("a", labelled("db"))
			h.configMaps().touch("a")
			h.configMaps().put("c", labelled("web"))
		},
		then:   []string{"ADDED watch b", "DELETED watch a", "ADDED watch c"},
		down:   func(h *hand) { h.configMaps().put("c", labelled("db")); h.configMaps().put("d", labelled("web")) },
		relist: []string{"DELETED relist c", "ADDED relist d"},
	},
	{
		name: "fieldSelector with $(NODE_NAME)", resource: "pods", keys: object{"fieldSelector": "spec.nodeName=$(NODE_NAME)"},
		before: func(h *hand) { h.pods().put("a", podOn(nodeName)); h.pods().put("other", podOn("node-2")) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.pods().touch("other"); h.pods().touch("a"); h.pods().put("b", podOn(nodeName)) },
		then:   []string{"MODIFIED watch a", "ADDED watch b"},
		down:   func(h *hand) { h.pods().delete("a"); h.pods().touch("other"); h.pods().put("c", podOn(nodeName)) },
		relist: []string{"DELETED relist a", "ADDED relist c"},
		check: func(t *testing.T, h *hand, lines []invariant.Line) {
			for _, l := range lines {
				if !strings.HasSuffix(l.Stream, "fieldSelector=spec.nodeName%3D"+nodeName) {
					t.Errorf("%s: stream %s", l.Where, l.Stream)
				}
			}
			h.pods().delete("b")
			h.pods().delete("c")
			h.pods().delete("other")
		},
	},
	{
		name: "types", keys: object{"types": []any{"MODIFIED"}},
		before: func(h *hand) { h.configMaps().put("a", nil); h.configMaps().put("b", nil) },
		live: func(h *hand) {
			h.configMaps().put("c", nil)
			h.configMaps().delete("a")
			h.configMaps().touch("c")
		},
		then:   []string{"MODIFIED watch c"},
		down:   func(h *hand) { h.configMaps().put("d", nil); h.configMaps().delete("c"); h.configMaps().touch("b") },
		relist: []string{"MODIFIED relist b"},
	},
	{
		name: "filter", keys: object{"filter": `object.data.keep == "yes" && (type != "DELETED" || object.metadata.name != "e")`},
		before: func(h *hand) {
			h.configMaps().put("a", data("keep", "yes"))
			h.configMaps().put("b", data("keep", "no"))
			h.configMaps().put("no-data", nil) // the filter fails on it
		},
		first: []string{"ADDED snapshot a", "ADDED snapshot no-data"},
		live: func(h *hand) {
			h.configMaps().touch("b")
			h.configMaps().put("b", data("keep", "yes"))
			h.configMaps().put("a", data("keep", "no"))
			h.configMaps().put("d", data("keep", "no"))
			h.configMaps().put("e", data("keep", "yes"))
			h.configMaps().delete("e")
			h.configMaps().put("f", data("keep", "yes"))
		},
		then: []string{"MODIFIED watch b", "ADDED watch e", "ADDED watch f"},
		down: func(h *hand) {
			h.configMaps().touch("d")
			h.configMaps().put("f", data("keep", "no"))
			h.configMaps().put("g", data("keep", "no"))
			h.configMaps().touch("no-data")
			h.configMaps().put("h", data("keep", "yes"))
		},
		relist: []string{"MODIFIED relist no-data", "ADDED relist h"},
		check: func(t *testing.T, h *hand, _ []invariant.Line) {
			h.daemon.counted("kubejournal_events_filtered_total")
			h.daemon.counted("kubejournal_filter_errors_total")
		},
	},
	{
		name: "initial skip", keys: object{"initial": "skip"},
		before: func(h *hand) {
			h.configMaps().put("a", nil)
			h.configMaps().put("b", nil)
			h.configMaps().put("c", nil)
		},
		live:   func(h *hand) { h.configMaps().touch("a"); h.configMaps().put("d", nil) },
		then:   []string{"MODIFIED watch a", "ADDED watch d"},
		down:   func(h *hand) { h.configMaps().touch("b"); h.configMaps().put("e", nil) },
		relist: []string{"MODIFIED relist b", "ADDED relist e"},
	},
	{
		name: "initial snapshot", keys: object{"initial": "snapshot"},
		before: func(h *hand) { h.configMaps().put("a", nil); h.configMaps().put("b", nil) },
		first:  []string{"ADDED snapshot a", "ADDED snapshot b"},
		live:   func(h *hand) { h.configMaps().touch("a") },
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.configMaps().delete("b") },
		relist: []string{"DELETED relist b"},
	},
}

// Each key that selects: what is told of the objects that exist, of what happens, and of what happened while the daemon
// was down and the server has forgotten. What an entry holds back is no news then.
func TestSelection(t *testing.T) {
	playRows(t, selections, nil, (*daemon).stop)
}

// counted fails unless the metric of config maps is there and above 0.
func (d *daemon) counted(name string) {
	d.t.Helper()
	series := name + `{group="",resource="configmaps"}`
	if d.metrics()[series] > 0 {
		return
	}
	d.t.Errorf("%s is not counted", series)
}

func (d *daemon) metrics() map[string]float64 {
	d.t.Helper()
	all, err := d.process.Metrics(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}
