package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/journaltest"
)

// theStory is a journal of an hour: a rollout, a change that was taken back, a daemon that was killed, and a gap.
func theStory(t *testing.T, path string) {
	j := journaltest.New(t, path, time.Time{})
	at := func(clock string) time.Time {
		when, err := time.Parse(time.DateTime, "2026-11-20 "+clock)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	now := func(clock string) { j.Now, j.Made = at(clock), time.Time{} }
	now("14:00:00")
	j.Kill()
	j.Start() // at that time
	namespaces, deployments, replicasets := j.Stream("namespaces", "Namespace"), j.Stream("deployments.apps", "Deployment"), j.Stream("replicasets.apps", "ReplicaSet")
	pods, configmaps, secrets := j.Stream("pods", "Pod"), j.Stream("configmaps", "ConfigMap"), j.Stream("secrets", "Secret")
	events, leases := j.Stream("events", "Event"), j.Stream("leases.coordination.k8s.io", "Lease")
	jobs, nodes := j.Stream("jobs.batch", "Job"), j.Stream("nodes", "Node")
	nodes.HeldBack("ignoreFields", "filter")
	jobs.Payload, nodes.Payload = object.NoObject, object.MetadataOnly
	all := []*journaltest.Stream{jobs, nodes, namespaces, deployments, replicasets, pods, configmaps, secrets, events, leases}

	web := func(uid, image string, replicas, ready int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":%q,"labels":{"app":"web"}},
			"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"web","image":"registry.example/web:%s"},{"name":"proxy","image":"envoy:1.31"}]}}},
			"status":{"readyReplicas":%d,"conditions":[{"type":"Available","status":"True"}]}}`, uid, replicas, image, ready)
	}
	owned := func(name, uid, ownerKind, owner, rest string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":"web","uid":%q,"controller":true}]},%s}`,
			name, uid, ownerKind, journaltest.UID(owner), rest)
	}
	pod := func(name, uid, owner, phase string) string {
		return owned(name, uid, "ReplicaSet", owner, `"spec":{"nodeName":"node-a"},"status":{"phase":"`+phase+`"}`)
	}
	settings := func(level, timeout string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"settings","uid":"c1"},"data":{"log.level":%q,"timeout":%q}}`, level, timeout)
	}
	password := func(value, tier string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"db","uid":"e1","labels":{"tier":%q}},"data":{"password":%q,"user":"c2hvcA=="}}`, tier, value)
	}
	job := func(parallelism int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"migrate","uid":"71"},"spec":{"parallelism":%d}}`, parallelism)
	}
	node := func(cordoned bool) string {
		return fmt.Sprintf(`{"metadata":{"name":"node-a","uid":"72"},"spec":{"unschedulable":%t}}`, cordoned)
	}
	lease := func(renewed string) string {
		return `{"metadata":{"namespace":"kube-node-lease","name":"node-a","uid":"f1"},"spec":{"holderIdentity":"node-a","renewTime":"` + renewed + `"}}`
	}

	for _, s := range all {
		s.Snapshot()
	}
	namespaces.Put("", `{"metadata":{"name":"shop","uid":"a1"}}`)
	namespaces.Put("", `{"metadata":{"name":"kube-node-lease","uid":"a2"}}`)
	deployments.Put("", web("d1", "1.4.0", 2, 2))
	replicasets.Put("", owned("web-6d4cf", "b1", "Deployment", "d1", `"spec":{"replicas":2}`))
	pods.Put("", pod("web-6d4cf-x7k2p", "91", "b1", "Running"))
	configmaps.Put("", settings("info", "30s"))
	secrets.Put("", password("b2xk", "test"))
	leases.Put("", lease("2026-11-20T14:00:00Z"))
	jobs.Put("", job(1))
	nodes.Put("", node(false))
	for _, s := range all {
		s.Synced()
	}

	now("14:02:11")
	deployments.Put("kubectl-set", web("d1", "1.5.0", 2, 2))
	replicasets.Put("kube-controller-manager", owned("web-8bb77", "b2", "Deployment", "d1", `"spec":{"replicas":1}`))
	pods.Put("kube-controller-manager", pod("web-8bb77-9zq4w", "92", "b2", "Pending"))
	now("14:02:13")
	pods.Put("kubelet/status", pod("web-8bb77-9zq4w", "92", "b2", "Failed"))
	events.Put("kubelet", `{"metadata":{"namespace":"shop","name":"web-8bb77-9zq4w.18a1","uid":"81"},"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-8bb77-9zq4w","uid":"`+journaltest.UID("92")+`"},
		"reason":"BackOff","message":"Back-off restarting failed container web","type":"Warning","count":3,"source":{"component":"kubelet"},"lastTimestamp":"2026-11-20T14:02:13Z"}`)
	deployments.Put("kube-controller-manager/status", web("d1", "1.5.0", 2, 1))
	now("14:03:00")
	configmaps.Put("kubectl-edit", settings("debug", "30s"))
	now("14:04:00")
	configmaps.Put("kubectl-edit", settings("info", "30s"))
	now("14:05:00")
	configmaps.Put("helm", `{"metadata":{"namespace":"shop","name":"1.0","uid":"c2","labels":{"on":"yes"}},"data":{"a: b":"\u001b[2Jcleared\u202egnp","no":"","lines":"one\ntwo\n"}}`)
	now("14:06:00")
	secrets.Put("kubectl-edit", password("bmV3", "test"))
	now("14:06:10")
	secrets.Put("kubectl-label", password("bmV3", "prod"))
	now("14:06:30")
	jobs.Put("kubectl-edit", job(2))
	nodes.Put("kubectl-cordon", node(true))
	now("14:07:00")
	pods.Put("kubectl-run", `{"metadata":{"namespace":"shop","name":"debug","uid":"93"},"spec":{"nodeName":"node-a"},"status":{"phase":"Running"}}`)
	leases.Put("kubelet", lease("2026-11-20T14:07:00Z"))
	now("14:08:00")
	pods.Delete("93")
	j.Confirm(false, all...)
	j.Rotate()
	now("14:10:00")
	deployments.Delete("d1")
	pods.Delete("92")
	now("14:10:20")
	j.Confirm(false, all...)
	now("14:10:30")
	deployments.Gap(line.Expired, at("14:10:20"))
	now("14:10:35")
	deployments.Put("", strings.ReplaceAll(web("d4", "2.0", 1, 1), "web", "api"))
	deployments.Synced()
	now("14:11:00")
	deployments.Put("argocd", web("d2", "1.5.1", 3, 0))
	now("14:20:00")
	j.Confirm(false, all...)
	j.Kill()

	now("14:30:00")
	j.Start()
	j.Rotate()
	j.Made = at("14:22:00")
	configmaps.Put("kubectl-patch", settings("info", "5s"))
	j.Made = at("14:24:00")
	deployments.Put("kubectl-scale", web("d2", "1.5.1", 5, 0))
	configmaps.Delete("c2") // nothing says when
	j.Confirm(true, all...)
	now("14:30:05")
	j.Confirm(false, all...)
	now("14:40:00")
	deployments.Gap(line.Expired, at("14:39:50"))
	now("14:40:03")
	deployments.Delete("d2")
	j.Made = at("14:39:58")
	deployments.Put("", web("d3", "1.6.0", 3, 3))
	deployments.Synced()
	now("14:41:00")
	configmaps.Gap(line.Expired, at("14:40:30"))
	configmaps.Synced()
	now("14:45:00")
	j.MaxBytes = 600
	big := func(words int) string {
		return `{"metadata":{"namespace":"shop","name":"big","uid":"c3"},"data":{"text":"` + strings.Repeat("long ", words) + `"}}`
	}
	configmaps.Put("kubectl-create", big(200))
	j.MaxBytes = 0
	configmaps.Put("kubectl-edit", big(2))
	j.MaxBytes = 600
	now("14:45:30")
	configmaps.Put("kubectl-edit", big(200))
	j.MaxBytes = 0
	now("14:46:00")
	deployments.Put("kubectl-edit", web("d3", "1.6.1", 3, 3))
	now("14:47:00")
	j.Confirm(false, all...)
	now("14:48:00")
	deployments.Gap(line.Expired, at("14:47:00"))
	deployments.Synced()
	now("14:50:00")
	j.Confirm(false, all...)
	j.Stop()
}

// An answer about one manager says how many versions somebody may have written of whom nothing is known, and has status
// 3 then. Who deletes or binds is in no answer, and says nothing about a manager.
func TestUnknownWriters(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	for name, tt := range map[string]struct {
		writers []string
		status  int
		want    string
	}{
		"all are known": {[]string{"alice", "bob"}, 0, ""},
		"one is not":    {[]string{"alice", "", "bob"}, exitNotCovered, "kubejournal: 1 version has no known writer\n"},
		"two are not":   {[]string{"", "bob", ""}, exitNotCovered, "kubejournal: 2 versions have no known writer\n"},
		"a deletion":    {[]string{"alice", "delete"}, 0, "kubejournal: the API names no writer of 1 deletion or binding\n"},
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		j := journaltest.New(t, path, time.Now().Add(-time.Minute))
		s := j.Stream("configmaps", "ConfigMap")
		s.Snapshot()
		object := func(n int) string {
			return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a","uid":"a1"},"data":{"n":"%d"}}`, n)
		}
		s.Put("", object(0)) // it was there before
		s.Synced()
		for n, writer := range tt.writers {
			if j.Now = j.Now.Add(time.Second); writer == "delete" {
				s.Delete("a1")
				continue
			}
			s.Put(writer, object(n+1))
		}
		confirmNow(t, j, path, s)
		status, stdout, stderr := execute(t, "history", "--by", "alice", "--journal", path)
		if said := strings.Contains(stderr, "writer"); status != tt.status || !strings.Contains(stderr, tt.want) || said != (tt.want != "") {
			t.Errorf("%s: status %d\n%s%s", name, status, stdout, stderr)
		}
	}
}

// confirmNow confirms streams up to now, and waits until the coverage of the journal at path says so.
func confirmNow(t *testing.T, j *journaltest.Journal, path string, streams ...*journaltest.Stream) {
	t.Helper()
	j.Now = time.Now()
	j.Confirm(false, streams...)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		all, err := coverage.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		confirmed := 0
		for _, s := range all {
			if !s.Intervals[len(s.Intervals)-1].To.Before(j.Now) {
				confirmed++
			}
		}
		if confirmed == len(streams) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d streams of %d are covered up to now", confirmed, len(streams))
		}
	}
}

// onTerminal runs the program with stdout on a terminal of 100 columns.
func onTerminal(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return onTerminals(t, false, args...)
}

// onTerminals does so with stdin on the terminal too, if a user is there.
func onTerminals(t *testing.T, user bool, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	const end = "\x00end\n"
	s := newTerminal(t, 100)
	var errs bytes.Buffer
	stdin := io.Reader(strings.NewReader(""))
	if user {
		stdin = s.tty
	}
	status = run(t.Context(), args, stdin, s.tty, &errs)
	if _, err := s.tty.WriteString(end); err != nil {
		t.Fatal(err)
	}
	return status, strings.TrimSuffix(s.until(t, end+"$"), end), errs.String()
}

// theLoss is a journal in which a namespace is deleted with all that is in it, some of it after a gap.
func theLoss(t *testing.T, path string) {
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	after := func(minutes int) { j.Now = time.Date(2026, 11, 20, 14, minutes, 0, 0, time.UTC) }
	crds, namespaces := j.Stream("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition"), j.Stream("namespaces", "Namespace")
	boxes, configmaps, services := j.Stream("boxes.example.com", "Box"), j.Stream("configmaps", "ConfigMap"), j.Stream("services", "Service")
	blue, secrets := j.Stream("configmaps?labelSelector=colour%3Dblue", "ConfigMap"), j.Stream("secrets", "Secret")
	quiet := j.Stream("leases.coordination.k8s.io?namespace=quiet", "Lease") // has none
	all := []*journaltest.Stream{crds, namespaces, boxes, configmaps, services, blue, secrets, quiet}
	const crd = `{"metadata":{"name":"boxes.example.com","uid":"a1"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"boxes","singular":"box","kind":"Box","shortNames":["bx"]},
		"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[
			{"name":"Size","type":"string","jsonPath":".spec.size"},{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"},
			{"name":"Note","type":"string","priority":1,"jsonPath":".spec.note"},{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}]}]}}`
	namespace := func(phase, more string) string {
		return `{"metadata":{"name":"shop","uid":"b1"` + more + `},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"` + phase + `"}}`
	}
	box := func(name, uid, rest string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q},%s}`, name, uid, rest)
	}
	configmap := func(name, uid, colour string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"labels":{"colour":%q}},"data":{"a":"b"}}`, name, uid, colour)
	}
	for _, s := range all {
		s.Snapshot()
	}
	crds.Put("", crd)
	namespaces.Put("", namespace("Active", ""))
	boxes.Put("", box("empty", "c1", `"spec":{"size":"small"}`))
	boxes.Put("", box("full", "c2", `"spec":{"size":"\u001b[31mlarge"},"status":{"conditions":[{"type":"Open","status":"False"},{"type":"Ready","status":"True"}]}`))
	configmaps.Put("", configmap("settings", "d1", "blue"))
	configmaps.Put("", configmap("kube-root-ca.crt", "d2", "red"))
	blue.Put("", configmap("settings", "d1", "blue"))
	services.Put("", `{"metadata":{"namespace":"shop","name":"web","uid":"e1"},"spec":{"clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"ports":[{"port":80,"nodePort":30080}],"type":"NodePort"}}`)
	secrets.Put("", `{"metadata":{"namespace":"shop","name":"db","uid":"f1"},"data":{"password":"b2xk"}}`)
	for _, s := range all {
		s.Synced()
	}
	after(1)
	configmaps.Put("kubectl-edit", configmap("settings", "d1", "green"))
	blue.Delete("d1") // it is not blue any more
	j.Confirm(false, all...)
	j.Rotate()
	after(2)
	namespaces.Put("", namespace("Terminating", `,"deletionTimestamp":"2026-11-20T14:02:00Z"`))
	configmaps.Delete("d1")
	configmaps.Delete("d2")
	secrets.Delete("f1")
	boxes.Delete("c1")
	j.Confirm(false, all...)
	after(10)
	for _, s := range []*journaltest.Stream{boxes, services, namespaces} {
		s.Gap(line.Expired, time.Date(2026, 11, 20, 14, 3, 0, 0, time.UTC))
	}
	boxes.Forgotten("c2")
	services.Forgotten("e1")
	namespaces.Delete("b1")
	for _, s := range []*journaltest.Stream{boxes, services, namespaces} {
		s.Synced()
	}
	after(12)
	crds.Delete("a1")
	j.Rotate()
	after(15)
	namespaces.Put("kubectl-create", strings.ReplaceAll(namespace("Active", ""), "b1", "b2"))
	configmaps.Put("kubectl-create", configmap("settings", "d3", "blue"))
	blue.Put("kubectl-create", configmap("settings", "d3", "blue"))
	after(20)
	j.Confirm(false, all...)
	j.Stop()
}

// TestAnswers asks the questions of testdata/ask and testdata/loss, and wants their answers: on a terminal, or into a pipe.
func TestAnswers(t *testing.T) {
	clearEnv(t)
	for name, value := range map[string]string{"PAGER": "", "NO_COLOR": "1", "TERM": "xterm", "KUBECTL_EXTERNAL_DIFF": ""} {
		t.Setenv(name, value)
	}
	for folder, story := range map[string]func(*testing.T, string){"ask": theStory, "loss": theLoss} {
		t.Chdir(t.TempDir())
		story(t, "journal.jsonl")
		answersOf(t, folder, "journal.jsonl")
	}
}

// answersOf asks the questions of a folder.
func answersOf(t *testing.T, folder string, journals ...string) {
	pages, err := filepath.Glob(filepath.Join(source, "testdata", folder, "*.txt"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no questions: %v", err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for l := range strings.Lines(string(text)) {
				if strings.HasPrefix(l, "## ") {
					got.WriteString(l)
				}
				if question, ok := strings.CutPrefix(l, "$ kubejournal "); ok {
					got.WriteString(l + answerOf(t, strings.TrimSuffix(question, "\n"), journals) + "\n")
				}
			}
			if *update {
				writeFile(t, page, got.String())
			}
			if diff := cmp.Diff(string(text), got.String()); diff != "" && !*update {
				t.Errorf("answers of %s (-want +got):\n%s", page, diff)
			}
		})
	}
}

var (
	word   = regexp.MustCompile(`'[^']*'|\S+`)
	escape = regexp.MustCompile(`[^\n\x20-\x7e\p{L}…→]`)
)

// answerOf returns what the program answers: stdout, stderr and the status.
func answerOf(t *testing.T, question string, journals []string) string {
	t.Helper()
	ask := onTerminal
	question, piped := strings.CutSuffix(question, " | cat")
	if piped {
		ask = execute
	}
	var args []string
	for _, arg := range word.FindAllString(question, -1) {
		args = append(args, strings.Trim(arg, "'"))
	}
	for _, path := range journals {
		args = append(args, "--journal", path)
	}
	status, stdout, stderr := ask(t, args...)
	bad := escape.FindString(stdout + stderr)
	if objects := piped && args[0] == "get"; bad != "" && !objects { // which are as they are
		t.Errorf("%s: %q reaches a terminal", question, bad)
	}
	rows := !piped && !strings.Contains(question, " -p") && !strings.Contains(question, " -o ")
	for l := range strings.Lines(stdout) {
		if n := len([]rune(l)) - 1; rows && n > 100 {
			t.Errorf("%s: %d columns: %s", question, n, l)
		}
	}
	for l := range strings.Lines(stderr) {
		stdout += "2> " + l
	}
	if status != 0 {
		stdout += fmt.Sprintf("exit status %d\n", status)
	}
	return stdout
}

// TestPaged pages what goes to a terminal, and nothing else; JSON is not paged, nor is anything where nobody is at the terminal.
func TestPaged(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "sed 's/^/PAGED /'")
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	t.Chdir(t.TempDir())
	theStory(t, "journal.jsonl")
	since := []string{"--since", "2026-11-20T14:01:00Z", "--until", "2026-11-20T14:04:30Z", "--journal", "journal.jsonl"}
	for _, c := range []struct {
		args   []string
		paged  bool
		colour string // on a terminal
	}{
		{append([]string{"history", "cm"}, since...), true, "\x1b[33mMOD\x1b[0m"},
		{append([]string{"history", "cm", "-p"}, since...), true, "\x1b[31m-  log.level: info\x1b[m"},
		{append([]string{"diff", "deploy"}, since...), true, "\x1b[31m-      - image: registry.example/web:1.4.0\x1b[m"},
		{append([]string{"diff", "deploy", "--color", "never"}, since...), true, ""},
		{append([]string{"diff", "deploy", "-o", "json"}, since...), false, ""},
		{[]string{"blame", "deploy/web", "--at", "2026-11-20T14:04:30Z", "--journal", "journal.jsonl"}, true, ""},
		{[]string{"history", "cm", "-o", "json", "--journal", "journal.jsonl"}, false, ""},
		{[]string{"coverage", "--journal", "journal.jsonl"}, false, ""},
		{[]string{"get", "cm", "--at", "2026-11-20T14:06:00Z", "-o", "yaml", "--journal", "journal.jsonl"}, false, ""},
	} {
		_, shown, _ := onTerminals(t, true, c.args...)
		paged := strings.HasPrefix(shown, "PAGED ")
		if paged != c.paged || !strings.Contains(shown, c.colour) || c.colour == "" && strings.Contains(shown, "\x1b") {
			t.Errorf("%q: paged: %t\n%q", c.args, paged, shown)
		}
		if _, piped, _ := execute(t, c.args...); piped == "" || strings.Contains(piped, "PAGED") || strings.Contains(piped, "\x1b[") {
			t.Errorf("%q, into a pipe: %q", c.args, piped)
		}
		if !c.paged {
			continue
		}
		for user, args := range map[bool][]string{false: c.args, true: append(slices.Clone(c.args), "--no-pager")} {
			if _, plain, _ := onTerminals(t, user, args...); strings.ReplaceAll(shown, "PAGED ", "") != plain {
				t.Errorf("%q, user %t: %q", args, user, plain)
			}
		}
	}
}

// TestExternalDiff lets the user's program show what differs: it gets two folders with a file for each object.
func TestExternalDiff(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	theStory(t, "journal.jsonl")
	diff := []string{"diff", "-n", "shop", "--since", "2026-11-20T14:01:00Z", "--until", "2026-11-20T14:09:00Z", "--journal", "journal.jsonl"}
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "diff -r -N")
	status, stdout, stderr := execute(t, diff...)
	for _, want := range []string{
		"apps.v1.Deployment.shop.web\n", "<       - image: registry.example/web:1.4.0\n---\n>       - image: registry.example/web:1.5.0", ".ConfigMap.shop.1.0\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if status != exitFault || !strings.Contains(stderr, "secret shop/db: data.password changed (redacted)\n") || strings.Contains(stdout, "+++") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "no-such-program")
	if status, _, stderr := execute(t, diff...); status != exitFault || !strings.Contains(stderr, "no-such-program") {
		t.Errorf("status %d: %s", status, stderr)
	}
	// Rows and JSON are ours.
	for _, arg := range []string{"--stat", "-ojson"} {
		status, stdout, stderr := execute(t, append(diff, arg)...)
		if status != exitFault || !strings.Contains(stdout, "web-8bb77-9zq4w") || strings.Contains(stderr, "no-such-program") {
			t.Errorf("%s: status %d\n%s%s", arg, status, stdout, stderr)
		}
	}
}

// TestNoCoverage asks a journal without its coverage file.
func TestNoCoverage(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	theStory(t, "journal.jsonl")
	remove(t, "journal.jsonl.coverage")
	const want = "the journal has no coverage file, so nothing says from when to when streams were watched\n"
	for _, args := range [][]string{{"coverage"}, {"get", "cm", "--at", "2026-11-20T14:06:00Z"}, {"history", "cm"}, {"diff", "cm", "--since", "2026-11-20T14:06:00Z", "--until", "2026-11-20T14:07:00Z"}} {
		if status, _, notes := execute(t, append(args, "--journal", "journal.jsonl")...); status != exitNotCovered || !strings.HasSuffix(notes, want) {
			t.Errorf("%q: status %d, %s", args, status, notes)
		}
	}
}

// TestNow asks, without a time, while the daemon continues: it has confirmed its stream lately, and that is good enough.
func TestNow(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	j := journaltest.New(t, "journal.jsonl", time.Now().Add(-time.Hour))
	configmaps := j.Stream("configmaps", "ConfigMap")
	configmaps.Snapshot()
	configmaps.Put("", `{"metadata":{"namespace":"shop","name":"settings","uid":"a1"},"data":{}}`)
	configmaps.Synced()
	confirm := func() {
		t.Helper()
		confirmNow(t, j, "journal.jsonl", configmaps)
	}
	for question, want := range map[string]string{"get cm -o name": "configmap/settings\n", "get cm/none": "", "get cm --deleted": ""} {
		for again := true; again; again = time.Since(j.Now) > 5*time.Second { // a slow machine took too long
			confirm()
			status, stdout, stderr := execute(t, append(strings.Fields(question), "--journal", "journal.jsonl")...)
			if time.Since(j.Now) < 5*time.Second && (status == exitNotCovered || stdout != want || strings.Contains(stderr, "not covered")) {
				t.Errorf("%s: status %d, %s%s", question, status, stdout, stderr)
			}
		}
	}
	configmaps.Delete("a1")
	confirm()
	if status, stdout, stderr := execute(t, "get", "cm/settings", "-o", "yaml", "--journal", "journal.jsonl"); status != 0 || stdout != "" || !strings.Contains(stderr, "no such object is there now") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// TestNothingToAsk has journals that say nothing.
func TestNothingToAsk(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	writeFile(t, "journal.jsonl", "")
	for _, args := range [][]string{{"history"}, {"get", "pods"}, {"diff", "--since", "1h"}, {"blame", "deploy/web"}, {"why", "deploy/web"}, {"coverage"}} {
		for path, want := range map[string]int{"journal.jsonl": exitNotCovered, "nothing": exitFault} {
			status, stdout, stderr := execute(t, append(args, "--journal", path)...)
			if status != want || stdout != "" || !strings.Contains(stderr, path) {
				t.Errorf("%q of %s: status %d, want %d: %s%s", args, path, status, want, stdout, stderr)
			}
		}
	}
}

// TestCompletion completes words with the names of a journal, as a shell asks for it.
func TestCompletion(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	theLoss(t, "journal.jsonl")
	writeFile(t, "kubejournal.yaml", "output: {path: journal.jsonl}\ncheckpoint: {path: kubejournal.db}\nresources: [pods]\n")
	complete := func(words string) string {
		t.Helper()
		status, stdout, stderr := execute(t, append([]string{cobra.ShellCompRequestCmd}, strings.Split(words, " ")...)...)
		names, directive, _ := strings.Cut(strings.ReplaceAll(stdout, "\n", " "), ":")
		if kind := map[bool]string{true: "ShellCompDirectiveDefault", false: "ShellCompDirectiveNoFileComp"}[directive == "0 "]; status != 0 || stderr != "Completion ended with directive: "+kind+"\n" {
			t.Errorf("%s: status %d, %s", words, status, stderr)
		}
		return names + ":" + strings.TrimSpace(directive)
	}
	for words, want := range map[string]string{
		"get ":                      "boxes.example.com configmaps customresourcedefinitions leases namespaces secrets services :4",
		"get co":                    "configmaps :4",
		"get bx/":                   "bx/empty bx/full :4",
		"get boxes f":               "full :4",
		"get boxes full e":          "empty :4",
		"get boxes/full svc/":       "svc/web :4",
		"get boxes/full se":         "secrets services :4",
		"get cm,se":                 "cm,secrets cm,services :4",
		"get cm -n sh":              "shop :4",
		"get -n shop cm/":           "cm/kube-root-ca.crt cm/settings :4",
		"get -n quiet cm/":          ":4",
		"get -n shpo cm/":           ":4",
		"get frobnicators/":         ":4",
		"get -n shop,":              "shop,shop :4",
		"get --at 14":               ":4",
		"get -o ":                   "table wide name yaml json :4",
		"history crd/":              "crd/boxes.example.com :4",
		"diff --since 1h se":        "secrets services :4",
		"blame cm/s":                "cm/settings :4",
		"coverage bo":               "boxes.example.com :4",
		"tail bo":                   "boxes.example.com :0",
		"tail journal.jsonl bo":     "boxes.example.com :4",
		"tail -n s":                 "shop :4",
		"get --journal nothing po":  ":4",
		"get --config nothing po":   ":4",
		"tail --journal nothing po": ":4",
	} {
		if got := complete(words); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	if err := os.Remove("kubejournal.yaml"); err != nil {
		t.Fatal(err)
	}
	if got := complete("get po"); got != ":4" {
		t.Errorf("without a journal: %q", got)
	}
}
