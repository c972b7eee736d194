package line

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const stamp = `"time":"2026-11-20T15:10:22.000123456Z"`

func TestParseHeader(t *testing.T) {
	at := time.Date(2026, 11, 20, 15, 10, 22, 123456, time.UTC)
	for _, c := range []struct {
		line string
		want Header
	}{
		{
			`{"seq":7,` + stamp + `,"type":"MODIFIED","origin":"watch","id":"u/5/MODIFIED","stream":"pods","version":"v1","namespace":"n","name":"a\"b","uid":"u",` +
				`"resourceVersion":"5","object":{"metadata":{"name":"a\"b"},"seq":9,"x":{"type":"NO"}}}`,
			Header{Seq: 7, Time: at, Type: Modified, Origin: FromWatch, ID: "u/5/MODIFIED", Stream: "pods", Namespace: "n", Name: `a"b`, UID: "u", ResourceVersion: "5"},
		},
		{
			`{"seq":18446744073709551615,"term":3,` + stamp + `,"type":"GAP","id":"pods/9/GAP","stream":"pods","clusterUID":"c-1","reason":"Expired",` +
				`"fromTime":"2026-11-20T15:10:22Z","fromResourceVersion":"5","resourceVersion":"9"}`,
			Header{
				Seq: 1<<64 - 1, Term: 3, Time: at, Type: Gap, ID: "pods/9/GAP", Stream: "pods", ClusterUID: "c-1", ResourceVersion: "9", Reason: Expired,
				FromResourceVersion: "5",
			},
		},
		{
			`{"seq":2,` + stamp + `,"type":"SYNCED","id":"pods/9/SYNCED","stream":"pods","clusterUID":"c-1","resourceVersion":"9",` +
				`"count":{"added":1,"modified":2,"deleted":3,"unchanged":4}}`,
			Header{Seq: 2, Time: at, Type: Synced, ID: "pods/9/SYNCED", Stream: "pods", ClusterUID: "c-1", ResourceVersion: "9", Count: &Count{1, 2, 3, 4}},
		},
		{
			`{"seq":3,` + stamp + `,"type":"DELETED","origin":"relist","id":"u/5/DELETED","stream":"pods","name":"a\u0001\ufffd","uid":"u"}`,
			Header{Seq: 3, Time: at, Type: Deleted, Origin: FromRelist, ID: "u/5/DELETED", Stream: "pods", Name: "a\x01\uFFFD", UID: "u"},
		},
		{
			`{"seq":4,` + stamp + `,"type":"ADDED","id":"x","stream":"s","object":{},"name":"a","count":{"added":1}}`,
			Header{Seq: 4, Time: at, Type: Added, ID: "x", Stream: "s", Name: "a", Count: &Count{Added: 1}},
		},
		{
			`{ "truncated": true, "seq" : 1 , ` + stamp + ",\n" + `"type":"GAP", "i\u0064":"x", "stream":"s" }`,
			Header{Seq: 1, Time: at, Type: Gap, ID: "x", Stream: "s", Truncated: true},
		},
	} {
		for _, end := range []string{"", "\n"} {
			h := Header{Reason: "left over", Count: &Count{}}
			err := ParseHeader([]byte(c.line+end), &h)
			_, object, has := strings.Cut(c.line, `,"object":`)
			if has != (h.Object != nil) || has && (!json.Valid(h.Object) || !strings.HasPrefix(object, string(h.Object))) {
				t.Errorf("%s: object %s", c.line, h.Object)
			}
			h.Object = nil
			if err != nil || !reflect.DeepEqual(h, c.want) {
				t.Errorf("%s: %v\ngot  %+v\nwant %+v", c.line, err, h, c.want)
			}
		}
	}
}

// The object of a line that somebody has rewritten with white space is compact again.
func TestParseHeaderOfSpacedLine(t *testing.T) {
	var h Header
	raw := `{ "seq": 1, ` + stamp + `, "type": "ADDED", "id": "x", "stream": "s", "object": { "a": [ 1, " b " ] } }`
	if err := ParseHeader([]byte(raw), &h); err != nil || string(h.Object) != `{"a":[1," b "]}` {
		t.Errorf("object %s, %v", h.Object, err)
	}
}

// Wherever a line is torn, it is no line.
func TestParseHeaderTorn(t *testing.T) {
	const head = `{"seq":1,` + stamp + `,"type":"ADDED","id":"x","stream":"s"`
	l := head + fmt.Sprintf(`,"name":"a","changes":[{"op":"add","path":"/a","value":[1,{}]}],"object":{"a":%q,"b":{"c":[{}]}}}`, strings.Repeat("x", 100))
	var h Header
	for n := range len(l) {
		if err := ParseHeader([]byte(l[:n]), &h); err == nil || !reflect.DeepEqual(h, Header{}) {
			t.Fatalf("torn at %d: %v, %+v", n, err, h)
		}
	}
	for _, in := range []string{l, head + "}"} {
		if err := ParseHeader([]byte(in), &h); err != nil {
			t.Fatal(err)
		}
	}
	without := func(old, text string) string { return strings.Replace(head, old, text, 1) + "}" }
	for _, in := range []string{
		"", "{}", "[]", "1", l + l, l + "}", l + "\x00", "\x00\x00", l + " " + l, head, head + `,}`, head + `,"x":nul}`, head + `} x`, `{"seq":1}`,
		without(":1", ":0"), without(":1", `:"1"`), without(":1", ":-1"), without(":1", ":1.5"), without("2026", "26"), without(`"ADDED"`, "1"),
		without(`"s"`, "null"), without(`"s"`, `""`), without(`"x"`, `""`), head + `,"count":[]}`, head + `,"count":{"added":"1"}}`, head + `,"term":"1"}`,
		head + `,"name":1}`, head + ",\"name\":\"a\nb\"}",
	} {
		if err := ParseHeader([]byte(in), &h); err == nil || !reflect.DeepEqual(h, Header{}) {
			t.Errorf("parsed %q: %+v", in, h)
		}
	}
}
