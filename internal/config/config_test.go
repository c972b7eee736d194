package config

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kubejournal/internal/record/filter"
)

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

func envOf(pairs ...string) Env {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// mustLoad loads a document as the file test.yaml.
func mustLoad(t *testing.T, yaml string, o Overrides, env Env) *Config {
	t.Helper()
	c, err := Parse([]byte(yaml), "test.yaml", o, env)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := c.check().err(); err != nil {
		t.Fatalf("validate what was loaded: %v", err)
	}
	return c
}

var ignorePlace = cmp.Options{
	cmpopts.IgnoreUnexported(Config{}),
	cmpopts.IgnoreFields(Resource{}, "File", "Line", "Entry"),
	cmpopts.IgnoreFields(Redact{}, "File", "Line", "Entry"),
}

func TestSmallestFileIsDefault(t *testing.T) {
	want := Default()
	want.Resources = []Resource{{Name: "pods", Initial: Snapshot, Payload: PayloadObject}}
	got := mustLoad(t, "resources: [pods]", Overrides{}, noEnv)
	if diff := cmp.Diff(want, got, ignorePlace); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestEveryKey(t *testing.T) {
	group := "apps"
	empty := ""
	want := &Config{
		Cluster:    "prod-eu1",
		Kubernetes: Kubernetes{Kubeconfig: "/k", Context: "c"},
		Defaults:   Default().Defaults,
		Resources: []Resource{
			{Name: "pods", Initial: Snapshot, Payload: PayloadObject, File: "test.yaml", Line: 4, Entry: "resources[0]"},
			{
				Name: "deployments", Group: &group, Version: "v1", Namespaces: []string{"web", "db"},
				LabelSelector: "App=Web,tier notin (a,b)", FieldSelector: "spec.nodeName=Node-1", Initial: Skip,
				ExcludeNamespaces: []string{"kube-*", "web-test"}, Types: []string{"ADDED", "MODIFIED"}, Filter: `object.metadata.name != "$(NS)"`,
				Payload: PayloadMetadata, Changes: true, IgnoreFields: []string{`metadata.annotations["a.b/c"]`, "status"},
				File: "test.yaml", Line: 5, Entry: "resources[1]",
			},
			{
				Name: "*", Group: &empty, Exclude: []string{"secrets", "events"}, Initial: Snapshot, Payload: PayloadNone,
				File: "test.yaml", Line: 20, Entry: "resources[2]",
			},
		},
		LeaderElection: LeaderElection{
			LeaseName: "writer", LeaseNamespace: "web", LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 1500 * time.Millisecond,
		},
		Output: Output{
			Path: "out.jsonl", MaxSize: 64000, MaxAge: 90 * time.Minute, MaxFiles: 3, MinAge: 45 * time.Minute, MaxTotalSize: 1e9,
			Compress: false, Seal: true, Sync: SyncNever, MaxLineBytes: 16 << 10,
		},
		Audit:      Audit{Paths: []string{"a*", "b"}, Complete: true},
		Checkpoint: Checkpoint{Path: "", Interval: 1500 * time.Millisecond},
		Redact:     []Redact{{Resource: "configmaps", Fields: []string{"data.Password"}, File: "test.yaml", Line: 25, Entry: "redact[0]"}},
		DropFields: []string{},
		Listen:     "",
		Log:        Log{Level: "debug", Format: "console"},
	}
	got := mustLoad(t, `cluster: prod-eu1
kubernetes: {kubeconfig: /k, context: c}
resources:
  - pods
  - resource: deployments
    group: apps
    version: v1
    namespaces: [$(NS), db]
    labelSelector: "tier notin (b, a), App == Web"
    fieldSelector: spec.nodeName=$(NODE)-1
    initial: skip
    excludeNamespaces: [$(NS)-test, kube-*]
    types: [MODIFIED, ADDED]
    filter: |
      object.metadata.name != "$(NS)"
    payload: metadata
    changes: true
    ignoreFields: [status, 'metadata.annotations["a.b/c"]', status]

  - {resource: "*", group: "", exclude: [secrets, events], types: [DELETED, ADDED, MODIFIED], payload: none}
output: {path: out.jsonl, maxSize: 64k, maxAge: 1h30m, maxFiles: 3, minAge: 45m, maxTotalSize: 1GB, compress: false, seal: true, sync: never, maxLineBytes: 16KiB}
checkpoint: {path: "", interval: 1.5s}
redactSecrets: false
redact:
  - {resource: configmaps, fields: [data.Password]}
dropFields: []
listen: ""
log: {level: debug, format: console}
leaderElection: {leaseName: writer, leaseNamespace: web, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 1500ms}
audit: {paths: [b, a*], complete: true}
`, Overrides{}, envOf("NS", "web", "NODE", "Node"))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// Flags win over the environment, that over the file, that over the default; an empty variable counts as unset, an
// empty flag does not.
func TestPrecedence(t *testing.T) {
	const file = "resources: [pods]\nlisten: \":1111\"\noutput: {path: file}\n"
	for _, tc := range []struct {
		name, yaml string
		flags      map[string]string
		env        Env
		want       string
	}{
		{"default", "resources: [pods]", nil, noEnv, ":8080"},
		{"file", file, nil, noEnv, ":1111"},
		{"environment", file, nil, envOf("KUBEJOURNAL_LISTEN", ":2222"), ":2222"},
		{"empty environment", file, nil, envOf("KUBEJOURNAL_LISTEN", ""), ":1111"},
		{"flag", file, map[string]string{"listen": ":3333"}, envOf("KUBEJOURNAL_LISTEN", ":2222"), ":3333"},
		{"empty flag", file, map[string]string{"listen": ""}, envOf("KUBEJOURNAL_LISTEN", ":2222"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := mustLoad(t, tc.yaml, Overrides{Flags: tc.flags}, tc.env)
			if got.Listen != tc.want {
				t.Errorf("listen %q, want %q", got.Listen, tc.want)
			}
		})
	}
}

// Every option reaches the key it names, by flag and by variable.
func TestOptions(t *testing.T) {
	values := func(c *Config) map[string]string {
		return map[string]string{
			"kubernetes.kubeconfig": c.Kubernetes.Kubeconfig, "kubernetes.context": c.Kubernetes.Context,
			"output.path": c.Output.Path, "checkpoint.path": c.Checkpoint.Path, "listen": c.Listen, "log.level": c.Log.Level,
		}
	}
	for _, o := range Options {
		value := "x"
		switch o.Key {
		case "listen":
			value = ":1"
		case "log.level":
			value = "error"
		}
		byFlag := mustLoad(t, "resources: [pods]", Overrides{Flags: map[string]string{o.Flag: value}}, noEnv)
		byEnv := mustLoad(t, "resources: [pods]", Overrides{}, envOf(o.Env, value))
		for how, c := range map[string]*Config{"--" + o.Flag: byFlag, o.Env: byEnv} {
			if got := values(c)[o.Key]; got != value {
				t.Errorf("%s: %s is %q, want %q", how, o.Key, got, value)
			}
		}
	}
}

// A fault in a value that a flag or a variable set names that, not the file.
func TestFaultOfOverride(t *testing.T) {
	_, err := Parse([]byte("resources: [pods]\nlog: {level: info}\n"), "test.yaml",
		Overrides{Flags: map[string]string{"log-level": "loud"}, Namespace: "No"}, envOf("KUBEJOURNAL_LISTEN", "80"))
	want := `--log-level: log.level: "loud" is not known; write debug, info, warn or error
--namespace: "No" is not the name of a namespace; it takes lower-case letters, digits and -, at most 63
KUBEJOURNAL_LISTEN: listen: "80" is not an address; write host:port such as ":8080", or "" to listen nowhere`
	if err == nil || sortLines(err.Error()) != sortLines(want) {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func sortLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		for j := i + 1; j < len(lines); j++ {
			if lines[j] < lines[i] {
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestArguments(t *testing.T) {
	c, err := Load("", Overrides{Resources: []string{"pods,deploy", "nodes"}, Namespace: "web"}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Checkpoint.Path, want.Listen, want.Defaults.Changes = "", "", true
	for i, name := range []string{"pods", "deploy", "nodes"} {
		entry := []string{"argument 1", "argument 1", "argument 2"}[i]
		want.Resources = append(want.Resources, Resource{
			Name: name, Namespace: "web", Initial: Snapshot, Payload: PayloadObject, Changes: true, File: CommandLine, Entry: entry,
		})
	}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestArgumentsReplaceResources(t *testing.T) {
	c := mustLoad(t, "resources: [secrets]\nlisten: \":1\"\n", Overrides{Resources: []string{"pods"}}, noEnv)
	if len(c.Resources) != 1 || c.Resources[0].Name != "pods" || c.Listen != ":1" || c.Checkpoint.Path == "" {
		t.Errorf("got %+v", c)
	}
}

func TestArgumentTwice(t *testing.T) {
	_, err := Load("", Overrides{Resources: []string{"pods", "secrets,pods"}}, noEnv)
	const want = "command line: argument 2: pods is the same stream as argument 1; keep one"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNamespaceFlag(t *testing.T) {
	const yaml = "resources:\n  - pods\n  - {resource: secrets, namespaces: [db]}\n"
	c := mustLoad(t, yaml, Overrides{}, envOf("KUBEJOURNAL_NAMESPACE", "web"))
	if c.Resources[0].Namespace != "web" || c.Resources[1].Namespace != "" {
		t.Errorf("namespaces %q and %q, want web and none", c.Resources[0].Namespace, c.Resources[1].Namespace)
	}
}

func TestCanonicalSelectors(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"b = 2 , a == 1":     "a=1,b=2",
		"a!=2,a!=1":          "a!=1,a!=2",
		"a=1,a==1":           "a=1",
		"x in (c, b,a),!y":   "!y,x in (a,b,c)",
		"k notin (v),exists": "exists,k notin (v)",
	} {
		got, err := CanonicalLabels(in)
		if err != nil || got != want {
			t.Errorf("labels %q: got %q, %v, want %q", in, got, err, want)
		}
		if again, err := CanonicalLabels(got); err != nil || again != got {
			t.Errorf("labels %q: not stable: %q, %v", in, again, err)
		}
	}
	for in, want := range map[string]string{
		"":                       "",
		"spec.b==2,metadata.a=1": "metadata.a=1,spec.b=2",
		"x!=1":                   "x!=1",
	} {
		if got, err := CanonicalFields(in); err != nil || got != want {
			t.Errorf("fields %q: got %q, %v, want %q", in, got, err, want)
		}
	}
}

// A Config made by a program is held to the same rules, without a file to name.
func TestCheckWithoutFile(t *testing.T) {
	c := Default()
	if err := c.check().err(); err == nil || !strings.HasPrefix(err.Error(), "resources: ") {
		t.Errorf("no resources: got %v", err)
	}
	c.Resources = []Resource{{Name: "po ds", Initial: Snapshot, Payload: PayloadObject, Entry: "resources[0]"}}
	var faults Faults
	if err := c.check().err(); !errors.As(err, &faults) || len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), "resources[0].resource: ") {
		t.Errorf("bad name: got %v", err)
	}
	c.Resources[0].Name = "pods"
	if err := c.check().err(); err != nil {
		t.Errorf("good config: %v", err)
	}
}

// Aliases are followed, and cannot make a small file take long.
func TestAliases(t *testing.T) {
	c := mustLoad(t, "resources:\n  - resource: pods\n    labelSelector: &s app=web\n  - {resource: secrets, labelSelector: *s}\n", Overrides{}, noEnv)
	if got := c.Resources[1].LabelSelector; got != "app=web" {
		t.Errorf("alias gave %q", got)
	}
	var bomb strings.Builder
	bomb.WriteString("resources:\n  - &e\n    resource: pods\n    namespaces: [" + strings.Repeat("a,", 5000) + "a]\n")
	bomb.WriteString(strings.Repeat("  - *e\n", 5000))
	_, err := Parse([]byte(bomb.String()), "test.yaml", Overrides{}, noEnv)
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(err.Error(), "aliases counted") {
		t.Errorf("want one fault about the aliases, got %d", len(faults))
	}
}

// The example file holds every key and, but for the resources, nothing but defaults.
func TestExampleFile(t *testing.T) {
	path := filepath.Join("..", "..", "configs", "kubejournal.yaml")
	got, err := Load(path, Overrides{}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if len(got.Resources) == 0 {
		t.Error("example has no resources")
	}
	opts := cmp.Options{ignorePlace, cmpopts.IgnoreFields(Config{}, "Resources"), cmpopts.EquateEmpty()}
	want.Defaults.Changes = true // which is off where nothing is configured
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("example differs from Default (-default +example):\n%s", diff)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var requireKeys func(typ reflect.Type)
	requireKeys = func(typ reflect.Type) {
		for name, f := range keysOf(typ) {
			if !regexp.MustCompile(`(?m)^[ #-]*[\[{]*` + name + `:|[{ ]` + name + `:`).Match(data) {
				t.Errorf("example lacks %s", name)
			}
			for f.Type.Kind() == reflect.Slice {
				f.Type = f.Type.Elem()
			}
			if f.Type.Kind() == reflect.Struct {
				requireKeys(f.Type)
			}
		}
	}
	requireKeys(reflect.TypeFor[Config]())
}

// What is asked most of a journal of everything is who wrote, and ignoreFields costs writers: only nodes have it.
func TestEverythingNamesWriters(t *testing.T) {
	c, err := Load(filepath.Join("..", "..", "configs", "examples", "everything.yaml"), Overrides{}, envOf())
	if err != nil {
		t.Fatal(err)
	}
	ignoring := map[string][]string{}
	for _, r := range c.Resources {
		if len(r.IgnoreFields) > 0 {
			ignoring[r.Name] = r.IgnoreFields
		}
	}
	want := map[string][]string{"nodes": {"status.conditions[*].lastHeartbeatTime", "status.conditions[*].lastProbeTime"}}
	if diff := cmp.Diff(want, ignoring); diff != "" {
		t.Errorf("entries with ignoreFields (-want +got):\n%s", diff)
	}
}

// Each example is good as it stands, and its filters do what its comments say.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "configs", "examples", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatal("no examples", files, err)
	}
	overlays, err := filepath.Glob(filepath.Join("..", "..", "deploy", "kustomize", "overlays", "*", "kubejournal.yaml"))
	if err != nil || len(overlays) < 3 {
		t.Fatal("no overlays", overlays, err)
	}
	filters := map[string]*filter.Program{} // by file and resource
	for _, path := range append(files, overlays...) {
		c, err := Load(path, Overrides{}, envOf("NODE_NAME", "node-1", "POD_NAMESPACE", "default"))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, r := range c.Resources {
			if !r.Changes {
				t.Errorf("%s: %s is without changes", path, r.Entry)
			}
			// What is left out of an audit is what an attacker makes.
			held := r.Filter != "" || r.Types != nil || len(r.ExcludeNamespaces)+len(r.IgnoreFields) > 0 || r.FieldSelector+r.LabelSelector != ""
			if held && strings.HasPrefix(filepath.Base(path), "audit-") {
				t.Errorf("%s: %s holds something back", path, r.Entry)
			}
			if r.Filter == "" {
				continue
			}
			if filters[filepath.Base(path)+" "+r.Name], err = filter.Compile(r.Filter); err != nil {
				t.Error(err)
			}
		}
	}
	asked := map[string]bool{}
	for _, c := range []struct {
		filter, object string
		want           bool
	}{
		{"failed-pods.yaml pods", `{"status":{"phase":"Failed"}}`, true},
		{"failed-pods.yaml pods", `{}`, false},
		{"failed-pods.yaml pods", `{"status":{"phase":"Running","containerStatuses":[{"name":"a","state":{"running":{}}}]}}`, false},
		{"failed-pods.yaml pods", `{"status":{"phase":"Pending","containerStatuses":[{},{"state":{"waiting":{"reason":"ImagePullBackOff"}}}]}}`, true},
		{"failed-pods.yaml pods", `{"status":{"phase":"Running","containerStatuses":[{"lastState":{"terminated":{"reason":"OOMKilled"}}}]}}`, true},
	} {
		p := filters[c.filter]
		if p == nil {
			t.Fatalf("no filter %s", c.filter)
		}
		asked[c.filter] = true
		if got, err := p.Match("MODIFIED", []byte(c.object)); err != nil || got != c.want {
			t.Errorf("%s, %s: %t, %v", c.filter, c.object, got, err)
		}
	}
	for name := range filters {
		if !asked[name] {
			t.Errorf("nothing is asked of %s", name)
		}
	}
}

// An edit that means the same is the same.
func TestCanonicalEntry(t *testing.T) {
	a := mustLoad(t, `resources:
  - {resource: pods, types: [DELETED, ADDED], filter: "  object.a == 1\n", excludeNamespaces: [kube-*, dev], ignoreFields: [status, metadata.labels, status]}
  - {resource: "*", group: apps, types: [MODIFIED, DELETED, ADDED], exclude: [], excludeNamespaces: [], ignoreFields: []}
`, Overrides{}, noEnv)
	b := mustLoad(t, `resources:
  - {resource: pods, types: [ADDED, DELETED], filter: "object.a == 1", excludeNamespaces: [dev, kube-*], ignoreFields: [metadata.labels, status]}
  - {resource: "*", group: apps}
`, Overrides{}, noEnv)
	if diff := cmp.Diff(a, b, ignorePlace); diff != "" {
		t.Errorf("config (-a +b):\n%s", diff)
	}
	if !a.Same(b) || !b.Same(a) {
		t.Error("not the same")
	}
	b.Resources[0].Line++ // elsewhere in the file
	b.Redact = []Redact{}
	if a.Same(b) {
		t.Error("an empty list is the same as none")
	}
	if b.Redact = nil; !a.Same(b) {
		t.Error("not the same at another place")
	}
	if b.Resources[0].Namespace = "web"; a.Same(b) {
		t.Error("the same in another namespace")
	}
}

// A pattern is refused exactly if no name of a namespace fits it, as far as short names can tell.
func TestBadGlob(t *testing.T) {
	const letters = "ab9-" // of a name
	var names []string
	for queue := []string{""}; len(queue[0]) < 4; queue = queue[1:] {
		for _, c := range letters {
			name := queue[0] + string(c)
			queue = append(queue, name)
			if badNamespace(name) == "" {
				names = append(names, name)
			}
		}
	}
	pieces := []string{"a", "-", "9", "*", "?", "A", ".", "/", "[a-b]", "[^a]", "[-", `\a`, `\-`, `[\-]`, `\`, "[A-C]", "é", "]"}
	for _, x := range append(pieces, "") {
		for _, y := range append(pieces, "") {
			for _, z := range append(pieces, "") {
				glob := x + y + z
				fits := slices.ContainsFunc(names, func(name string) bool {
					matches, err := path.Match(glob, name)
					return err == nil && matches
				})
				if msg := badGlob(glob); (msg == "") != fits {
					t.Errorf("%q: fits a name: %t, message %q", glob, fits, msg)
				}
			}
		}
	}
	for glob, good := range map[string]bool{
		strings.Repeat("a", 63): true, strings.Repeat("?", 63) + "*": true, strings.Repeat("a", 64): false, strings.Repeat("[ab]", 64): false,
	} {
		if msg := badGlob(glob); (msg == "") != good {
			t.Errorf("%q: %q", glob, msg)
		}
	}
}

// -n does not silently come to nothing.
func TestNamespaceFlagExcluded(t *testing.T) {
	const yaml = "resources:\n  - {resource: pods, excludeNamespaces: [dev, kube-*]}\n"
	_, err := Parse([]byte(yaml), "test.yaml", Overrides{Namespace: "kube-system"}, noEnv)
	const want = `test.yaml:2: resources[0].excludeNamespaces[1]: "kube-*" excludes the namespace kube-system, which -n names; nothing would be written`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	mustLoad(t, yaml, Overrides{Namespace: "web"}, noEnv)
}

func TestWildcardArgument(t *testing.T) {
	for _, arg := range []string{"*", "*.apps", "pods.*", "po*"} {
		if _, err := Load("", Overrides{Resources: []string{arg}}, noEnv); err == nil || !strings.HasPrefix(err.Error(), "command line: argument 1: ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "resources: [pods]", "resources:\n  - resource: pods\n    namespaces: [$(A), b]\n    labelSelector: a in (b)\n",
		"a: &a [*a]", "resources: &r [*r]", "? {a: b}\n: c", "<<: {a: b}", "resources: [pods]\n---\nx", "\xff", "\t", "!!binary x",
		"resources: !!set {pods}", "checkpoint: {interval: 99999999999h}", "listen: 2001-01-01", "redact: [{resource: x, fields: [a.b]}]",
		"resources: [{resource: '*', group: '*', exclude: [a, $(A)]}, {resource: '*', group: '*'}, '*', '*']",
		"resources: [{resource: pods, filter: 'object.a == $(A)', types: [ADDED], excludeNamespaces: ['[a', '$(A)*'], ignoreFields: [a]}]",
		"log: ~\nresources: ['']\ncluster: |\n  x\n  y\n", "output: {path: a}\ncheckpoint: {path: ./a}\nresources: [x.]",
	} {
		f.Add([]byte(seed))
	}
	env := envOf("A", "1", "B", "\n")
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		c, err := Parse(data, "f.yaml", Overrides{}, env)
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("took %s for %d bytes", took, len(data))
		}
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		if err == nil {
			if err := c.check().err(); err != nil {
				t.Fatalf("loaded, but: %v", err)
			}
			for _, r := range c.Resources {
				if r.Name == "" || r.Initial == "" || r.Line == 0 {
					t.Fatalf("incomplete entry %+v", r)
				}
			}
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("not faults: %v", err)
		}
		for _, fault := range faults {
			line := fault.Error()
			if strings.ContainsAny(line, "\r\n\x00\x1b") || !strings.HasPrefix(line, "f.yaml:") || fault.Msg == "" {
				t.Fatalf("not one good line: %q", line)
			}
		}
	})
}
