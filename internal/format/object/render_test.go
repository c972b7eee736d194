package object

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

var received = time.Date(2026, 11, 20, 16, 10, 22, 123456, time.FixedZone("", 3600))

const receivedText = "2026-11-20T15:10:22.000123456Z"

func lineOf(t *testing.T, r *Renderer, typ line.Type, raw string) string {
	t.Helper()
	var o Object
	if err := r.Scan([]byte(raw), &o); err != nil {
		t.Fatalf("scan %.200s: %v", raw, err)
	}
	l := Line{Type: typ, Origin: line.FromWatch, Received: received}
	if typ != line.Deleted {
		l.Write = o.Created()
	}
	b, err := r.AppendLine(line.AppendSeq(nil, 7), l, &o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// objectOf is the object that a line has.
// gone is the line of an object that a relist found gone.
func gone(tb testing.TB, r *Renderer, seq uint64, k Known) []byte {
	tb.Helper()
	b, err := r.AppendGone(line.AppendSeq(nil, seq), received, k, Line{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func objectOf(t *testing.T, line string) string {
	t.Helper()
	var l struct{ Object json.RawMessage }
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(l.Object)
}

func TestLines(t *testing.T) {
	full := mustRenderer(t, Source{"deployments.apps?labelSelector=a\"b", "prod-eu1", "apps", "v1", "deployments", "Deployment", "c-1"}, podShape)
	least := mustRenderer(t, Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, Shape{})
	const fullSource = `"stream":"deployments.apps?labelSelector=a\"b","cluster":"prod-eu1","group":"apps","version":"v1","resource":"deployments","kind":"Deployment"`
	for name, c := range map[string]struct{ got, want string }{
		"event": {
			lineOf(t, full, line.Modified, `{"apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"12","generation":3,"creationTimestamp":"2026-11-20T16:10:02Z","managedFields":[{"manager":"kube-controller-manager","subresource":"status","time":"2026-11-20T16:10:01Z"}]},"spec":{"replicas":1.0}}`),
			`{"seq":7,"time":"` + receivedText + `","type":"MODIFIED","origin":"watch","id":"u-1/12/MODIFIED",` + fullSource + `,"namespace":"shop","name":"web","uid":"u-1","resourceVersion":"12","generation":3,"manager":"kube-controller-manager","subresource":"status","writtenAt":"2026-11-20T16:10:02Z","object":{"apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"12","generation":3,"creationTimestamp":"2026-11-20T16:10:02Z"},"spec":{"replicas":1.0}}}`,
		},
		"event, least": {
			lineOf(t, least, line.Added, `{"metadata":{}}`),
			`{"seq":7,"time":"` + receivedText + `","type":"ADDED","origin":"watch","id":"//ADDED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","object":{"metadata":{}}}`,
		},
		"deleted": {
			string(gone(t, full, 8, Known{Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "12"})),
			`{"seq":8,"time":"` + receivedText + `","type":"DELETED","origin":"relist","id":"u-1/12/DELETED",` + fullSource + `,"namespace":"shop","name":"web","uid":"u-1","resourceVersion":"12","finalStateKnown":false,"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"12"}}}`,
		},
		"deleted, least": {
			string(gone(t, least, 8, Known{})),
			`{"seq":8,"time":"` + receivedText + `","type":"DELETED","origin":"relist","id":"//DELETED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","finalStateKnown":false,"object":{"apiVersion":"v1","kind":"Pod","metadata":{}}}`,
		},
		"gap": {
			string(full.AppendGap(line.AppendSeq(nil, 9), received, "Expired", "12", received.Add(-time.Hour), "40")),
			`{"seq":9,"time":"` + receivedText + `","type":"GAP","id":"deployments.apps?labelSelector=a\"b/40/GAP",` + fullSource + `,"clusterUID":"c-1","reason":"Expired","fromResourceVersion":"12","fromTime":"2026-11-20T14:10:22.000123456Z","resourceVersion":"40"}`,
		},
		"gap, least": {
			string(least.AppendGap(line.AppendSeq(nil, 9), received, "CheckpointLost", "", time.Time{}, "")),
			`{"seq":9,"time":"` + receivedText + `","type":"GAP","id":"pods//GAP","stream":"pods","version":"v1","resource":"pods","kind":"Pod","reason":"CheckpointLost"}`,
		},
		"synced": {
			string(full.AppendSynced(line.AppendSeq(nil, 10), received, "40", line.Count{Added: 1, Modified: 2, Deleted: 3, Unchanged: 0})),
			`{"seq":10,"time":"` + receivedText + `","type":"SYNCED","id":"deployments.apps?labelSelector=a\"b/40/SYNCED",` + fullSource + `,"clusterUID":"c-1","resourceVersion":"40","count":{"added":1,"modified":2,"deleted":3,"unchanged":0}}`,
		},
		"synced, least": {
			string(least.AppendSynced(line.AppendSeq(nil, 10), received, "40", line.Count{Added: 1, Modified: 2, Deleted: 3, Unchanged: 0})),
			`{"seq":10,"time":"` + receivedText + `","type":"SYNCED","id":"pods/40/SYNCED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","resourceVersion":"40","count":{"added":1,"modified":2,"deleted":3,"unchanged":0}}`,
		},
	} {
		if c.got != c.want+"\n" {
			t.Errorf("%s:\ngot  %swant %s", name, c.got, c.want)
		}
		if !json.Valid([]byte(c.got)) {
			t.Errorf("%s: not JSON", name)
		}
	}
}

func TestTime(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{})
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(0, 1), time.Unix(0, 999999999), time.Unix(1, 0), received,
		received.Add(time.Nanosecond), received.Add(time.Hour), time.Date(1969, 12, 31, 23, 59, 59, 5, time.UTC),
	} {
		got, want := string(r.appendTime(nil, at)), at.UTC().Format("2006-01-02T15:04:05.000000000Z")
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestScanFields(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{})
	for name, c := range map[string]struct {
		in, want string
	}{
		"all":              {`{"metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"1","generation":2}}`, "n a u 1 2 false"},
		"none":             {`{"metadata":{}}`, "    0 false"},
		"other kinds":      {`{"metadata":{"namespace":null,"name":1,"uid":{"uid":"x"},"resourceVersion":["1"],"generation":"2"}}`, "    0 false"},
		"escapes":          {`{"m\u0065tadata":{"n\u0061me":"\u0061\"\\\/\b\f\n\r\t\ud83d\ude00\ud83d","uid":"\u0075"}}`, " a\"\\/\b\f\n\r\t\U0001F600\uFFFD u  0 false"},
		"repeated":         {`{"metadata":{"name":"a","uid":"u"},"metadata":{"name":"b","name":"c"}}`, " c   0 false"},
		"elsewhere":        {`{"name":"x","spec":{"metadata":{"name":"y"}},"metadata":{"labels":{"name":"z"},"name":"a"}}`, " a   0 false"},
		"beyond 64 bits":   {`{"metadata":{"generation":99999999999999999999}}`, "    0 false"},
		"fraction":         {`{"metadata":{"generation":1.5}}`, "    0 false"},
		"bookmark":         {`{"metadata":{"resourceVersion":"9","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}`, "   9 0 true"},
		"bookmark, no end": {`{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"false"}}}`, "   9 0 false"},
		"indented":         {"\n{\n\t\"metadata\" : {\r\n \"name\" : \"a b\" }\n}\n", " a b   0 false"},
		"not UTF-8":        {"{\"metadata\":{\"name\":\"a\xff\xfeb\"}}", " a\uFFFD\uFFFDb   0 false"},
	} {
		var o Object
		for range 2 { // an Object is used again
			if err := r.Scan([]byte(c.in), &o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got := fmt.Sprintf("%s %s %s %s %d %v", o.Namespace, o.Name, o.UID, o.ResourceVersion, o.Generation, o.InitialEventsEnd)
			if got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
	}
}

func TestScanFaults(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{Drop: []string{"a.b"}, Redact: []string{"x[*].y"}})
	deep := func(n int) string {
		return `{"metadata":{},"o":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	deepObjects := func(n int) string {
		return `{"metadata":{},"o":` + strings.Repeat(`{"o":`, n-1) + "{}" + strings.Repeat("}", n-1) + `}`
	}
	wide := func(n int) string {
		return `{"metadata":{},"x":[{"y":` + strings.Repeat(`{"z":`, n-3) + `1` + strings.Repeat("}", n-3) + `}]}`
	}
	for _, in := range []string{
		``, ` `, `null`, `[]`, `"metadata"`, `{`, `{}`, `{"metadata":null}`, `{"metadata":[]}`, `{"metadata":"x"}`, `{"metadata":{},"metadata":1}`,
		`{"spec":{"metadata":{}}}`, `{"metadata":{}`, `{"metadata":{}}}`, `{"metadata":{}}{}`, `{"metadata":{}} x`, `{"metadata":{},}`,
		`{"metadata":{}"a":1}`, `{"metadata":{},"a":[1,]}`, `{"metadata":{},"a":[1 2]}`, `{"metadata":{},"a":[}`, `{"metadata":{},"a":{]}`,
		`{"metadata":{},"a":{"b":[1}]}`, `{"metadata":{},"q":{"b":[1}]}`, `{"metadata":{},"q":[{"b":1]}}`, `{"metadata":{},"a":tru}`, `{"metadata":{},"a":tr ue}`, `{"metadata":{},"a":nil}`, `{"metadata":{},"a":01}`, `{"metadata":{},"a":1.}`,
		`{"metadata":{},"a":1e}`, `{"metadata":{},"a":+1}`, `{"metadata":{},"a":- 1}`, `{"metadata":{},"a":.5}`, `{"metadata":{},"a":"\x"}`, `{"metadata":{},"a":"\u12g4"}`,
		`{"metadata":{},"a":"\u12"}`, `{"metadata":{},"a":"b`, `{"metadata":{},"a":"b\"}`, `{"metadata":{},"a":"b\`, `{"metadata":{},"a" 1}`, `{"metadata":{},1:1}`, `{"metadata":{},"a":}`,
		"{\"metadata\":{},\"a\":\"b\nc\"}", "{\"metadata\":{},\"a\":\"\x00\"}", "{\"metadata\":{}, \"a\":\"\x1f\"}", "{\"metadata\":{},\"a\":\xff}", "{\"metadata\":{}}\x00",
		deep(objectDepth + 1), deepObjects(objectDepth), wide(objectDepth + 1), deep(1000000),
		`{"metadata":{},"x":[{"y":1},]}`, `{"metadata":{},"x":[{"y":1}}`, `{"metadata":{},"x":[`, `{"metadata":{},"a":{"b":1,}}`, `{"metadata":{},"a":{"b"}}`, `{"metadata":{},"a":{"b":`,
	} {
		var o Object
		if err := r.Scan([]byte(in), &o); err == nil || o.Raw != nil {
			t.Errorf("accepted %.100q", in)
		} else if !strings.HasPrefix(err.Error(), "scan object: ") {
			t.Errorf("%v", err)
		}
		if json.Valid([]byte(in)) && strings.Contains(in, `"a"`) {
			t.Errorf("%.100q is valid", in)
		}
		if _, err := r.AppendLine(nil, Line{Type: line.Added, Origin: line.FromWatch, Received: received}, &o); err == nil {
			t.Errorf("a line of %.100q", in)
		}
	}
	for _, in := range []string{deep(objectDepth), deepObjects(objectDepth - 1), wide(objectDepth), `{"metadata":{},"a":[1e400,-0,-0.5e+3,1E-9,"\u0000\ud800"]}`} {
		if l := lineOf(t, r, line.Added, in); !json.Valid([]byte(l)) {
			t.Errorf("line of %.100q is not valid", in)
		}
	}
	var o Object
	if err := r.Scan([]byte(`{"metadata":{}}`), &o); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []line.Type{line.Bookmark, line.Error, line.Gap, line.Synced, "", `x"`} {
		if b, err := r.AppendLine([]byte("as was"), Line{Type: typ, Origin: line.FromWatch, Received: received}, &o); err == nil || string(b) != "as was" {
			t.Errorf("a line of type %s: %s", typ, b)
		}
	}
}

// The object goes out as it came, but for white space and broken UTF-8.
func TestObjectBytes(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{})
	for _, c := range []struct{ in, want string }{
		{`{"metadata":{},"z":1.00,"a":1e400,"n":12345678901234567890,"s":"<\u003c\/é"}`, ""},
		{`{"metadata":{},"s":"a  b\n\\","t":{"a":[],"b":{}}}`, ""},
		{" {\n\t\"metadata\" : { } ,\r\n \"a\" : [ 1 , \"x  \\\" y\" , { } ] }\n", `{"metadata":{},"a":[1,"x  \" y",{}]}`},
		{"{\"metadata\":{},\"a\":\"x\xffy\xed\xa0\x80\",\"\xc3\":1}", "{\"metadata\":{},\"a\":\"x\uFFFDy\uFFFD\uFFFD\uFFFD\",\"\uFFFD\":1}"},
		{"{ \"metadata\":{},\n\"a\":\"\xff é\"}", "{\"metadata\":{},\"a\":\"\uFFFD é\"}"},
	} {
		if c.want == "" {
			c.want = c.in
		}
		if got := objectOf(t, lineOf(t, r, line.Added, c.in)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
