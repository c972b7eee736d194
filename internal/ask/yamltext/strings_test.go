package yamltext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/format/yamlflow"
)

// FuzzYAML writes a string in each form and reads it back, as kubectl does and with another version of YAML.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{
		"", "a", "!!binary a", "&a", "*a", "a: b", "a # b", "~", "null", "yes", "y", "0x1f", "1e3", "1:30", "2001-01-01", "<<", "=", "---\na", "...",
		"a\nb", " a ", "a\tb\n", "\x1b", "\u0085", "\u009b", "\u2028", "\u202e", "\ufeff", "\U0001f600", "{a: [b", "'", `"\`, "\r\n", "\x00", "%a", "@", "`", "- a", "? a", "0o7", "1_0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkYAML(t, text)
	})
}

// checkYAML writes a string in each form, as a key and as a value, and reads it back with both versions.
func checkYAML(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		return // no JSON has it, and no name
	}
	for _, got := range []string{yamlflow.Inline(text), yamlflow.Inline([]string{text})[1:], yamlflow.Quoted(text)[1:]} {
		if strings.ContainsAny(got, "\n\r") {
			t.Fatalf("%q is not on one line: %q", text, got)
		}
	}
	type pair = yamlflow.Pair
	type doc struct {
		A []string          `json:"a" yaml:"a"`
		B map[string]string `json:"b" yaml:"b"`
	}
	want := doc{[]string{text, "x"}, map[string]string{text: text}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"Inline": yamlflow.Inline([]pair{{Key: "a", Value: want.A}, {Key: "b", Value: []pair{{Key: text, Value: text}}}}),
		"Quoted": "a: " + yamlflow.Quoted(text, "x") + "\nb: " + yamlflow.Inline([]pair{{Key: text, Value: text}}) + "\n",
	}
	for name, o := range map[string]Options{"Append": {}, "Append of lines": {Lines: true}} {
		out, err := Append(nil, raw, o)
		if err != nil {
			t.Fatal(err)
		}
		forms[name] = string(out)
	}
	for name, form := range forms {
		var got doc
		if err := yaml.Unmarshal([]byte(form), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s of %q: %q is read as %q: %v", name, text, form, got, err)
		}
		var other doc
		if err := yaml3.Unmarshal([]byte(form), &other); err != nil || !reflect.DeepEqual(other, want) {
			t.Errorf("%s of %q: %q is read as %q by YAML 3: %v", name, text, form, other, err)
		}
	}
}
