package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/test/eventtest"
)

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func sameJSON(a, b any) bool { return reflect.DeepEqual(a, b) }

// decode keeps numbers as they are written. It reports whether all of b is one
// value.
func decode(b []byte) (any, bool) {
	if !json.Valid(b) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, false
	}
	return v, true
}

// The model below says what a shape does to a decoded object. It has nothing in
// common with the code under test but the parser of paths.

func modelDrop(v any, path []fieldpath.Step) any {
	switch c := v.(type) {
	case map[string]any:
		if path[0].Each {
			return v
		}
		child, ok := c[path[0].Key]
		switch {
		case ok && len(path) == 1:
			delete(c, path[0].Key)
		case ok:
			c[path[0].Key] = modelDrop(child, path[1:])
		}
	case []any:
		if !path[0].Each {
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

func modelRedact(v any, path []fieldpath.Step) any {
	if v == nil {
		return nil
	}
	c, isObject := v.(map[string]any)
	if len(path) == 0 {
		if !isObject {
			return "REDACTED"
		}
		return modelHide(c)
	}
	if path[0].Each {
		l, ok := v.([]any)
		if !ok {
			return "REDACTED"
		}
		for i := range l {
			l[i] = modelRedact(l[i], path[1:])
		}
		return l
	}
	if !isObject {
		return "REDACTED"
	}
	if child, ok := c[path[0].Key]; ok {
		c[path[0].Key] = modelRedact(child, path[1:])
	}
	return c
}

func modelHide(c map[string]any) any {
	for k, v := range c {
		if inner, ok := v.(map[string]any); ok {
			c[k] = modelHide(inner)
		} else {
			c[k] = "REDACTED"
		}
	}
	return c
}

func model(v any, s Shape) any {
	redacts, drops := s.Redact, s.Drop
	if s.Secret {
		redacts = append([]string{"data", "stringData"}, redacts...)
	}
	if len(redacts) > 0 {
		const applied = `metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]`
		drops = append([]string{applied}, drops...)
		meta := v.(map[string]any)["metadata"].(map[string]any)
		if a, ok := meta["annotations"]; ok && a != nil {
			if _, ok := a.(map[string]any); !ok {
				meta["annotations"] = "REDACTED"
			}
		}
		annotations, _ := meta["annotations"].(map[string]any)
		for key, a := range annotations {
			if _, ok := a.(string); !ok && a != nil {
				annotations[key] = "REDACTED"
			}
		}
	}
	for _, p := range redacts {
		path, err := fieldpath.Parse(p)
		if err != nil {
			panic(err)
		}
		v = modelRedact(v, path)
	}
	for _, p := range s.Redact { // what managedFields say of it quotes it
		path, err := fieldpath.Parse(p)
		if err != nil {
			panic(err)
		}
		owned := []fieldpath.Step{{Key: "metadata"}, {Key: "managedFields"}, {Each: true}, {Key: "fieldsV1"}}
		for _, of := range path {
			if of.Each {
				break
			}
			owned = append(owned, fieldpath.Step{Key: "f:" + of.Key})
		}
		v = modelDrop(v, owned)
	}
	for _, p := range drops {
		path, err := fieldpath.Parse(p)
		if err != nil {
			panic(err)
		}
		v = modelDrop(v, path)
	}
	return v
}

// modelID is the id of an object's first line.
func modelID(resource string, text func(key string) string) string {
	about := text("uid")
	if about == "" && text("name") != "" {
		about = resource + "/" + text("name")
		if ns := text("namespace"); ns != "" {
			about = resource + "/" + ns + "/" + text("name")
		}
	}
	return about + "/" + text("resourceVersion") + "/ADDED"
}

// modelValues are values of a Secret, without those that every line shows.
func modelValues(v any, s Shape, namespace, name string) (values []string) {
	for _, field := range []string{"data", "stringData"} {
		members, _ := v.(map[string]any)[field].(map[string]any)
		for _, m := range members {
			if text, _ := m.(string); s.Secret && strings.TrimSpace(text) != "" && text != "REDACTED" && text != namespace &&
				text != name {
				values = append(values, text)
			}
		}
	}
	return values
}

// modelCopies takes over which annotations are redacted because they show one of the values, and checks that those are
// which are nothing else.
func modelCopies(got, want any, values []string) error {
	annotations := func(v any) map[string]any {
		meta, _ := v.(map[string]any)["metadata"].(map[string]any)
		all, _ := meta["annotations"].(map[string]any)
		return all
	}
	for key, v := range annotations(got) {
		text, ok := annotations(want)[key].(string)
		switch {
		case ok && v == "REDACTED":
			annotations(want)[key] = v
		case ok && slices.Contains(values, text):
			return fmt.Errorf("annotation %q is not redacted: %q", key, text)
		}
	}
	return nil
}

// modelCreated is what a line says of an object that is known to be new.
func modelCreated(meta map[string]any) map[string]string {
	said := map[string]string{}
	entries, _ := meta["managedFields"].([]any)
	var writers []map[string]any
	for _, e := range entries {
		if m, ok := e.(map[string]any); ok {
			writers = append(writers, m)
		}
	}
	if len(writers) == 1 {
		said["manager"], _ = writers[0]["manager"].(string)
		said["subresource"], _ = writers[0]["subresource"].(string)
	}
	s, _ := meta["creationTimestamp"].(string)
	if at, err := time.Parse(time.RFC3339, s); err == nil && at.Unix() > 0 && at.UTC().Year() < 10000 {
		said["writtenAt"] = at.UTC().Format(time.RFC3339)
	}
	return said
}

// hidden checks that an object's value holds only "REDACTED", in every
// occurrence of every key.
func hidden(raw []byte, top bool) error {
	if raw[0] != '{' {
		if s := string(raw); s != `"REDACTED"` && !(top && s == "null") {
			return fmt.Errorf("not redacted: %s", s)
		}
		return nil
	}
	return members(raw, func(_ string, v json.RawMessage) error { return hidden(v, false) })
}

// members calls f for all members of an object, repeated ones too.
func members(raw []byte, f func(key string, v json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		if err := f(key.(string), v); err != nil {
			return err
		}
	}
	return nil
}

const lineOrder = " seq time type origin id stream cluster group version resource kind namespace name uid resourceVersion generation manager subresource writtenAt finalStateKnown event changes object "

func FuzzObject(f *testing.F) {
	for i, seed := range [][]byte{
		eventtest.Pod(2000, 1), eventtest.Secret(1), eventtest.Event(1), eventtest.ConfigMap(600, 1),
		[]byte(`{"metadata":{"name":"\ud83d\ude00\"","generation":-0,"managedFields":[{"time":"2026-01-01T00:00:00+01:00","manager":"a"},1]},"data":{"a":{"b":[null]}},"d\u0061ta":1e400}`),
		[]byte("{\n \"data\" : {\"a\": \"\xff\"} ,\n \"metadata\" : { \"annotations\" : 1 }\n}"),
		[]byte(`{"metadata":{},"spec":{"containers":[{"env":[{"value":"x"}],"x":1}],"containers":{}},"status":[{}]},"x":{}`),
		[]byte(`{"metadata":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":"x"}},"metadata":{}}`),
	} {
		f.Add(seed, uint8(i))
	}
	check := newCheck(f)
	f.Fuzz(func(t *testing.T, raw []byte, which uint8) { check(t, raw, which) })
}

// FuzzMadeObject makes JSON out of the fuzzer's bytes, most of it well-formed
// and full of the keys that matter.
func FuzzMadeObject(f *testing.F) {
	for i := range uint8(20) {
		f.Add(bytes.Repeat([]byte{i, 200 - i, 3 * i}, 30), i)
	}
	check := newCheck(f)
	f.Fuzz(func(t *testing.T, from []byte, which uint8) {
		check(t, eventtest.Made(from), which)
	})
}

func TestMadeObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	check := newCheck(t)
	rnd := newRandom(1)
	from := make([]byte, 600)
	for range 10000 {
		for i := range from {
			from[i] = byte(rnd.Uint32())
		}
		check(t, eventtest.Made(from[:rnd.IntN(len(from))]), uint8(rnd.Uint32()))
	}
}

func (s Shape) cuts() bool { return s.Drop != nil || s.Redact != nil || s.Secret }

func namesOf(o *Object) string {
	return fmt.Sprintf("%q %q %q %q", o.Namespace, o.Name, o.UID, o.ResourceVersion)
}

// newCheck returns a function that checks everything about one object, with one
// of several sources and shapes, against encoding/json and the model.
func newCheck(tb testing.TB) func(t testing.TB, raw []byte, which uint8) {
	shapes := []Shape{
		{},
		{Drop: []string{"metadata.managedFields", "status"}},
		{Secret: true},
		{Secret: true, Drop: []string{"metadata.managedFields", "data.a", "metadata.labels"}},
		{Redact: []string{"spec.containers[*].env[*].value", "data.password", "a[*]"}},
		{Drop: []string{"spec.containers[*].env", "a[*]", "b", "c", "metadata"}},
	}
	sources := []Source{
		{Stream: "things", Version: "v1", Resource: "things", Kind: "Thing"},
		{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"},
		{Stream: "events.events.k8s.io", Group: "events.k8s.io", Version: "v1", Resource: "events", Kind: "Event"},
	}
	type rendered struct {
		r        *Renderer
		shape    Shape
		resource string
	}
	var rs []rendered
	for _, src := range sources {
		for _, shape := range shapes {
			rs = append(rs, rendered{mustRenderer(tb, src, shape), shape, src.Stream})
		}
	}
	var o, peeked Object
	return func(t testing.TB, raw []byte, which uint8) {
		r := rs[int(which)%len(rs)]
		scanErr := r.r.Scan(raw, &o)
		if (scanErr == nil || r.r.Identify(raw, &o, scanErr) == nil) && r.r.Peek(raw, &peeked) {
			if got, want := namesOf(&peeked), namesOf(&o); got != want {
				t.Fatalf("peek %q: %q, want %q", raw, got, want)
			}
		}
		want, valid := decode(raw)
		if !valid && scanErr == nil && r.shape.cuts() {
			// What is wrong must have been cut.
			b, err := r.r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Added, Origin: line.FromSnapshot, Received: received}, &o)
			if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, '\n') != len(b)-1 || !json.Valid(b) {
				t.Fatalf("line %q of %q: %v", b, raw, err)
			}
			return
		}
		if !valid && scanErr == nil {
			// Only as the beginning of a watch event's tail.
			tail := append(append([]byte(`{"type":1,"object":`), raw...), '}')
			if !json.Valid(tail) {
				t.Fatalf("scanned %q", raw)
			}
			want, valid = decode(o.Raw)
		}
		root, _ := want.(map[string]any)
		meta, _ := root["metadata"].(map[string]any)
		if meta == nil {
			valid = false
		}
		if valid != (scanErr == nil) {
			t.Fatalf("scan %q: %v, valid: %v", raw, scanErr, valid)
		}
		if scanErr != nil {
			return
		}

		text := func(key string) string { s, _ := meta[key].(string); return s }
		number, _ := meta["generation"].(json.Number)
		gen, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil {
			gen = 0
		}
		annotations, _ := meta["annotations"].(map[string]any)
		if string(o.Namespace) != text("namespace") || string(o.Name) != text("name") || string(o.UID) != text("uid") ||
			string(o.ResourceVersion) != text("resourceVersion") || o.Generation != gen ||
			o.InitialEventsEnd != (annotations["k8s.io/initial-events-end"] == "true") {
			t.Fatalf("scan %q: %q %q %q %q %d", raw, o.Namespace, o.Name, o.UID, o.ResourceVersion, o.Generation)
		}
		said := modelCreated(meta)
		write := o.Created()
		if r.r.events && write.At == 0 {
			delete(said, "writtenAt")
			if at := r.r.lastSeen(&o, received); at > 0 {
				said["writtenAt"] = time.Unix(at, 0).UTC().Format(time.RFC3339)
			}
		}

		l := Line{Type: line.Added, Origin: line.FromSnapshot, Received: received, Write: write}
		b, err := r.r.AppendLine(line.AppendSeq(nil, 1), l, &o)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(b) || bytes.IndexByte(b, '\n') != len(b)-1 || !json.Valid(b) {
			t.Fatalf("line %q", b)
		}
		var h line.Header
		if err := line.ParseHeader(b, &h); err != nil || h.Name != text("name") || h.UID != text("uid") ||
			h.ID != modelID(r.resource, text) && len(h.ID) != MaxID {
			t.Fatalf("header %+v of %q: %v", h, b, err)
		}
		at := -1
		var object json.RawMessage
		err = members(b, func(key string, v json.RawMessage) error {
			n := strings.Index(lineOrder, " "+key+" ")
			if n <= at {
				return fmt.Errorf("%s out of order", key)
			}
			at = n
			if s, ok := said[key]; ok || key == "manager" || key == "subresource" || key == "writtenAt" {
				if got, _ := decode(v); got != s {
					return fmt.Errorf("%s is %s, want %s", key, v, s)
				}
			}
			if key == "object" {
				object = v
			}
			return nil
		})
		if err != nil {
			t.Fatalf("line %q: %v", b, err)
		}
		got, _ := decode(object)
		values := modelValues(want, r.shape, text("namespace"), text("name"))
		w := model(want, r.shape)
		if r.shape.Redacts() {
			if err := modelCopies(got, w, values); err != nil {
				t.Fatalf("object %q of %q: %v", object, raw, err)
			}
		}
		if !sameJSON(got, w) {
			t.Fatalf("object %q of %q, want %v", object, raw, w)
		}
		if r.shape.Secret {
			err := members(object, func(key string, v json.RawMessage) error {
				if key == "data" || key == "stringData" {
					return hidden(v, true)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("object %q: %v", object, err)
			}
		}
		if r.shape.Drop == nil && r.shape.Redact == nil && !r.shape.Secret && utf8.Valid(raw) && valid && json.Valid(raw) {
			var compact bytes.Buffer
			if err := json.Compact(&compact, raw); err != nil || compact.String() != string(object) {
				t.Fatalf("object %q is not the bytes of %q", object, raw)
			}
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	r := mustRenderer(f, podSource, podShape)
	var o Object
	if err := r.Scan(eventtest.Pod(2000, 1), &o); err != nil {
		f.Fatal(err)
	}
	b, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Added, Origin: line.FromSnapshot, Received: received}, &o)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(r.AppendGap(line.AppendSeq(nil, 2), received, "Expired", "1", received, "2"))
	f.Add(r.AppendSynced(line.AppendSeq(nil, 3), received, "2", line.Count{Added: 1, Modified: 2, Deleted: 3, Unchanged: 4}))
	f.Add(gone(f, r, 4, Known{Namespace: "a", Name: "b\"", UID: "c", ResourceVersion: "d\xff"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h line.Header
		err := line.ParseHeader(raw, &h)
		v, valid := decode(raw)
		m, isObject := v.(map[string]any)
		if err != nil {
			if !reflect.DeepEqual(h, line.Header{}) {
				t.Fatalf("header %+v in spite of %v", h, err)
			}
			return
		}
		if !valid || !isObject {
			t.Fatalf("parsed %q", raw)
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		if fmt.Sprint(m["seq"]) != strconv.FormatUint(h.Seq, 10) || text("type") != string(h.Type) || text("origin") != string(h.Origin) ||
			text("id") != h.ID || text("stream") != h.Stream || text("namespace") != h.Namespace || text("name") != h.Name ||
			text("uid") != h.UID || text("resourceVersion") != h.ResourceVersion || text("reason") != string(h.Reason) ||
			text("fromResourceVersion") != h.FromResourceVersion {
			t.Fatalf("header %+v of %q", h, raw)
		}
	})
}
