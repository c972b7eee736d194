package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/format/schema"
	"kubejournal/internal/record/daemon"
	"kubejournal/internal/record/metrics"
)

// root is the repository's.
var root = filepath.Join("..", "..")

// source is the folder of this package.
var source = func() string { dir, _ := os.Getwd(); return dir }()

// pages are the README and all of docs/, by their paths in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	all := make(map[string]string)
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = string(content)
	}
	return all
}

var (
	fence    = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)\n```$")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// firstCell is what the first cell of a table's row names.
	firstCell = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|(.*)$")
)

// anchors are those that GitHub gives to a page's headings.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(h[1]))
		for n, base := 1, anchor; all[anchor]; n++ {
			anchor = base + "-" + strconv.Itoa(n)
		}
		all[anchor] = true
	}
	return all
}

// Whatever a page refers to within the repository is there, down to the heading; so are the runbooks that alerts name.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	headings := make(map[string]map[string]bool)
	for name, page := range all {
		headings[name] = anchors(page)
	}
	resolve := func(from, to string) error {
		path, anchor, _ := strings.Cut(to, "#")
		target := from
		if path != "" {
			target = filepath.ToSlash(filepath.Join(filepath.Dir(from), filepath.FromSlash(path)))
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
			return err
		}
		if anchor != "" && !headings[target][anchor] {
			return fmt.Errorf("%s has no heading of that name", target)
		}
		return nil
	}
	count := 0
	for name, page := range all {
		text := codeSpan.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			count++
			if err := resolve(name, l[1]); err != nil {
				t.Errorf("%s: %s: %v", name, l[1], err)
			}
		}
	}
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	runbooks := regexp.MustCompile(`runbook_url: (\S+)`).FindAllSubmatch(rules, -1)
	for _, r := range runbooks {
		if err := resolve("README.md", string(r[1])); err != nil {
			t.Errorf("rules.yaml: %s: %v", r[1], err)
		}
	}
	if count == 0 || len(runbooks) == 0 {
		t.Errorf("%d links and %d runbooks were found", count, len(runbooks))
	}
}

// Every config that a page shows can be run, as its mark says; and what looks like one is marked.
func TestDocsConfigs(t *testing.T) {
	set := func(string) (string, bool) { return "", false }
	count := 0
	for name, page := range pages(t) {
		for _, block := range fence.FindAllStringSubmatch(page, -1) {
			if block[1] != "yaml config" {
				if strings.HasPrefix(block[1], "yaml") && strings.Contains("\n"+block[2], "\nresources:") {
					t.Errorf("%s: a config is not marked as ```yaml config:\n%s", name, block[2])
				}
				continue
			}
			count++
			path := filepath.Join(t.TempDir(), "kubejournal.yaml")
			if err := os.WriteFile(path, []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(path, config.Overrides{}, set); err != nil {
				t.Errorf("%s: %v:\n%s", name, err, block[2])
			}
		}
	}
	if count == 0 {
		t.Error("no page shows a config")
	}
}

// rows are the tables' rows that begin with a name in backticks: what stands after it, by each name.
func rows(t *testing.T, name string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, row := range firstCell.FindAllStringSubmatch(pages(t)[name], -1) {
		for _, span := range codeSpan.FindAllString(row[1], -1) {
			all[strings.Trim(span, "`")] = row[2]
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no tables", name)
	}
	return all
}

// The table of metrics has each one with its labels, and no page names another.
func TestDocsMetrics(t *testing.T) {
	described := make(chan *prometheus.Desc)
	go func() {
		m := metrics.New("", "")
		m.WatchServer(func() float64 { return 1 })
		m.WatchElection("", func() float64 { return 0 }, func() float64 { return 0 })
		m.Registry.Describe(described)
		close(described)
	}()
	parts := regexp.MustCompile(`fqName: "(\w+)".*constLabels: \{(?:(\w+)=.*)?\}, variableLabels: \{([^}]*)\}`)
	known := make(map[string]bool)
	table := rows(t, "docs/operations.md")
	for d := range described {
		m := parts.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot be read: %s", d)
		}
		if !strings.HasPrefix(m[1], "kubejournal_") {
			continue
		}
		known[m[1]] = true
		want := m[1]
		if labels := m[2] + m[3]; labels != "" { // none has both
			want += "{" + labels + "}"
		}
		if _, is := table[want]; !is {
			t.Errorf("docs/operations.md has no row for %s", want)
		}
	}
	if len(known) == 0 {
		t.Fatal("there are no metrics")
	}
	named := regexp.MustCompile(`kubejournal_[a-z_]+`)
	for name, page := range pages(t) {
		for _, metric := range named.FindAllString(page, -1) {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")
			if !known[metric] && !known[base] {
				t.Errorf("%s names %s, which is no metric", name, metric)
			}
		}
	}
}

// The systemd unit starts what there is, keeps its files where the examples have them, and knows the exit status.
func TestSystemdUnit(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", "kubejournal.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(string(content), -1) {
		unit[line[1]] = line[2]
	}
	args := strings.Fields(unit["ExecStart"])
	if len(args) == 0 || filepath.Base(args[0]) != "kubejournal" {
		t.Fatalf("it starts %q", args)
	}
	cmd, rest, err := newRootCommand().Find(args[1:])
	if err != nil || cmd.Name() != "run" || cmd.ParseFlags(rest) != nil || cmd.Flags().NArg() > 0 {
		t.Errorf("it starts %q, which is no command line: %v", args, err)
	}
	if path := cmd.Flags().Lookup("config").Value.String(); !slices.Contains(config.Searched, path) {
		t.Errorf("its config %s is where nobody looks", path)
	}
	if unit["RestartPreventExitStatus"] != strconv.Itoa(exitUsage) {
		t.Errorf("it is not restarted after %s", unit["RestartPreventExitStatus"])
	}
	cfg, err := config.Load(filepath.Join(root, "configs", "examples", "everything.yaml"), config.Overrides{}, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Dir(cfg.Output.Path), filepath.Dir(cfg.Checkpoint.Path), unit["WorkingDirectory"]} {
		if folder != "/var/lib/"+unit["StateDirectory"] {
			t.Errorf("it may not write to %s", folder)
		}
	}
}

// node is as much of a JSON Schema as says which keys there are.
type node struct {
	Ref         string           `json:"$ref"`
	Default     *json.RawMessage `json:"default"`
	Properties  map[string]*node `json:"properties"`
	Items       *node            `json:"items"`
	AnyOf       []*node          `json:"anyOf"`
	Definitions map[string]*node `json:"$defs"`
}

// leaves calls fn with each key that has no keys below, dotted, an element of a list as [].
func (n *node) leaves(defs map[string]*node, path string, fn func(path string, n *node)) {
	if def, ok := strings.CutPrefix(n.Ref, "#/$defs/"); ok && len(n.Properties) == 0 {
		if target := defs[def]; len(target.Properties) > 0 {
			target.leaves(defs, path, fn)
			return
		}
	}
	below := false
	if n.Items != nil {
		n.Items.leaves(defs, path+"[]", func(p string, inner *node) {
			if p != path+"[]" {
				below = true
				fn(p, inner)
			}
		})
	}
	for key, p := range n.Properties {
		below = true
		p.leaves(defs, strings.TrimPrefix(path+"."+key, "."), fn)
	}
	if !below {
		fn(path, n)
	}
}

func readSchema(t *testing.T, text []byte) *node {
	t.Helper()
	n := new(node)
	if err := json.Unmarshal(text, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Each key of the config has a row that says its default, each flag for one says which, and no row is about another key.
func TestDocsConfigKeys(t *testing.T) {
	table := rows(t, "docs/config.md")
	s := readSchema(t, schema.Config())
	known := map[string]bool{"resources": true, "redact": true, "defaults": true}
	if _, is := table["defaults"]; !is {
		t.Error("docs/config.md has no row for defaults")
	}
	delete(s.Properties, "defaults") // whose keys are those of an entry
	check := func(path string, n *node) {
		known[path] = true
		row, is := table[path]
		if !is {
			t.Errorf("docs/config.md has no row for %s", path)
			return
		}
		want := "none"
		if n.Default != nil {
			want = strings.NewReplacer(`["`, "[", `"]`, "]", `","`, ", ", `", "`, ", ").Replace(string(*n.Default))
			if text, err := strconv.Unquote(want); err == nil && regexp.MustCompile(`^[\w./]+$`).MatchString(text) {
				want = text
			}
			want = "`" + want + "`"
		}
		if shown, _, _ := strings.Cut(strings.TrimSpace(row), " |"); shown != want {
			t.Errorf("docs/config.md: the default of %s is %s, not %s", path, want, shown)
		}
	}
	s.leaves(s.Definitions, "", check)
	s.Definitions["resource"].leaves(s.Definitions, "", check)
	for _, o := range config.Options {
		flag := "--" + o.Flag
		known[flag] = true
		if want := fmt.Sprintf(" `%s` | `%s` |", o.Env, o.Key); table[flag] != want {
			t.Errorf("docs/config.md: the row of %s is %q, not %q", flag, table[flag], want)
		}
	}
	for name := range table {
		if !known[name] {
			t.Errorf("docs/config.md has a row for %s, which is no key", name)
		}
	}
}

// The keys that need a restart are marked so, and no others.
func TestDocsRestart(t *testing.T) {
	var want, marked []string
	other := &config.Config{LeaderElection: config.LeaderElection{LeaseName: "a", LeaseNamespace: "b"}}
	for _, f := range daemon.FixedKeys(config.Default(), other) {
		want = append(want, f.Path)
	}
	for key, row := range rows(t, "docs/config.md") {
		if strings.HasSuffix(row, "| restart |") {
			marked = append(marked, key)
		}
	}
	slices.Sort(want)
	slices.Sort(marked)
	if len(want) == 0 || !slices.Equal(want, marked) {
		t.Errorf("docs/config.md marks %v as needing a restart; it is %v", marked, want)
	}
}

// Each field of a line has a row, and there is a line of each type to see. That these are lines is tested with the schema.
func TestDocsLineFields(t *testing.T) {
	table := rows(t, "docs/line.md")
	s := readSchema(t, schema.Line())
	s.leaves(s.Definitions, "", func(path string, _ *node) {
		if _, is := table[path]; !is {
			t.Errorf("docs/line.md has no row for %s", path)
		}
	})
	page := pages(t)["docs/line.md"]
	for _, typ := range []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"} {
		if !regexp.MustCompile(`(?m)^\{"seq":\d+,"time":"[^"]+","type":"` + typ + `"`).MatchString(page) {
			t.Errorf("docs/line.md shows no line of type %s", typ)
		}
	}
}

// texts returns the string literals in a Go file that are the values of what choose says yes to.
func texts(t *testing.T, path string, choose func(ast.Node) []ast.Expr) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		for _, e := range choose(n) {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
		}
		return true
	})
	if len(all) == 0 {
		t.Fatalf("%s has nothing of the kind", path)
	}
	return all
}

// constants chooses the values of constants declared under a comment.
func constants(comment string) func(ast.Node) []ast.Expr {
	return func(n ast.Node) (values []ast.Expr) {
		decl, ok := n.(*ast.GenDecl)
		if !ok || !strings.Contains(decl.Doc.Text(), comment) {
			return nil
		}
		for _, spec := range decl.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				values = append(values, v.Values...)
			}
		}
		return values
	}
}

// reasonsOf chooses what is given as an outcome's reason.
func reasonsOf(n ast.Node) []ast.Expr {
	if kv, ok := n.(*ast.KeyValueExpr); ok {
		if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Reason" {
			return []ast.Expr{kv.Value}
		}
	}
	return nil
}

// Each reason that a reader or an operator may meet is explained.
func TestDocsReasons(t *testing.T) {
	gaps := texts(t, "internal/format/line/type.go", constants("reasons of GAP lines"))
	line, operations := rows(t, "docs/line.md"), rows(t, "docs/operations.md")
	for _, reason := range gaps {
		if _, is := line[reason]; !is {
			t.Errorf("docs/line.md does not say what a GAP with %s means", reason)
		}
	}
	others := texts(t, "internal/record/failure/failure.go", reasonsOf)
	others = append(others, texts(t, "internal/record/streams/pending.go", func(n ast.Node) []ast.Expr {
		if f, ok := n.(*ast.FuncDecl); !ok || f.Name.Name != "reasonOf" {
			return nil
		}
		var values []ast.Expr
		ast.Inspect(n, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				values = append(values, r.Results...)
			}
			return true
		})
		return values
	})...)
	for _, reason := range others {
		if _, is := operations[reason]; !is && reason != "Stopped" { // nobody sees that one
			t.Errorf("docs/operations.md does not say what the reason %s means", reason)
		}
	}
}

// TestHelpInDocs compares docs/commands.md with the help of all commands. With -update it writes the page.
func TestHelpInDocs(t *testing.T) {
	var want strings.Builder
	want.WriteString("# Commands\n\n<!-- Generated by go test ./cmd/kubejournal -run TestHelpInDocs -update -->\n\nThe `--help` of each command.\n")
	for _, path := range commandPaths(newRootCommand()) {
		var out, fault bytes.Buffer
		if status := run(t.Context(), append(slices.Clone(path), "--help"), strings.NewReader(""), &out, &fault); status != 0 || fault.Len() > 0 {
			t.Fatalf("%v --help: status %d, %s", path, status, fault.String())
		}
		fmt.Fprintf(&want, "\n## %s\n\n```text\n%s\n```\n",
			strings.Join(append([]string{"kubejournal"}, path...), " "), strings.TrimRight(out.String(), "\n"))
	}
	name := filepath.Join(root, "docs", "commands.md")
	if *update {
		if err := os.WriteFile(name, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want.String() {
		t.Error("docs/commands.md differs from the help of the commands; run this test with -update")
	}
}

// commandPaths are the arguments that name each command, the program itself first.
// How completion is set up in each shell is cobra's to say.
func commandPaths(c *cobra.Command, before ...string) [][]string {
	all := [][]string{before}
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		all = append(all, commandPaths(sub, append(slices.Clone(before), sub.Name())...)...)
	}
	return all
}

// The patterns of the shipped pipelines match a journal's lines, and none of the files beside them.
func TestPipelinePatterns(t *testing.T) {
	pattern := regexp.MustCompile(`/var/lib/kubejournal/([^/\s"\],]*\*[^/\s"\],]*)`)
	const rotated = "journal-2026-11-20T16-10-22.123.jsonl"
	count := 0
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range pattern.FindAllSubmatch(content, -1) {
			count++
			for name, lines := range map[string]bool{
				rotated: true, rotated + ".gz": true, "journal.jsonl": true, rotated + ".index": false, "." + rotated + ".gz.tmp": false,
				"." + rotated + ".index.tmp": false, "journal.jsonl.coverage": false, "journal.jsonl.api": false, ".journal.jsonl.owner": false,
			} {
				if is, err := filepath.Match(string(m[1]), name); err != nil || is && !lines {
					t.Errorf("%s: %s matches %s: %v", path, m[1], name, err)
				}
			}
		}
		return err
	})
	if err != nil || count < 5 {
		t.Errorf("%d patterns: %v", count, err)
	}
}

// Each test that the threat model names is there, in the package that it is said to be in.
func TestDocsSecurityTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:internal|cmd|test)/[a-z/]+)`: ((?:`(?:Test|Fuzz)\\w+`(?:, |; )?)+)")
	functions := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	count := 0
	for _, match := range named.FindAllStringSubmatch(string(page), -1) {
		files, err := filepath.Glob(filepath.Join(root, match[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		for _, name := range functions.FindAllStringSubmatch(match[2], -1) {
			if count++; !strings.Contains(all.String(), "\nfunc "+name[1]+"(") {
				t.Errorf("docs/security.md names %s, which %s does not have", name[1], match[1])
			}
		}
	}
	if all := len(functions.FindAllString(string(page), -1)); count != all || count < 30 {
		t.Errorf("%d tests are named, %d of them behind their package", all, count)
	}
}
