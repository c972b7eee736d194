package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/filelogreceiver"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	pipelines    = filepath.Join(root, "deploy", "pipelines")
	pipelinesDoc = filepath.Join(root, "docs", "pipelines.md")
)

// gap is the one kind of line that a daemon does not write by itself.
const gap = `{"seq":%d,"time":"2026-11-20T20:32:57.788000000Z","type":"GAP","id":"pods/7/GAP","stream":"pods","cluster":"test","version":"v1","resource":"pods","kind":"Pod","resourceVersion":"7","reason":"Expired","fromResourceVersion":"5"}` + "\n"

// journalOf has a daemon write a journal about what happens to some objects on the real server.
func journalOf(t *testing.T) (path string, lines []map[string]any) {
	t.Helper()
	s := theServer(t)
	const ns = "pipelines"
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: pipelines}}"))...)
	dir := t.TempDir()
	path = filepath.Join(dir, "journal.jsonl")
	config := filepath.Join(dir, "kubejournal.yaml")
	text := "cluster: test\nresources: [{resource: pods, namespaces: [pipelines]}, {resource: configmaps, namespaces: [pipelines], changes: true}, {resource: events, namespaces: [pipelines]}, deployments.apps]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, command(t, "run", "--kubeconfig", s.Kubeconfig(), "--config", config,
		"--output", path, "--checkpoint", filepath.Join(dir, "kubejournal.db"), "--listen", "127.0.0.1:0"))
	eventually(t, "every stream watches", p.watching)

	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, core := t.Context(), s.client.CoreV1()
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"a": "1"}}
	must(core.ConfigMaps(ns).Create(ctx, web, metav1.CreateOptions{}))
	web.Data["a"] = "2"
	must(core.ConfigMaps(ns).Update(ctx, web, metav1.UpdateOptions{}))
	must(nil, core.ConfigMaps(ns).Delete(ctx, "web", metav1.DeleteOptions{}))
	must(core.Pods(ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}, metav1.CreateOptions{}))
	for _, kind := range []string{"Warning", "Normal"} {
		must(core.Events(ns).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Type: kind, Reason: "BackOff", Message: "again", Count: 3, FirstTimestamp: metav1.Now(),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-1"},
		}, metav1.CreateOptions{}))
	}
	eventually(t, "it is written", func() error {
		content, err := os.ReadFile(path)
		if n := bytes.Count(content, []byte(`"origin":"watch"`)); err == nil && n < 6 {
			err = fmt.Errorf("%d lines of events", n)
		}
		return err
	})
	p.stop()

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = fmt.Appendf(content, gap, bytes.Count(content, []byte("\n"))+1)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return path, lines
}

// What reads a journal understands a real one.
func TestPipelines(t *testing.T) {
	journal, lines := journalOf(t)
	t.Run("OpenTelemetry", func(t *testing.T) { testOpenTelemetry(t, journal, lines) })
	t.Run("jq", func(t *testing.T) { testJQ(t, lines) })
}

// The Collector's receiver turns each line into a record as docs/pipelines.md says.
func testOpenTelemetry(t *testing.T, journal string, lines []map[string]any) {
	type retry struct {
		Longest string `json:"max_elapsed_time"`
	}
	var config struct {
		Receivers map[string]map[string]any
		Exporters map[string]struct {
			Retry retry `json:"retry_on_failure"`
			Queue struct {
				Storage string
				Blocks  bool `json:"block_on_overflow"`
			} `json:"sending_queue"`
		}
		Service struct {
			Pipelines map[string]struct{ Processors []string }
		}
	}
	read(t, filepath.Join(pipelines, "opentelemetry-collector", "config.yaml"), &config)
	settings := config.Receivers["filelog"]
	if out := config.Exporters["otlp"]; out.Retry.Longest != "0s" || !out.Queue.Blocks || out.Queue.Storage == "" || len(config.Service.Pipelines["logs"].Processors) > 0 ||
		settings["retry_on_failure"].(map[string]any)["max_elapsed_time"] != "0s" {
		t.Errorf("lines are dropped in a long outage, or held in memory alone: %+v", config)
	}
	if !covers(t, settings["include"].([]any)[0].(string)) {
		t.Error("not every file of a journal is read")
	}
	settings["include"] = []string{journal}
	delete(settings, "storage") // an extension's
	factory := filelogreceiver.NewFactory()
	receiverConfig := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(receiverConfig); err != nil {
		t.Fatal(err)
	}
	sink := new(consumertest.LogsSink)
	receiver, err := factory.CreateLogs(t.Context(), receivertest.NewNopSettings(factory.Type()), receiverConfig, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all lines come", func() error {
		if n := sink.LogRecordCount(); n < len(lines) {
			return fmt.Errorf("%d of %d", n, len(lines))
		}
		return nil
	})
	if err := receiver.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	byID := map[string]plog.LogRecord{}
	for _, logs := range sink.AllLogs() {
		for _, r := range logs.ResourceLogs().All() {
			if name, _ := r.Resource().Attributes().Get("k8s.cluster.name"); name.Str() != "test" {
				t.Errorf("k8s.cluster.name is %q", name.Str())
			}
			for _, scope := range r.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					id, _ := record.Attributes().Get("log.record.uid")
					byID[id.Str()] = record
				}
			}
		}
	}
	kinds := map[string]bool{}
	for _, line := range lines {
		record, ok := byID[line["id"].(string)]
		if !ok {
			t.Errorf("no record of %s", line["id"])
			continue
		}
		if got := record.Timestamp().AsTime().Format("2006-01-02T15:04:05.000000000Z07:00"); got != line["time"] {
			t.Errorf("%s: timestamp %s, want %s", line["id"], got, line["time"])
		}
		want, severity := attributes(line)
		if diff := cmp.Diff(want, record.Attributes().AsRaw()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line["id"], diff)
		}
		if record.SeverityNumber() != severity {
			t.Errorf("%s: severity %s, want %s", line["id"], record.SeverityNumber(), severity)
		}
		if diff := cmp.Diff(line, record.Body().Map().AsRaw()); diff != "" {
			t.Errorf("%s: the body is not the line (-want +got):\n%s", line["id"], diff)
		}
		kinds[line["kind"].(string)+" "+line["type"].(string)] = true
	}
	for _, k := range []string{"ConfigMap DELETED", "Pod ADDED", "Event ADDED", "Pod SYNCED", "Pod GAP"} {
		if !kinds[k] {
			t.Errorf("there was no %s to look at", k)
		}
	}
}

// attributes are those that a line's record is to have, by the table of docs/pipelines.md.
func attributes(line map[string]any) (map[string]any, plog.SeverityNumber) {
	want := map[string]any{}
	for field, name := range map[string]string{
		"id": "log.record.uid", "type": "kubejournal.type", "origin": "kubejournal.origin", "stream": "kubejournal.stream", "manager": "kubejournal.manager",
		"namespace": "k8s.namespace.name", "kind": "k8s.object.kind", "resource": "k8s.object.resource", "group": "k8s.object.api_group",
		"version": "k8s.object.api_version", "name": "k8s.object.name", "uid": "k8s.object.uid", "resourceVersion": "k8s.object.resource_version",
	} {
		if v, ok := line[field]; ok {
			want[name] = v
		}
	}
	if line["kind"] == "Pod" && line["name"] != nil {
		want["k8s.pod.name"], want["k8s.pod.uid"] = line["name"], line["uid"]
	}
	severity := plog.SeverityNumberInfo
	if line["type"] == "GAP" {
		severity = plog.SeverityNumberWarn
	}
	if event, ok := line["event"].(map[string]any); ok {
		want["k8s.event.reason"], want["k8s.event.count"], want["k8s.event.start_time"] = event["reason"], event["count"], event["firstTime"]
		if event["type"] == "Warning" {
			severity = plog.SeverityNumberWarn
		}
	}
	return want, severity
}

// covers reports whether patterns together take in the active file and the rotated ones, and not those that are compressed.
func covers(t *testing.T, patterns ...string) bool {
	t.Helper()
	matches := func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := filepath.Match(pattern, statePath+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		})
	}
	return matches("journal.jsonl") && matches("journal-2026-11-20T16-10-22.123.jsonl") && !matches("journal-2026-11-20T16-10-22.123.jsonl.gz") && !matches("kubejournal.db")
}

// jqPrograms are the commands in docs/pipelines.md: what jq is told before its program, and the program.
var jqPrograms = regexp.MustCompile(`\bjq (-n )?'([^']+)'`)

// Each jq program of the documentation says something about a journal of what it is about.
func testJQ(t *testing.T, lines []map[string]any) {
	text, err := os.ReadFile(pipelinesDoc)
	if err != nil {
		t.Fatal(err)
	}
	programs := jqPrograms.FindAllStringSubmatch(string(text), -1)
	if len(programs) < 8 {
		t.Fatalf("%d programs found", len(programs))
	}
	for _, p := range programs {
		query, err := gojq.Parse(p[2])
		if err != nil {
			t.Errorf("%s: %v", p[2], err)
			continue
		}
		var all []any
		for _, l := range lines {
			all = append(all, l)
		}
		inputs := [][]any{all} // -n: one run that reads them all
		if p[1] == "" {
			inputs = nil
			for _, l := range all {
				inputs = append(inputs, []any{l})
			}
		}
		said := 0
		for _, in := range inputs {
			said += answers(t, query, p[1] == "", in)
		}
		if said == 0 || said == len(lines) && !strings.Contains(p[2], "foreach") {
			t.Errorf("%s says %d things about %d lines", p[2], said, len(lines))
		}
	}
}

// answers is how many values a jq program gives for its input: the first is given to it, or it reads all itself.
func answers(t *testing.T, query *gojq.Query, given bool, in []any) (n int) {
	t.Helper()
	code, err := gojq.Compile(query, gojq.WithInputIter(gojq.NewIter(in...)))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var first any
	if given {
		first = in[0]
	}
	for iter := code.Run(first); ; n++ {
		v, ok := iter.Next()
		if !ok {
			return n
		}
		if err, is := v.(error); is {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// The index has a field for each one of a line, so that none has to be made when a line comes, and what the queries in the
// documentation ask for is among them.
func TestIndexTemplate(t *testing.T) {
	type field struct {
		Type       string
		Properties map[string]field
	}
	var template struct {
		Template struct {
			Mappings struct{ Properties map[string]field }
		}
	}
	read(t, filepath.Join(pipelines, "elasticsearch", "index-template.json"), &template)
	var schema map[string]any
	if err := json.Unmarshal(ask(t, mustKustomize(t, "deployment"), ".", "schema", "line"), &schema); err != nil {
		t.Fatal(err)
	}
	mapped := template.Template.Mappings.Properties
	if mapped["@timestamp"].Type != "date_nanos" {
		t.Error("@timestamp has no nanoseconds")
	}
	known := map[string]field{"@timestamp": mapped["@timestamp"]}
	var compare func(prefix string, mapped map[string]field, schema map[string]any)
	compare = func(prefix string, mapped map[string]field, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		want, got := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(mapped))
		got = slices.DeleteFunc(got, func(name string) bool { return name == "@timestamp" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %q (-schema +index):\n%s", prefix, diff)
		}
		for name, f := range mapped {
			known[prefix+name] = f
			if s, ok := properties[name].(map[string]any); ok && f.Type != "flattened" {
				compare(prefix+name+".", f.Properties, s)
			}
		}
	}
	compare("", mapped, schema)

	text, err := os.ReadFile(pipelinesDoc)
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	for _, q := range queries {
		var query map[string]any
		if err := json.Unmarshal(q[1], &query); err != nil {
			t.Fatalf("%s: %v", q[1], err)
		}
		for _, name := range fieldsOf(query) {
			_, ok := known[name]
			if top, _, nested := strings.Cut(name, "."); nested && !ok {
				ok = known[top].Type == "flattened"
			}
			if !ok {
				t.Errorf("%s asks for %s, which the index does not have", q[1], name)
			}
		}
	}
	if len(queries) < 4 {
		t.Errorf("%d queries found", len(queries))
	}
}

// fieldsOf are the fields that a query names.
func fieldsOf(query any) []string {
	var names []string
	switch q := query.(type) {
	case []any:
		for _, each := range q {
			names = append(names, fieldsOf(each)...)
		}
	case map[string]any:
		for key, value := range q {
			switch inner, is := value.(map[string]any); {
			case key == "field":
				names = append(names, value.(string))
			case is && (key == "term" || key == "range"):
				names = slices.AppendSeq(names, maps.Keys(inner))
			case key == "sort":
				for _, by := range value.([]any) {
					names = slices.AppendSeq(names, maps.Keys(by.(map[string]any)))
				}
			default:
				names = append(names, fieldsOf(value)...)
			}
		}
	}
	return names
}

// The three ways to Loki give the same labels and the same metadata, and the queries in the documentation use no others.
func TestLokiLabels(t *testing.T) {
	var vector struct {
		Sources struct {
			Journal struct{ Include []string }
		}
		Transforms struct {
			Parsed, Labelled struct{ Source string }
			Once             struct {
				Fields struct{ Match []string }
			}
		}
		Sinks map[string]struct {
			Encoding struct {
				ExceptFields []string `json:"except_fields"`
			}
			Labels   map[string]string
			Metadata map[string]string `json:"structured_metadata"`
			IDKey    string            `json:"id_key"`
			Bulk     struct{ Action string }

			RetryPartial bool `json:"request_retry_partial"`
		}
	}
	read(t, filepath.Join(pipelines, "vector", "vector.yaml"), &vector)
	// A field that a line lacks must not be named by the sink, which warns of each.
	sink := vector.Sinks["loki"]
	members := func(field string) (all []string) {
		block := regexp.MustCompile(`(?s)\.` + field + ` = compact\(\{(.*?)\}\)`).FindStringSubmatch(vector.Transforms.Labelled.Source)
		if block == nil {
			t.Fatalf("Vector: no %s", field)
		}
		for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(block[1], -1) {
			all = append(all, m[1])
		}
		return all
	}
	labels, metadata := append(members("loki_labels"), "job"), members("loki_metadata")
	slices.Sort(labels)
	slices.Sort(metadata)
	if diff := cmp.Diff(map[string]string{"job": "kubejournal", "*": "{{ loki_labels }}"}, sink.Labels); diff != "" {
		t.Error("Vector:", diff)
	}
	if diff := cmp.Diff(map[string]string{"*": "{{ loki_metadata }}"}, sink.Metadata); diff != "" {
		t.Error("Vector:", diff)
	}
	if !slices.Equal(sink.Encoding.ExceptFields, []string{"loki_labels", "loki_metadata"}) {
		t.Errorf("Vector: the line is sent without %v", sink.Encoding.ExceptFields)
	}
	if want := []string{"cluster", "group", "hour", "job", "namespace", "resource", "type"}; !slices.Equal(labels, want) {
		t.Errorf("Vector: labels %v, want %v", labels, want)
	}
	if !slices.Contains(metadata, "id") || !slices.Equal(vector.Transforms.Once.Fields.Match, []string{"id"}) || vector.Sinks["elasticsearch"].IDKey != "id" ||
		vector.Sinks["elasticsearch"].Bulk.Action != "create" || !vector.Sinks["elasticsearch"].RetryPartial {
		t.Error("Vector: a repeat is not dropped by id, or what is refused for now is lost")
	}
	if !covers(t, vector.Sources.Journal.Include[0]) || !strings.Contains(vector.Transforms.Parsed.Source, ".timestamp = parse_timestamp!(string!(line.time)") {
		t.Error("Vector: not every file is read, or its time is another")
	}

	var fluent struct {
		Parsers  []map[string]string
		Pipeline struct{ Inputs, Filters, Outputs []map[string]string }
	}
	read(t, filepath.Join(pipelines, "fluent-bit", "fluent-bit.yaml"), &fluent)
	names := func(list string) []string {
		all := strings.Split(strings.ReplaceAll(list, "$", ""), ",")
		slices.Sort(all)
		return all
	}
	loki, es := fluent.Pipeline.Outputs[0], fluent.Pipeline.Outputs[1]
	if got := names(loki["label_keys"] + ",job"); !slices.Equal(got, labels) {
		t.Errorf("Fluent Bit: labels %v, want %v", got, labels)
	}
	if got := names(loki["structured_metadata"]); !slices.Equal(got, metadata) {
		t.Errorf("Fluent Bit: structured metadata %v, want %v", got, metadata)
	}
	var paths []string
	for _, input := range fluent.Pipeline.Inputs {
		paths = append(paths, input["path"])
		if parser := fluent.Parsers[0]; parser["time_key"] != "time" || parser["name"] != input["parser"] {
			t.Errorf("Fluent Bit: the time of %s is another", input["path"])
		}
		if covers(t, input["path"]) {
			t.Errorf("Fluent Bit: %s matches a file under both of its names", input["path"])
		}
	}
	if !covers(t, paths...) || fluent.Pipeline.Inputs[0]["db"] == fluent.Pipeline.Inputs[1]["db"] {
		t.Error("Fluent Bit: not every file is read")
	}
	if filter := fluent.Pipeline.Filters[0]; filter["key_name"] != "time" || filter["parser"] != fluent.Parsers[1]["name"] || filter["reserve_data"] != "true" ||
		filter["preserve_key"] != "true" || loki["remove_keys"] != "hour" {
		t.Errorf("Fluent Bit: the hour is not taken from the time: %v", filter)
	}
	// With create, Fluent Bit sends a chunk again and again of which Elasticsearch refuses each line as there already.
	if es["id_key"] != "id" || es["write_operation"] != "index" {
		t.Error("Fluent Bit: a repeat is not the same document, or is refused")
	}

	content, err := os.ReadFile(filepath.Join(pipelines, "alloy", "config.alloy"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^ *max_backoff_retries = 0$`).Match(content) {
		t.Error("Alloy: lines are dropped in an outage of Loki")
	}
	keys := func(block string) []string {
		found := regexp.MustCompile(`(?s)` + regexp.QuoteMeta(block) + ` \{.*?\{(.*?)\n\s*\}`).FindSubmatch(content)
		if found == nil {
			t.Fatalf("Alloy: no %s", block)
		}
		var all []string
		for _, k := range regexp.MustCompile(`(?m)^\s*(\w+)\s*=`).FindAllSubmatch(found[1], -1) {
			all = append(all, string(k[1]))
		}
		slices.Sort(all)
		return all
	}
	labelled := append(keys("stage.labels"), "job")
	slices.Sort(labelled)
	if !slices.Equal(labelled, labels) || !slices.Equal(keys("stage.structured_metadata"), metadata) {
		t.Errorf("Alloy: labels %v and metadata %v, want %v and %v", labelled, keys("stage.structured_metadata"), labels, metadata)
	}
	parsed := keys("stage.json")
	for _, name := range slices.Concat(labels, metadata, []string{"time"}) {
		if name != "job" && name != "hour" && !slices.Contains(parsed, name) {
			t.Errorf("Alloy: %s is not taken from the line", name)
		}
	}
	// Two lines of one stream are never as far apart as Loki refuses.
	alloyHour := regexp.MustCompile(`(?s)stage\.regex \{\s*source\s*= "time"\s*expression = "([^"]+)"`).FindSubmatch(content)
	if len(alloyHour) < 2 {
		t.Fatal("Alloy: the hour is not taken from the time")
	}
	for _, expression := range []string{string(alloyHour[1]), fluent.Parsers[1]["regex"]} {
		re := regexp.MustCompile(expression)
		if got := re.FindStringSubmatch("2026-11-20T20:32:57.788012345Z"); re.SubexpIndex("hour") != 1 || len(got) != 2 || got[1] != "2026-11-20T20" {
			t.Errorf("%s: the hour is %q", expression, got)
		}
	}
	pattern := regexp.MustCompile(`__path__ = "([^"]+)"`).FindSubmatch(content)
	if len(pattern) < 2 || !covers(t, string(pattern[1])) {
		t.Error("Alloy: not every file is read")
	}

	text, err := os.ReadFile(pipelinesDoc)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```logql\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("no LogQL in the documentation")
	}
	for _, selector := range regexp.MustCompile(`\{(job=[^}]*)\}`).FindAllSubmatch(block[1], -1) {
		for _, m := range regexp.MustCompile(`(\w+)=~?"`).FindAllSubmatch(selector[1], -1) {
			if !slices.Contains(labels, string(m[1])) {
				t.Errorf("{%s}: no label %s", selector[1], m[1])
			}
		}
	}
}
