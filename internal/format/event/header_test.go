package event

import (
	"reflect"
	"strings"
	"testing"

	"kubejournal/test/eventtest"
)

func TestParseHeader(t *testing.T) {
	src := podSource
	src.ClusterUID = "c-1"
	r := mustRenderer(t, src, podShape)
	at := received.UTC()
	for _, c := range []struct {
		line []byte
		want Header
	}{
		{
			[]byte(line(t, r, Modified, `{"metadata":{"namespace":"n","name":"a\"b","uid":"u","resourceVersion":"5"},"seq":9,"x":{"type":"NO"}}`)),
			Header{Seq: 7, Time: at, Type: Modified, Origin: FromWatch, ID: "u/5/MODIFIED", Stream: "pods", Namespace: "n", Name: `a"b`, UID: "u", ResourceVersion: "5"},
		},
		{
			r.AppendGap(AppendSeq(nil, 1<<64-1), received, "Expired", "5", received, "9"),
			Header{Seq: 1<<64 - 1, Time: at, Type: Gap, ID: "pods/9/GAP", Stream: "pods", ClusterUID: "c-1", ResourceVersion: "9", Reason: "Expired", FromResourceVersion: "5"},
		},
		{
			r.AppendSynced(AppendSeq(nil, 2), received, "9", Count{1, 2, 3, 4}),
			Header{Seq: 2, Time: at, Type: Synced, ID: "pods/9/SYNCED", Stream: "pods", ClusterUID: "c-1", ResourceVersion: "9", Count: &Count{1, 2, 3, 4}},
		},
		{
			gone(t, r, 3, Known{Namespace: "n", Name: "a\x01\xff", UID: "u", ResourceVersion: "5"}),
			Header{Seq: 3, Time: at, Type: Deleted, Origin: FromRelist, ID: "u/5/DELETED", Stream: "pods", Namespace: "n", Name: "a\x01\uFFFD", UID: "u", ResourceVersion: "5"},
		},
		{
			[]byte("{ \"truncated\": true, \"seq\" : 1 , \"time\":\"2026-11-20T15:10:22.000123456Z\",\n\"type\":\"GAP\", \"i\\u0064\":\"x\", \"stream\":\"s\" }"),
			Header{Seq: 1, Time: at, Type: Gap, ID: "x", Stream: "s", Truncated: true},
		},
	} {
		for _, l := range [][]byte{c.line, []byte(strings.TrimSuffix(string(c.line), "\n"))} {
			h := Header{Reason: "left over", Count: &Count{}}
			err := ParseHeader(l, &h)
			if _, object, ok := strings.Cut(strings.TrimSpace(string(l)), `,"object":`); ok != (h.Object != nil) || ok && object != string(h.Object)+"}" {
				t.Errorf("%s: object %s", l, h.Object)
			}
			h.Object = nil
			if err != nil || !reflect.DeepEqual(h, c.want) {
				t.Errorf("%s: %v\ngot  %+v\nwant %+v", l, err, h, c.want)
			}
		}
	}
}

// Wherever a line is torn, it is no line.
func TestParseHeaderTorn(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	l := strings.TrimSuffix(line(t, r, Added, string(eventtest.Pod(2000, 1))), "\n")
	for n := range len(l) {
		var h Header
		if err := ParseHeader([]byte(l[:n]), &h); err == nil || !reflect.DeepEqual(h, Header{}) {
			t.Fatalf("torn at %d: %v, %+v", n, err, h)
		}
	}
	const head = `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"GAP","id":"x","stream":"s"`
	var h Header
	if err := ParseHeader([]byte(head+"}"), &h); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{
		"", "{}", "[]", "1", l + l, l + "}", l + "\x00", "\x00\x00", l + " " + l, head, head + `,}`, head + `,"x":nul}`, head + `} x`,
		`{"seq":1}`, strings.Replace(head, "1", "0", 1) + "}", strings.Replace(head, "1", `"1"`, 1) + "}", strings.Replace(head, "1", "-1", 1) + "}", strings.Replace(head, "1", "1.5", 1) + "}",
		strings.Replace(head, "2026", "26", 1) + "}", strings.Replace(head, `"GAP"`, "1", 1) + "}", strings.Replace(head, `"s"`, "null", 1) + "}", strings.Replace(head, `"s"`, `""`, 1) + "}",
		head + `,"count":[]}`, head + `,"count":{"added":"1"}}`, head + `,"name":1}`, head + ",\"name\":\"a\nb\"}",
	} {
		if err := ParseHeader([]byte(in), &h); err == nil {
			t.Errorf("parsed %q", in)
		}
	}
}
