package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

// An annotation that makes lines too long hides no change of a rule, and nothing that is cut passes for a value.
func TestTruncatedAnswers(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Minute))
	s := j.Stream("clusterroles.rbac.authorization.k8s.io", "ClusterRole")
	pad := strings.Repeat("secret of the writer, ", 1000)
	role := func(annotations, verb string) string {
		return `{"metadata":{"name":"deployers","uid":"a1","labels":{"app":"web"}` + annotations + `},"rules":[{"verbs":["` + verb + `"],"resources":["pods"]}]}`
	}
	padded := `,"annotations":{"pad":"` + pad + `"}`
	j.MaxBytes = 16 << 10
	s.Snapshot()
	s.Synced()
	for _, object := range []string{role("", "get"), role(padded, "*"), role(padded, "list"), role(padded, "list")} {
		j.Now = j.Now.Add(time.Second)
		s.Put("kubectl-edit", object)
	}
	confirmNow(t, j, path, s)

	const name = "clusterrole/deployers"
	for _, c := range []struct {
		args   string
		status int
		want   []string // in what is printed
	}{
		{"history " + name, 0, []string{"get→*", "annotations", "*→list", "truncated"}},
		{"history " + name + " --field rules[0].verbs", 0, []string{"get→*", "*→list"}},
		{"get " + name, 0, []string{"deployers"}},
		{"get clusterroles -l app=web -o name", 0, []string{"clusterrole.rbac.authorization.k8s.io/deployers"}},
		{"get clusterroles -l app=db", 0, nil},
		{"get clusterroles --field-selector metadata.annotations.pad=x", 3, []string{"deployers: not known whether it matches"}},
		{"get " + name + " -o yaml", 3, []string{"- list", "…[cut 22002 bytes]", "cut: metadata.annotations.pad"}},
		{"get " + name + " -o json", 3, []string{`"list"`, "…[cut 22002 bytes]", "cut: metadata.annotations.pad"}},
		{"get " + name + " --clean -o yaml", 1, []string{"deployers: refused: truncated, cut: metadata.annotations.pad"}},
		{"diff " + name + " --since 1h", 1, []string{"its line is truncated, cut: metadata.annotations.pad"}},
		{"history " + name + " --patch", 0, []string{"# incomplete: its line is truncated, cut: metadata.annotations.pad"}},
		{"blame " + name, 3, []string{"- get", "this is the object of seq 2"}},
	} {
		status, stdout, stderr := execute(t, append(strings.Fields(c.args), "--journal", path)...)
		if status != c.status {
			t.Errorf("%s: status %d\n%.3000s%s", c.args, status, stdout, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: no %q in\n%.3000s%s", c.args, want, stdout, stderr)
			}
		}
	}
}
