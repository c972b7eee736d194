package client

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

func TestSplitWatch(t *testing.T) {
	for _, c := range []struct {
		in     string
		t      line.Type
		object string
	}{
		{`{"type":"ADDED","object":{"metadata":{}}}`, line.Added, `{"metadata":{}}`},
		{`{"type":"MODIFIED","object":{"metadata":{}}}`, line.Modified, `{"metadata":{}}`},
		{`{"type":"DELETED","object":{"metadata":{}}}`, line.Deleted, `{"metadata":{}}`},
		{`{"type":"BOOKMARK","object":{"metadata":{}}}`, line.Bookmark, `{"metadata":{}}`},
		{`{"type":"ERROR","object":{"kind":"Status","message":"}\"{"},"x":{}}`, line.Error, `{"kind":"Status","message":"}\"{"}`},
		{`{"object":{"a":"}"},"type":"ADDED"}`, line.Added, `{"a":"}"}`},
		{`{"type":"ADDED","object":{},"x":1}`, line.Added, `{}`},
		{`{"x":[{"type":"NO"}],"type":"ADDED","y":null,"object":{}}`, line.Added, `{}`},
		{`{"t\u0079pe":"ADD\u0045D","obj\u0065ct":{}}`, line.Added, `{}`},
		{" {\n \"type\" : \"ADDED\" ,\n \"object\" : {\n  \"a\": 1\n }\n}\n", line.Added, "{\n  \"a\": 1\n }"},
		{`{"type":"NEW","object":{}}`, "NEW", `{}`},
	} {
		typ, object, err := splitWatch([]byte(c.in))
		if typ != c.t || string(object) != c.object || err != nil {
			t.Errorf("%s: got %s, %s, %v", c.in, typ, object, err)
		}
	}
	for _, in := range []string{
		``, `{`, `{}`, `[]`, `404`, `null`, `{"type":"ADDED"}`, `{"object":{}}`, `{"type":1,"object":{}}`,
		`{"type":"ADDED","object":[]}`, `{"type":"ADDED","object":null}`, `{"type":"ADDED","object":{}`,
		`{"type":"ADDED" "object":{}}`, `{"type":"ADDED","object":{}} x`, `{"type","object":{}}`, `{"type":"ADDED",}`,
		`{"type":"","object":{}}`,
		`{"type":"ADDED","object":{},"type":"DELETED"}`, `{"object":{},"type":"ADDED","object":{}, "x":1}`,
	} {
		if typ, object, err := splitWatch([]byte(in)); err == nil {
			t.Errorf("%s: got %s, %s", in, typ, object)
		}
	}
}

// splitWatch leaves the end of an object to Scan.
func TestSplitWatchAndScan(t *testing.T) {
	r := mustRenderer(t, podSource, object.Shape{})
	const raw = `{"metadata":{"name":"a"},"x":{}}`
	for _, in := range []string{
		`{"type":"ADDED","object":` + raw + `}`,
		`{"type":"ADDED","object":` + raw + `,"x":{"y":{}}}`,
		`{"type":"ADDED","object":` + raw + `,"x":[1,"}"],"y":{}}`,
		"{\"type\":\"ADDED\",\"object\":" + raw + ", \"x\" : {} ,\n \"y\": {}}",
		`{"x":{},"type":"ADDED","object":` + raw + `,"x":1}`,
	} {
		_, got, err := splitWatch([]byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		var o object.Object
		if err := r.Scan(got, &o); err != nil || string(o.Raw) != raw || string(o.Name) != "a" {
			t.Errorf("%s: got %s, %v", in, o.Raw, err)
		}
	}
	for _, in := range []string{
		`{"type":"ADDED","object":{"metadata":{}}}}`,
		`{"type":"ADDED","object":{"metadata":{}},}}`,
		`{"type":"ADDED","object":{"metadata":{}},"x"}}`,
		`{"type":"ADDED","object":{"metadata":{}},"object":{}}`,
		`{"type":"ADDED","object":{"metadata":{}},"typ\u0065":"DELETED","x":{}}`,
		`{"type":"ADDED","object":{"metadata":{}}{}}`,
	} {
		var o object.Object
		_, raw, err := splitWatch([]byte(in))
		if err == nil {
			err = r.Scan(raw, &o)
		}
		if err == nil || o.Raw != nil {
			t.Errorf("%s: got %s", in, o.Raw)
		}
	}
}

func FuzzSplitWatch(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{}},"x":{}}`))
	f.Add([]byte(`{"object" : {"metadata":{}}, "type":"DELETED"}`))
	f.Add(bytes.TrimSpace(eventtest.WatchStream(1, 2000)))
	r := mustRenderer(f, podSource, object.Shape{})
	var o object.Object
	f.Fuzz(func(t *testing.T, in []byte) {
		typ, raw, err := splitWatch(in)
		if err == nil && typ != line.Error {
			err = r.Scan(raw, &o)
		}
		if err != nil || !json.Valid(in) {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(in, &want); err != nil {
			t.Fatalf("split %q: %v", in, err)
		}
		var wantType string
		if err := json.Unmarshal(want["type"], &wantType); err != nil {
			t.Fatal(err)
		}
		if string(typ) != wantType {
			t.Fatalf("type %q, want %q", typ, wantType)
		}
		var a, b any
		if typ == line.Error || o.Raw == nil {
			return
		}
		if json.Unmarshal(o.Raw, &a) != nil || json.Unmarshal(want["object"], &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("object %q, want %q", o.Raw, want["object"])
		}
	})
}
