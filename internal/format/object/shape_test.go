package object

import (
	"encoding/json"
	"strings"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/test/eventtest"
)

func TestShape(t *testing.T) {
	drop := func(p ...string) Shape { return Shape{Drop: p} }
	redact := func(p ...string) Shape { return Shape{Redact: p} }
	secret := Shape{Secret: true}
	for name, c := range map[string]struct {
		shape    Shape
		in, want string
	}{
		"drop only":         {drop("metadata.managedFields"), `{"metadata":{"managedFields":[{}]}}`, `{"metadata":{}}`},
		"drop first":        {drop("metadata.managedFields"), `{"metadata":{"managedFields":[],"a":1}}`, `{"metadata":{"a":1}}`},
		"drop middle":       {drop("metadata.managedFields"), `{"metadata":{"b":1,"managedFields":[],"a":1}}`, `{"metadata":{"b":1,"a":1}}`},
		"drop last":         {drop("metadata.managedFields"), `{"metadata":{"b":1,"managedFields":null}}`, `{"metadata":{"b":1}}`},
		"drop first two":    {drop("a", "b"), `{"a":1,"b":2,"metadata":{}}`, `{"metadata":{}}`},
		"drop last two":     {drop("a", "b"), `{"metadata":{},"a":1,"b":2}`, `{"metadata":{}}`},
		"drop around":       {drop("a", "b", "c"), `{"a":1,"metadata":{},"b":2,"x":0,"c":3}`, `{"metadata":{},"x":0}`},
		"drop all":          {drop("metadata", "a"), `{"a":1,"metadata":{"name":"x"},"a":2}`, `{}`},
		"drop repeated":     {drop("a"), `{"a":1,"metadata":{},"a":2,"b":3,"a":4}`, `{"metadata":{},"b":3}`},
		"drop escaped":      {drop("a"), `{"\u0061":1,"metadata":{}}`, `{"metadata":{}}`},
		"drop indented":     {drop("a", "b"), "{\n \"a\" : 1 ,\n \"metadata\" : { } ,\n \"b\" : 2\n}", `{"metadata":{}}`},
		"drop dotted":       {drop(`metadata.annotations["a.b/c"]`), `{"metadata":{"annotations":{"a.b/c":"x","a":{"b/c":1}}}}`, `{"metadata":{"annotations":{"a":{"b/c":1}}}}`},
		"drop in elements":  {drop("a[*].b"), `{"metadata":{},"a":[{"b":1},{"c":1,"b":1},1,[{"b":1}]]}`, `{"metadata":{},"a":[{},{"c":1},1,[{"b":1}]]}`},
		"drop elements":     {drop("a[*]"), `{"metadata":{},"a":[1,{},"x"]}`, `{"metadata":{},"a":[]}`},
		"drop within drop":  {drop("a", "a.b", "a.c.d"), `{"metadata":{},"a":{"b":1,"c":{"d":1}}}`, `{"metadata":{}}`},
		"drop elsewhere":    {drop("a.b"), `{"metadata":{"a":{"b":1}},"a":"b","b":1,"x":{"a":{"b":1}}}`, `{"metadata":{"a":{"b":1}},"a":"b","b":1,"x":{"a":{"b":1}}}`},
		"drop elements' in": {drop("a[*].b[*].c"), `{"metadata":{},"a":[{"b":[{"c":1},{"c":2,"d":3}]}]}`, `{"metadata":{},"a":[{"b":[{},{"d":3}]}]}`},
		"drop nothing":      {drop("a.b.c", "d"), `{"metadata":{},"a":{"b":null}}`, `{"metadata":{},"a":{"b":null}}`},

		"redact values":   {redact("data"), `{"metadata":{},"data":{"a":"x","b":1,"c":true,"d":null,"e":[1,"x"],"f":{"g":"x","h":{}}}}`, `{"metadata":{},"data":{"a":"REDACTED","b":"REDACTED","c":"REDACTED","d":"REDACTED","e":"REDACTED","f":{"g":"REDACTED","h":{}}}}`},
		"redact empty":    {redact("data"), `{"metadata":{},"data":{}}`, `{"metadata":{},"data":{}}`},
		"redact null":     {redact("data"), `{"metadata":{},"data":null}`, `{"metadata":{},"data":null}`},
		"redact string":   {redact("data"), `{"metadata":{},"data":"x"}`, `{"metadata":{},"data":"REDACTED"}`},
		"redact number":   {redact("data"), `{"metadata":{},"data":-1.5}`, `{"metadata":{},"data":"REDACTED"}`},
		"redact array":    {redact("data"), `{"metadata":{},"data":[{"a":"x"}]}`, `{"metadata":{},"data":"REDACTED"}`},
		"redact one":      {redact("data.password"), `{"data":{"user":"u","password":"x"},"metadata":{}}`, `{"data":{"user":"u","password":"REDACTED"},"metadata":{}}`},
		"redact repeated": {redact("data.password"), `{"data":{"password":"x","password":"y"},"metadata":{},"data":{"password":"z"}}`, `{"data":{"password":"REDACTED","password":"REDACTED"},"metadata":{},"data":{"password":"REDACTED"}}`},
		"redact escaped":  {redact("data.password"), `{"d\u0061ta":{"p\u0061ssword":"x"},"metadata":{}}`, `{"d\u0061ta":{"p\u0061ssword":"REDACTED"},"metadata":{}}`},
		"redact elements": {redact("spec.containers[*].env[*].value"), `{"metadata":{},"spec":{"containers":[{"env":[{"name":"A","value":"x"},{"name":"B"}]},{"env":null}]}}`, `{"metadata":{},"spec":{"containers":[{"env":[{"name":"A","value":"REDACTED"},{"name":"B"}]},{"env":null}]}}`},
		"redact each":     {redact("a[*]"), `{"metadata":{},"a":["x",null,{"b":"y"}]}`, `{"metadata":{},"a":["REDACTED",null,{"b":"REDACTED"}]}`},
		"no array":        {redact("a[*].b"), `{"metadata":{},"a":{"b":"x"}}`, `{"metadata":{},"a":"REDACTED"}`},
		"no object":       {redact("a.b"), `{"metadata":{},"a":[{"b":"x"}]}`, `{"metadata":{},"a":"REDACTED"}`},
		"no container":    {redact("a.b"), `{"metadata":{},"a":"b=x"}`, `{"metadata":{},"a":"REDACTED"}`},
		"nothing there":   {redact("a.b"), `{"metadata":{},"a":null}`, `{"metadata":{},"a":null}`},
		"redact indented": {redact("data"), "{ \"metadata\" : {},\n \"data\" : {\n \"a\" : \"x\" ,\n \"b\" : [ 1 ] } }", `{"metadata":{},"data":{"a":"REDACTED","b":"REDACTED"}}`},
		"owned by value": {redact("spec.tokens", "spec.c[*].v"),
			`{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:a":{},"f:c":{"k:{\"v\":\"x\"}":{}},"f:tokens":{"v:\"x\"":{}}}}}]},"spec":{"a":1,"c":[{"v":"x"}],"tokens":["x"]}}`,
			`{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:a":{}}}}]},"spec":{"a":1,"c":[{"v":"REDACTED"}],"tokens":"REDACTED"}}`},
		"redact and drop":  {Shape{Drop: []string{"data.a"}, Redact: []string{"data"}}, `{"metadata":{},"data":{"a":"x","b":"y"}}`, `{"metadata":{},"data":{"b":"REDACTED"}}`},
		"redact in redact": {redact("data", "data.a.b"), `{"metadata":{},"data":{"a":"x","c":{"d":1}}}`, `{"metadata":{},"data":{"a":"REDACTED","c":{"d":"REDACTED"}}}`},
		"redact in array":  {redact("a", "a[*].b"), `{"metadata":{},"a":[{"b":"x"},{"b":"y"}],"c":1}`, `{"metadata":{},"a":"REDACTED","c":1}`},
		"drop in misfit":   {Shape{Drop: []string{"a.c"}, Redact: []string{"a[*].b"}}, `{"metadata":{},"a":{"c":1,"b":"x"},"d":1}`, `{"metadata":{},"a":"REDACTED","d":1}`},
		"redact, applied":  {redact("data.x"), `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`},
		"redact fields":    {redact("metadata.managedFields"), `{"metadata":{"managedFields":[{"manager":"x"}]}}`, `{"metadata":{"managedFields":"REDACTED"}}`},

		"secret":              {secret, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"},"managedFields":[{"manager":"m"}]},"data":{"a":"x"},"stringData":{"b":"y"},"type":"Opaque"}`, `{"metadata":{"annotations":{},"managedFields":[{"manager":"m"}]},"data":{"a":"REDACTED"},"stringData":{"b":"REDACTED"},"type":"Opaque"}`},
		"secret, escapes":     {secret, `{"metadata":{"annot\u0061tions":{"kubectl.kubernetes.io\/last-\u0061pplied-configuration":"x"}},"stringD\u0061ta":{"b":"y"}}`, `{"metadata":{"annot\u0061tions":{}},"stringD\u0061ta":{"b":"REDACTED"}}`},
		"secret, odd":         {secret, `{"metadata":{"annotations":"x"},"data":"x","stringData":null}`, `{"metadata":{"annotations":"REDACTED"},"data":"REDACTED","stringData":null}`},
		"secret, no fields":   {Shape{Secret: true, Drop: []string{"metadata.managedFields"}}, `{"metadata":{"managedFields":[{"manager":"m"}]},"data":{"a":"x"}}`, `{"metadata":{},"data":{"a":"REDACTED"}}`},
		"secret, in repeated": {secret, `{"metadata":{},"data":{"a":"x"},"data":{"a":"y"},"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"}}}`, `{"metadata":{},"data":{"a":"REDACTED"},"data":{"a":"REDACTED"},"metadata":{"annotations":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			l := lineOf(t, mustRenderer(t, podSource, c.shape), line.Added, c.in)
			if got := objectOf(t, l); got != c.want {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
			if strings.Contains(l, `"manager":"x"`) {
				t.Errorf("redacted, but repeated in %s", l)
			}
			var o Object
			if err := mustRenderer(t, podSource, c.shape).Scan([]byte(c.in), &o); err != nil {
				t.Fatal(err)
			}
			rest, end := string(o.AppendShaped(nil)), 0
			for at, value := range o.Redacted() {
				if !strings.HasPrefix(rest[at-end:], redacted) || !json.Valid(value) || !c.shape.Redacts() {
					t.Errorf("%s is not redacted at %d of %s", value, at, c.want)
				}
				rest, end = rest[at-end+len(redacted):], at+len(redacted)
			}
			if strings.Contains(rest, redacted) {
				t.Errorf("%s: not all that is redacted is named", c.want)
			}
		})
	}
}

// A cut or redacted object still tells what the line repeats of it.
func TestShapeKeepsHeader(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{Drop: []string{"metadata"}})
	l := lineOf(t, r, line.Added, `{"metadata":{"name":"a","uid":"u","managedFields":[{"manager":"m"}]}}`)
	for _, want := range []string{`"name":"a"`, `"uid":"u"`, `"manager":"m"`, `"object":{}`} {
		if !strings.Contains(l, want) {
			t.Errorf("no %s in %s", want, l)
		}
	}
	r = mustRenderer(t, podSource, Shape{Redact: []string{"metadata.annotations"}})
	var o Object
	if err := r.Scan([]byte(`{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}`), &o); err != nil || !o.InitialEventsEnd {
		t.Errorf("end of initial events not seen: %v", err)
	}
}

func TestSecretLeavesNothing(t *testing.T) {
	r := mustRenderer(t, Source{Stream: "secrets", Version: "v1", Resource: "secrets", Kind: "Secret"}, Shape{Secret: true})
	raw := string(eventtest.Secret(3))
	l := lineOf(t, r, line.Added, raw)
	for _, text := range []string{eventtest.SecretText, "aHVudGVyMmh1bnRlcjI="} {
		if !strings.Contains(raw, text) {
			t.Fatalf("no %s in the Secret", text)
		}
		if strings.Contains(l, text) {
			t.Errorf("%s in %s", text, l)
		}
	}
	if !strings.Contains(l, `"data":{"password":"REDACTED","user":"REDACTED"}`) {
		t.Errorf("keys are gone from %s", l)
	}
}

func TestShapeValidate(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		want  string
	}{
		{Shape{Drop: []string{""}}, `drop path "": empty key`},
		{Shape{Drop: []string{"spec", ".a"}}, `drop path ".a": empty key`},
		{Shape{Drop: []string{"a."}}, `drop path "a.": empty key`},
		{Shape{Drop: []string{"a..b"}}, `drop path "a..b": empty key`},
		{Shape{Drop: []string{"a[0]"}}, `drop path "a[0]": expected [*] or ["key"] at "[0]"`},
		{Shape{Drop: []string{"a["}}, `drop path "a[": expected [*] or ["key"] at "["`},
		{Shape{Drop: []string{`a["b]`}}, `drop path "a[\"b]": quote not closed in "[\"b]"`},
		{Shape{Drop: []string{`a["b"`}}, `drop path "a[\"b\"": bracket not closed in "[\"b\""`},
		{Shape{Drop: []string{`a[*]b`}}, `drop path "a[*]b": expected a dot before "b"`},
		{Shape{Drop: []string{"[*].a"}}, `drop path "[*].a": an object has no elements, a key must come first`},
		{Shape{Drop: []string{"a.*"}}, `drop path "a.*": '*' in a key, which must then be written ["..."]`},
		{Shape{Drop: []string{"a b"}}, `drop path "a b": ' ' in a key, which must then be written ["..."]`},
		{Shape{Redact: []string{"data", "a]"}}, `redact path "a]": ']' in a key, which must then be written ["..."]`},
		{Shape{Redact: []string{"metadata"}}, `redact path "metadata": every line carries the object's name and version`},
		{Shape{Redact: []string{"metadata.name"}}, `redact path "metadata.name": every line carries the object's name and version`},
		{Shape{Redact: []string{`["metadata"]["uid"].x`}}, `redact path "[\"metadata\"][\"uid\"].x": every line carries the object's name and version`},
	} {
		err := c.shape.Validate()
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
		if _, err := NewRenderer(podSource, c.shape); err == nil {
			t.Errorf("renderer made in spite of %s", c.want)
		}
	}
	good := Shape{
		Drop:   []string{"a", "a.b-c.D_e", `metadata.annotations["a.b/c"]`, `["x.y"].z`, "a[*]", "a[*][*].b", `a[*]["b c"]`, "metadata.name"},
		Redact: []string{"data", "metadata.labels", "spec.containers[*].env[*].value"},
		Secret: true,
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := NewRenderer(Source{}, Shape{}); err == nil {
		t.Error("renderer made without a stream")
	}
}

func TestEventBlock(t *testing.T) {
	const core, events = "", "events.k8s.io"
	for name, c := range map[string]struct {
		group, in, want string
	}{
		"core": {core, string(eventtest.Event(1)),
			`{"reason":"BackOff","message":"Back-off restarting failed container web in pod web-6d4cf56db6-00001","type":"Warning","count":2,"firstTime":"2026-11-20T16:09:58Z","lastTime":"2026-11-20T16:10:22Z","reporter":"kubelet","regarding":{"kind":"Pod","namespace":"shop-1","name":"web-6d4cf56db6-00001","uid":"9e3779b1-7c1e-4a5b-9d3f-000000000001"}}`},
		"core, new style": {core, `{"metadata":{},"count":0,"firstTimestamp":null,"lastTimestamp":null,"eventTime":"2026-01-01T00:00:00.000001Z","series":{"count":4,"lastObservedTime":"2026-01-01T00:00:09.000001Z"},"reportingComponent":"","source":{"component":"scheduler"}}`,
			`{"count":4,"firstTime":"2026-01-01T00:00:00.000001Z","lastTime":"2026-01-01T00:00:09.000001Z","reporter":"scheduler"}`},
		"core, once": {core, `{"metadata":{},"eventTime":"2026-01-01T00:00:00.000001Z","series":null,"reportingComponent":"a","source":{"component":"b"},"note":"no","regarding":{"kind":"No"}}`,
			`{"count":1,"firstTime":"2026-01-01T00:00:00.000001Z","lastTime":"2026-01-01T00:00:00.000001Z","reporter":"a"}`},
		"core, both styles": {core, `{"metadata":{},"count":1,"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:00:00Z","eventTime":"2026-01-01T00:00:00.000001Z","series":{"count":9,"lastObservedTime":"2026-01-01T00:05:00.000001Z"}}`,
			`{"count":9,"firstTime":"2026-01-01T00:00:00Z","lastTime":"2026-01-01T00:05:00.000001Z"}`},
		"core, first only": {core, `{"metadata":{},"count":null,"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":null,"eventTime":null}`,
			`{"count":1,"firstTime":"2026-01-01T00:00:00Z","lastTime":"2026-01-01T00:00:00Z"}`},
		"core, no times": {core, `{"metadata":{},"reason":"x","eventTime":null}`, `{"reason":"x"}`},
		"core, empty":    {core, `{"metadata":{},"involvedObject":{},"message":""}`, ``},
		"new": {events, `{"metadata":{},"eventTime":"2026-01-01T00:00:00.000001Z","series":{"count":4,"lastObservedTime":"2026-01-01T00:00:09.000001Z"},"reason":"Scheduled","note":"all \"well\"","type":"Normal","reportingController":"scheduler","regarding":{"kind":"Pod","name":"a","namespace":"b","uid":"c"},"message":"no","involvedObject":{"kind":"No"}}`,
			`{"reason":"Scheduled","message":"all \"well\"","type":"Normal","count":4,"firstTime":"2026-01-01T00:00:00.000001Z","lastTime":"2026-01-01T00:00:09.000001Z","reporter":"scheduler","regarding":{"kind":"Pod","namespace":"b","name":"a","uid":"c"}}`},
		"new, old style": {events, `{"metadata":{},"eventTime":null,"deprecatedCount":3,"deprecatedFirstTimestamp":"2026-01-01T00:00:00Z","deprecatedLastTimestamp":"2026-01-01T00:00:01Z","deprecatedSource":{"component":"kubelet"}}`,
			`{"count":3,"firstTime":"2026-01-01T00:00:00Z","lastTime":"2026-01-01T00:00:01Z","reporter":"kubelet"}`},
	} {
		src := Source{Stream: "events", Group: c.group, Version: "v1", Resource: "events", Kind: "Event"}
		var l struct{ Event json.RawMessage }
		if err := json.Unmarshal([]byte(lineOf(t, mustRenderer(t, src, podShape), line.Added, c.in)), &l); err != nil {
			t.Fatal(err)
		}
		if string(l.Event) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, l.Event, c.want)
		}
	}

	// What is redacted in the object is not repeated beside it.
	src := Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}
	for _, path := range []string{"message", "message.x", "message[*]"} {
		l := lineOf(t, mustRenderer(t, src, Shape{Redact: []string{path}}), line.Added, string(eventtest.Event(1)))
		if strings.Contains(l, "restarting") || !strings.Contains(l, `"message":"REDACTED"`) || !strings.Contains(l, `"event":{"reason":"BackOff","type"`) {
			t.Errorf("%s: %s", path, l)
		}
	}
	// Other resources of that name are not Kubernetes Events.
	other := Source{Stream: "events.example.com", Group: "example.com", Version: "v1", Resource: "events", Kind: "Event"}
	if l := lineOf(t, mustRenderer(t, other, Shape{}), line.Added, `{"metadata":{},"reason":"x"}`); strings.Contains(l, `"event":`) {
		t.Error(l)
	}
}

func TestFingerprint(t *testing.T) {
	base := Shape{Drop: []string{"a", "b"}, Redact: []string{"c"}}.Fingerprint([]string{"d"})
	if (Shape{Drop: []string{"b", "a", "b"}, Redact: []string{"c"}}).Fingerprint([]string{"d"}) != base {
		t.Error("order counts")
	}
	seen := map[[16]byte]bool{base: true}
	for _, f := range [][16]byte{
		Shape{Drop: []string{"a", "b"}, Redact: []string{"c"}, Secret: true}.Fingerprint([]string{"d"}),
		Shape{Drop: []string{"a", "b"}, Redact: []string{"c", "d"}}.Fingerprint(nil),
		Shape{Drop: []string{"a", "b", "c"}}.Fingerprint([]string{"d"}),
		Shape{Drop: []string{"a\nb"}, Redact: []string{"c"}}.Fingerprint([]string{"d"}),
	} {
		if seen[f] {
			t.Error("not told from each other")
		}
		seen[f] = true
	}
}
