package yamltext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"kubejournal/internal/host/terminal"
)

func appendYAML(t testing.TB, value string, o Options) string {
	t.Helper()
	text, err := Append(nil, []byte(value), o)
	if err != nil {
		t.Fatalf("%v: %.200s", err, value)
	}
	return string(text)
}

// What kubectl prints is what sigs.k8s.io/yaml makes of the object.
func TestLikeKubectl(t *testing.T) {
	for _, value := range []string{
		`{}`, `[]`, `{"a":{},"b":[],"c":null,"d":""}`,
		`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"},"spec":{"replicas":3,"paused":false}}`,
		`{"x10":1,"x9":2,"X1":3,"10":4,"9":5,"a.b/c":6,"":7}`,
		`{"s":["true","yes","on","y","null","~","1","1e3","0x10","1:30","2026-11-20","- a","a: b","a #b","#a","=","@a","%a","!a","&a","*a"]}`,
		`{"s":["a\nb\n","a\nb","a\nb\n\n","\n","\na"," a\nb","a \nb","a\tb","a\tb\nc","\r\n","tail ","'","\"","it's","a\\b"]}`,
		`{"n":[0,-1,1.5,1.0,-0,1e3,1E3,1.5e-7,1e21,9223372036854775807,-9223372036854775808,0.1,100000000000000000000,1e19]}`,
		`{"u":["grün","日本語","\ud83d\ude00","\u001b[31mred","\u0000","\u00a0","\u2028","\ufeff","\u202e"]}`, // U+007F and U+0085 it cannot read
		`{"long":"` + strings.Repeat("word ", 60) + `","one":"` + strings.Repeat("x", 300) + `","quoted":"` + strings.Repeat("a: b ", 60) + `"}`,
		`[[1,[2,{"a":[3]}]],{"b":[[]]}]`,
	} {
		want, err := yaml.Marshal(exact(t, value))
		if err != nil {
			t.Fatalf("%v: %s", err, value)
		}
		if got := appendYAML(t, value, Options{}); got != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", value, got, want)
		}
	}
}

// exact decodes as kubectl does: whole numbers as such.
func exact(t testing.TB, value string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, c := range v {
				v[k] = walk(c)
			}
		case []any:
			for i, c := range v {
				v[i] = walk(c)
			}
		case json.Number:
			if n, err := v.Int64(); err == nil {
				return n
			}
			f, _ := v.Float64()
			return f
		}
		return v
	}
	return walk(v)
}

var alphabet = []string{"a", "word", " ", "  ", "\n", "\t", ":", ": ", "- ", "#", " #", "'", `"`, `\`, "{", "[", "|", "\r", "é", "日", "😀", "\u00ad", "\u202e", "\x1b", "\x7f", "\u0080", "\ue000", ","}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// Any string is written as sigs.k8s.io/yaml writes it; it means the same in either form, and no terminal acts on it.
func TestRandomStrings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		object := map[string]any{randomText(r): randomText(r), "list": []any{randomText(r), map[string]any{"in": randomText(r)}}}
		value, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, lines := range []bool{false, true} {
			text := appendYAML(t, string(value), Options{Lines: lines})
			if want, err := yaml.JSONToYAML(value); err == nil && !lines && text != string(want) {
				t.Fatalf("%s:\ngot  %s\nwant %s", value, text, want)
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && (r != '\t' || !lines) }); i >= 0 {
				t.Fatalf("%s: control character at %d: %q", value, i, text)
			}
			printable := terminal.AppendLines(nil, []byte(text))
			if i := bytes.IndexFunc(printable, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Fatalf("%s: not printable at %d: %q", value, i, printable)
			}
			if strings.ContainsAny(string(value), "\x7f") || bytes.ContainsFunc(value, unicode.IsControl) {
				continue // it does not read what it writes
			}
			var back map[string]any
			if err := yaml.Unmarshal([]byte(text), &back); err != nil || !reflect.DeepEqual(back, object) {
				t.Fatalf("%s, lines %t: %v\n%q\nback %q", value, lines, err, text, back)
			}
		}
	}
}

func TestWithout(t *testing.T) {
	const object = `{"metadata":{"name":"web","generation":2,"managedFields":[{}],"resourceVersion":"7",` +
		`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"generation":1},"status":{"observedGeneration":2}}`
	if got := appendYAML(t, object, Options{Without: Bookkeeping}); got != "metadata:\n  name: web\nspec:\n  generation: 1\n" {
		t.Error(got)
	}
	for _, other := range []string{`{"metadata":[1],"status":{}}`, `{"metadata":null}`, `[1]`, `"x"`, `{"metadata":{"annotations":{}}}`} {
		if got, want := appendYAML(t, other, Options{Without: Bookkeeping}), appendYAML(t, other, Options{}); got != want {
			t.Errorf("%s: %s", other, got)
		}
	}
	if _, err := Append(nil, []byte(`{"a":`), Options{}); err == nil {
		t.Error("no error")
	}
}

// A config file with tabs and trailing blanks is shown by its lines.
func TestLines(t *testing.T) {
	const object = `{"data":{"nginx.conf":"server {\n\tlisten 80; \n\n\tname \ud83d\ude00;\n}\n"}}`
	if got := appendYAML(t, object, Options{Lines: true}); got != "data:\n  nginx.conf: |\n    server {\n    \tlisten 80; \n\n    \tname 😀;\n    }\n" {
		t.Errorf("%q", got)
	}
}

// large returns an object of about n bytes in which every seventh value depends on seed.
func large(n, seed int) string {
	var b strings.Builder
	b.WriteString(`{"kind":"ConfigMap","metadata":{"name":"large"},"spec":{"items":[`)
	for i := 0; b.Len() < n; i++ {
		value := i
		if i%7 == 0 {
			value += seed
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"item-%d","enabled":true,"value":%d,"text":"some text\nin two lines"}`, i, value)
	}
	b.WriteString(`]}}`)
	return b.String()
}

func BenchmarkAppend5MB(b *testing.B) {
	object := []byte(large(5<<20, 0))
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if _, err := Append(nil, object, Options{Without: Bookkeeping, Lines: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff5MB(b *testing.B) {
	from := Side{"a", []byte(appendYAML(b, large(5<<20, 0), Options{}))}
	to := Side{"b", []byte(appendYAML(b, large(5<<20, 1), Options{}))}
	b.SetBytes(int64(len(from.Text)))
	for b.Loop() {
		AppendDiff(nil, from, to, true)
	}
}

// TestDeep has objects that are nested as deep as lines may be: their YAML stays in proportion, and means the same.
func TestDeep(t *testing.T) {
	nested := func(open, inside, shut string, depth int) string {
		return strings.Repeat(open, depth) + inside + strings.Repeat(shut, depth)
	}
	wide := `{"a":1` + strings.Repeat(`,"b\u0085c":["<x>",null,1.5]`, 1) + strings.Repeat(`,"k":{}`, 1) + `}`
	for name, value := range map[string]string{
		"as deep as in block style": nested(`{"a":`, `1`, `}`, MaxDepth),
		"one more":                  nested(`{"a":`, `{"b":1,"a":[]}`, `}`, MaxDepth),
		"objects":                   nested(`{"a":`, wide, `}`, 9000),
		"lists":                     nested(`[`, wide, `]`, 9000),
		"both":                      nested(`[{"a":`, wide, `}]`, 4500),
		"two":                       `{"x":` + nested(`[`, `1`, `]`, 200) + `,"a":` + nested(`[`, `2`, `]`, 200) + `,"m":` + nested(`[`, `3`, `]`, 300) + `}`,
	} {
		for _, lines := range []bool{false, true} {
			text := appendYAML(t, value, Options{Lines: lines})
			if most := 40*len(value) + 3*MaxDepth*MaxDepth; len(text) > most {
				t.Errorf("%s: %d bytes of YAML for %d", name, len(text), len(value))
			}
			if strings.Contains(text, "{\"") == (name == "as deep as in block style") && name != "two" {
				t.Errorf("%s: %.200s", name, text)
			}
			if depth := strings.Count(value, "{") + strings.Count(value, "["); depth > 2000 {
				continue // JSON again takes its reader long
			}
			got, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want, _ := json.Marshal(exact(t, value)); string(want) != string(got) {
				t.Errorf("%s: got %s", name, got)
			}
		}
	}
	// The outline of a difference has the path of what is on one line.
	from := nested(`{"a":`, `1`, `}`, MaxDepth+3)
	to := nested(`{"a":`, `2`, `}`, MaxDepth+3)
	was, is := appendYAML(t, from, Options{Lines: true}), appendYAML(t, to, Options{Lines: true})
	d := string(AppendDiff(nil, Side{Text: []byte(was)}, Side{Text: []byte(is)}, false))
	if !strings.Contains(d, strings.Repeat("a.", MaxDepth-2)+"a\n") ||
		!strings.Contains(d, `+`+strings.Repeat("  ", MaxDepth-1)+`a: {"a":{"a":{"a":2}}}`) {
		t.Errorf("the difference is\n%s", d)
	}
}
