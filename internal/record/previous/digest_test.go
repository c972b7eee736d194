package previous

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

func mustDigester(tb testing.TB, shape object.Shape, ignore ...string) *Digester {
	tb.Helper()
	d, err := NewDigester(shape, ignore)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func digest(tb testing.TB, d *Digester, raw string) Digest {
	tb.Helper()
	sum, err := d.Digest([]byte(raw))
	if err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return sum
}

func TestDigest(t *testing.T) {
	drop := object.Shape{Drop: []string{"metadata.managedFields", "spec.noise"}}
	hide := object.Shape{Secret: true, Redact: []string{"spec.token"}}
	for name, c := range map[string]struct {
		shape  object.Shape
		ignore []string
		a, b   string
		same   bool
	}{
		"same":              {object.Shape{}, nil, `{"metadata":{"name":"a"},"spec":1}`, `{"metadata":{"name":"a"},"spec":1}`, true},
		"spec":              {object.Shape{}, []string{"status"}, `{"metadata":{},"spec":1,"status":2}`, `{"metadata":{},"spec":2,"status":2}`, false},
		"ignored":           {object.Shape{}, []string{"status"}, `{"metadata":{},"spec":1,"status":2}`, `{"metadata":{},"spec":1,"status":{"x":3}}`, true},
		"ignored, appears":  {object.Shape{}, []string{"status"}, `{"metadata":{},"spec":1}`, `{"metadata":{},"spec":1,"status":{"x":3}}`, true},
		"ignored, escaped":  {object.Shape{}, []string{"status"}, `{"metadata":{},"status":1}`, `{"metadata":{},"st\u0061tus":2}`, true},
		"ignored, repeated": {object.Shape{}, []string{"status"}, `{"metadata":{},"status":1}`, `{"status":3,"metadata":{},"status":2}`, true},
		"ignored, nested":   {object.Shape{}, []string{`metadata.annotations["a.b/c"]`}, `{"metadata":{"annotations":{"a.b/c":"1","d":"e"}}}`, `{"metadata":{"annotations":{"a.b/c":"2","d":"e"}}}`, true},
		"its neighbour":     {object.Shape{}, []string{`metadata.annotations["a.b/c"]`}, `{"metadata":{"annotations":{"a.b/c":"1","d":"e"}}}`, `{"metadata":{"annotations":{"a.b/c":"1","d":"f"}}}`, false},
		"in each":           {object.Shape{}, []string{"status.conditions[*].lastHeartbeatTime"}, `{"metadata":{},"status":{"conditions":[{"type":"a","lastHeartbeatTime":1},{"lastHeartbeatTime":1,"type":"b"}]}}`, `{"metadata":{},"status":{"conditions":[{"type":"a","lastHeartbeatTime":2},{"type":"b"}]}}`, true},
		"in each, other":    {object.Shape{}, []string{"status.conditions[*].lastHeartbeatTime"}, `{"metadata":{},"status":{"conditions":[{"type":"a","lastHeartbeatTime":1}]}}`, `{"metadata":{},"status":{"conditions":[{"type":"b","lastHeartbeatTime":1}]}}`, false},
		"unsaid":            {object.Shape{}, []string{"status"}, `{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[1],"name":"a"}}`, `{"metadata":{"name":"a","resourceVersion":"2","generation":2}}`, true},
		"dropped":           {drop, []string{"status"}, `{"metadata":{},"spec":{"noise":1}}`, `{"metadata":{},"spec":{"noise":2}}`, true},
		"white space":       {object.Shape{}, []string{"status"}, `{"metadata":{},"spec":{"a":"b c"}}`, "{ \"metadata\":{},\n\"spec\" : {\"a\": \"b c\"} }", true},
		"moved value":       {object.Shape{}, []string{"status"}, `{"metadata":{},"a":1,"b":null}`, `{"metadata":{},"a":null,"b":1}`, false},
		"hidden":            {hide, []string{"status"}, `{"metadata":{},"data":{"p":"x"}}`, `{"metadata":{},"data":{"p":"y"}}`, false},
		"hidden, same":      {hide, []string{"status"}, `{"metadata":{},"data":{"p":"x"},"status":1}`, `{"metadata":{},"data":{"p":"x"},"status":2}`, true},
		"hidden, at path":   {hide, []string{"status"}, `{"metadata":{},"spec":{"token":"x"}}`, `{"metadata":{},"spec":{"token":"y"}}`, false},
		"hidden, ignored":   {hide, []string{"data.p"}, `{"metadata":{},"data":{"p":"x"}}`, `{"metadata":{},"data":{"p":"y"}}`, true},
		"hidden, a list":    {hide, []string{"status"}, `{"metadata":{},"data":["x"]}`, `{"metadata":{},"data":["y"]}`, false},
		"said to be hidden": {hide, []string{"status"}, `{"metadata":{},"data":{"p":"x"}}`, `{"metadata":{},"data":{"p":"REDACTED"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustDigester(t, c.shape, c.ignore...)
			if got := digest(t, d, c.a) == digest(t, d, c.b); got != c.same {
				t.Errorf("same: %v", got)
			}
		})
	}
}

// A digest that is kept over a restart is a match, unless secrets are in it or
// the config has changed.
func TestDigestDurable(t *testing.T) {
	const raw = `{"metadata":{},"data":{"p":"x"},"spec":1}`
	for name, c := range map[string]struct {
		a, b    *Digester
		durable bool
	}{
		"plain":        {mustDigester(t, podShape, "status", "a.b"), mustDigester(t, podShape, "a.b", "status"), true},
		"other ignore": {mustDigester(t, podShape, "status"), mustDigester(t, podShape, "stat"), false},
		"other drop":   {mustDigester(t, podShape, "status"), mustDigester(t, object.Shape{}, "status"), false},
		"secret":       {mustDigester(t, object.Shape{Secret: true}, "status"), mustDigester(t, object.Shape{Secret: true}, "status"), false},
		"redact":       {mustDigester(t, object.Shape{Redact: []string{"x"}}, "status"), mustDigester(t, object.Shape{Redact: []string{"x"}}, "status"), false},
	} {
		if got := digest(t, c.a, raw) == digest(t, c.b, raw); got != c.durable {
			t.Errorf("%s: same: %v", name, got)
		}
	}
	if !mustDigester(t, podShape, "status").Durable() || mustDigester(t, object.Shape{Secret: true}, "status").Durable() {
		t.Error("durable: wrong")
	}
}

// What is shaped already has the digest of the object that it was made of.
func TestDigestOfShaped(t *testing.T) {
	r, d := mustRenderer(t, podSource, podShape), mustDigester(t, podShape, "status")
	for i := range 5 {
		raw := eventtest.Pod(3000, i)
		var o object.Object
		if err := r.Scan(raw, &o); err != nil {
			t.Fatal(err)
		}
		if digest(t, d, string(raw)) != digest(t, d, string(o.AppendShaped(nil))) {
			t.Error("another digest")
		}
	}
}

func TestDigesterFaults(t *testing.T) {
	_, err := NewDigester(podShape, []string{"status", "a[0]"})
	if err == nil || err.Error() != `ignore path "a[0]": expected [*] or ["key"] at "[0]"` {
		t.Error(err)
	}
	if _, err = NewDigester(object.Shape{Redact: []string{"metadata.name"}}, nil); err == nil {
		t.Error("faulty shape taken")
	}
	d := mustDigester(t, podShape)
	for _, raw := range []string{``, `{}`, `{"metadata":{}`, `{"metadata":1}`} {
		if sum, err := d.Digest([]byte(raw)); err == nil || sum != (Digest{}) {
			t.Errorf("%s: %x", raw, sum)
		}
	}
	if digest(t, d, `{"metadata":{}}`) == (Digest{}) {
		t.Error("no digest")
	}
}

// modelDigest is what two versions must have in common to have one digest.
func modelDigest(raw []byte, drop [][]string) string {
	v, _ := decode(raw)
	for _, p := range drop {
		v = modelDrop(v, p)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// modelDrop cuts what is at a path out of a decoded value; "*" is each element of an array.
func modelDrop(v any, path []string) any {
	switch c := v.(type) {
	case map[string]any:
		if child, ok := c[path[0]]; ok && len(path) > 1 {
			c[path[0]] = modelDrop(child, path[1:])
		} else {
			delete(c, path[0])
		}
	case []any:
		if path[0] != "*" {
			return v
		}
		if len(path) == 1 {
			return []any{}
		}
		for i := range c {
			c[i] = modelDrop(c[i], path[1:])
		}
	}
	return v
}

// FuzzDigest: versions whose decoded rest differs never have one digest; the
// same bytes, and a change in what is ignored, always do.
func FuzzDigest(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"))
	for i := range uint8(20) {
		f.Add(slices.Repeat([]byte{i, 200 - i, 3 * i}, 30), slices.Repeat([]byte{i, 200 - i, 3*i + 1}, 30))
	}
	ignore := []string{"status", "spec.containers[*].env", "metadata.annotations", "a[*]"}
	plain := mustDigester(f, object.Shape{}, ignore...)
	hiding := mustDigester(f, object.Shape{Secret: true}, ignore...)
	left := [][]string{
		{"status"}, {"spec", "containers", "*", "env"}, {"metadata", "annotations"}, {"a", "*"},
		{"kind"}, {"apiVersion"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "managedFields"},
	}
	hidden := append(slices.Clone(left), []string{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"})
	f.Fuzz(func(t *testing.T, from, to []byte) {
		a, b := eventtest.Made(from), eventtest.Made(to)
		for _, c := range []struct {
			d    *Digester
			left [][]string
		}{{plain, left}, {hiding, hidden}} {
			x, err := c.d.Digest(a)
			if err != nil || !json.Valid(a) {
				t.Skip()
			}
			if again, err := c.d.Digest(a); err != nil || again != x {
				t.Fatalf("%q: %v", a, err)
			}
			if y, err := c.d.Digest(b); err == nil && json.Valid(b) && x == y && modelDigest(a, c.left) != modelDigest(b, c.left) {
				t.Fatalf("one digest of %q and %q", a, b)
			}
			more := append([]byte(`{"status":{"x":[1]},`), bytes.TrimLeft(a, "{ \t\r\n")...)
			if y, err := c.d.Digest(more); err != nil || y != x {
				t.Fatalf("%q: %v", more, err)
			}
		}
	})
}

func TestDigestAllocates(t *testing.T) {
	d := mustDigester(t, podShape, "status")
	pod := eventtest.Pod(6000, 1)
	changed := []byte(strings.Replace(string(pod), `"phase":"Running"`, `"phase":"Unknown"`, 1))
	if digest(t, d, string(pod)) != digest(t, d, string(changed)) {
		t.Error("status is looked at")
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Digest(pod); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
