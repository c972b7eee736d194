package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/object"
	"kubejournal/test/journaltest"
)

// A search is in doubt where the text may be in what the lines do not have, and nowhere else.
func TestGrepDoubts(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Minute))
	secrets, configmaps, jobs := j.Stream("secrets", "Secret"), j.Stream("configmaps", "ConfigMap"), j.Stream("jobs.batch", "Job")
	jobs.Payload = object.MetadataOnly
	for _, s := range []*journaltest.Stream{secrets, configmaps, jobs} {
		s.Snapshot()
		s.Synced()
	}
	j.Now = j.Now.Add(time.Second)
	secrets.Put("helm", `{"metadata":{"namespace":"shop","name":"db","uid":"a1","labels":{"app":"web-db"}},"data":{"password":"c2hvcA==","user":"c2hvcA=="}}`)
	configmaps.Put("kubectl-edit", `{"metadata":{"namespace":"shop","name":"web","uid":"b1"},"data":{"uses":"web-db","esc":"\u001b[31m web-db \u202e"}}`)
	jobs.Put("helm", `{"metadata":{"namespace":"shop","name":"migrate","uid":"c1","labels":{"app":"web-db"}},"spec":{"parallelism":3}}`)
	confirmNow(t, j, path, secrets, configmaps, jobs)

	for _, c := range []struct {
		args       string
		status     int
		want, none []string // in what is printed
	}{
		{"secrets --grep web-db", 0, []string{"metadata.labels.app web-db", "not searched: 2 redacted values of 1 object\n"}, nil},
		{"secrets --grep c2hvcA", 3, []string{"not searched: 2 redacted values of 1 object", "none of 1 version has it"}, nil},
		{"secrets --grep c2hvcA --field metadata", 0, []string{"none of 1 version has it"}, []string{"not searched"}},
		{"secrets --grep-regexp web.db", 3, []string{"metadata.labels.app web-db"}, nil},
		{"cm --grep c2hvcA", 0, []string{"none of 1 version has it"}, []string{"not searched"}},
		{"cm --grep web-db", 0, []string{"data.uses web-db", `data.esc \x1b[31m web-db \u202e`}, []string{"\x1b", "\u202e"}},
		{"cm --grep web-db --by helm", 0, []string{"none of 1 version has it"}, nil},
		{"jobs --grep parallel", 3, []string{"not searched: 1 object of which lines do not have all (payload)"}, nil},
		{"jobs --grep web-db --field metadata.labels", 0, []string{"metadata.labels.app web-db"}, []string{"not searched"}},
		{"--grep web-db -A", 3, []string{"secrets ", "configmaps ", "jobs.batch "}, nil},
		{"cm/web --grep web-db -o wide", 0, []string{"shop/web"}, []string{"uid"}},
	} {
		status, stdout, stderr := execute(t, append(append([]string{"history"}, strings.Fields(c.args)...), "--journal", path)...)
		if status != c.status {
			t.Errorf("%s: status %d\n%s%s", c.args, status, stdout, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: no %q in\n%s%s", c.args, want, stdout, stderr)
			}
		}
		for _, none := range c.none {
			if strings.Contains(stdout+stderr, none) {
				t.Errorf("%s: %q in\n%s%s", c.args, none, stdout, stderr)
			}
		}
	}
}

// Redacted values are in doubt where their resource, or an object, is named: not in a search everywhere.
func TestGrepRedacted(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Minute))
	secrets, configmaps := j.Stream("secrets", "Secret"), j.Stream("configmaps", "ConfigMap")
	for _, s := range []*journaltest.Stream{secrets, configmaps} {
		s.Snapshot()
		s.Synced()
	}
	secrets.Put("helm", `{"metadata":{"namespace":"shop","name":"db","uid":"a1"},"data":{"password":"c2hvcA=="}}`)
	configmaps.Put("helm", `{"metadata":{"namespace":"shop","name":"web","uid":"b1"},"data":{"user":"admin"}}`)
	confirmNow(t, j, path, secrets, configmaps)

	for args, want := range map[string]int{
		"--grep admin": 0, "-A --grep admin": 0, "-n shop --grep admin": 0, "* --grep admin": 0, "*/db --grep admin": 0,
		"secrets --grep admin": 3, "secret/db --grep admin": 3, "secret db --grep admin": 3, "cm,secrets --grep admin": 3,
		"secrets.v1. --grep admin": 3, "secret/db --related --grep admin": 3, "secrets --grep a-b": 0,
	} {
		status, stdout, stderr := execute(t, append(append([]string{"history"}, strings.Fields(args)...), "--journal", path)...)
		if status != want {
			t.Errorf("%s: status %d\n%s%s", args, status, stdout, stderr)
		}
		if !strings.Contains(stderr, "not searched: 1 redacted value of 1 object\n") {
			t.Errorf("%s: not counted\n%s%s", args, stdout, stderr)
		}
	}
}

// Several clusters are searched together.
func TestGrepClusters(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	var paths []string
	for i, cluster := range []string{"eu", "us"} {
		path := filepath.Join(t.TempDir(), cluster+".jsonl")
		j := journaltest.New(t, path, time.Now().Add(-time.Minute))
		j.Cluster, j.ClusterUID = cluster, journaltest.UID([]string{"e1", "e2"}[i])
		s := j.Stream("configmaps", "ConfigMap")
		s.Snapshot()
		s.Synced()
		for _, level := range []string{"info", "debug", "debug"} {
			j.Now = j.Now.Add(time.Duration(i+1) * time.Second)
			s.Put("helm", `{"metadata":{"namespace":"shop","name":"web","uid":"b1"},"data":{"level":"`+level+`"}}`)
		}
		confirmNow(t, j, path, s)
		paths = append(paths, "--journal", path)
	}
	status, stdout, stderr := execute(t, append([]string{"history", "--grep", "debug"}, paths...)...)
	eu, us := strings.Index(stdout, "eu "), strings.Index(stdout, "us ")
	if status != 0 || eu < 0 || us < eu || !strings.Contains(stdout, "-- eu: and 1 more version until ") || strings.Count(stdout, "data.level debug") != 2 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr = execute(t, append([]string{"history", "--grep", "debug", "-o", "json"}, paths...)...)
	if status != 0 || strings.Count(stdout, `"cluster":"us"`) != 1 || strings.Count(stdout, `"versions":2`) != 2 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}
