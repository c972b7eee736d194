package object

import (
	"strings"
	"testing"

	"kubejournal/test/eventtest"
)

// TestPeek has Peek find what Scan finds, and leave to Scan what is not as API servers write it.
func TestPeek(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	var o, scanned Object
	for n := range 10 {
		pod := eventtest.Pod(2000, n)
		if err := r.Scan(pod, &scanned); err != nil {
			t.Fatal(err)
		}
		if !r.Peek(pod, &o) || namesOf(&o) != namesOf(&scanned) {
			t.Errorf("got %s, want %s", namesOf(&o), namesOf(&scanned))
		}
	}
	const rest = `"namespace":"ns","uid":"u","resourceVersion":"5"}`
	for in, want := range map[string]bool{
		`{"metadata":{"name":"n",` + rest + `}`:                                                        true,
		`{"apiVersion":"v1","metadata":{"labels":{"uid":"x"},"name":"n",` + rest + `,"spec":{"a":[]}}`: true,
		`{"spec":{"a":nan},"metadata":{"name":"n",` + rest + `}`:                                       true, // for Identify, if it is one's own

		"": false, "{": false, "{}": false, "[]": false, "nul": false, `{"metadata":{`: false, `{"metadata":{}}`: false,
		`{"metadata":"x"}`:                                                           false,
		`{"metadata":{"name":"n","uid":"u"}}`:                                        false,
		`{"metadata":{"name":"n","resourceVersion":"5"}}`:                            false,
		`{"metadata":{"uid":"u","resourceVersion":"5"}}`:                             false,
		`{"metadata":{"name":1,` + rest + `}`:                                        false,
		`{"metadata":{"name":"\u006e",` + rest + `}`:                                 false,
		`{"metadata":{"name":"` + "\xff" + `",` + rest + `}`:                         false,
		`{"metadata":{"name":"` + strings.Repeat("n", maxName+1) + `",` + rest + `}`: false,
		`{"metadata":{"name":"n","name":"m",` + rest + `}`:                           false, // the last counts
		`{"metadata":{"name":"n",` + rest + `,"metadata":{}}`:                        false,
		`{"metadata": {"name":"n",` + rest + "\n}":                                   false, // not compact
		`{"metadata":{"name":"n",` + rest + `},"type":"ADDED"`:                       false, // the tail of a watch event
		`{"metadata":{"name":"n",` + rest + `}{}`:                                    false, // two values
		`{"metadata":{"name":"n",` + rest + `,"spec":{"a":"}`:                        false,
	} {
		if got := r.Peek([]byte(in), &o); got != want {
			t.Errorf("%.100s: %t, want %t", in, got, want)
		}
	}
}
