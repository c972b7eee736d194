package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kubejournal/test/hostileyaml"
)

// writeStrings writes a journal with a ConfigMap that has strings as keys and as values.
func writeStrings(t *testing.T, path string, all []string) (data map[string]any) {
	t.Helper()
	data = make(map[string]any)
	for _, text := range all {
		data[text] = text
	}
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	const about = `"stream":"configmaps","version":"v1","resource":"configmaps","kind":"ConfigMap"`
	lines := fmt.Sprintf(`{"seq":1,"time":"2026-11-20T14:00:00Z","type":"ADDED","origin":"snapshot","id":"1",%s,"namespace":"shop","name":"texts","uid":"u1","resourceVersion":"1",`+
		`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"texts","namespace":"shop","uid":"u1","resourceVersion":"1","labels":%s,"annotations":%[2]s},"data":%[2]s}}`, about, raw) + "\n" +
		fmt.Sprintf(`{"seq":2,"time":"2026-11-20T14:00:01Z","type":"SYNCED","id":"2",%s,"clusterUID":"c1","resourceVersion":"1","count":{"added":1,"modified":0,"deleted":0,"unchanged":0}}`, about) + "\n"
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return data
}

// What a parser of YAML could take for anything else comes out of get as it went into the cluster: as a key and as a
// value, by two parsers.
func TestHostileYAML(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	data := writeStrings(t, path, hostileyaml.Strings())
	for _, question := range []string{"get cm/texts -n shop --at seq:2 -o yaml", "get cm/texts -n shop --at seq:2 --clean -o yaml"} {
		_, out, stderr := execute(t, append(strings.Fields(question), "--journal", path)...)
		checkNotes(t, question, stderr)
		for parser, parse := range map[string]func([]byte, *map[string]any) error{
			"YAML 2": func(b []byte, v *map[string]any) error { return yaml.Unmarshal(b, v) },
			"YAML 3": func(b []byte, v *map[string]any) error { return yaml3.Unmarshal(b, v) },
		} {
			var got map[string]any
			if err := parse([]byte(out), &got); err != nil {
				t.Errorf("%s: %s: %v: %.3000q", question, parser, err, out)
				continue
			}
			metadata, _ := got["metadata"].(map[string]any)
			for what, values := range map[string]any{"data": got["data"], "labels": metadata["labels"], "annotations": metadata["annotations"]} {
				if reflect.DeepEqual(values, any(data)) {
					continue
				}
				read, _ := values.(map[string]any)
				for text := range data {
					if read[text] != text && len(text) < 100 {
						t.Errorf("%s: %s: %s: %q is read as %#v", question, parser, what, text, read[text])
					}
				}
				if len(read) != len(data) {
					t.Errorf("%s: %s: %s has %d strings, want %d", question, parser, what, len(read), len(data))
				}
			}
		}
	}
}

// What rbac is given as names it refuses, or writes such that two parsers read the same names and no other rule.
func TestHostileRBAC(t *testing.T) {
	clearEnv(t)
	config := filepath.Join(t.TempDir(), "kubejournal.yaml")
	if err := os.WriteFile(config, []byte("resources: [pods]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := 0
	for n, text := range hostileyaml.Strings() {
		if strings.Contains(text, "\x00") || strings.HasPrefix(text, "-") && len(text) > 1 && text[1] == '-' {
			continue // no argument, or a flag
		}
		for _, flag := range []string{"--name", "--service-account", "--namespace"} {
			if flag != "--name" && n%10 != 0 {
				continue // they are written as a name is
			}
			status, out, stderr := execute(t, "rbac", "--offline", "--config", config, flag+"="+text)
			checkText(t, fmt.Sprintf("%s %q", flag, text), out)
			if status != 0 {
				if checkNotes(t, flag, stderr); out != "" {
					t.Errorf("%s %q: status %d with rules: %s", flag, text, status, out)
				}
				continue
			}
			written++
			found, rules := false, 0
			for _, document := range yamlDocuments(out) {
				var a, b map[string]any
				if err := yaml.Unmarshal([]byte(document), &a); err != nil {
					t.Fatalf("%s %q: %v: %s", flag, text, err, document)
				}
				if err := yaml3.Unmarshal([]byte(document), &b); err != nil {
					t.Fatalf("%s %q: %v: %s", flag, text, err, document)
				}
				read, err := json.Marshal(a)
				other, otherErr := json.Marshal(b)
				if err != nil || otherErr != nil || string(read) != string(other) {
					t.Errorf("%s %q: read as %s and as %s", flag, text, read, other)
				}
				quoted, err := json.Marshal(text)
				if err != nil {
					t.Fatal(err)
				}
				found = found || text == "" || strings.Contains(string(read), string(quoted))
				all, _ := a["rules"].([]any)
				rules += len(all)
			}
			if !found || rules > 3 {
				t.Errorf("%s %q: found %v, %d rules: %s", flag, text, found, rules, out)
			}
		}
	}
	t.Logf("%d were written", written)
}
