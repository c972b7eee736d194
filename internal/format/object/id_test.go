package object

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// idOf returns the id of a line.
func idOf(t *testing.T, raw []byte) string {
	t.Helper()
	var h line.Header
	if err := line.ParseHeader(raw, &h); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return h.ID
}

func TestIDs(t *testing.T) {
	web := Source{Stream: "pods?namespace=shop&labelSelector=app%3Dweb", Version: "v1", Resource: "pods", Kind: "Pod"}
	grouped := Source{Stream: "things.example.com", Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing"}
	for name, c := range map[string]struct {
		src    Source
		own    bool
		object string
		want   string
	}{
		"uid": {web, false, `"name":"a","namespace":"shop","uid":"u","resourceVersion":"5"`, "u/5/"},
		"uid, overlapping": {
			web, true, `"name":"a","namespace":"shop","uid":"u","resourceVersion":"5"`,
			"u/pods?namespace=shop&labelSelector=app%3Dweb/5/",
		},
		"no uid": {web, false, `"name":"a","namespace":"shop","resourceVersion":"5"`, "pods/shop/a/5/"},
		"empty uid": {
			web, false, `"name":"a","namespace":"shop","uid":"","resourceVersion":"5"`, "pods/shop/a/5/",
		},
		"no uid, overlapping": {
			web, true, `"name":"a","namespace":"shop","resourceVersion":"5"`,
			"pods/shop/a/pods?namespace=shop&labelSelector=app%3Dweb/5/",
		},
		"no uid, of a group": {
			grouped, false, `"name":"a","namespace":"shop","resourceVersion":"5"`, "things.example.com/shop/a/5/",
		},
		"no uid and no namespace": {grouped, false, `"name":"a","resourceVersion":"5"`, "things.example.com/a/5/"},
		"no name":                 {grouped, false, `"resourceVersion":"5"`, "/5/"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustRenderer(t, c.src, Shape{})
			if c.own {
				r.Distinguish(c.src.Stream)
			}
			for _, typ := range []line.Type{line.Added, line.Modified, line.Deleted} {
				if got := idOf(t, []byte(lineOf(t, r, typ, `{"metadata":{`+c.object+`}}`))); got != c.want+string(typ) {
					t.Errorf("id %s, want %s%s", got, c.want, typ)
				}
			}
			// A list that shows it gone names it in the same way.
			var o Object
			if err := r.Scan([]byte(`{"metadata":{`+c.object+`}}`), &o); err != nil {
				t.Fatal(err)
			}
			k := Known{Namespace: string(o.Namespace), Name: string(o.Name), UID: string(o.UID),
				ResourceVersion: string(o.ResourceVersion)}
			if got := idOf(t, gone(t, r, 1, k)); got != c.want+"DELETED" {
				t.Errorf("gone has id %s, want %sDELETED", got, c.want)
			}
		})
	}
}

// No id is longer than Elasticsearch takes, whatever the stream's selectors or the server's uids and versions are, and
// what differs in any part has another one. Those that fit are as they are.
func TestLongIDs(t *testing.T) {
	selector := func(n int) string { return "pods?labelSelector=" + strings.Repeat("x", n) }
	ids := map[string]string{}
	note := func(what string, line []byte, plain string) string {
		t.Helper()
		got := idOf(t, line)
		if before, again := ids[got]; again {
			t.Errorf("%s and %s have the id %s", what, before, got)
		}
		ids[got] = what
		if len(got) > MaxID || !utf8.ValidString(got) || !json.Valid(line) {
			t.Errorf("%s: %d bytes: %q", what, len(got), got)
		}
		if fits := len(plain) <= MaxID; fits && got != plain {
			t.Errorf("%s: %s, want %s", what, got, plain)
		} else if !fits && (got[:100] != plain[:100] || !strings.HasSuffix(got, plain[strings.LastIndexByte(plain, '/'):])) {
			t.Errorf("%s: %s is not made of %s", what, got, plain)
		}
		return got
	}
	for _, n := range []int{100, 400, 480, 489, 500, 512, 600, 1000, 5000} {
		for _, end := range []string{"a", "b"} {
			stream := selector(n) + end
			r := mustRenderer(t, Source{Stream: stream, Version: "v1", Resource: "pods", Kind: "Pod"}, Shape{})
			for _, rv := range []string{"1", "1234567890123456789"} {
				about := fmt.Sprintf("%d %s %s", n, end, rv)
				note("gap "+about, r.AppendGap(line.AppendSeq(nil, 1), received, line.Expired, "1", received, rv), stream+"/"+rv+"/GAP")
				note("synced "+about, r.AppendSynced(line.AppendSeq(nil, 1), received, rv, line.Count{}), stream+"/"+rv+"/SYNCED")
			}
			r.Distinguish(stream)
			for _, typ := range []line.Type{line.Added, line.Modified, line.Deleted} {
				plain := "1fe4b2f8-dcde-4710-91df-c352aafd0b06/" + stream + "/204/"
				if fits := len(plain)+len(line.Modified) <= MaxID; fits {
					plain += string(typ)
				} else {
					plain += strings.Repeat(" ", MaxID) + "/" + string(typ)
				}
				got := note(fmt.Sprint("object ", n, end, typ), []byte(lineOf(t, r, typ,
					`{"metadata":{"name":"a","uid":"1fe4b2f8-dcde-4710-91df-c352aafd0b06","resourceVersion":"204"}}`)), plain)
				if !strings.HasPrefix(got, "1fe4b2f8-dcde-4710-91df-c352aafd0b06/") ||
					!strings.HasSuffix(got, "/204/"+string(typ)) {
					t.Errorf("%s does not say which object", got)
				}
			}
		}
	}
	r := mustRenderer(t, podSource, Shape{})
	for name, c := range map[string]struct{ uid, version string }{
		"long uid": {strings.Repeat("u", 4000), "1"}, "another long uid": {strings.Repeat("u", 3999) + "v", "1"},
		"its next version": {strings.Repeat("u", 4000), "2"},
		"long version":     {"u", strings.Repeat("1", 4000)}, "another long version": {"u", strings.Repeat("1", 3999) + "2"},
		"both long": {strings.Repeat("u", 4000), strings.Repeat("1", 4000)}, "runes": {strings.Repeat("é", 2000), "1"},
		"escapes":          {strings.Repeat("\"\\\n", 300), "1"},
		"escapes that fit": {strings.Repeat("\n", 400), "1"},
	} {
		escaped := func(s string) string { return string(rawjson.AppendEscaped(nil, s)) }
		in := `{"metadata":{"name":"a","uid":"` + escaped(c.uid) + `","resourceVersion":"` + c.version + `"}}`
		l := []byte(lineOf(t, r, line.Deleted, in))
		got := idOf(t, l)
		if before, again := ids[got]; again || len(got) > MaxID || !utf8.ValidString(got) ||
			!strings.HasSuffix(got, "/DELETED") {
			t.Errorf("%s: %q, as %q", name, got, before)
		}
		ids[got] = name
		if again := idOf(t, gone(t, r, 1, Known{Name: "a", UID: c.uid, ResourceVersion: c.version})); again != got {
			t.Errorf("%s: gone has id %q, deleted %q", name, again, got)
		}
		// Ids at one version differ in the type alone: merging relies on it.
		added := idOf(t, []byte(lineOf(t, r, line.Added, in)))
		if strings.TrimSuffix(added, "ADDED") != strings.TrimSuffix(got, "DELETED") {
			t.Errorf("%s: added has id %q, deleted %q", name, added, got)
		}
	}
	long := lineOf(t, r, line.Added, `{"metadata":{"uid":"`+strings.Repeat("u", 600)+`","resourceVersion":"7"}}`)
	if !strings.Contains(idOf(t, []byte(long)), "/7/ADDED") {
		t.Error("the version is not readable")
	}
}
