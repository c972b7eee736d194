package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubejournal/test/journaltest"
)

// TestAnyName asks every question about objects of names that are no DNS names, as RESOURCE/NAME and as RESOURCE
// NAME, of one journal and of two.
func TestAnyName(t *testing.T) {
	clearEnv(t)
	names := []string{"ldap:CN=A B,OU=x", "pods,deploy", `say "hi" & <go>`, `back\slash`, "größe", "-n"}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")
	for path, shard := range map[string]string{a: "0-of-2", b: "1-of-2"} {
		j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
		s := j.Stream("identities.user.openshift.io?shard="+shard, "Identity")
		s.Snapshot()
		s.Synced()
		for round := range 2 {
			j.Now = j.Now.Add(time.Minute)
			for n, name := range names {
				if path == a {
					s.Put("oauth", fmt.Sprintf(`{"metadata":{"name":%q,"uid":"a%d"},"user":{"name":"user-%d-%d"}}`, name, n, n, round))
				}
			}
		}
		j.Now = j.Now.Add(time.Minute)
		j.Confirm(false, s)
		j.Kill()
	}
	const before, after = "2026-11-20T14:01:30Z", "2026-11-20T14:02:30Z"
	for _, journals := range [][]string{{"--journal", a}, {"--journal", a, "--journal", b}} {
		for n, name := range names {
			for _, object := range [][]string{{"identities.user.openshift.io/" + name}, {"identities.user.openshift.io", name}} {
				for _, question := range []string{
					"history --until " + after + " -o json", "get --at " + after + " -o yaml",
					"get --clean --at " + after, "blame --at " + after,
					"diff --since " + before + " --until " + after, "tail --no-follow -o json",
				} {
					_, stdout, stderr := execute(t, slices.Concat(strings.Fields(question), journals, []string{"--"}, object)...)
					if !strings.Contains(stdout, fmt.Sprintf("user-%d-1", n)) || strings.Contains(stderr, "no line about") {
						t.Errorf("%q %q of %d journals: %s%s", question, object, len(journals)/2, stdout, stderr)
					}
					for other := range names {
						if other != n && strings.Contains(stdout, fmt.Sprintf("user-%d-", other)) {
							t.Errorf("%q %q: it has %q too", question, object, names[other])
						}
					}
				}
			}
		}
	}
}

// TestCompleteNames completes names of a journal that --journal names, and of two: all but those that do more in a shell
// than name something.
func TestCompleteNames(t *testing.T) {
	clearEnv(t)
	names := []string{
		"web-1", "web-2", "web:3,A-B", "web A", "web*", "web~", "web{a,b}", "web$(id)", "web`id`", "web;id", "web|id", "web&id", "web>x", "web'", `web"`,
		`web\`, "web!!", "web\nid", "web\tid",
	}
	var flags []string
	for _, file := range []string{"a.jsonl", "b.jsonl"} {
		path := filepath.Join(t.TempDir(), file)
		flags = append(flags, "--journal", path)
		j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
		s := j.Stream("roles.rbac.authorization.k8s.io", "Role")
		s.Snapshot()
		for n, name := range names {
			s.Put("", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"a%d"}}`, name, n))
		}
		s.Synced()
		j.Kill()
	}
	for _, journals := range [][]string{flags[:2], flags} {
		for _, command := range []string{"history", "get", "diff", "blame", "why", "tail"} {
			for _, words := range [][]string{{"role/we"}, {"role", "we"}} {
				_, stdout, _ := execute(t, slices.Concat([]string{cobra.ShellCompRequestCmd, command}, journals, words)...)
				before := strings.TrimSuffix(words[0], "we")
				if len(words) > 1 {
					before = ""
				}
				want := before + "web-1\n" + before + "web-2\n" + before + "web:3,A-B\n:4\n"
				if stdout != want {
					t.Errorf("%s %q of %d journals: %q", command, words, len(journals)/2, stdout)
				}
			}
		}
	}
}

// TestCleanLarge gives back an object that kubectl apply takes with --server-side alone, beside one that it takes:
// stderr names it.
func TestCleanLarge(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	s := j.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", fmt.Sprintf(
		`{"metadata":{"namespace":"shop","name":"large","uid":"a1"},"data":{"x":%q}}`, strings.Repeat("x", 262_144)))
	s.Put("", fmt.Sprintf(
		`{"metadata":{"namespace":"shop","name":"smaller","uid":"a2"},"data":{"x":%q}}`, strings.Repeat("x", 261_000)))
	s.Synced()
	j.Now = j.Now.Add(time.Minute)
	j.Confirm(false, s)
	j.Kill()
	status, stdout, stderr := execute(t, "get", "cm", "--clean", "--at", "2026-11-20T14:00:30Z", "--journal", path)
	const want = "kubejournal: configmap shop/large: larger than the annotation in which kubectl apply keeps a copy;" +
		" use kubectl apply --server-side\n"
	if status != 0 || stderr != want || !strings.Contains(stdout, "name: large") ||
		!strings.Contains(stdout, "name: smaller") {
		t.Errorf("%d, %s", status, stderr)
	}
}
