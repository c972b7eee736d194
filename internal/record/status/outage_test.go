package status

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

var update = flag.Bool("update", false, "write the golden files anew")

// inOutage is a daemon in the middle of an outage of the API server, 14 s or 74 s long: what it says, its readiness, and
// streams that wait for the server, one that fails by itself, and one that waits for its CRD.
func inOutage(lasts time.Duration) (About, []Check, []streams.Status) {
	now := time.Now()
	o := outage.Outage{Since: now.Add(-lasts), Streams: 3, Of: 5, Attempts: 12, Reason: "ConnectionRefused", Error: "dial tcp 10.96.0.1:443: connect: connection refused"}
	about := About{
		Version: "v1", Commit: "abc", Started: now.Add(-time.Hour), Cluster: "prod", Server: "https://10.96.0.1:443", Outage: o,
		Config: "/etc/kubejournal/kubejournal.yaml",
		Output: "/var/lib/kubejournal/journal.jsonl", OutputSpace: Space{Free: 812e9, Size: 1e12},
		Journal:    metrics.Journal{Oldest: now.Add(-49 * time.Hour), Seq: 1234, Segments: 4},
		Checkpoint: "/var/lib/kubejournal/kubejournal.db", CheckpointSpace: Space{Free: 812e9, Size: 1e12},
		Progress: recorder.Progress{Written: 1234, Committed: 1234, CommittedAt: now.Add(-lasts)},
	}
	ready := func() error {
		if lasts < time.Minute {
			return nil
		}
		return errors.New(o.Text(now))
	}
	checks := []Check{
		{Name: "output", Err: func() error { return nil }},
		{Name: ServerCheck, Err: ready, Note: func() string { return o.Text(now) }},
		{Name: "streams", Err: func() error { return nil }},
	}
	var all []streams.Status
	for _, name := range []string{"deployments.apps", "pods", "secrets"} {
		s := status(name, watcher.Retrying, reason("ConnectionRefused"), failing(lasts))
		s.Since, s.LastProgress, s.Unreachable = now.Add(-lasts), now.Add(-lasts), true
		all = append(all, s)
	}
	bad := status("services", watcher.Retrying, reason("Unauthorized"), failing(5*time.Minute))
	crd := streams.Status{Name: "widgets.example.com", Status: watcher.Status{State: watcher.Pending, Reason: failure.ReasonNotFound, Since: now.Add(-time.Hour)}}
	return about, checks, append(all, bad, crd)
}

// The page in an outage, without what every page has: the error is on it once, and one row is red.
func TestPageInAnOutage(t *testing.T) {
	for _, lasts := range []time.Duration{14 * time.Second, 74 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			about, checks, all := inOutage(lasts)
			text, _ := shown(t, about, checks, all...)
			if n := strings.Count(text, "connection refused"); n != 1 {
				t.Errorf("the error is there %d times", n)
			}
			if n := strings.Count(text, `<tr role="row" class="bad"`); n != 1 {
				t.Errorf("%d rows are red", n)
			}
			golden(t, fmt.Sprintf("outage-%v.html", lasts), body(text))
		})
	}
}

// body is a page without its head, script, help and marks.
func body(text string) string {
	for _, part := range []string{`(?s)^.*?<header>`, `(?s)<details.*$`, `<svg.*?</svg>`} {
		text = regexp.MustCompile(part).ReplaceAllString(text, "")
	}
	return text
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil { //nolint:gosec // of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// A page whose streams all wait for the API server has nothing else that needs attention.
func TestPageInAnOutageAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		about, checks, all := inOutage(14 * time.Second)
		text, _ := shown(t, about, checks, all[:3]...)
		if got, want := headlined(t, text), "API server unreachable for 14s: 3 of 5 streams"; got != want || !strings.Contains(text, "<title>(1) kubejournal prod</title>") {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A custom resource that is not there yet needs no attention; what else is pending does.
func TestPendingLevels(t *testing.T) {
	for _, c := range []struct {
		name, reason, near string
		want               level
		why                string
	}{
		{"widgets.example.com", "NotFound", "", busy, AwaitsCRD},
		{"widgets.example.com?namespace=a.b", "NotFound", "", busy, AwaitsCRD},
		{"widgits.example.com", "NotFound", "widgets.example.com", busy, AwaitsCRD + ", did you mean widgets.example.com?"},
		{"widgets.example.com", "Forbidden", "", bad, "Forbidden: this identity may not list or watch it"},
		{"deployments.apps", "NotFound", "", bad, "NotFound: the server does not have it"},
		{"podz?labelSelector=a.b.c/d", "NotFound", "pods", bad, "NotFound: the server does not have it, did you mean pods?"},
		{"widgets.v1.example.com", "NotFound", "", busy, AwaitsCRD},
		{"deployments.v1.apps", "NotFound", "", bad, "NotFound: the server does not have it"},
		{"podgroups.scheduling.k8s.io", "NotFound", "", bad, "NotFound: the server does not have it"},
	} {
		r := newRow(status(c.name, watcher.Pending, reason(c.reason), func(s *watcher.Status) { s.Near = c.near }), time.Now())
		if r.Level != c.want || r.Why != c.why {
			t.Errorf("%s %s: %s %q, want %s %q", c.name, c.reason, r.Level, r.Why, c.want, c.why)
		}
	}
}

// The charts of all streams are on one scale, which is named.
func TestOneScale(t *testing.T) {
	c := counters{"busy": 0, "quiet": 0}
	site := NewSite(metrics.New("", "").Registry, nil, c.streams, func() About { return About{} })
	site.rates.begin()
	c["busy"], c["quiet"] = 1000, 100
	site.rates.sample()
	p := site.look(time.Now())
	if p.Scale != "200" || p.Rows[0].Chart.Path != "M119 32V2h1V32z" || p.Rows[1].Chart.Path != "M119 32V29h1V32z" {
		t.Errorf("to %s: %s and %s", p.Scale, p.Rows[0].Chart.Path, p.Rows[1].Chart.Path)
	}
}
