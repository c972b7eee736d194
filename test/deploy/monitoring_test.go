package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/record/metrics"
	"kubejournal/internal/watcher"
)

var monitoring = filepath.Join(root, "deploy", "monitoring")

// Labels that a scrape adds, whoever is scraped.
var targetLabels = []string{"namespace", "pod", "job", "instance"}

var description = regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{(?:(\w+)=.*)?\}, variableLabels: \{([^}]*)\}`)

// exported are the series of the daemon with their labels, whether or not they have a value yet.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	m := metrics.New(version, commit)
	m.WatchServer(func() float64 { return 1 })
	m.WatchElection("default/kubejournal", func() float64 { return 0 }, func() float64 { return 0 })
	m.WatchFilesystem("output", t.TempDir())
	m.WatchJournal(func() metrics.Journal { return metrics.Journal{Oldest: time.Now(), Seq: 1, Segments: 1} })
	all := map[string][]string{}
	add := func(name string, histogram bool, names []string) {
		if !histogram {
			all[name] = names
			return
		}
		all[name+"_sum"], all[name+"_count"], all[name+"_bucket"] = names, names, append(slices.Clone(names), "le")
	}
	for kind, field := range reflect.ValueOf(m).Elem().Fields() {
		if !kind.IsExported() {
			continue
		}
		collector, ok := field.Interface().(prometheus.Collector)
		if !ok || field.Type() == reflect.TypeFor[*prometheus.Registry]() {
			continue
		}
		_, histogram := collector.(prometheus.Histogram)
		described := make(chan *prometheus.Desc, 1)
		collector.Describe(described)
		found := description.FindStringSubmatch((<-described).String())
		if found == nil {
			t.Fatal("a metric describes itself in another way now")
		}
		var names []string
		if found[3] != "" {
			names = strings.Split(found[3], ",")
		}
		if found[2] != "" { // one at most
			names = append(names, found[2])
		}
		add(found[1], histogram, names)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families { // what has no field that can be read: the build, the process, the runtime
		if _, known := all[f.GetName()]; known {
			continue
		}
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		add(f.GetName(), f.GetMetric()[0].GetHistogram() != nil, names)
	}
	return all
}

// checkQuery holds an expression against what there is: each metric, each label that it selects, groups or joins by, and
// each value of a label that is known beforehand.
func checkQuery(t *testing.T, known map[string][]string, query string) {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	usable := slices.Clone(targetLabels)
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names, ok := known[selector.Name]
		if !ok {
			t.Errorf("%s: nobody exports %s", query, selector.Name)
		}
		usable = append(usable, names...)
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name == model.MetricNameLabel {
				continue
			}
			if !slices.Contains(names, matcher.Name) && !slices.Contains(targetLabels, matcher.Name) {
				t.Errorf("%s: %s has no label %s", query, selector.Name, matcher.Name)
			}
			checkValues(t, query, matcher)
		}
		return nil
	})
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, name := range names {
			if !slices.Contains(usable, name) {
				t.Errorf("%s: nothing in it has a label %s", query, name)
			}
		}
		return nil
	})
}

// checkValues holds what a matcher names against the values that the label can have: a state that is misspelt matches
// nothing for ever.
func checkValues(t *testing.T, query string, matcher *labels.Matcher) {
	t.Helper()
	var known []string
	switch matcher.Name {
	case "state":
		for _, s := range []watcher.State{watcher.Starting, watcher.Listing, watcher.Watching, watcher.Retrying, watcher.Pending} {
			known = append(known, string(s))
		}
	case "type":
		known = []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"}
	case "reason":
		known = []string{"FirstSync", "Expired", "PositionAheadOfServer", "CheckpointLost", "JournalTruncated", "PositionRefused", "RelistInterrupted"}
	default:
		return
	}
	for _, value := range strings.Split(matcher.Value, "|") {
		if !slices.Contains(known, value) {
			t.Errorf("%s: no %s is %s", query, matcher.Name, value)
		}
	}
}

// rule is an alert.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	read(t, filepath.Join(monitoring, "rules.yaml"), &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Each alert says what it is about, what to do, and of series that there are.
func TestRules(t *testing.T) {
	known := exported(t)
	runbooks, err := os.ReadFile(filepath.Join(root, "docs", "runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, s := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllSubmatch(runbooks, -1) {
		sections[string(s[1])] = true
	}
	for _, r := range rules(t) {
		checkQuery(t, known, r.Expr)
		if r.Annotations["runbook_url"] != "docs/runbooks.md#"+strings.ToLower(r.Alert) || !sections[r.Alert] {
			t.Errorf("%s has no section in docs/runbooks.md, or its runbook_url is another: %s", r.Alert, r.Annotations["runbook_url"])
		}
		delete(sections, r.Alert)
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
		}
	}
	for name := range sections {
		t.Errorf("docs/runbooks.md has a section %s, and no alert has that name", name)
	}
}

// promtool checks the rules, and runs their tests, of which each alert has one that fires and one that does not.
func TestPromtool(t *testing.T) {
	tool := installed(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	var file struct {
		Tests []struct {
			Alerts []struct {
				Alertname string
				Expected  []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, filepath.Join(monitoring, "rules_test.yaml"), &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Alertname] = true
			} else {
				silent[a.Alertname] = true
			}
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test has it fire: %t, and be silent: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

// dashboard is what Grafana is given.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name       string
			Query      any
			Datasource *datasource
		}
	}
}

// panel is one of its parts. A row has nothing but a title.
type panel struct {
	ID          int
	Type        string
	Title       string
	Datasource  *datasource
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Min, Max *float64
		}
	}
	Targets []struct {
		Expr         string
		LegendFormat string
		Instant      bool
		Datasource   *datasource
	}
}

type datasource struct{ Type, UID string }

func theDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	read(t, filepath.Join(monitoring, "grafana-dashboard.json"), &d)
	return d
}

// grafana puts values in the place of Grafana's variables, and of ours as they are when nothing has been chosen.
func grafana(rateInterval, dashboardRange string) *strings.Replacer {
	return strings.NewReplacer("$__rate_interval", rateInterval, "$__range", dashboardRange, "$namespace", ".*", "$pod", ".*")
}

// Each panel has a place and an id of its own, asks the data source that was chosen for series that there are, and shows
// them in a unit that Grafana knows.
func TestDashboard(t *testing.T) {
	d := theDashboard(t)
	known := exported(t)
	used := map[string]bool{}
	variables := grafana("5m", "1h")
	ids, taken := map[int]string{}, map[[2]int]string{}
	source := datasource{Type: "prometheus", UID: "${datasource}"}
	for _, p := range d.Panels {
		if other, is := ids[p.ID]; is || p.ID == 0 {
			t.Errorf("%s and %s have one id", p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.GridPos.W == 0 || p.GridPos.H == 0 {
			t.Errorf("%s has no place", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%s lies over %s or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		if !slices.Contains([]string{"stat", "timeseries", "table"}, p.Type) || p.Datasource == nil || *p.Datasource != source {
			t.Errorf("%s is a %s and asks %v", p.Title, p.Type, p.Datasource)
		}
		if unit := p.FieldConfig.Defaults.Unit; !slices.Contains([]string{"short", "s", "cps", "bytes", "Bps", "percentunit", "bool_yes_no"}, unit) {
			t.Errorf("%s: no unit %q, or one that is new here", p.Title, unit)
		}
		for _, target := range p.Targets {
			if target.Datasource == nil || *target.Datasource != source {
				t.Errorf("%s: a query asks %v", p.Title, target.Datasource)
			}
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("%s: a variable is not known: %s", p.Title, query)
			}
			checkQuery(t, known, query)
			for _, name := range selected(t, query) {
				used[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Name != "datasource" && (!strings.Contains(fmt.Sprint(v.Query), "label_values(kubejournal_build_info") || v.Datasource == nil || *v.Datasource != source) {
			t.Errorf("variable %s asks %v %v", v.Name, v.Datasource, v.Query)
		}
	}
	// What the daemon counts for people is to be seen; these are to be asked for.
	used["kubejournal_config_last_reload_success_timestamp_seconds"] = true
	used["kubejournal_config_info"] = true
	for name := range known {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "kubejournal_") && !used[base] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// selected are the metrics that a query names.
func selected(t *testing.T, query string) []string {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var names []string
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}
