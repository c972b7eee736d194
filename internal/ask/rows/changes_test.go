package rows

import (
	"encoding/json"
	"strings"
	"testing"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/host/terminal"
)

// What changed between two objects, in full and as short as it gets.
func TestWhatChanged(t *testing.T) {
	const conditions = `{"status":{"observedGeneration":%,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":`
	for _, c := range []struct{ prev, next, full, brief string }{
		{`{"metadata":{"labels":{"a":"b"},"resourceVersion":"1"},"spec":{"x":1}}`, `{"metadata":{"labels":{"a":"c"},"resourceVersion":"2"},"spec":{"x":2}}`,
			"spec.x 1→2, metadata.labels.a b→c", "spec.x 1→2, labels.a b→c"},
		{`{"metadata":{},"spec":{"x":1},"status":{"phase":"A","n":1}}`, `{"metadata":{"deletionTimestamp":"2026-11-22T06:30:34Z"},"spec":{"x":2},"status":{"phase":"B","n":2}}`,
			"+metadata.deletionTimestamp 2026-11-22T06:30:34Z, spec.x 1→2, status.phase A→B, status.n 1→2", "+deletionTimestamp 2026-11-22T06:30:34Z, spec.x 1→2, status.phase A→B, status.n 1→2"},
		{`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"1"}},"data":{"a":"1"}}`, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"2"}},"data":{"a":"2"}}`,
			`data.a 1→2, metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] 1→2`, "data.a 1→2"},
		{`{"metadata":{"name":"a"},"data":{"a":"1"},"status":{"n":1}}`, `{"metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"2"}},"data":{"a":"2"},"status":{"n":2}}`,
			`data.a 1→2, status.n 1→2, +metadata.annotations {…}`, "data.a 1→2, status.n 1→2"},
		{`{"metadata":{"name":"a"},"status":{"n":1}}`, `{"metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"2","b":"c"}},"status":{"n":2}}`,
			`+metadata.annotations {…}, status.n 1→2`, ""},
		{`{"status":{"observedGeneration":1}}`, `{"status":{"observedGeneration":2}}`, "status.observedGeneration 1→2", "status.observedGeneration 1→2"},

		// List elements, by their keys.
		{`{"spec":{"template":{"spec":{"containers":[{"name":"proxy"},{"name":"web","image":"registry.example.com/shop/web:1.4.2"}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"proxy"},{"name":"web","image":"registry.example.com/shop/web:1.4.3"}]}}}}`,
			"spec.template.spec.containers[web].image registry.example.com/shop/web:1.4.2→registry.example.com/shop/web:1.4.3", "containers[web].image …1.4.2→…1.4.3"},
		{`{"spec":{"containers":[{"name":"a"},{"name":"b","env":[{"name":"X","value":"1"}]}]}}`, `{"spec":{"containers":[{"name":"b","env":[{"name":"X","value":"2"},{"name":"Y","value":"3"}]}]}}`,
			`-spec.containers[a], spec.containers[b].env[X].value 1→2, +spec.containers[b].env[Y] {"name":"Y","value":"3"}`, ""},
		{`{"spec":{"ports":[{"port":80,"targetPort":1}]}}`, `{"spec":{"ports":[{"port":80,"targetPort":2}]}}`, "spec.ports[80].targetPort 1→2", ""},
		{`{"metadata":{"finalizers":["a.b/c","x"]}}`, `{"metadata":{"finalizers":["x","d/e"]}}`, "-metadata.finalizers[a.b/c], +metadata.finalizers[d/e]", "-finalizers[a.b/c], +finalizers[d/e]"},
		{`{"spec":{"args":["--a","--b"]}}`, `{"spec":{"args":["--a","--c"]}}`, "spec.args[1] --b→--c", ""},
		{`{"data":{"80":"x"}}`, `{"data":{"80":"y","81":"z"}}`, "data.80 x→y, +data.81 z", ""},
		{`{"endpoints":[{"addresses":["a"],"ready":true,"targetRef":{"name":"web-0"}}]}`, `{"endpoints":[{"addresses":["a"],"ready":false,"targetRef":{"name":"web-0"}}]}`, "endpoints[web-0].ready true→false", ""},

		// Conditions, each with what says most.
		{strings.Replace(conditions, "%", "1", 1) + `"True","reason":"A","message":"m","lastUpdateTime":"1"}]}}`, strings.Replace(conditions, "%", "2", 1) + `"False","reason":"B","message":"n","lastUpdateTime":"2"}]}}`,
			"Progressing True→False (B), status.observedGeneration 1→2", "Progressing True→False (B)"},
		{strings.Replace(conditions, "%", "1", 1) + `"True","reason":"A"}]}}`, strings.Replace(conditions, "%", "1", 1) + `"False","reason":"A"}]}}`, "Progressing True→False (A)", ""},
		{strings.Replace(conditions, "%", "1", 1) + `"True","reason":"A","message":"m"}]}}`, strings.Replace(conditions, "%", "1", 1) + `"True","reason":"B","message":"n"}]}}`, "Progressing.reason A→B", ""},
		{strings.Replace(conditions, "%", "1", 1) + `"True","lastUpdateTime":"1"}]}}`, strings.Replace(conditions, "%", "1", 1) + `"True","lastUpdateTime":"2"}]}}`, "Progressing.lastUpdateTime 1→2", ""},
		{`{"status":{"conditions":[{"type":"A","status":"True"}]}}`, `{"status":{"conditions":[{"type":"A","status":"True"},{"type":"Ready","status":"False","reason":"R"}]}}`, "+Ready False (R)", ""},
		{`{"status":{"conditions":[{"type":"A","status":"True"},{"type":"Ready","status":"False","reason":"R"}]}}`, `{"status":{"conditions":[{"type":"A","status":"True"}]}}`, "-Ready", ""},

		// The same where the list has another order.
		{`{"status":{"conditions":[{"type":"A","status":"True","reason":"X"},{"type":"B","status":"True"}]}}`, `{"status":{"conditions":[{"type":"B","status":"True"},{"type":"A","status":"False","reason":"Y"}]}}`, "A True→False (Y)", ""},
		{`{"status":{"conditions":[{"type":"A","status":"True","reason":"X","message":"m"},{"type":"B","status":"True"}]},"x":1}`, `{"status":{"conditions":[{"type":"B","status":"True"},{"type":"A","status":"True","reason":"Y","message":"n"}]},"x":2}`, "x 1→2, A.reason X→Y", ""},
		{`{"status":{"conditions":[{"type":"A","status":"True","lastUpdateTime":"1"},{"type":"B","status":"True"}]},"x":1}`, `{"status":{"conditions":[{"type":"B","status":"True"},{"type":"A","status":"True","lastUpdateTime":"2"}]},"x":2}`, "x 1→2, A.lastUpdateTime 1→2", "x 1→2"},
		{`{"status":{"conditions":[{"type":"A","status":"True"},{"type":"B","status":"True"}]}}`, `{"status":{"conditions":[{"type":"B","status":"True"},{"type":"A","status":"True","message":"m"}]}}`, "+A.message m", ""},

		// Of a long path the end.
		{`{"status":{"containerStatuses":[{"name":"proxy"},{"name":"web","state":{"waiting":{"reason":"ErrImagePull"}}}]}}`, `{"status":{"containerStatuses":[{"name":"proxy"},{"name":"web","state":{"waiting":{"reason":"ImagePullBackOff"}}}]}}`,
			"status.containerStatuses[web].state.waiting.reason ErrImagePull→ImagePullBackOff", "…waiting.reason ErrImagePull→ImagePullBackOff"},
		{`{"webhooks":[{"name":"pods.policy.example.com","failurePolicy":"Fail"}]}`, `{"webhooks":[{"name":"pods.policy.example.com","failurePolicy":"Ignore"}]}`,
			"webhooks[pods.policy.example.com].failurePolicy Fail→Ignore", "…[pods.….com].failurePolicy Fail→Ignore"},

		// Lines of a value.
		{`{"data":{"app.conf":"a\nb\n  timeout 5\nd\n"}}`, `{"data":{"app.conf":"a\nb\n  timeout 50\nd\n"}}`, `data["app.conf"] "timeout 5"→"timeout 50" (line 3)`, `data["app.conf"] "timeout 5"→…50 (line 3)`},
		{`{"data":{"x":"a\nb\nc\n"}}`, `{"data":{"x":"a\nc\n"}}`, "data.x -b (line 2)", ""},
		{`{"data":{"x":"a\nc\n"}}`, `{"data":{"x":"a\nb\nc\n"}}`, "data.x +b (line 2)", ""},
		{`{"data":{"x":"a"}}`, `{"data":{"x":"a\nb\nc"}}`, "data.x +b (line 2 and more)", ""},
		{`{"data":{"x":"a\nb"}}`, `{"data":{"x":"a"}}`, "data.x -b (line 2)", ""},
		{`{"data":{"x":"a\nb\nc"}}`, `{"data":{"x":"A\nB\nc"}}`, "data.x a→A (line 1 and more)", ""},
		{`{"data":{"x":"a\\nb"}}`, `{"data":{"x":"a\\nc"}}`, `data.x a\nb→a\nc (line 1)`, ""},
	} {
		operations, err := changes.Append(nil, compact(t, c.prev), compact(t, c.next))
		if err != nil {
			t.Fatal(err)
		}
		all := AppendOperations(nil, operations)
		next := compact(t, c.next)
		if got := string(AppendChanges(nil, all, next, Unlimited)); got != c.full {
			t.Errorf("%s:\ngot  %s\nwant %s", operations, got, c.full)
		}
		if c.brief == "" {
			continue
		}
		if got := string(AppendChanges(nil, all, next, terminal.Columns([]byte(c.brief)))); got != c.brief {
			t.Errorf("%s, in short:\ngot  %s\nwant %s", operations, got, c.brief)
		}
	}
}

// What cannot be learned from the object is taken from the operation, or is not known.
func TestWithoutObject(t *testing.T) {
	for operation, want := range map[string]string{
		`{"op":"replace","path":"/data/password","old":"REDACTED","value":"REDACTED"}`:                                                         "data.password changed (redacted)",
		`{"op":"add","path":"/data/password","value":"REDACTED"}`:                                                                              "+data.password (redacted)",
		`{"op":"remove","path":"/data/password","old":"REDACTED"}`:                                                                             "-data.password",
		`{"op":"replace","path":"/spec/containers/1/image","old":"a","value":"b"}`:                                                             "spec.containers[1].image a→b",
		`{"op":"add","path":"/spec/containers/1","value":{"name":"web"}}`:                                                                      `+spec.containers[web] {"name":"web"}`,
		`{"op":"remove","path":"/spec/containers/1","old":{"name":"web"}}`:                                                                     "-spec.containers[web]",
		`{"op":"replace","path":"/spec/containers/1","old":{"name":"a"},"value":{"name":"b"}}`:                                                 `spec.containers[1] {"name":"a"}→{"name":"b"}`,
		`{"op":"add","path":"/metadata/finalizers/1","value":"x"}`:                                                                             "+metadata.finalizers[1] x",
		`{"op":"replace","path":"/status/conditions/0/status","old":"True","value":"False"}`:                                                   "status.conditions[0].status True→False",
		`{"op":"replace","path":"/status/conditions/0","old":{"type":"A","status":"True"},"value":{"type":"A","status":"False","reason":"R"}}`: "A True→False (R)",
		`{"op":"replace","path":"no pointer","old":1,"value":2}`:                                                                               "no pointer 1→2",
	} {
		if got := string(AppendChanges(nil, AppendOperations(nil, []byte("["+operation+"]")), nil, Unlimited)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", operation, got, want)
		}
	}
}

func compact(t testing.TB, text string) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
