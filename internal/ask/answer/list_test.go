package answer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// listOf returns objects as a list, or the one as it is.
func listOf(t *testing.T, format string, one bool, texts ...string) string {
	t.Helper()
	var out bytes.Buffer
	o := newObjects(&Output{Writer: &out}, format)
	if !one {
		o.begin()
	}
	for _, text := range texts {
		object, err := sorted([]byte(text))
		if err == nil {
			err = o.add(object)
		}
		if err != nil {
			t.Fatalf("%q as %s: %v", text, format, err)
		}
	}
	if err := o.end(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLists(t *testing.T) {
	const object = `{"b":[],"a":"x\n\n  y\n"}`
	for _, c := range []struct{ format, none, list, one string }{
		{"json", "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n",
			"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n            \"a\": \"x\\n\\n  y\\n\",\n            \"b\": []\n        },\n        {}\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n",
			"{\n    \"a\": \"x\\n\\n  y\\n\",\n    \"b\": []\n}\n"},
		{"yaml", "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
			"apiVersion: v1\nitems:\n- a: |\n    x\n\n      y\n  b: []\n- {}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
			"a: |\n  x\n\n    y\nb: []\n"},
	} {
		got := []string{listOf(t, c.format, false), listOf(t, c.format, false, object, "{}"), listOf(t, c.format, true, object)}
		if diff := cmp.Diff([]string{c.none, c.list, c.one}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Either form is read as the same object, whatever is in a string.
func TestTexts(t *testing.T) {
	texts := []string{"on", "y", "null", "~", "1e3", "0x1f", "0777", "1_000", "12:30:45", "2026-11-22", "- a", "a: b", "#", "&a", "*a", "!a", "<<", "=",
		"", " ", "\n", "a\n", "a\n\n", "\na", " a\nb ", "\ta", "a\t\nb", "a\r\nb", "é 😀", "\"'\\", strings.Repeat("long words ", 30), strings.Repeat("x", 200)}
	for r := rune(0); r <= 0xffff; r += 256 {
		var text []rune
		for i := r; i < r+256; i++ {
			if utf8.ValidRune(i) {
				text = append(text, i, 'a', i, ' ')
			}
		}
		texts = append(texts, string(text))
	}
	read := map[string]func(string, any) error{
		"json": func(text string, v any) error { return json.Unmarshal([]byte(text), v) },
		"yaml": func(text string, v any) error { return yaml.Unmarshal([]byte(text), v) },
	}
	for _, text := range texts {
		want := map[string]any{"k" + string([]rune(text)[:min(len([]rune(text)), 100)]): text, "list": []any{text, map[string]any{"a": text}}}
		object, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for format, read := range read {
			var got struct{ Items []any }
			list := listOf(t, format, false, string(object), string(object))
			if err := read(list, &got); err != nil {
				t.Fatalf("%q as %s: %v", text, format, err)
			}
			if diff := cmp.Diff([]any{want, want}, got.Items); diff != "" {
				t.Fatalf("%q as %s (-want +got):\n%s", text, format, diff)
			}
		}
	}
}

// TestDeepLists has an object that is nested deep: in either form it is the same, and takes no more room than in proportion.
func TestDeepLists(t *testing.T) {
	object := strings.Repeat(`{"a":`, 9000) + `"{[\""` + strings.Repeat(`}`, 9000)
	shallow := `{"a":"` + strings.Repeat(`{[\"`, 200) + `"}`
	for _, format := range []string{"json", "yaml"} {
		for _, one := range []bool{false, true} {
			if text := listOf(t, format, one, object); len(text) > 2*len(object) || !strings.Contains(text, `{"a":{"a":`) {
				t.Errorf("%s: %d bytes", format, len(text))
			}
			if text := listOf(t, format, one, shallow); strings.Contains(text, `{"a":`) {
				t.Errorf("%s: %s", format, text)
			}
		}
	}
}
