package object

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/test/eventtest"
)

const formObject = `{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{"manager":"m"}],"labels":{"b":"c"}},"spec":{"x":"y"}}`

const formAbout = `"id":"u/5/MODIFIED","stream":"pods","cluster":"prod-eu1","version":"v1","resource":"pods","kind":"Pod","name":"a","uid":"u","resourceVersion":"5","manager":"m"`

// formed writes one line. Its seq is the longest.
func formed(t testing.TB, r *Renderer, l Line, raw string) string {
	t.Helper()
	var o Object
	if err := r.Scan([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	l.Received = received
	if l.Type == "" {
		l.Type, l.Origin = line.Modified, line.FromWatch
	}
	if l.Type != line.Deleted {
		l.Write = o.Created()
	}
	const before = "before\n"
	b, err := r.AppendLine(line.AppendSeq([]byte(before), 1<<64-1), l, &o)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := strings.CutPrefix(string(b), before)
	if !ok {
		t.Fatalf("overwrote what was there: %s", b)
	}
	var h line.Header
	if err := line.ParseHeader([]byte(s), &h); err != nil || strings.Index(s, "\n") != len(s)-1 {
		t.Fatalf("line %q: %v", s, err)
	}
	return s
}

func TestForms(t *testing.T) {
	const changes = `[{"op":"replace","path":"/spec/x","old":"z","value":"y"}]`
	const meta = `{"metadata":{"name":"a","uid":"u","resourceVersion":"5","labels":{"b":"c"}}}`
	const object = `{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"5","labels":{"b":"c"}},"spec":{"x":"y"}}`
	noMeta := Shape{Drop: []string{"metadata"}}
	for name, c := range map[string]struct {
		shape Shape
		line  Line
		want  string
	}{
		"least":             {podShape, Line{}, `,"object":` + object},
		"object":            {podShape, Line{Payload: WholeObject}, `,"object":` + object},
		"metadata":          {podShape, Line{Payload: MetadataOnly}, `,"object":` + meta},
		"none":              {podShape, Line{Payload: NoObject}, ``},
		"changes":           {podShape, Line{Changes: []byte(changes)}, `,"changes":` + changes + `,"object":` + object},
		"changes, none":     {podShape, Line{Changes: []byte(changes), Payload: NoObject}, `,"changes":` + changes},
		"no metadata":       {noMeta, Line{Payload: MetadataOnly}, `,"object":{}`},
		"redacted":          {Shape{Redact: []string{"metadata.labels", "spec"}}, Line{Payload: MetadataOnly}, `,"object":{"metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{"manager":"m"}],"labels":{"b":"REDACTED"}}}`},
		"dropped elsewhere": {Shape{Drop: []string{"kind", "spec", "metadata.labels", "metadata.managedFields[*].manager"}}, Line{Payload: MetadataOnly}, `,"object":{"metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{}]}}`},
		"long enough":       {podShape, Line{MaxBytes: 1000}, `,"object":` + object},
	} {
		t.Run(name, func(t *testing.T) {
			got := formed(t, mustRenderer(t, podSource, c.shape), c.line, formObject)
			want := `{"seq":18446744073709551615,"time":"` + receivedText + `","type":"MODIFIED","origin":"watch",` + formAbout + c.want + "}\n"
			if got != want {
				t.Errorf("\ngot  %swant %s", got, want)
			}
		})
	}

	r := mustRenderer(t, podSource, podShape)
	var o Object
	if b, err := r.AppendLine([]byte("x"), Line{Type: line.Added, Payload: "all"}, &o); err == nil || string(b) != "x" {
		t.Errorf("unknown payload: %s, %v", b, err)
	}
	if b, err := r.AppendLine([]byte("x"), Line{Type: line.Added}, &o); err == nil || string(b) != "x" {
		t.Errorf("not scanned: %s, %v", b, err)
	}
	k := Known{Name: "a", UID: "u", ResourceVersion: "5"}
	deleted := string(gone(t, r, 1, k)[len(line.AppendSeq(nil, 1)):])
	head, _, _ := strings.Cut(deleted, `,"object":`)
	if err := r.Scan([]byte(formObject), &o); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		line Line
		last *Object
		want string
	}{
		"bare":           {Line{Payload: MetadataOnly}, nil, deleted},
		"nothing":        {Line{Payload: NoObject}, nil, head + "}\n"},
		"last state":     {Line{}, &o, head + `,"object":` + object + "}\n"},
		"last metadata":  {Line{Payload: MetadataOnly}, &o, head + `,"object":` + meta + "}\n"},
		"no last object": {Line{Payload: NoObject}, &o, head + "}\n"},
		"too long":       {Line{MaxBytes: 1}, &o, head + `,"truncated":true}` + "\n"},
	} {
		got, err := r.AppendGone([]byte("x"), received, k, c.line, c.last)
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("gone, %s: %v\ngot  %swant x%s", name, err, got, c.want)
		}
	}
}

// The metadata of a line is that of its object, whatever that is.
func TestMetadataOfMadeObjects(t *testing.T) {
	var rs []*Renderer
	for _, shape := range []Shape{
		{}, {Drop: []string{"metadata"}}, {Secret: true, Drop: []string{"metadata.labels", "a"}},
		{Drop: []string{"metadata.a", "metadata.name", "spec"}, Redact: []string{"metadata.b.c", "data[*]"}},
	} {
		rs = append(rs, mustRenderer(t, podSource, shape))
	}
	rnd := newRandom(5)
	from := make([]byte, 400)
	for range 3000 {
		for i := range from {
			from[i] = byte(rnd.Uint32())
		}
		raw := eventtest.Made(from[:rnd.IntN(len(from))])
		for _, r := range rs {
			var o Object
			if r.Scan(raw, &o) != nil {
				continue
			}
			whole, ok := decode(o.AppendShaped(nil))
			if !ok {
				t.Fatalf("%q", raw)
			}
			want := map[string]any{}
			if meta, ok := whole.(map[string]any)["metadata"]; ok {
				want["metadata"] = meta
			}
			got, _ := decode([]byte("{" + string(o.appendMetadata(nil)[1:]) + "}"))
			if !sameJSON(got, map[string]any{"object": want}) {
				t.Fatalf("got %v\nwant %v\nof %q", got, want, raw)
			}
		}
	}
}

func decodedText(s string) string { return string(rawjson.Unquote(nil, []byte(s))) }

func TestCutText(t *testing.T) {
	for _, s := range []string{"", "abc", `a\nb`, `\u00e9\u00e8x`, `\ud83d\ude00!`, `\ud83d\ud83d\ude00`, `\ud83dx`, "é😀", `\\\"`, `\u0041abcdefgh`, `ab\ud83d`} {
		last := -1
		for limit := -1; limit <= len(s)+1; limit++ {
			n := cutText([]byte(s), limit)
			part := s[:n]
			if n > max(limit, 0) || n < last || !utf8.ValidString(part) || !json.Valid([]byte(`"`+part+`"`)) || limit >= len(s) && n != len(s) {
				t.Errorf("%q to %d: %q", s, limit, part)
			}
			if !strings.HasPrefix(decodedText(s), decodedText(part)) {
				t.Errorf("%q to %d: %q is another beginning", s, limit, part)
			}
			last = n
		}
	}
}

// A bound that a line keeps changes nothing.
func TestBoundKept(t *testing.T) {
	for _, src := range []Source{podSource, {Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}} {
		r := mustRenderer(t, src, podShape)
		for i := range 10 {
			raw := [][]byte{eventtest.Pod(3000, i), eventtest.Event(i)}[i%2]
			var o Object
			if err := r.Scan(raw, &o); err != nil {
				t.Fatal(err)
			}
			want, err := r.AppendLine(nil, Line{Type: line.Added, Origin: line.FromSnapshot, Received: received}, &o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.AppendLine(nil, Line{Type: line.Added, Origin: line.FromSnapshot, Received: received, MaxBytes: len(want) + 100}, &o)
			if err != nil || string(got) != string(want) {
				t.Errorf("%v\ngot  %swant %s", err, got, want)
			}
		}
	}
}
