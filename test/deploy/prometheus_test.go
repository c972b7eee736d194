package deploy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What a daemon exports only after something that does not happen to a healthy one within seconds.
var rare = map[string]string{
	"kubejournal_watch_restarts_total":   "a watch stands for minutes",
	"kubejournal_filter_errors_total":    "a filter has to fail",
	"kubejournal_unusable_objects_total": "an object has to be unusable",
}

// Panels that have nothing to show of a healthy daemon.
var quiet = map[string]string{
	"Not watching": "all streams watch",
}

const every = "500ms" // Prometheus scrapes and evaluates

// A real Prometheus scrapes a running daemon: each panel and each rule finds what it asks for, no alert disturbs a healthy
// daemon, and a refused edit of the config is told of and taken back.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	d := newMonitored(t)
	p := d.scraped()

	variables := grafana("1m", "1h")
	var names []string
	for _, panel := range theDashboard(t).Panels {
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			names = append(names, selected(t, query)...)
			eventually(t, panel.Title+" shows "+query, func() error {
				d.churn()
				n, err := p.ask(query)
				if err != nil {
					t.Fatalf("%s: %v", query, err)
				}
				if n == 0 && !mayBeEmpty(panel.Title, query) {
					return errors.New("nothing")
				}
				return nil
			})
		}
	}
	for _, r := range rules(t) {
		names = append(names, selected(t, r.Expr)...)
	}
	have, known := p.metrics(), exported(t)
	for _, name := range names {
		_, mayLack := rare[name]
		if _, is := known[name]; !is || !mayLack && !slices.Contains(have, name) {
			t.Errorf("Prometheus has no %s", name)
		}
	}
	for name := range rare {
		if !slices.Contains(names, name) {
			t.Errorf("nobody asks for %s any more", name)
		}
	}

	p.alerts(nil)
	d.configure("resources: [configmaps, {resource: pods, initial: never}]")
	p.alerts(map[string]promv1.AlertState{"as it is/KubejournalReloadFailed": promv1.AlertStatePending, "at once/KubejournalReloadFailed": promv1.AlertStateFiring})
	d.configure(healthy)
	p.alerts(nil)
	if *picture != "" {
		p.draw(d)
	}
}

// mayBeEmpty reports whether a panel's query has no answer as long as all is well.
func mayBeEmpty(title, query string) bool {
	for name := range rare {
		if strings.Contains(query, name) {
			return true
		}
	}
	_, ok := quiet[title]
	return ok
}

// monitored is a daemon to which things happen.
type monitored struct {
	t       *testing.T
	server  *server
	config  string
	process *process
	made    int
}

const healthy = "resources: [{resource: configmaps, namespaces: [monitored], types: [ADDED, MODIFIED]}, pods, secrets, deployments.apps]"

func newMonitored(t *testing.T) *monitored {
	t.Helper()
	s := theServer(t)
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: monitored}}"))...)
	dir := t.TempDir()
	d := &monitored{t: t, server: s, config: filepath.Join(dir, "kubejournal.yaml")}
	d.configure("resources: [{resource: configmaps, namespaces: [monitored], types: [ADDED, MODIFIED]}]")
	d.process = start(t, command(t, "run", "--kubeconfig", s.Kubeconfig(), "--config", d.config,
		"--output", filepath.Join(dir, "journal.jsonl"), "--checkpoint", filepath.Join(dir, "kubejournal.db"), "--listen", "127.0.0.1:0"))
	eventually(t, "every stream watches", d.process.watching)
	return d
}

// configure edits the config, which the running daemon sees.
func (d *monitored) configure(text string) {
	d.t.Helper()
	text += "\nleaderElection: {leaseName: monitored, leaseNamespace: monitored}\n" // for its metrics
	if err := errors.Join(os.WriteFile(d.config+".new", []byte(text), 0o600), os.Rename(d.config+".new", d.config)); err != nil {
		d.t.Fatal(err)
	}
}

// churn makes, changes and deletes an object.
func (d *monitored) churn() {
	d.t.Helper()
	d.made++
	objects, ctx := d.server.client.CoreV1().ConfigMaps("monitored"), d.t.Context()
	o, err := objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", d.made)}}, metav1.CreateOptions{})
	if err == nil {
		o.Data = map[string]string{"a": "1"}
		_, err = objects.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err == nil {
		err = objects.Delete(ctx, o.Name, metav1.DeleteOptions{})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// scraper is a Prometheus.
type scraper struct {
	promv1.API
	t *testing.T
}

var listeningOn = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// scraped starts a Prometheus that has the daemon for its target, and rules.yaml twice: as it is, and with no alert waiting
// before it fires. When it returns, the daemon is up, and a list of it has been seen.
func (d *monitored) scraped() *scraper {
	t := d.t
	t.Helper()
	dir := t.TempDir()
	asIs, err := filepath.Abs(filepath.Join(monitoring, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	read(t, asIs, &file)
	for i := range file.Groups {
		file.Groups[i].Name = "at once"
		for _, r := range file.Groups[i].Rules {
			delete(r, "for")
			r["labels"].(map[string]any)["group"] = "at once" // or both groups' alerts would be one series
		}
	}
	atOnce, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: %s, evaluation_interval: %[1]s}
rule_files: [%s, at-once.yaml]
scrape_configs: [{job_name: kubejournal, static_configs: [{targets: ["%s"], labels: {namespace: kubejournal, pod: kubejournal-0}}]}]
`, every, asIs, d.process.address())
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "at-once.yaml"), atOnce, 0o600), os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	process := start(t, exec.Command(installed(t, "prometheus", "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0"))
	s := &scraper{t: t}
	eventually(t, "Prometheus scrapes the daemon", func() error {
		if !process.Alive() {
			t.Fatal("Prometheus has ended")
		}
		address := listeningOn.FindSubmatch(process.log())
		if address == nil {
			return errors.New("not listening yet")
		}
		client, err := api.NewClient(api.Config{Address: "http://" + string(address[1])})
		if err != nil {
			t.Fatal(err)
		}
		s.API = promv1.NewAPI(client)
		n, err := s.ask("up == 1")
		if err == nil && n == 0 {
			err = errors.New("up is not 1")
		}
		return err
	})
	// A list that Prometheus has seen both sides of.
	d.configure(healthy)
	eventually(t, "every stream watches", d.process.watching)
	return s
}

// ask tells how many series a query is answered with that have a value.
func (s *scraper) ask(query string) (int, error) {
	value, _, _, err := s.Query(s.t.Context(), query, time.Now())
	if err != nil {
		return 0, err
	}
	n := 0
	for _, sample := range value.(model.Vector) {
		if !math.IsNaN(float64(sample.Value)) {
			n++
		}
	}
	return n, nil
}

// metrics are the names of all series.
func (s *scraper) metrics() []string {
	s.t.Helper()
	values, _, _, err := s.LabelValues(s.t.Context(), model.MetricNameLabel, nil, time.Now().Add(-time.Hour), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, v := range values {
		names = append(names, string(v))
	}
	return names
}

// alerts waits until exactly these alerts are pending or firing, by group and name. Every rule must have been evaluated
// since.
func (s *scraper) alerts(want map[string]promv1.AlertState) {
	s.t.Helper()
	began := time.Now()
	eventually(s.t, fmt.Sprintf("of the alerts %v", want), func() error {
		result, err := s.Rules(s.t.Context(), nil)
		if err != nil {
			return err
		}
		got, evaluated := map[string]promv1.AlertState{}, 0
		for _, group := range result.Groups {
			name := "as it is"
			if group.Name != "kubejournal" {
				name = group.Name
			}
			for _, each := range group.Rules {
				r := each.(promv1.AlertingRule)
				if r.Health == promv1.RuleHealthBad {
					s.t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health != promv1.RuleHealthGood || r.LastEvaluation.Before(began) {
					return fmt.Errorf("%s has not been evaluated", r.Name)
				}
				evaluated++
				if r.Name == "KubejournalDiskFilling" {
					continue // the disk is this machine's, and whoever else works on it may fill it
				}
				if state := promv1.AlertState(r.State); state != promv1.AlertStateInactive {
					got[name+"/"+r.Name] = state
				}
			}
		}
		if evaluated != 2*len(rules(s.t)) {
			s.t.Fatalf("%d rules of %d, twice", evaluated, len(rules(s.t)))
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}
