package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/test/eventtest"
)

// objectDepth is how deep an object may be.
const objectDepth = rawjson.MaxDepth - aroundObject

// nested is an object of so many levels; of the containers in its spec, object tells which are objects.
func nested(levels int, value string, object func(level int) bool) []byte {
	var begin, end strings.Builder
	for i := range levels - 1 {
		if object(i) {
			begin.WriteString(`{"a":`)
		} else {
			begin.WriteByte('[')
		}
	}
	for i := levels - 2; i >= 0; i-- {
		if object(i) {
			end.WriteByte('}')
		} else {
			end.WriteByte(']')
		}
	}
	return []byte(`{"spec":` + begin.String() + value + end.String() + `,"metadata":{"name":"n","uid":"u","resourceVersion":"5"}}`)
}

// scanOrIdentify is what a stream does with an object.
func scanOrIdentify(r *Renderer, raw []byte, o *Object) error {
	err := r.Scan(raw, o)
	if err != nil {
		err = r.Identify(raw, o, err)
	}
	return err
}

// readable checks a line with every reader that there is in this package, and with encoding/json.
func readable(t *testing.T, l []byte, limit int) line.Header {
	t.Helper()
	var h line.Header
	if err := line.ParseHeader(l, &h); err != nil {
		t.Errorf("%v: %.200s", err, l)
	}
	var any map[string]any
	if err := json.Unmarshal(l, &any); err != nil {
		t.Errorf("encoding/json: %v: %.200s", err, l)
	}
	if len(l) > limit || bytes.IndexByte(l, '\n') != len(l)-1 {
		t.Errorf("a line of %d bytes, limit %d: %.200s", len(l), limit, l)
	}
	return h
}

// Whatever becomes a line can be read again, with the deepest changes that there may be.
func TestDepth(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	for name, object := range map[string]func(int) bool{
		"objects": func(int) bool { return true },
		"arrays":  func(int) bool { return false },
		"both":    func(level int) bool { return level%3 == 0 },
	} {
		for levels := 9_990; levels <= 10_010; levels++ {
			var was, is Object
			if err := errors.Join(scanOrIdentify(r, nested(levels, `1`, object), &was), scanOrIdentify(r, nested(levels, `2`, object), &is)); err != nil {
				t.Fatal(err)
			}
			usable := levels <= objectDepth
			if (is.Unusable == nil) != usable {
				t.Fatalf("%s: %d levels: unusable %v", name, levels, is.Unusable)
			}
			plain, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Modified, Origin: line.FromWatch, Received: received}, &is)
			if err != nil {
				t.Fatal(err)
			}
			h := readable(t, plain, line.MaxLine)
			if h.Truncated == usable || (h.Object != nil) != usable || h.Name != "n" || h.UID != "u" || h.ResourceVersion != "5" {
				t.Errorf("%s: %d levels: %+v", name, levels, h)
			}
			if !usable {
				if is.Unusable.Reason != ObjectTooDeep {
					t.Errorf("%s: %d levels: %v", name, levels, is.Unusable)
				}
				continue
			}
			// What is kept is taken up again. In a list of changes, replaced as a whole, it stands deepest.
			var kept Object
			if err := r.Scan(h.Object, &kept); err != nil {
				t.Errorf("%s: %d levels: kept: %v", name, levels, err)
			}
			list := fmt.Appendf(nil, `[{"op":"replace","path":"","old":%s,"value":%s}]`, was.Raw, is.Raw)
			l, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Modified, Origin: line.FromWatch, Received: received, Changes: list}, &is)
			if err != nil {
				t.Fatal(err)
			}
			if h := readable(t, l, line.MaxLine); h.Truncated {
				t.Errorf("%s: %d levels: truncated", name, levels)
			}
		}
	}
}

// No line is longer than a reader takes, whatever makes it long.
func TestMaxLine(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const limit = 64 << 10
	long := strings.Repeat("x", limit)
	for name, c := range map[string]struct {
		src     Source
		shape   Shape
		object  string
		changes string
	}{
		"object":      {podSource, Shape{}, `{"metadata":{"name":"n"},"spec":"` + long + `"}`, ""},
		"one byte":    {podSource, Shape{}, `{"metadata":{"name":"n"},"spec":"` + long[:limit-300] + `"}`, ""},
		"metadata":    {podSource, Shape{}, `{"metadata":{"name":"n","annotations":{"a":"` + long + `"}}}`, ""},
		"changes":     {podSource, Shape{}, `{"metadata":{"name":"n"}}`, `[{"op":"remove","path":"/a","old":"` + long + `"}]`},
		"manager":     {podSource, Shape{}, `{"metadata":{"name":"n","managedFields":[{"manager":"` + long + `","subresource":"` + long + `"}]}}`, ""},
		"no UTF-8":    {podSource, Shape{}, `{"metadata":{"name":"n"},"spec":"` + strings.Repeat("\xff", limit/2) + `"}`, ""},
		"redacted":    {podSource, Shape{Redact: []string{"a[*]"}}, `{"metadata":{"name":"n"},"a":[1` + strings.Repeat(",1", limit/4) + `]}`, ""},
		"event":       {Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}, Shape{}, `{"metadata":{"name":"n"},"message":"` + long + `","reason":"r"}`, ""},
		"names":       {podSource, Shape{}, `{"metadata":{"name":"` + long[:maxName] + `","namespace":"` + long[:maxName] + `","uid":"` + long[:maxName] + `","resourceVersion":"` + long[:maxName] + `"},"spec":"` + long[:limit/2] + `"}`, ""},
		"every event": {Source{Stream: "events", Version: "v1", Resource: "events"}, Shape{}, `{"metadata":{"name":"n"},"reason":"` + long + `"}`, ""},
	} {
		r := mustRenderer(t, c.src, c.shape)
		for n := range 300 { // around the limit
			object := c.object
			if name == "one byte" {
				object = strings.Replace(object, `"spec":"`, `"spec":"`+long[:n], 1)
			} else if n > 0 {
				break
			}
			var o Object
			if err := r.Scan([]byte(object), &o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l, err := r.AppendLine(line.AppendSeq(nil, 1<<64-1), Line{Type: line.Modified, Origin: line.FromWatch, Received: received, MaxBytes: limit}, &o)
			if err != nil {
				t.Fatal(err)
			}
			if h := readable(t, l, limit); h.Name == "" || !h.Truncated && h.Object == nil {
				t.Errorf("%s: %+v", name, h)
			}
			for _, payload := range []Payload{WholeObject, MetadataOnly, NoObject} {
				l, err := r.AppendLine(line.AppendSeq(nil, 1<<64-1), Line{Type: line.Modified, Origin: line.FromWatch, Received: received, Payload: payload, Changes: []byte(c.changes), MaxBytes: limit}, &o)
				if err != nil {
					t.Fatal(err)
				}
				readable(t, l, limit)
			}
		}
	}
	// No line exceeds MaxLine, whatever bound is asked for.
	r := mustRenderer(t, podSource, Shape{})
	var o Object
	if err := r.Scan([]byte(`{"metadata":{"name":"n"}}`), &o); err != nil {
		t.Fatal(err)
	}
	for _, bound := range []int{0, -1, 2 * line.MaxLine} {
		l, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Modified, Received: received, Changes: make([]byte, line.MaxLine), MaxBytes: bound}, &o)
		if err != nil || len(l) > line.MaxLine || !readable(t, l, line.MaxLine).Truncated {
			t.Errorf("bound %d: %d bytes, %v", bound, len(l), err)
		}
	}
}

const named = `"metadata":{"namespace":"ns","name":"n","uid":"u","resourceVersion":"5"}`

func TestIdentify(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	for _, c := range []struct{ in, want string }{ // namespace/name/uid/resourceVersion reason
		{`{` + named + `,"a":"` + "\x01" + `"}`, "ns/n/u/5 ObjectMalformed"},
		{`{"a":"` + "\n}" + `","metadata":{"labels":{"name":"other"},"name":"n","uid":"u","resourceVersion":"5"}}`, "/n/u/5 ObjectMalformed"},
		{`{"a":{"metadata":{"name":"other","resourceVersion":"4"}},"x":[` + "{" + named + `}],` + named + `,"a":nan}`, "ns/n/u/5 ObjectMalformed"},
		{"{\n \"a\" : +1 ,\n \"metadata\" : { \"name\" : \"n\" , \"resourceVersion\" : \"5\" }\n}\n", "/n//5 ObjectMalformed"},
		{`{"met\u0061data":{"n\u0061me":"\u006e\"\\","resourceVersion":"5"},"a":"\x"}`, `/n"\//5 ObjectMalformed`},
		{`{"metadata":{"name":"m","uid":"u","resourceVersion":"4"},"a":"\x",` + named + `}`, "ns/n/u/5 ObjectMalformed"},
		{`{` + named + `,"a":"\x","metadata":{"name":"m","resourceVersion":"6"}}`, "/m//6 ObjectMalformed"},
		{`{"metadata":{"name":"m","name":"n","resourceVersion":"5",},}`, "/n//5 ObjectMalformed"},
		{`{"a":1 2,` + named + `}`, "ns/n/u/5 ObjectMalformed"},
		{`{"a":[1},` + named + `}`, "ns/n/u/5 ObjectMalformed"},
		{`{` + named + `,"a":"\x"},"other":{"type":1}`, "ns/n/u/5 ObjectMalformed"},
		{`{"metadata":{"name":"n","resourceVersion":"5","labels":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, "/n//5 ObjectTooDeep"},
		{`{"metadata":{"name":"n","resourceVersion":"5"},too large}`, "/n//5 ObjectTooLarge"},

		{``, ""}, {`{`, ""}, {`{}`, ""}, {`[]`, ""}, {`null`, ""}, {`x`, ""}, {`{"a":"\x"}`, ""}, {`{"metadata":"x","a":"\x"}`, ""}, {`[` + named + `]`, ""},
		{`{` + named + `,"a":"\x"`, ""}, {`{` + named + `,"a":"}`, ""}, // no end
		{`{` + named + `,"a":"\x"}}`, ""}, {`{` + named + `,"a":"\x"},"type":"DELETED"`, ""}, {`{` + named + `,"a":"\x"},"\u006fbject":{}`, ""}, {`{` + named + `,"a":"\x"},"b":"` + "\x01" + `"`, ""},
		{`{"metadata":{"name":"n"},"a":"\x"}`, ""}, {`{"metadata":{"resourceVersion":"5"},"a":"\x"}`, ""}, {`{"metadata":{"name":"","resourceVersion":"5"},"a":"\x"}`, ""},
		{`{"metadata":{"name":1,"resourceVersion":"5"},"a":"\x"}`, ""}, {`{"metadata":{"name":"n" 1,"resourceVersion":"5"},"a":"\x"}`, ""},
		{`{"metadata":{"name":"n""m","resourceVersion":"5"},"a":"\x"}`, ""}, {`{"metadata":{"name" "n","resourceVersion":"5"},"a":"\x"}`, ""},
		{`{"metadata":{"name":"\x","resourceVersion":"5"}}`, ""}, {`{"metadata":{"name":"n` + "\x01" + `","resourceVersion":"5"}}`, ""},
		{`{"metadata":{"name":"` + strings.Repeat("n", maxName+1) + `","resourceVersion":"5"}}`, ""},
		// A quote is missing: what is between strings is taken for one, and the other way round.
		{`{"data":{"password":"hunter"2"},"metadata":{"name":"n","resourceVersion":"5"}}`, ""},
		{`{"data":{"a":"b,"metadata":{"name":"hunter2","resourceVersion":"5"}},` + named + `}`, ""},
	} {
		var o Object
		err := scanOrIdentify(r, []byte(c.in), &o)
		got := ""
		if err == nil && o.Unusable == nil {
			got = "is usable"
		} else if err == nil {
			got = fmt.Sprintf("%s/%s/%s/%s %s", o.Namespace, o.Name, o.UID, o.ResourceVersion, o.Unusable.Reason)
		}
		if got != c.want {
			t.Errorf("%.200q: got %q, %v, want %q", c.in, got, err, c.want)
		}
		if err != nil {
			if o.Raw != nil || o.Unusable != nil {
				t.Errorf("%.200q: refused, but %+v", c.in, o)
			}
			continue
		}
		if strings.Contains(string(o.Raw)+o.Unusable.Err.Error(), "hunter2") {
			t.Errorf("%.200q: %s, %v", c.in, o.Raw, o.Unusable.Err)
		}
		l, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Added, Origin: line.FromWatch, Received: received}, &o)
		if err != nil {
			t.Fatal(err)
		}
		if h := readable(t, l, line.MaxLine); !h.Truncated || h.Object != nil || !strings.Contains(string(l), `"truncated":true,"truncatedReason":"`+o.Unusable.Reason+`"}`) {
			t.Errorf("%s", l)
		}
		if err := r.Scan(eventtest.Pod(2000, 1), &o); err != nil || o.Unusable != nil {
			t.Errorf("the next one: %v, %v", err, o.Unusable)
		}
	}
}

// FuzzIdentify compares the skimmer with encoding/json where that reads the text, in pieces of every size.
func FuzzIdentify(f *testing.F) {
	for _, seed := range []string{
		`{` + named + `}`, `{"metadata":{"name":"n","resourceVersion":"5","name":1}}`, `{"metadata":{"name":"a\"b"},"metadata":{}}`,
		`{"a":[{"metadata":{"name":"n"}}],"metadata":{"name":"\u00e9","resourceVersion":"\\"}}`, `{"metadata":[{"name":"n"}],"a":{}}`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		s := NewObjectSkimmer()
		n, _ := s.Take(in)
		again := NewObjectSkimmer()
		passed, ended := 0, false
		for rest := in; len(rest) > 0 && !ended; {
			var used int
			used, ended = again.Take(rest[:min(len(rest), max(1, piece&15))])
			passed, rest = passed+used, rest[used:]
		}
		if passed != n || fmt.Sprintf("%q", again.found) != fmt.Sprintf("%q", s.found) {
			t.Fatalf("%q: %d %q, in pieces %d %q", in, n, s.found, passed, again.found)
		}
		r := mustRenderer(t, podSource, Shape{})
		var o, usable Object
		if err := r.Identify(in, &o, errControl); err == nil {
			l, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Added, Origin: line.FromWatch, Received: received}, &o)
			if err != nil {
				t.Fatal(err)
			}
			readable(t, l, line.MaxLine)
		}
		if r.Scan(in, &usable) != nil || !json.Valid(in) { // what stands after the object, or is repaired, is for Scan alone
			return
		}
		names := func(o *Object) string {
			return fmt.Sprintf("%q %q %q %q", o.Namespace, o.Name, o.UID, o.ResourceVersion)
		}
		if len(usable.Name) > 0 && len(usable.ResourceVersion) > 0 && names(&o) != names(&usable) {
			t.Fatalf("%q: %s, want %s", in, names(&o), names(&usable))
		}
	})
}
