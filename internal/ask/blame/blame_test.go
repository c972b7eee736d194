package blame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/line"
)

func add(t testing.TB, h *History, raw string) {
	t.Helper()
	var l line.Fields
	if err := l.Parse([]byte(raw)); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := h.Add(&l); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

// fill makes lines of short ones: seq, type, origin, other members or -, and object or -. A line has the resourceVersion
// 100 + seq if it has no other.
func fill(short string) (lines []string) {
	for row := range strings.Lines(short) {
		c := strings.Fields(row)
		if len(c) == 0 {
			continue
		}
		var seq int
		fmt.Sscan(c[0], &seq)
		b := fmt.Appendf(nil, `{"seq":%d,"time":"2026-11-20T13:%02d:%02d.5Z","type":%q`, seq, seq/60, seq%60, c[1])
		if c[2] != "-" {
			b = fmt.Appendf(b, `,"origin":%q`, c[2])
		}
		if !strings.Contains(c[3], `"stream"`) {
			b = append(b, `,"stream":"widgets.example.com"`...)
		}
		b = append(b, `,"group":"example.com","version":"v1","resource":"widgets","kind":"Widget","namespace":"shop","name":"web","uid":"u"`...)
		if !strings.Contains(c[3], `"resourceVersion"`) {
			b = fmt.Appendf(b, `,"resourceVersion":"%d"`, 100+seq)
		}
		if c[3] != "-" {
			b = append(append(b, ','), c[3]...)
		}
		if c[4] != "-" {
			b = append(append(b, `,"object":`...), c[4]...)
		}
		lines = append(lines, string(b)+"}")
	}
	return lines
}

func result(t testing.TB, lines []string, without ...string) *Result {
	t.Helper()
	var h History
	for _, l := range lines {
		add(t, &h, l)
	}
	r, err := h.Result(without...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// String is seq, origin and, if they say something, manager and After.
func (w *Write) String() string {
	text := fmt.Sprintf("%d %s %s", w.Seq, w.Origin, w.Manager)
	if w.After.Seq > 0 {
		text += fmt.Sprintf("after %d ", w.After.Seq)
	}
	if !w.After.Time.IsZero() {
		text += w.After.Time.Format("at 15:04:05.9")
	}
	return strings.TrimSpace(text)
}

func TestWrites(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"from the creation": {`
			1 ADDED watch "manager":"a" {"metadata":{"name":"web"},"spec":{"x":1,"y":2}}
			2 MODIFIED watch "manager":"b" {"metadata":{"name":"web"},"spec":{"x":3,"y":2}}`,
			`apiVersion 1 watch a, kind 1 watch a, metadata.name 1 watch a, spec.x 2 watch b, spec.y 1 watch a`},
		"changed and changed back": {`
			1 ADDED watch - {"s":{"x":1,"l":[]}}
			2 MODIFIED watch - {"s":{"x":2,"l":[1]}}
			3 MODIFIED watch - {"s":{"x":1,"l":[]}}`,
			`apiVersion 1 watch, kind 1 watch, s.l 3 watch, s.x 3 watch`},
		"parent replaced": {`
			1 ADDED watch - {"s":{"x":{"y":1,"z":{}}}}
			2 MODIFIED watch - {"s":{"x":null}}
			3 MODIFIED watch - {"s":{"x":{"y":1,"z":{}}}}`,
			`apiVersion 1 watch, kind 1 watch, s.x.y 3 watch, s.x.z 3 watch`},
		"elements of lists": {`
			1 ADDED watch - {"l":[{"name":"a","v":1},{"name":"b","v":1},{"name":"c","v":1}],"args":["x","y","z"]}
			2 MODIFIED watch - {"l":[{"name":"n","v":1},{"name":"a","v":1},{"name":"c","v":2}],"args":["w","x","z"]}
			3 MODIFIED watch - {"l":[{"name":"c","v":2},{"name":"n","v":3}],"args":["w","x","2","z"]}`,
			`apiVersion 1 watch, args[w] 2 watch, args[x] 1 watch, args[2] 3 watch, args[z] 1 watch, kind 1 watch, l[c].name 1 watch, l[c].v 2 watch, l[n].name 3 watch, l[n].v 3 watch`},
		"strange keys": {`
			1 ADDED watch - {"a/b":{"~1":1,"~":2,"\u0022":3},"":{"0":4}}
			2 MODIFIED watch - {"a/b":{"~1":2,"~":3,"\u0022":4},"":{"0":5}}`,
			`[""].0 2 watch, ["a/b"]["\""] 2 watch, ["a/b"].~ 2 watch, ["a/b"].~1 2 watch, apiVersion 1 watch, kind 1 watch`},
		"the same in other words": {`
			1 ADDED watch - {"a":"A","b":[{"x":1,"y":2}],"n":1}
			2 MODIFIED watch - {"n":1.0,"b":[{"x":1,"y":2}],"\u0061":"\u0041","a":"\u0041"}`,
			`a 1 watch, apiVersion 1 watch, b[0].x 1 watch, b[0].y 1 watch, kind 1 watch, n 2 watch`},
		"first at the start": {`
			1 ADDED snapshot - {"metadata":{"creationTimestamp":"2026-11-20T12:00:00Z"},"x":1,"y":1}
			2 MODIFIED watch "manager":"b" {"metadata":{"creationTimestamp":"2026-11-20T12:00:00Z"},"x":2,"y":1}`,
			`apiVersion 1 older at 12:00:00, kind 1 older at 12:00:00, metadata.creationTimestamp 1 older at 12:00:00, x 2 watch b, y 1 older at 12:00:00`},
		"first by its own changes": {`
			5 MODIFIED watch "manager":"b","changes":[{"op":"remove","path":"/l/0","old":1},{"op":"replace","path":"/l/0","old":2,"value":3},{"op":"replace","path":"/s","old":{"x":1,"y":1},"value":{"x":1,"y":2}},{"op":"add","path":"/t","value":{"z":[{}]}}] {"l":[3,4],"s":{"x":1,"y":2},"t":{"z":[{}]}}`,
			`apiVersion 5 older, kind 5 older, l[3] 5 watch b, l[4] 5 older, s.x 5 older, s.y 5 watch b, t.z[0] 5 watch b`},
		"entered a selection": {`
			1 ADDED watch "stream":"widgets?labelSelector=a%3Db","manager":"a" {"x":1}`,
			`apiVersion 1 older, kind 1 older, x 1 older`},
		"left a selection and came back": {`
			1 ADDED watch - {"x":1,"y":1}
			2 DELETED watch "stream":"widgets?labelSelector=a%3Db" {"x":0,"y":1}
			3 MODIFIED watch "resourceVersion":"102" {"x":2,"y":1}
			5 ADDED watch "stream":"widgets?labelSelector=a%3Db" {"x":2,"y":2}`,
			`apiVersion 1 watch, kind 1 watch, x 3 watch, y 5 between after 3 at 13:00:03.5`},
		"last state": {`
			1 ADDED watch - {"x":1,"y":1}
			2 DELETED watch "manager":"liar" {"x":1,"y":2}`,
			`apiVersion 1 watch, kind 1 watch, x 1 watch, y 2 watch`},
		"in the gap": {`
			1 ADDED watch - {"x":1,"y":1}
			4 GAP - "fromTime":"2026-11-20T13:00:03Z" -
			5 GAP - - -
			6 MODIFIED relist - {"x":2,"y":1}
			7 SYNCED - - -
			8 MODIFIED watch - {"x":2,"y":2}`,
			`apiVersion 1 watch, kind 1 watch, x 6 gap after 1 at 13:00:03, y 8 watch`},
		"in an old gap": {`
			1 ADDED watch - {"x":1,"y":1}
			4 GAP - - -
			6 MODIFIED relist - {"x":2,"y":1}`,
			`apiVersion 1 watch, kind 1 watch, x 6 gap after 1 at 13:00:01.5, y 1 watch`},
		"created in the gap": {`
			4 GAP - "fromTime":"2026-11-20T13:00:03.7Z" -
			6 ADDED relist - {"metadata":{"creationTimestamp":"2026-11-20T13:00:03Z"}}`,
			`apiVersion 6 gap at 13:00:03, kind 6 gap at 13:00:03, metadata.creationTimestamp 6 gap at 13:00:03`},
		"known again after files were lost": {`
			4 GAP - - -
			6 ADDED relist - {"metadata":{"creationTimestamp":"2026-11-20T13:00:03Z"}}`,
			`apiVersion 6 older at 13:00:03, kind 6 older at 13:00:03, metadata.creationTimestamp 6 older at 13:00:03`},
		"of another stream's gap": {`
			1 ADDED watch - {"x":1}
			4 GAP - "stream":"pods","fromTime":"2026-11-20T13:00:03Z" -
			6 MODIFIED relist - {"x":2}`,
			`apiVersion 1 watch, kind 1 watch, x 6 gap after 1 at 13:00:01.5`},
		"truncated between": {`
			1 ADDED watch - {"a":{"x":1,"y":1,"z":1}}
			2 MODIFIED watch "truncated":true {"metadata":{}}
			3 MODIFIED watch "truncated":true -
			4 MODIFIED watch "manager":"d","changes":[{"op":"replace","path":"/a/y","old":1,"value":2}] {"a":{"x":2,"y":2,"z":1}}`,
			`a.x 4 between after 1 at 13:00:01.5, a.y 4 watch d, a.z 1 watch, apiVersion 1 watch, kind 1 watch`},
		"creation without its object": {`
			1 ADDED watch - -
			2 MODIFIED watch - {"x":1}`,
			`apiVersion 2 between after 1 at 13:00:01.5, kind 2 between after 1 at 13:00:01.5, x 2 between after 1 at 13:00:01.5`},
		"metadata only, between": {`
			1 ADDED watch - {"kind":"Widget","x":1,"metadata":{"a":"b"}}
			2 MODIFIED watch - {"metadata":{"a":"c"}}
			3 MODIFIED watch - {"kind":"Widget","x":1,"metadata":{"a":"d"}}`,
			`apiVersion 1 watch, kind 1 watch, metadata.a 3 between after 1 at 13:00:01.5, x 1 watch`},
		"metadata only, before": {`
			1 ADDED watch - {"metadata":{"a":"b","c":"d"}}
			2 MODIFIED watch - {"kind":"Widget","x":1,"metadata":{"a":"b","c":"d"}}`,
			`apiVersion 1 watch, kind 1 watch, metadata.a 1 watch, metadata.c 1 watch, x 2 older`},
		"repeated": {`
			1 ADDED watch - {"r":"REDACTED","x":1}
			2 MODIFIED watch "changes":[{"op":"replace","path":"/r","old":"REDACTED","value":"REDACTED"},{"op":"replace","path":"/x","old":1,"value":2}] {"r":"REDACTED","x":2}
			3 ADDED watch "resourceVersion":"101" {"r":"REDACTED","x":1}
			4 MODIFIED watch "resourceVersion":"102","changes":[{"op":"replace","path":"/r","old":"REDACTED","value":"REDACTED"}] {"r":"REDACTED","x":2}
			5 ADDED snapshot "stream":"widgets?namespace=shop","resourceVersion":"99" {"r":"REDACTED","x":0}`,
			`apiVersion 1 watch, kind 1 watch, r 2 watch, x 2 watch`},
		"the server went back": {`
			1 ADDED watch - {"x":1}
			2 MODIFIED watch - {"x":2}
			3 GAP - "fromTime":"2026-11-20T13:00:02Z" -
			4 MODIFIED relist "resourceVersion":"99" {"x":1}
			5 SYNCED - - -
			6 MODIFIED watch "resourceVersion":"100" {"x":1,"y":2}`,
			`apiVersion 1 watch, kind 1 watch, x 4 gap after 2 at 13:00:02.5, y 6 watch`},
		"deleted in the gap": {`
			1 ADDED watch - {"x":1}
			3 GAP - - -
			4 DELETED relist "finalStateKnown":false {"metadata":{}}`,
			`apiVersion 1 watch, kind 1 watch, x 1 watch`},
		"received late": {`
			1 ADDED watch "writtenAt":"2026-11-20T12:00:00Z" {"x":1}
			2 MODIFIED watch "truncated":true -
			3 MODIFIED watch - {"x":2}`,
			`apiVersion 1 watch, kind 1 watch, x 3 between after 1 at 12:00:00`},
		"redacted, with changes": {`
			1 ADDED watch - {"data":{"a":"REDACTED","b":"REDACTED"},"env":[{"name":"x","value":"REDACTED"}]}
			2 MODIFIED watch "manager":"b","changes":[{"op":"replace","path":"/data/a","old":"REDACTED","value":"REDACTED"}] {"data":{"a":"REDACTED","b":"REDACTED"},"env":[{"name":"x","value":"REDACTED"}]}
			3 MODIFIED watch "manager":"c","changes":[{"op":"add","path":"/env/0","value":{"name":"w"}},{"op":"replace","path":"/env/1/value","old":"REDACTED","value":"REDACTED"}] {"data":{"a":"REDACTED","b":"REDACTED"},"env":[{"name":"w"},{"name":"x","value":"REDACTED"}]}`,
			`apiVersion 1 watch, data.a 2 watch b, data.b 1 watch, env[w].name 3 watch c, env[x].name 1 watch, env[x].value 3 watch c, kind 1 watch`},
		"redacted, without changes": {`
			1 ADDED watch - {"data":{"a":"REDACTED","c":"x"}}
			2 MODIFIED watch - {"data":{"a":"REDACTED","c":"y"}}
			3 MODIFIED watch - {"data":{"a":"REDACTED","b":"REDACTED","c":"y"}}`,
			`apiVersion 1 watch, data.a 3 between after 1 at 13:00:01.5, data.b 3 watch, data.c 2 watch, kind 1 watch`},
		"managedFields": {`
			1 ADDED watch - {"metadata":{"name":"web","managedFields":[{"manager":"a"}]}}
			2 MODIFIED watch - {"metadata":{"name":"web","managedFields":[{"manager":"b","x":1}]}}
			3 MODIFIED watch - {"metadata":{"name":"web"}}`,
			`apiVersion 1 watch, kind 1 watch, metadata.name 1 watch`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range result(t, fill(c.lines)).Fields {
				got = append(got, f.Path+" "+f.Write.String())
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestRemoved(t *testing.T) {
	lines := fill(`
		1 ADDED watch - {"metadata":{"labels":{"a":"1","b":"2"},"managedFields":[{"manager":"a"}]},"l":[{"name":"a","v":{"x":[]}},{"name":"b"},{"name":"c"}],"args":["x","y"],"s":{"t":{"u":1}},"status":{"p":1}}
		2 MODIFIED watch - {"metadata":{"labels":{"b":"2"}},"l":[{"name":"c"},{"name":"b"}],"args":["z","y"],"s":{"t":1},"status":{}}
		3 MODIFIED watch - {"metadata":{"labels":{"c":"3"}},"l":[{"name":"d"},{"name":"b"}],"args":["z"],"s":{}}
		4 MODIFIED watch - {"metadata":{"labels":{"a":"4","c":"3"}},"l":[{"name":"d"},{"name":"b"}],"args":["z","y"],"s":{}}`)
	for without, want := range map[string]string{
		"/metadata": `l[a].name="a" 2, l[a].v.x=[] 2, s.t.u=1 2, status.p=1 2, l[c].name="c" 3, s.t=1 3, status={} 3`,
		"/status":   `l[a].name="a" 2, l[a].v.x=[] 2, s.t.u=1 2, l[c].name="c" 3, metadata.labels.b="2" 3, s.t=1 3`,
		"/l":        `s.t.u=1 2, status.p=1 2, metadata.labels.b="2" 3, s.t=1 3, status={} 3`,
	} {
		var got []string
		for _, f := range result(t, lines, without).Removed {
			got = append(got, fmt.Sprintf("%s=%s %d", f.Path, f.Value, f.Seq))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("without %s:\ngot  %s\nwant %s", without, got, want)
		}
	}
}

// Each line has the write of its value, those that open something that of the whole.
func TestLines(t *testing.T) {
	long := strings.Repeat("k", 130)
	lines := fill(`
		1 ADDED watch - {"a":{"x":"one\n\ntwo"}}
		2 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end"}}
		3 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end","` + long + `":1}}
		4 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end","` + long + `":1,"z":"a\u2028b"}}
		5 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end","` + long + `":1,"z":"a\u2028b"},"b":[]}
		6 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end","` + long + `":1,"z":"a\u2028b"},"b":[[1,{"u":2}]]}
		7 MODIFIED watch - {"a":{"x":"one\n\ntwo","y":"` + strings.Repeat(`word\u0020`, 12) + `end","` + long + `":1,"z":"a\u2028b"},"b":[[1,{"u":2,"v":{}}]]}`)
	want := `
1 a:
3   ? ` + long + `
3   : 1
1   x: |-
1     one
1 
1     two
2   "y": word word word word word word word word word word word word end
4   z: 'a` + "\u2028" + `    b'
1 apiVersion: example.com/v1
6 b:
6 - - 1
6   - u: 2
7     v: {}
1 kind: Widget
`
	got := "\n"
	for _, l := range result(t, lines).Lines {
		got += fmt.Sprintln(l.Seq, l.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

var story = fill(`
	12 ADDED snapshot - {"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"web","namespace":"shop","resourceVersion":"112","uid":"u","creationTimestamp":"2026-11-01T08:00:00Z","annotations":{"note":"one\ntwo\n"}},"spec":{"replicas":2,"paused":true,"containers":[{"name":"web","image":"web:1.4.2","args":["--port","8080"]}]},"status":{"ready":2}}
	1201 GAP - "fromTime":"2026-11-20T13:05:00Z" -
	1202 MODIFIED relist - {"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"web","namespace":"shop","resourceVersion":"1302","uid":"u","creationTimestamp":"2026-11-01T08:00:00Z","annotations":{"note":"one\ntwo\n"}},"spec":{"replicas":3,"paused":true,"containers":[{"name":"web","image":"web:1.4.2","args":["--port","8080"]}]},"status":{"ready":2}}
	1203 SYNCED - - -
	1234 MODIFIED watch "manager":"kubectl-client-side-apply","writtenAt":"2026-11-20T13:20:34Z" {"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"web","namespace":"shop","resourceVersion":"1334","uid":"u","creationTimestamp":"2026-11-01T08:00:00Z","annotations":{"note":"\u001b[31mred\n\u202etwo\n"}},"spec":{"replicas":3,"containers":[{"name":"proxy","image":"registry.example.com/infrastructure/proxies/envoy:1.31.2"},{"name":"web","image":"web:1.5.0","args":["--port","8080"]}]},"status":{"ready":2}}
	1300 MODIFIED watch "manager":"widget-controller","subresource":"status","writtenAt":"2026-11-20T12:00:00Z" {"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"web","namespace":"shop","resourceVersion":"1400","uid":"u","creationTimestamp":"2026-11-01T08:00:00Z","annotations":{"note":"\u001b[31mred\n\u202etwo\n"}},"spec":{"replicas":3,"containers":[{"name":"proxy","image":"registry.example.com/infrastructure/proxies/envoy:1.31.2"},{"name":"web","image":"web:1.5.0","args":["--port","8080"]}]},"status":{"ready":1}}
	1310 DELETED watch - -`)

func inCET(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("CET", 3600)
	t.Cleanup(func() { time.Local = was })
}

func TestText(t *testing.T) {
	inCET(t)
	r := result(t, story, "/metadata/uid")
	for width, want := range map[int]string{100: text100, 0: text0} {
		var b bytes.Buffer
		if err := r.WriteText(&b, width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), b.String()); diff != "" {
			t.Errorf("width %d: %s\n%s", width, diff, b.String())
		}
	}
	if diff := cmp.Diff(strings.TrimPrefix(storyNotes, "\n"), strings.Join(r.Notes(), "\n")+"\n"); diff != "" {
		t.Error(diff)
	}
	for width := range 60 {
		if err := r.WriteText(&bytes.Buffer{}, width); err != nil {
			t.Fatal(err)
		}
	}
}

const text100 = `
TIME (CET)           MANAGER            SEQ  |
2026-11-20 14:00:12  or before           12  | apiVersion: example.com/v1
                                             | kind: Widget
                                             | metadata:
                                             |   annotations:
2026-11-20 14:20:34  kubectl apply     1234  |     note: "\e[31mred\n\u202etwo\n"
2026-11-20 14:00:12  or before           12  |   creationTimestamp: "2026-11-01T08:00:00Z"
                                             |   name: web
                                             |   namespace: shop
2026-11-20 13:00:00  …dget-controller  1300  |   resourceVersion: "1400"
2026-11-20 14:00:12  or before           12  | spec:
                                             |   containers:
2026-11-20 14:20:34  kubectl apply     1234  |   - image: registry.example.com/infrastructure/proxi…
                                             |     name: proxy
2026-11-20 14:00:12  or before           12  |   - args:
                                             |     - --port
                                             |     - "8080"
2026-11-20 14:20:34  kubectl apply     1234  |     image: web:1.5.0
2026-11-20 14:00:12  or before           12  |     name: web
2026-11-20 14:20:02  in the gap        1202  |   replicas: 3
2026-11-20 14:00:12  or before           12  | status:
2026-11-20 13:00:00  …dget-controller  1300  |   ready: 1
                                             |
REMOVED                                      |
2026-11-20 14:20:34  kubectl apply     1234  | spec.paused: true
`

const text0 = `
TIME (CET)           MANAGER                     SEQ  |
2026-11-20 14:00:12  or before                    12  | apiVersion: example.com/v1
2026-11-20 14:00:12  or before                    12  | kind: Widget
2026-11-20 14:00:12  or before                    12  | metadata:
2026-11-20 14:00:12  or before                    12  |   annotations:
2026-11-20 14:20:34  kubectl-client-side-apply  1234  |     note: "\e[31mred\n\u202etwo\n"
2026-11-20 14:00:12  or before                    12  |   creationTimestamp: "2026-11-01T08:00:00Z"
2026-11-20 14:00:12  or before                    12  |   name: web
2026-11-20 14:00:12  or before                    12  |   namespace: shop
2026-11-20 13:00:00  widget-controller/status   1300  |   resourceVersion: "1400"
2026-11-20 14:00:12  or before                    12  | spec:
2026-11-20 14:00:12  or before                    12  |   containers:
2026-11-20 14:20:34  kubectl-client-side-apply  1234  |   - image: registry.example.com/infrastructure/proxies/envoy:1.31.2
2026-11-20 14:20:34  kubectl-client-side-apply  1234  |     name: proxy
2026-11-20 14:00:12  or before                    12  |   - args:
2026-11-20 14:00:12  or before                    12  |     - --port
2026-11-20 14:00:12  or before                    12  |     - "8080"
2026-11-20 14:20:34  kubectl-client-side-apply  1234  |     image: web:1.5.0
2026-11-20 14:00:12  or before                    12  |     name: web
2026-11-20 14:20:02  in the gap                 1202  |   replicas: 3
2026-11-20 14:00:12  or before                    12  | status:
2026-11-20 13:00:00  widget-controller/status   1300  |   ready: 1
                                                      |
REMOVED                                               |
2026-11-20 14:20:34  kubectl-client-side-apply  1234  | spec.paused: true
`

const storyNotes = `
seq 12: the journal's first version of these values, which were written at 2026-11-20 14:00:12 CET or before
seq 1202: written in the gap between 2026-11-20 14:05:00 CET and 2026-11-20 14:20:02 CET
the object was deleted: its DELETED line is seq 1310, 2026-11-20 14:21:50 CET
`

const storyJSON = `{
 "apiVersion": "example.com/v1",
 "kind": "Widget",
 "namespace": "shop",
 "name": "web",
 "uid": "u",
 "resourceVersion": "1302",
 "seq": 1202,
 "time": "2026-11-20T13:20:02.5Z",
 "fields": [
  {
   "path": "apiVersion",
   "value": "example.com/v1",
   "seq": 12,
   "time": "2026-11-20T13:00:12.5Z",
   "origin": "older",
   "after": {
    "time": "2026-11-01T08:00:00Z"
   }
  },
  {
   "path": "kind",
   "value": "Widget",
   "seq": 12,
   "time": "2026-11-20T13:00:12.5Z",
   "origin": "older",
   "after": {
    "time": "2026-11-01T08:00:00Z"
   }
  },
  {
   "path": "spec.paused",
   "value": true,
   "seq": 12,
   "time": "2026-11-20T13:00:12.5Z",
   "origin": "older",
   "after": {
    "time": "2026-11-01T08:00:00Z"
   }
  },
  {
   "path": "spec.replicas",
   "value": 3,
   "seq": 1202,
   "time": "2026-11-20T13:20:02.5Z",
   "origin": "gap",
   "after": {
    "seq": 12,
    "time": "2026-11-20T13:05:00Z"
   }
  }
 ]
}`

func TestJSON(t *testing.T) {
	r := result(t, story[:4], "/metadata", "/status", "/spec/containers")
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(storyJSON, string(b)); diff != "" {
		t.Errorf("%s\n%s", diff, b)
	}
}

func TestNoObject(t *testing.T) {
	var h History
	if _, err := h.Result(); !errors.Is(err, ErrNoObject) {
		t.Error(err)
	}
	lines := fill(`
		1 ADDED watch - {"x":1}
		2 MODIFIED watch - {"x":1,2}
		3 MODIFIED watch - {"x":2}
		4 MODIFIED watch - -
		5 DELETED watch - -`)
	for i, raw := range lines {
		var l line.Fields
		if err := l.Parse([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if err := h.Add(&l); (err != nil) != (i == 1) {
			t.Errorf("line %d: %v", i, err)
		}
	}
	r, err := h.Result()
	if err != nil || r.Seq != 3 || r.Missed.Seq != 4 || r.Deleted.Seq != 5 || r.Fields[2].Origin != Between {
		t.Errorf("%+v, %v", r, err)
	}
}

// However many versions there are, with whatever was in them.
func TestMemory(t *testing.T) {
	var h History
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	padding := strings.Repeat("x", 10000)
	for seq := range uint64(5000) {
		add(t, &h, bruteLine(t, seq+1, map[string]any{"metadata": map[string]any{"annotations": map[string]any{fmt.Sprint("a", seq): padding}}}))
	}
	if after := heap(); after > before+2*maxRemoved {
		t.Errorf("%d bytes", after-before)
	}
	r, err := h.Result()
	if err != nil || r.Dropped == 0 || r.Dropped+len(r.Removed) != 4999 || r.Removed[len(r.Removed)-1].Path != "metadata.annotations.a4998" {
		t.Errorf("%d, %d dropped, %v", len(r.Removed), r.Dropped, err)
	}
}

// No line makes a History panic, and what it has of objects can be shown.
func FuzzHistory(f *testing.F) {
	for _, l := range story {
		f.Add([]byte(l), []byte(`{"seq":1,"time":"2026-11-20T13:00:00Z","type":"MODIFIED","origin":"watch","stream":"s","changes":[{"op":"replace","path":"/spec/x/0","value":["REDACTED"]}],"object":{"spec":{"x":[1,"a\u0085\n"]}}}`), []byte(l))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var h History
		for _, raw := range [][]byte{a, b, c} {
			var l line.Fields
			if l.Parse(raw) == nil {
				_ = h.Add(&l)
			}
		}
		r, err := h.Result("/status", "x", "/")
		if err != nil {
			if !errors.Is(err, ErrNoObject) {
				t.Fatalf("%v: %s", err, h.object)
			}
			return
		}
		for _, width := range []int{0, 1, 80} {
			var text bytes.Buffer
			if err := r.WriteText(&text, width); err != nil || bytes.ContainsAny(text.Bytes(), "\x1b\u202e\r\x00") {
				t.Fatalf("%v: %q", err, text.Bytes())
			}
		}
		r.Notes()
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDeep has an object that is nested deep: what is below the deepest lines is one value, with its newest write.
func TestDeep(t *testing.T) {
	const depth = 2000
	open, shut := strings.Repeat(`{"a":`, depth), strings.Repeat(`}`, depth)
	h := &History{}
	pointer := strings.Repeat("/a", depth)
	for _, raw := range fill(fmt.Sprintf(`
		1 ADDED watch "manager":"one" {"spec":%[1]s{"b":1,"c":1}%[2]s}
		2 MODIFIED watch "manager":"two","changes":[{"op":"replace","path":"/spec%[3]s/c","old":1,"value":2}] {"spec":%[1]s{"b":1,"c":2}%[2]s}
	`, open, shut, pointer)) {
		add(t, h, raw)
	}
	r, err := h.Result()
	if err != nil {
		t.Fatal(err)
	}
	last := r.Lines[len(r.Lines)-1]
	field := r.Fields[len(r.Fields)-1]
	if field.Seq != 2 || last.Seq != 2 || !bytes.Contains(field.Value, []byte(`{"b":1,"c":2}`)) || len(field.Path) > 1000 {
		t.Errorf("%s: %s, of %+v", field.Path, field.Value, last.Write)
	}
	if size := len(fmt.Sprint(r.Lines)); size > 40*depth*len(`{"a":}`) {
		t.Errorf("%d bytes of lines", size)
	}
}
