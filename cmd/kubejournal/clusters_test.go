package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// shop writes a journal about a shop.
type shop struct {
	*journaltest.Journal
	deployments, configmaps *journaltest.Stream
}

func openShop(t *testing.T, path, cluster, uid string, when time.Time) *shop {
	d := &shop{Journal: journaltest.New(t, path, when)}
	d.Cluster, d.ClusterUID = cluster, journaltest.UID(uid)
	d.deployments, d.configmaps = d.Stream("deployments.apps", "Deployment"), d.Stream("configmaps", "ConfigMap")
	return d
}

// list writes what existed.
func (d *shop) list(image string, configmaps ...string) {
	d.deployments.Snapshot()
	d.configmaps.Snapshot()
	d.deployments.Put("", shopWeb(image))
	for n, name := range configmaps {
		d.configmaps.Put("", shopConfig(name, fmt.Sprintf("c%d", n+1), "info"))
	}
	d.deployments.Synced()
	d.configmaps.Synced()
}

func shopWeb(image string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"d1"},
		"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example/web:%s"}]}}}}`, image)
}

func shopConfig(name, uid, level string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q},"data":{"log.level":%q}}`, name, uid, level)
}

// at14 is a time of the afternoon.
func at14(minute, second int) time.Time {
	return time.Date(2026, 11, 20, 14, minute, second, 0, time.UTC)
}

// TestPageOfClusters shows what the page shows of two clusters.
func TestPageOfClusters(t *testing.T) {
	dir := t.TempDir()
	eu := openShop(t, filepath.Join(dir, "eu.jsonl"), "eu-west", "e0", at14(0, 0))
	us := openShop(t, filepath.Join(dir, "us.jsonl"), "us-east", "a5", at14(0, 5))
	eu.list("1.4.0", "settings", "old")
	us.list("1.4.0", "settings", "canary")
	us.Now = at14(2, 11)
	us.deployments.Put("argocd", shopWeb("1.5.0"))
	eu.Now = at14(4, 30)
	eu.configmaps.Put("kubectl-edit", shopConfig("settings", "c1", "debug"))
	us.Now = at14(6, 2)
	us.configmaps.Delete("c2")
	eu.Now = at14(7, 40)
	eu.deployments.Put("kubectl-set", shopWeb("1.5.1"))
	for _, d := range []*shop{eu, us} {
		d.Now = at14(20, 0)
		d.Confirm(false, d.deployments, d.configmaps)
		d.Stop()
	}
	if shown := pageShows(t, "docs/find-out.md", "text clusters", dir); strings.Count(shown, "\n") < 4 {
		t.Errorf("the page shows %s", shown)
	}
}

// theFleet are journals of two clusters, with two replicas each. One cluster has no name; of the other one, the second replica
// wrote no line with a clusterUID. Uids, names and seq are the same in both.
func theFleet(t *testing.T) []string {
	begin := func(path, cluster, uid string, term uint64, when time.Time) *shop {
		r := openShop(t, path, cluster, uid, when)
		r.Term = term
		r.deployments.HeldBack(coverage.LeaderElection)
		r.configmaps.HeldBack(coverage.LeaderElection)
		return r
	}
	// takeOver ends a replica's term, and begins another one's.
	takeOver := func(of *shop, path, cluster, uid string, when time.Time) *shop {
		of.Now = when
		of.Confirm(false, of.deployments, of.configmaps)
		of.Stop()
		next := begin(path, cluster, uid, of.Term+1, when)
		next.deployments.Adopt(of.deployments)
		next.configmaps.Adopt(of.configmaps)
		return next
	}
	eu, us := begin("eu-a.jsonl", "eu1", "e0", 1, at14(0, 0)), begin("us-a.jsonl", "", "a5", 1, at14(0, 5))
	eu.list("1.4.0", "settings", "old")
	us.list("2.0.0", "settings", "canary")

	eu.Now = at14(2, 0)
	eu.deployments.Put("kubectl-set", shopWeb("1.5.0"))
	eu.Confirm(false, eu.deployments, eu.configmaps)
	eu.Rotate()
	us.Now = at14(2, 1)
	us.deployments.Put("argocd", shopWeb("2.1.0"))
	us.Confirm(false, us.deployments, us.configmaps)
	eu.Now = at14(2, 30)
	eu.deployments.Gap(line.Expired, at14(2, 0))
	us.Now = at14(2, 31)
	us.deployments.Gap(line.Expired, at14(2, 1))
	us.Now = at14(2, 32)
	us.configmaps.Put("kubectl-edit", shopConfig("settings", "c1", "debug"))
	eu.Now, us.Now = at14(2, 33), at14(2, 34)
	eu.deployments.Synced()
	us.deployments.Put("", shopWeb("2.2.0"))
	us.deployments.Synced()

	eu = takeOver(eu, "eu-b.jsonl", "eu1", "e0", at14(5, 0))
	us = takeOver(us, "us-b.jsonl", "", "a5", at14(5, 2))
	eu.Now = at14(6, 0)
	eu.configmaps.Put("kubectl-edit", shopConfig("settings", "c1", "warn"))
	us.Now = at14(6, 1)
	us.configmaps.Delete("c2")
	eu.Now = at14(6, 2)
	eu.configmaps.Delete("c2")
	us.Now = at14(6, 30)
	us.Confirm(false, us.deployments, us.configmaps)
	us.Now = at14(7, 0)
	us.configmaps.Gap(line.Expired, at14(6, 30))
	us.Now = at14(7, 5)
	us.configmaps.Put("", shopConfig("settings", "c1", "error"))
	us.configmaps.Synced()
	eu.Now = at14(8, 0)
	eu.configmaps.Put("kubectl-create", shopConfig("old", "c9", "info"))
	for _, r := range []*shop{eu, us} {
		r.Now = at14(20, 0)
		r.Confirm(false, r.deployments, r.configmaps)
		r.Stop()
	}
	return []string{"us-b.jsonl", "eu-a.jsonl", "us-a.jsonl", "eu-b.jsonl"}
}

// TestClusters asks two clusters together.
func TestClusters(t *testing.T) {
	clearEnv(t)
	for name, value := range map[string]string{"PAGER": "", "NO_COLOR": "1", "TERM": "xterm", "KUBECTL_EXTERNAL_DIFF": ""} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	journals := theFleet(t)
	answersOf(t, "fleet", journals...)
	var named []string
	for _, path := range journals {
		named = append(named, "--journal", path)
	}
	ask := func(args ...string) (int, string, string) { return execute(t, append(args, named...)...) }

	// Every line says of which cluster it is, and nothing else is changed.
	seen := make(map[string]int)
	_, stdout, _ := ask("history", "--all", "-o", "json")
	for l := range strings.Lines(stdout) {
		var of struct{ Cluster, ClusterUID, Time string }
		if err := json.Unmarshal([]byte(l), &of); err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		if uid := map[string]string{"eu1": "e0", "a5000000": "a5"}[of.Cluster]; of.ClusterUID != "" && of.ClusterUID != journaltest.UID(uid) {
			t.Errorf("cluster %s: %s", of.Cluster, l)
		}
		seen[of.Cluster]++
	}
	if seen["eu1"] != 11 || seen["a5000000"] != 14 || len(seen) != 2 {
		t.Errorf("lines: %v", seen)
	}

	status, _, stderr := ask("tail", "--no-follow")
	if status != exitFault || !strings.Contains(stderr, "run a tail for each cluster") {
		t.Errorf("tail: status %d, %s", status, stderr)
	}
	for words, want := range map[string]string{
		"get --cluster ":                     "a5000000\neu1\n",
		"get --cluster a5000000,e":           "a5000000,eu1\n",
		"get --cluster eu1 cm/":              "cm/old\ncm/settings\n",
		"history --cluster eu1,a5000000 cm/": "cm/canary\ncm/old\ncm/settings\n",
	} {
		before, word, _ := cutLast(words)
		args := append(append([]string{cobra.ShellCompRequestCmd}, strings.Fields(before)...), named...)
		if strings.HasSuffix(before, "--cluster") {
			args = append(append([]string{cobra.ShellCompRequestCmd, "get"}, named...), "--cluster")
		}
		if _, stdout, _ := execute(t, append(args, word)...); stdout != want+":4\n" {
			t.Errorf("%s: %q", words, stdout)
		}
	}

	// An object of the same name in two clusters is two files.
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "diff -r")
	_, stdout, _ = ask("diff", "deploy/web", "--since", "2026-11-20T14:01:00Z", "--until", "2026-11-20T14:02:10Z")
	for _, file := range []string{"apps.v1.Deployment.a5000000.shop.web", "apps.v1.Deployment.eu1.shop.web"} {
		if !strings.Contains(stdout, file) {
			t.Errorf("%s is not compared:\n%s", file, stdout)
		}
	}
}

// cutLast splits words before the last one, which may be empty.
func cutLast(words string) (before, last string, found bool) {
	i := strings.LastIndexByte(words, ' ')
	return words[:max(i, 0)], words[i+1:], i >= 0
}
