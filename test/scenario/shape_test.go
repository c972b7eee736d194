package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

const maxLineBytes = 4 << 10 // of TestShape

// shaping is the keys beside the entries; those of one row name fields that no other has.
func shaping() object {
	return object{
		"output":     object{"maxLineBytes": maxLineBytes},
		"dropFields": []any{"metadata.managedFields", "data.dropped", "spec.dropped[*].each"},
		"redact": []any{
			object{"resource": "deployments.apps", "fields": []any{"spec.template.spec.containers[*].image"}},
		},
	}
}

// content is the object of a line.
func content(t *testing.T, l invariant.Line) (o object) {
	t.Helper()
	if err := json.Unmarshal(l.Object, &o); err != nil {
		t.Fatalf("%s: %v", l.Where, err)
	}
	return o
}

// change is one operation of RFC 6902, with the value that it takes away beside it.
type change struct {
	Op, Path   string
	Old, Value json.RawMessage
}

// changes is what a line says of them.
func changes(t *testing.T, l invariant.Line) (list []change) {
	t.Helper()
	raw := l.Raw("changes")
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", l.Where, err)
	}
	return list
}

// keys are the members of an object, in order.
func keys(o object) string {
	return strings.Join(slices.Sorted(maps.Keys(o)), " ")
}

// each looks at the object of every line but those of what a relist found gone.
func each(look func(t *testing.T, l invariant.Line, o object)) func(*testing.T, *hand, []invariant.Line) {
	return func(t *testing.T, _ *hand, lines []invariant.Line) {
		t.Helper()
		for _, l := range lines {
			if l.FinalStateKnown == nil {
				look(t, l, content(t, l))
			}
		}
	}
}

// scribble is a spec that is another each time, with all that JSON has.
func scribble(depth int) any {
	switch n := rand.N(9); {
	case n < 2 && depth > 0:
		o := make(object)
		for range rand.N(4) {
			o[[]string{"a", "b/c", "d~e", "é\u2028", "f.g"}[rand.N(5)]] = scribble(depth - 1)
		}
		return o
	case n < 4 && depth > 0:
		list := make([]any, 0)
		for range rand.N(5) {
			list = append(list, scribble(depth-1))
		}
		return list
	case n < 5:
		return rand.N(3) == 0
	case n < 7:
		return rand.N(100)
	}
	return strings.Repeat("x\"\\ \u2028", rand.N(4))
}

func spec(v any) object {
	return object{"spec": object{"v": v, "w": []any{object{"name": "n", "x": scribble(2)}, object{"name": fmt.Sprint(rand.N(3)), "x": 1}}}}
}

var newEvents = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// shapes is a row for each key that says how a line looks, and for what a line says of its object.
var shapes = []row{
	{
		name: "payload object", keys: object{"payload": "object"},
		before: func(h *hand) { h.configMaps().put("a", data("k", "v")) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.configMaps().touch("a") },
		then:   []string{"MODIFIED watch a"},
		check: each(func(t *testing.T, l invariant.Line, o object) {
			if fmt.Sprint(o["data"]) != "map[k:v]" {
				t.Errorf("%s: object is %v", l.Where, o)
			}
		}),
	},
	{
		name: "payload metadata", keys: object{"payload": "metadata"},
		before: func(h *hand) { h.configMaps().put("a", data("k", "v")) },
		first:  []string{"ADDED snapshot a"},
		live: func(h *hand) {
			h.configMaps().touch("a")
			h.configMaps().put("b", data("k", "v"))
			h.configMaps().delete("b")
		},
		then:   []string{"MODIFIED watch a", "ADDED watch b", "DELETED watch b"},
		down:   func(h *hand) { h.configMaps().touch("a") },
		relist: []string{"MODIFIED relist a"},
		check: each(func(t *testing.T, l invariant.Line, o object) {
			delete(o, "apiVersion")
			delete(o, "kind")
			meta, _ := o["metadata"].(map[string]any)
			if keys(o) != "metadata" || meta["uid"] != l.UID || meta["creationTimestamp"] == nil {
				t.Errorf("%s: object is %v", l.Where, o)
			}
		}),
	},
	{
		name: "payload none", keys: object{"payload": "none"},
		before: func(h *hand) { h.configMaps().put("a", data("k", "v")) },
		first:  []string{"ADDED snapshot a"},
		live: func(h *hand) {
			h.configMaps().touch("a")
			h.configMaps().put("b", data("k", "v"))
			h.configMaps().delete("b")
		},
		then:   []string{"MODIFIED watch a", "ADDED watch b", "DELETED watch b"},
		down:   func(h *hand) { h.configMaps().delete("a") },
		relist: []string{"DELETED relist a"},
		check: func(t *testing.T, _ *hand, lines []invariant.Line) {
			for _, l := range lines {
				if l.Object != nil || l.UID == "" || l.ResourceVersion == "" {
					t.Errorf("%s: object is %s", l.Where, l.Object)
				}
			}
		},
	},
	{
		name:   "dropFields",
		before: func(h *hand) { h.configMaps().put("a", data("k", "v", "dropped", "gone")) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.configMaps().put("a", data("k", "v", "dropped", "gone too")) },
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.configMaps().put("b", data("k", "v", "dropped", "gone")) },
		relist: []string{"ADDED relist b"},
		check: each(func(t *testing.T, l invariant.Line, o object) {
			meta, _ := o["metadata"].(map[string]any)
			if fmt.Sprint(o["data"]) != "map[k:v]" || meta["managedFields"] != nil {
				t.Errorf("%s: object is %v", l.Where, o)
			}
		}),
	},
	{
		name: "redact", resource: "deployments.apps",
		before: func(h *hand) { h.deployments().put("a", deployments.Content("", 1)) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.deployments().put("a", deployments.Content("", 2)) },
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.deployments().put("a", deployments.Content("", 3)) },
		relist: []string{"MODIFIED relist a"},
		check: each(func(t *testing.T, l invariant.Line, o object) {
			if got := string(l.Object); strings.Count(got, `"image":"REDACTED"`) != 1 || strings.Contains(got, `"none"`) || o["spec"] == nil {
				t.Errorf("%s: object is %s", l.Where, got)
			}
		}),
	},
	{
		name: "redactSecrets", resource: "secrets", keys: object{"changes": true},
		before: func(h *hand) { h.secrets().put("a", secrets.Content("", 1)) },
		first:  []string{"ADDED snapshot a"},
		live: func(h *hand) {
			h.secrets().put("a", secrets.Content("", 2))
			h.secrets().put("a", object{"stringData": object{"password": "x", "new": "y"}})
		},
		then:   []string{"MODIFIED watch a", "MODIFIED watch a"},
		down:   func(h *hand) { h.secrets().put("b", secrets.Content("", 1)) },
		relist: []string{"ADDED relist b"},
		check: func(t *testing.T, h *hand, lines []invariant.Line) {
			each(func(t *testing.T, l invariant.Line, o object) {
				for key, value := range o["data"].(map[string]any) {
					if value != "REDACTED" {
						t.Errorf("%s: %s is %v", l.Where, key, value)
					}
				}
			})(t, h, lines)
			if err := invariant.Changes(lines); err != nil {
				t.Error(err)
			}
		},
	},
	{
		name:   "maxLineBytes",
		before: func(h *hand) { h.configMaps().put("large", data("k", strings.Repeat("v", 2*maxLineBytes))) },
		first:  []string{"ADDED snapshot large"},
		live:   func(h *hand) { h.configMaps().touch("large"); h.configMaps().put("small", data("k", "v")) },
		then:   []string{"MODIFIED watch large", "ADDED watch small"},
		down:   func(h *hand) { h.configMaps().touch("large") },
		relist: []string{"MODIFIED relist large"},
		check: each(func(t *testing.T, l invariant.Line, o object) {
			meta, _ := o["metadata"].(map[string]any)
			values, _ := o["data"].(map[string]any)
			value, _ := values["k"].(string)
			large := l.Name == "large"
			cut := strings.HasPrefix(value, "v") && strings.HasSuffix(value, " bytes]") && len(value) < maxLineBytes
			if l.Truncated != large || cut != large || (value == "v") == large || meta["uid"] != l.UID {
				t.Errorf("%s: truncated %v, object %.200s", l.Where, l.Truncated, l.Object)
			}
		}),
	},
	{
		name: "event", resource: "events",
		before: func(h *hand) {
			h.put(schema.GroupVersionResource{Version: "v1", Resource: "events"}, object{
				"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "core", "namespace": h.ns[0]},
				"reason": "Pulled", "message": "it was", "type": "Normal", "count": 7,
				"firstTimestamp": "2026-11-20T16:00:00Z", "lastTimestamp": "2026-11-20T16:10:00Z", "source": object{"component": "kubelet"},
				"involvedObject": object{"kind": "Pod", "namespace": h.ns[0], "name": "p", "uid": "u"},
			})
		},
		first: []string{"ADDED snapshot core"},
		live:  func(h *hand) { h.put(newEvents, newEvent(h.ns[0], "as-core")) },
		then:  []string{"ADDED watch as-core"},
		check: toldEvents,
	},
	{
		name: "event of events.k8s.io", resource: "events.events.k8s.io",
		before: func(h *hand) { h.put(newEvents, newEvent(h.ns[0], "new")) },
		first:  []string{"ADDED snapshot new"},
		check:  toldEvents,
	},
	{
		name: "manager and subresource", resource: "deployments.apps",
		before: func(h *hand) { h.deployments().put("a", deployments.Content("", 1)) },
		first:  []string{"ADDED snapshot a"},
		live: func(h *hand) {
			// managedFields tell times by the second: within one nobody knows who was last.
			made := time.Now().Unix()
			eventually(h.t, soon, "another second", func() error {
				if time.Now().Unix() == made {
					return errors.New("it is the same")
				}
				return nil
			})
			h.deployments().merge("a", `{"status":{"replicas":1}}`, "status")
		},
		then: []string{"MODIFIED watch a"},
		check: func(t *testing.T, _ *hand, lines []invariant.Line) {
			for i, want := range []string{" ", "merger status"} { // of a snapshot nobody knows
				if got := lines[i].Manager + " " + lines[i].Subresource; got != want {
					t.Errorf("%s: manager and subresource are %q, want %q", lines[i].Where, got, want)
				}
			}
		},
	},
	{
		name: "changes", resource: "widgets." + workload.Group, keys: object{"changes": true},
		before: func(h *hand) { h.widgets().put("a", spec(1)); h.widgets().put("b", spec(1)) },
		first:  []string{"ADDED snapshot a", "ADDED snapshot b"},
		live: func(h *hand) {
			for i := range 20 {
				h.widgets().put("a", spec(i+2))
				h.widgets().put("a", object{"spec": object{"v": scribble(4), "n": i}})
			}
		},
		then: slices.Repeat([]string{"MODIFIED watch a"}, 40),
		down: func(h *hand) {
			h.widgets().put("a", spec(100))
			h.widgets().put("a", spec(101))
			h.widgets().put("b", spec(100))
		},
		relist: []string{"MODIFIED relist a", "MODIFIED relist b"},
		check: func(t *testing.T, _ *hand, lines []invariant.Line) {
			if err := invariant.Changes(lines); err != nil {
				t.Error(err)
			}
			for _, l := range lines[2:] {
				if len(changes(t, l)) == 0 {
					t.Errorf("%s: %s without changes", l.Where, l.Type)
				}
			}
		},
	},
	{
		name: "changes without the object", resource: "widgets." + workload.Group, keys: object{"changes": true, "payload": "none"},
		before: func(h *hand) { h.widgets().put("a", object{"spec": object{"v": 1}}) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.widgets().put("a", object{"spec": object{"v": 2}}) },
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.widgets().put("a", object{"spec": object{"v": 3}}) },
		relist: []string{"MODIFIED relist a"},
		check: func(t *testing.T, _ *hand, lines []invariant.Line) {
			for i, l := range lines[1:] {
				// What a kill -9 came upon before it was committed nobody knows any more, where the journal does not hold it.
				list := changes(t, l)
				said := l.Origin == invariant.FromRelist && len(list) == 0
				for _, c := range list {
					said = said || c.Op == "replace" && c.Path == "/spec/v" && string(c.Old) == fmt.Sprint(i+1) && string(c.Value) == fmt.Sprint(i+2)
				}
				if !said || l.Object != nil {
					t.Errorf("%s: changes are %v, object %s", l.Where, list, l.Object)
				}
			}
		},
	},
	{
		name: "ignoreFields", resource: "widgets." + workload.Group, keys: object{"ignoreFields": []any{"status", "metadata.annotations"}},
		before: func(h *hand) {
			h.widgets().put("a", states(1, 1))
			h.widgets().put("b", states(1, 1))
			h.widgets().put("c", states(1, 1))
		},
		first: []string{"ADDED snapshot a", "ADDED snapshot b", "ADDED snapshot c"},
		live: func(h *hand) {
			h.widgets().put("a", states(1, 2))
			h.widgets().touch("b")
			h.widgets().put("a", states(2, 2))
			h.widgets().put("b", states(1, 3))
			h.widgets().delete("c")
		},
		then: []string{"MODIFIED watch a", "DELETED watch c"},
		down: func(h *hand) {
			h.widgets().put("a", states(2, 9))
			h.widgets().put("b", states(2, 9))
			h.widgets().put("d", states(1, 1))
		},
		relist: []string{"MODIFIED relist b", "ADDED relist d"},
	},
	{
		name: "ignoreFields and changes", resource: "widgets." + workload.Group, keys: object{"ignoreFields": []any{"status"}, "changes": true},
		before: func(h *hand) { h.widgets().put("a", states(1, 1)) },
		first:  []string{"ADDED snapshot a"},
		live:   func(h *hand) { h.widgets().put("a", states(1, 2)); h.widgets().put("a", states(2, 2)) },
		then:   []string{"MODIFIED watch a"},
		down:   func(h *hand) { h.widgets().put("a", states(2, 3)) },
		check: func(t *testing.T, _ *hand, lines []invariant.Line) {
			if n := len(lines); n != 2 || len(changes(t, lines[1])) == 0 {
				t.Errorf("%d lines, with the changes %v", n, changes(t, lines[n-1]))
			}
		},
	},
}

// states is an object with a spec and a status.
func states(spec, status int) object {
	return object{"spec": object{"n": spec}, "status": object{"n": status}}
}

func (h *hand) put(gvr schema.GroupVersionResource, o object) {
	h.t.Helper()
	_, err := h.s.client.Resource(gvr).Namespace(h.ns[0]).Create(h.t.Context(), o.unstructured(), metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
}

func newEvent(ns, name string) object {
	return object{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": ns},
		"reason": "Pulled", "note": "it was", "type": "Normal", "action": "Pull", "eventTime": "2026-11-20T16:00:00.000000Z",
		"series":              object{"count": 7, "lastObservedTime": "2026-11-20T16:10:00.000000Z"},
		"reportingController": "kubelet", "reportingInstance": "i",
		"regarding": object{"kind": "Pod", "namespace": ns, "name": "p", "uid": "u"},
	}
}

// toldEvents checks that events look the same, whichever API made them and whichever is watched.
func toldEvents(t *testing.T, h *hand, lines []invariant.Line) {
	t.Helper()
	for _, l := range lines {
		e := l.Event
		if e == nil {
			t.Errorf("%s: no event", l.Where)
			continue
		}
		got := fmt.Sprint(e.Reason, ", ", e.Message, ", ", e.Type, ", ", e.Count, ", ", e.Reporter, ", ", e.Regarding)
		want := fmt.Sprintf("Pulled, it was, Normal, 7, kubelet, {Pod %s p u}", h.ns[0])
		if got != want || !strings.HasPrefix(e.FirstTime, "2026-11-20T16:00:00") || !strings.HasPrefix(e.LastTime, "2026-11-20T16:10:00") {
			t.Errorf("%s: event is %s from %s to %s, want %s", l.Where, got, e.FirstTime, e.LastTime, want)
		}
	}
}

// Each key that shapes a line: in a snapshot, on a watch, and after kill -9 and a lost history.
func TestShape(t *testing.T) {
	playRows(t, shapes, shaping(), (*daemon).kill)
}
