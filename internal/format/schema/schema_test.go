package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	kubejournal "kubejournal/internal/config"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

// compile checks a schema against the meta-schema of its draft and makes a validator of it.
func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkJSON says what is wrong with a JSON text.
func checkJSON(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// checkYAML says what is wrong with a YAML text, read as an editor reads it.
func checkYAML(s *jsonschema.Schema, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return checkJSON(s, string(b))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fenced returns the code blocks of a language in a Markdown text.
func fenced(text []byte, language string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

// lines are all that package object writes, from many objects.
func lines(t *testing.T) []string {
	t.Helper()
	var (
		all []byte
		o   object.Object
		at  = time.Date(2026, 11, 20, 16, 10, 22, 5, time.UTC)
	)
	add := func(src object.Source, shape object.Shape, objects ...string) {
		r, err := object.NewRenderer(src, shape)
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range objects {
			if err := r.Scan([]byte(raw), &o); err != nil {
				t.Fatal(err)
			}
			for _, typ := range []line.Type{line.Added, line.Modified, line.Deleted} {
				for _, origin := range []line.Origin{line.FromSnapshot, line.FromWatch, line.FromRelist} {
					l := object.Line{Type: typ, Origin: origin, Received: at}
					if origin == line.FromWatch {
						l.Write = object.Write{Manager: []byte("kubelet"), Subresource: []byte("status"), At: at.Unix() - int64(i)}
					}
					if all, err = r.AppendLine(line.AppendSeq(all, uint64(i+1)), l, &o); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		all = appendForms(t, all, r, at, objects)
		for _, known := range []object.Known{{Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "12"}, {}} {
			if all, err = r.AppendGone(line.AppendSeq(all, 1), at, known, object.Line{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		all = r.AppendGap(line.AppendTerm(line.AppendSeq(all, 1), 3), at, "Expired", "12", at, "40")
		all = r.AppendGap(line.AppendSeq(all, 1), at, "CheckpointLost", "", time.Time{}, "")
		all = r.AppendSynced(line.AppendSeq(all, 1), at, "40", line.Count{Added: 1, Modified: 2, Deleted: 3})
	}
	unusable := func(raw string) {
		r, err := object.NewRenderer(object.Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}, object.Shape{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Identify([]byte(raw), &o, r.Scan([]byte(raw), &o)); err != nil {
			t.Fatal(err)
		}
		for _, typ := range []line.Type{line.Added, line.Modified, line.Deleted} {
			l := object.Line{Type: typ, Origin: line.FromWatch, Received: at, Payload: object.NoObject, MaxBytes: 1}
			if all, err = r.AppendLine(line.AppendSeq(all, 1), l, &o); err != nil {
				t.Fatal(err)
			}
		}
	}
	unusable(`{"metadata":{"name":"a","generation":3,"resourceVersion":"5","managedFields":[{"manager":"m"}]},"message":"\x"}`)
	unusable(`{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"5"},"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`)
	unusable(`{"metadata":{"name":"a","resourceVersion":"5"},too large}`)
	pods := []string{`{"metadata":{}}`, `{"metadata":{"name":"a\u001b\"\ud83d","generation":-1}}`}
	for i := range 20 {
		pods = append(pods, string(eventtest.Pod(2000+i*300, i)))
	}
	add(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{Drop: []string{"metadata.managedFields"}}, pods...)
	add(object.Source{Stream: `deployments.apps?labelSelector=a"b`, Cluster: "prod-eu1", ClusterUID: "16b2cc15-62ff-42a7-a3f9-69ac56d63392", Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"}, object.Shape{Secret: true}, pods...)
	add(object.Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}, object.Shape{},
		`{"metadata":{"name":"e"}}`,
		`{"metadata":{"name":"e","namespace":"shop"},"reason":"BackOff","message":"m","type":"Warning","count":3,"firstTimestamp":"2026-11-20T16:10:22Z","lastTimestamp":"2026-11-20T16:10:23Z","source":{"component":"kubelet"},"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-0","uid":"u"}}`,
		`{"metadata":{"name":"e"},"eventTime":"2026-11-20T16:10:22.123456Z","reportingComponent":"c","series":{"count":4,"lastObservedTime":"2026-11-20T16:10:29.000000Z"}}`)
	add(object.Source{Stream: "events.events.k8s.io", Group: "events.k8s.io", Version: "v1", Resource: "events", Kind: "Event"}, object.Shape{},
		`{"metadata":{"name":"e"},"reason":"R","note":"n","type":"Normal","regarding":{"kind":"Node","name":"n"},"eventTime":"2026-11-20T16:10:22.123456Z","reportingController":"c","deprecatedCount":2}`)
	var removed line.Fields
	if err := removed.Parse([]byte(modifiedLine)); err != nil {
		t.Fatal(err)
	}
	span := line.Span{From: removed.Seq, To: removed.Seq + 8, FromTime: removed.Time, ToTime: removed.Time.Add(time.Second)}
	all = append(all, span.AppendEnd(removed.AppendRemovedHead(nil), "maxTotalSize", 9)...)
	all = span.AppendFiles(line.AppendSeq(all, 40), removed.Time, "prod", "maxAge")
	seal := line.Seal{From: 1, To: 39, Size: 4000}.After("")
	all = seal.Append(line.AppendSeq(all, 41), removed.Time, "prod")
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

// appendForms writes each object in every form that a config can ask for: with what changed since the one before, with
// a part of it, and bounded.
func appendForms(t *testing.T, all []byte, r *object.Renderer, at time.Time, objects []string) []byte {
	t.Helper()
	var (
		o    object.Object
		last []byte
	)
	for i, raw := range objects {
		if err := r.Scan([]byte(raw), &o); err != nil {
			t.Fatal(err)
		}
		next := o.AppendShaped(nil)
		var list []byte
		if last != nil {
			var err error
			if list, err = changes.Append(nil, last, next); err != nil {
				t.Fatal(err)
			}
		}
		last = next
		for _, payload := range []object.Payload{object.WholeObject, object.MetadataOnly, object.NoObject} {
			for _, limit := range []int{0, 1500, 1} {
				l := object.Line{Type: line.Modified, Origin: line.FromWatch, Received: at, Payload: payload, Changes: list, MaxBytes: limit}
				var err error
				if all, err = r.AppendLine(line.AppendSeq(all, uint64(i+1)), l, &o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return all
}

const gapLine = `{"seq":9,"time":"2026-11-20T16:10:22.000000005Z","type":"GAP","id":"pods/40/GAP","stream":"pods","version":"v1","resource":"pods","kind":"Pod","reason":"Expired","resourceVersion":"40"}`

func TestLines(t *testing.T) {
	s := compile(t, Line())
	all := lines(t)
	if len(all) < 300 {
		t.Fatalf("only %d lines", len(all))
	}
	seen := map[string]bool{}
	for _, line := range all {
		if err := checkJSON(s, line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		for key := range members {
			seen[key] = true
		}
	}
	line := strings.Replace(modifiedLine, `"object"`, `"changes":[{"op":"replace","path":"/spec/a~1b","old":1,"value":null},{"op":"add","path":"/x/-","value":{}},{"op":"remove","path":"","old":[]}],"object"`, 1)
	if err := checkJSON(s, line); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	for key := range s.Properties {
		if !seen[key] && key != "person" { // which answers alone have
			t.Errorf("no line has %s", key)
		}
	}
	for _, page := range []string{"README.md", "docs/line.md"} {
		examples := fenced(read(t, "../../../"+page), "json line")
		if len(examples) == 0 {
			t.Errorf("%s shows no line", page)
		}
		for _, block := range examples {
			for line := range strings.Lines(block) {
				if err := checkJSON(s, line); err != nil {
					t.Errorf("%s: %s: %v", page, line, err)
				}
			}
		}
	}
}

const modifiedLine = `{"seq":8,"time":"2026-11-20T16:10:22.000000005Z","type":"MODIFIED","origin":"watch","id":"u/4/MODIFIED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","name":"a","object":{}}`

// Each of these is one step away from a line.
func TestFaultyLines(t *testing.T) {
	s := compile(t, Line())
	for _, line := range []string{gapLine, modifiedLine} {
		if err := checkJSON(s, line); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, old, new string }{
		{modifiedLine, `"seq":8`, `"seq":0`},
		{modifiedLine, `"seq":8,`, ``},
		{modifiedLine, `"seq":8`, `"seq":"8"`},
		{modifiedLine, `.000000005Z`, `Z`},
		{modifiedLine, `2026-11-20`, `2026-13-20`},
		{modifiedLine, `"type":"MODIFIED"`, `"type":"BOOKMARK"`},
		{modifiedLine, `/MODIFIED`, `/ADDED`},
		{modifiedLine, `"origin":"watch",`, ``},
		{modifiedLine, `"origin":"watch"`, `"origin":"list"`},
		{modifiedLine, `"stream":"pods",`, ``},
		{modifiedLine, `"kind":"Pod",`, ``},
		{modifiedLine, `"name":"a"`, `"name":""`},
		{modifiedLine, `"name":"a"`, `"nam":"a"`},
		{modifiedLine, `"object":{}`, `"object":null`},
		{modifiedLine, `"name":"a"`, `"count":{"added":0,"modified":0,"deleted":0,"unchanged":0}`},
		{modifiedLine, `"name":"a"`, `"reason":"Expired"`},
		{modifiedLine, `"name":"a"`, `"finalStateKnown":false`},
		{modifiedLine, `"name":"a"`, `"manager":""`},
		{modifiedLine, `"name":"a"`, `"writtenAt":"2026-11-20T16:10:22.5Z"`},
		{modifiedLine, `"name":"a"`, `"writtenAt":"2026-11-20T16:10:22+01:00"`},
		{gapLine, `"reason"`, `"writtenAt":"2026-11-20T16:10:22Z","reason"`},
		{modifiedLine, `"name":"a"`, `"truncated":false`},
		{modifiedLine, `"object"`, `"changes":[{"op":"add","path":"/a"}],"object"`},
		{modifiedLine, `"object"`, `"changesOmitted":1,"object"`},
		{modifiedLine, `"object"`, `"truncated":true,"changesOmitted":0,"object"`},
		{modifiedLine, `"object"`, `"changes":[],"object"`},
		{modifiedLine, `"object":{}`, `"truncatedReason":"ObjectTooDeep"`},
		{modifiedLine, `"object":{}`, `"truncated":true,"truncatedReason":"TooDeep","resourceVersion":"4"`},
		{modifiedLine, `"object"`, `"truncated":true,"truncatedReason":"ObjectTooDeep","resourceVersion":"4","object"`},
		{modifiedLine, `"object":{}`, `"truncated":true,"truncatedReason":"ObjectTooDeep","resourceVersion":"4","manager":"m"`},
		{gapLine, `"reason"`, `"truncated":true,"reason"`},
		{modifiedLine, `"object"`, `"changes":[{"op":"replace","path":"/a","value":1}],"object"`},
		{modifiedLine, `"object"`, `"changes":[{"op":"add","path":"/a","old":1,"value":1}],"object"`},
		{modifiedLine, `"object"`, `"changes":[{"op":"test","path":"/a","value":1}],"object"`},
		{modifiedLine, `"object"`, `"changes":[{"op":"add","path":"a","value":1}],"object"`},
		{modifiedLine, `"object"`, `"event":{},"object"`},
		{modifiedLine, `"object"`, `"event":{"source":"x"},"object"`},
		{gapLine, `"reason":"Expired",`, ``},
		{gapLine, `"reason"`, `"origin":"watch","reason"`},
		{gapLine, `"reason"`, `"object":{},"reason"`},
		{gapLine, `GAP`, `SYNCED`},
	} {
		line := strings.ReplaceAll(c.line, c.old, c.new)
		if line == c.line {
			t.Fatalf("%s is not in the line", c.old)
		}
		if checkJSON(s, line) == nil {
			t.Errorf("%s for %s passes", c.new, c.old)
		}
	}
}

func TestConfigs(t *testing.T) {
	s := compile(t, Config())
	files, err := filepath.Glob("../../../configs/*.yaml")
	examples, err2 := filepath.Glob("../../../configs/examples/*.yaml")
	if err != nil || err2 != nil || len(files) == 0 || len(examples) == 0 {
		t.Fatal("no configs", err, err2)
	}
	files = append(files, examples...)
	for _, path := range files {
		if err := checkYAML(s, read(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, page := range []string{"README.md", "docs/config.md"} {
		blocks := fenced(read(t, "../../../"+page), "yaml config")
		if len(blocks) == 0 {
			t.Errorf("%s shows no config", page)
		}
		for _, block := range blocks {
			if err := checkYAML(s, []byte(block)); err != nil {
				t.Errorf("%s: %s: %v", page, block, err)
			}
		}
	}
	for _, text := range []string{
		"resources: [pods]\noutput:\nlog:\nkubernetes:\ncheckpoint:\n",
		"resources: [po, deploy.apps, deployments.v1.apps, pods.]\nredact: []\ndropFields: []\ncheckpoint: {path: '', interval: 1h}\nlisten: ''\n",
		"resources: [{resource: pods, group: '', namespaces: [web, $(NS), a-$(NS)], fieldSelector: spec.nodeName=$(NODE_NAME), labelSelector: 'a in (b, c)'}]\n",
		"resources: [pods]\noutput: {maxSize: 0, maxAge: 0, maxFiles: 0, maxTotalSize: 0}\n",
		"resources: [pods]\noutput: {maxTotalSize: 20GB}\n",
		"resources: [pods]\noutput: {maxSize: 5000000, maxAge: 1h30m, path: /a}\ndropFields: ['metadata.annotations[\"a.b/c\"]', 'spec.containers[*].env']\n",
		"resources: [pods]\nlisten: 127.0.0.1:0\ncheckpoint: {interval: 500ms}\nredact: [{resource: configmaps, fields: ['data[\"a b\"]']}]\n",
		"resources: [{resource: '*', group: '*', exclude: [events, leases.coordination.k8s.io]}, {resource: '*', group: apps, version: v1}, {resource: pods, group: '*', version: ''}]\n",
		"resources: [{resource: '*', group: '', namespaces: [web], exclude: []}, {resource: pods, exclude: [], excludeNamespaces: [kube-*, '?', '*', a-$(NS), '[^A-Z]b', '[a-c]?', 'a\\b']}]\n",
		"resources: [{resource: pods, types: [DELETED], filter: 'has(object.status) && object.status.phase == \"Failed\"', payload: none, changes: true, ignoreFields: [status, 'spec.containers[*].image']}]\n",
		"resources: [{resource: pods, filter: '', payload: metadata, changes: false, ignoreFields: [], excludeNamespaces: []}]\noutput: {maxLineBytes: 1024}\n",
		"resources: [pods]\noutput: {maxLineBytes: 16KiB, maxSize: 4096}\n",
		"resources: [pods]\noutput: {maxLineBytes: 0}\n",
		"resources: [pods]\noutput: {maxAge: 7d}\ncheckpoint: {interval: 0d1h}\ndefaults:\n",
		"resources: [pods]\noutput: {maxAge: 1d12h30m}\ndefaults: {changes: true, initial: skip, payload: none, ignoreFields: [status], types: [DELETED]}\n",
		"resources: [pods]\nshard: {index: 3, count: 4}\n",
		"resources: [pods]\nshard: {index: $(ONE), count: 4}\n",
		"resources: [pods]\nshard: {index: \"2\", count: 1024}\n",
		"resources: [pods]\nshard: {count: 1}\n",
		"resources: [pods]\nshard: {index: 0, count: 0}\n",
		"resources: [pods]\nshard:\n",
		"resources: [pods]\ndefaults: {filter: 'true', labelSelector: a=b, fieldSelector: metadata.namespace!=$(NS), excludeNamespaces: [kube-*]}\n",
	} {
		if _, err := loaded(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := checkYAML(s, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// loaded reads a config as the daemon does.
func loaded(t *testing.T, text string) (*kubejournal.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubejournal.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubejournal.Load(path, kubejournal.Overrides{}, func(name string) (string, bool) {
		switch name {
		case "NS", "NODE_NAME":
			return "x", true
		case "ONE":
			return "1", true
		}
		return "", false
	})
}

// beyond are the faulty configs that a schema cannot tell from good ones, and why.
var beyond = map[string]string{
	// YAML itself, before any schema; a reader that takes a mapping's last key sees nothing.
	"duplicate-key": "YAML", "duplicate-key-in-entry": "YAML", "defaults-twice": "YAML", "two-documents": "YAML", "max-size-octal": "YAML", "filter-is-tag": "YAML",
	// One value beside another.
	"group-twice": "two keys", "version-twice": "two keys", "same-stream": "two entries", "same-stream-version": "two entries",
	"same-stream-selector": "two entries", "same-stream-namespace": "two entries", "checkpoint-is-output": "two keys",
	"defaults-exclude-named": "two keys", "defaults-same-stream": "two entries", "defaults-not-taken": "CEL",
	"wildcard-twice": "two entries", "exclude-twice": "two names", "exclude-namespace-named": "two keys",
	"shard-index-without-count": "two keys", "shard-index-too-high": "two keys", "shard-index-of-one": "two keys", "audit-without-a-file": "two keys",
	// Languages of their own.
	"filter-assignment": "CEL", "filter-unknown-variable": "CEL", "filter-not-bool": "CEL", "filter-type-never": "CEL", "filter-second-line": "CEL",
	"filter-too-early": "CEL", "filter-variable": "CEL", "exclude-namespace-class": "a pattern",
	"label-selector-open": "a selector", "label-selector-value": "a selector", "field-selector": "a selector",
	// Sums.
	"max-size-under-4kib": "a product", "max-line-bytes-under-1kib": "a product", "max-size-overflow-unit": "a product", "interval-long": "a sum", "max-age-days-overflow": "a product",
	// The environment.
	"variable-unset": "the environment", "shard-index-unset": "the environment", "variable-in-namespace": "the environment", "exclude-namespace-variable": "the environment",
}

// What can be seen in the form of a config is refused by the schema too.
func TestFaultyConfigs(t *testing.T) {
	s := compile(t, Config())
	archive, err := txtar.ParseFile("../../../cmd/kubejournal/testdata/faults.txtar")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{}
	for _, f := range archive.Files {
		name, isConfig := strings.CutSuffix(f.Name, ".yaml")
		if !isConfig {
			continue
		}
		checked[name] = true
		err := checkYAML(s, f.Data)
		if reason, ok := beyond[name]; ok {
			if err != nil && reason != "YAML" {
				t.Errorf("%s is refused after all: %v", name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s passes:\n%s", name, f.Data)
		}
	}
	for name := range beyond {
		if !checked[name] {
			t.Errorf("there is no faulty config %s", name)
		}
	}
}

// The schema has every key of the config and no other, with its default and the kind of its value.
func TestKeys(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(Config(), &doc); err != nil {
		t.Fatal(err)
	}
	defs, ok := doc["$defs"].(map[string]any)
	if !ok {
		t.Fatal("no $defs")
	}
	k := keys{t, defs}
	k.compare("", doc, reflect.TypeFor[kubejournal.Config](), reflect.ValueOf(*kubejournal.Default()))
}

type keys struct {
	t    *testing.T
	defs map[string]any
}

// resolve follows a $ref and returns the two as one.
func (k keys) resolve(s map[string]any) map[string]any {
	ref, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	def := k.defs
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/$defs/"), "/") {
		next, ok := def[name].(map[string]any)
		if !ok {
			k.t.Fatalf("no definition %s", ref)
		}
		def = next
	}
	def = k.resolve(def)
	both := map[string]any{}
	for key, v := range def {
		both[key] = v
	}
	for key, v := range s {
		both[key] = v
	}
	return both
}

// compare compares a section's schema with its type. defaults is the zero Value inside a list, where an entry's own
// defaults are not in config.Default.
func (k keys) compare(path string, schema map[string]any, typ reflect.Type, defaults reflect.Value) {
	if schema["additionalProperties"] != false {
		k.t.Errorf("%s: takes any key", path)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		k.t.Fatalf("%s: no properties", path)
	}
	var known []string
	isDefaults := typ == reflect.TypeFor[kubejournal.Defaults]() // whose own are those of an entry
	if isDefaults {
		defaults = reflect.Value{}
	}
	for i := range typ.NumField() {
		key := typ.Field(i).Tag.Get("mapstructure")
		if key == "" || key == "-" || isDefaults && slices.Contains([]string{"resource", "group", "version", "exclude", "namespaces"}, key) {
			continue
		}
		known = append(known, key)
		at := strings.TrimPrefix(path+"."+key, ".")
		s, ok := properties[key].(map[string]any)
		if !ok {
			k.t.Errorf("%s: not in the schema", at)
			continue
		}
		s = k.resolve(s)
		if d, _ := s["description"].(string); d == "" {
			k.t.Errorf("%s: no description", at)
		}
		field := reflect.Value{}
		if defaults.IsValid() {
			field = defaults.Field(i)
		}
		k.value(at, s, typ.Field(i).Type, field)
	}
	for key := range properties {
		if !slices.Contains(known, key) {
			k.t.Errorf("%s.%s: not in the config", path, key)
		}
	}
}

func (k keys) value(at string, s map[string]any, typ reflect.Type, def reflect.Value) {
	switch {
	case typ.Kind() == reflect.Struct:
		k.compare(at, s, typ, def)
		return
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
		k.compare(at+"[]", k.entry(at, s), typ.Elem(), reflect.Value{})
	}
	if !def.IsValid() || at == "resources" {
		return
	}
	want := def.Interface()
	switch v := want.(type) {
	case time.Duration:
		d, err := time.ParseDuration(fmt.Sprint(s["default"]))
		if err != nil || d != v {
			k.t.Errorf("%s: default %v, the config has %s", at, s["default"], v)
		}
		return
	case int64: // a size
		if n := mebibytes(fmt.Sprint(s["default"])); n != v {
			k.t.Errorf("%s: default %v, the config has %d", at, s["default"], v)
		}
		return
	}
	b, err := json.Marshal(want)
	if err != nil {
		k.t.Fatal(err)
	}
	if def.Kind() == reflect.Slice && def.Len() == 0 {
		b = []byte("[]")
	}
	got, err := json.Marshal(s["default"])
	if err != nil {
		k.t.Fatal(err)
	}
	if !bytes.Equal(got, b) {
		k.t.Errorf("%s: default %s, the config has %s", at, got, b)
	}
}

// entry is the schema of a list's entry as a section.
func (k keys) entry(at string, s map[string]any) map[string]any {
	items, ok := s["items"].(map[string]any)
	if !ok {
		k.t.Fatalf("%s: no items", at)
	}
	if anyOf, ok := items["anyOf"].([]any); ok { // the short form and the long one
		items, ok = anyOf[len(anyOf)-1].(map[string]any)
		if !ok {
			k.t.Fatalf("%s: no long form", at)
		}
	}
	return k.resolve(items)
}

func mebibytes(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "MiB"), 10, 64)
	if err != nil {
		return -1
	}
	return n << 20
}
