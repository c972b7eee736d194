package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// auditOf makes an audit log of what users did in the story: the requests are made from the lines that they wrote.
func auditOf(t *testing.T, journal string, user func(l *line.Fields) string) string {
	t.Helper()
	var all, notes bytes.Buffer
	run(t.Context(), []string{"history", "--all", "-o", "json", "--journal", journal}, strings.NewReader(""), &all, &notes)
	var log strings.Builder
	for raw := range bytes.Lines(all.Bytes()) {
		var l line.Fields
		if err := l.Parse(raw); err != nil {
			t.Fatal(err)
		}
		who := user(&l)
		if who == "" || l.AboutStream() {
			continue
		}
		made := l.Time
		if written, late := l.Late(); late {
			made = written
		}
		at := made.Format("2006-01-02T15:04:05.000000Z")
		verb, code := "patch", 200
		answer := fmt.Sprintf(`{"kind":"X","metadata":{"uid":%q,"resourceVersion":%q},"data":{"password":"c2VjcmV0"}}`, l.Text(line.FieldUID), l.Text(line.FieldResourceVersion))
		switch l.Type() {
		case line.Added:
			verb, code = "create", 201
		case line.Deleted:
			verb, answer = "delete", fmt.Sprintf(`{"kind":"Status","details":{"uid":%q}}`, l.Text(line.FieldUID))
		}
		name, err := json.Marshal(who)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a-%d","stage":"ResponseComplete","requestURI":"/x?fieldManager=%s","verb":%q,"user":{"username":%s},"userAgent":"kubectl/v1.37","objectRef":{"resource":%q,"apiGroup":%q,"namespace":%q,"name":%q},"responseStatus":{"code":%d},"responseObject":%s,"requestReceivedTimestamp":%q,"stageTimestamp":%q}`+"\n",
			l.Seq, l.Text(line.FieldManager), verb, name, l.Text(line.FieldResource), l.Text(line.FieldGroup), l.Text(line.FieldNamespace), l.Text(line.FieldName), code, answer, at, at)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(log.String()+"a torn line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAudit has a log name who did what, and asks each command.
func TestAudit(t *testing.T) {
	t.Setenv("TZ", "UTC")
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	theStory(t, journal)
	ask := func(args ...string) (string, string, int) {
		var out, notes bytes.Buffer
		status := run(t.Context(), append(args, "--journal", journal), strings.NewReader(""), &out, &notes)
		return out.String(), notes.String(), status
	}
	before, _, _ := ask("history", "-A", "-o", "json")
	log := auditOf(t, journal, func(l *line.Fields) string {
		switch manager := string(l.Text(line.FieldManager)); {
		case l.Type() == line.Deleted:
			return "dev-7@example.com"
		case strings.HasPrefix(manager, "kubectl"):
			return "dev-1@example.com"
		case manager == "helm":
			return "\x1b[2Jroot\n"
		case manager != "":
			return "system:serviceaccount:kube-system:" + manager
		}
		return ""
	})
	if out, notes, status := ask("audit", log); status != 0 || !strings.Contains(out, "journal.jsonl.audit") || !strings.Contains(notes, "not JSON") {
		t.Fatalf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := ask("audit", log, log); status != 0 || strings.Contains(out, "wrote") || !strings.Contains(notes, "nothing new") {
		t.Errorf("again, status %d: %s%s", status, out, notes)
	}
	if out, notes, status := ask("audit", log, log+".1"); status != 1 || !strings.Contains(notes, "audit.log.1") || !strings.Contains(out, "exact") {
		t.Errorf("a file that is not there, status %d: %s%s", status, out, notes)
	}
	side, err := os.ReadFile(journal + ".audit")
	if err != nil || bytes.Contains(side, []byte("c2VjcmV0")) {
		t.Errorf("a value: %v", err)
	}
	for _, c := range []struct {
		args []string
		has  []string
	}{
		{[]string{"history", "cm/settings", "-n", "shop"}, []string{"dev-1@example.com, kubectl-edit  data"}},
		{[]string{"history", "cm/settings", "-n", "shop", "-p"}, []string{"  by dev-1@example.com\n"}},
		{[]string{"history", "cm,pods,deploy", "-n", "shop"}, []string{`\x1b[2Jroot\n, helm`, "DELETED", "dev-7@example.com", "system:serviceaccount:kube-system:kube-controller-manager"}},
		{[]string{"history", "pods", "-n", "shop", "--by", "dev-7*"}, []string{"shop/debug"}},
		{[]string{"history", "cm/settings", "-n", "shop", "-o", "json"}, []string{`"person":{"user":"dev-1@example.com","userAgent":"kubectl/v1.37","verb":"patch","auditID":"a-`}},
		{[]string{"blame", "cm/settings", "-n", "shop"}, []string{"dev-1@example.com, kubectl-edit"}},
		{[]string{"blame", "cm/settings", "-n", "shop", "-o", "json"}, []string{`"user": "dev-1@example.com"`}},
		{[]string{"diff", "cm/settings", "-n", "shop", "--since", "2026-11-20 14:01", "--until", "2026-11-20 14:03:30 UTC"}, []string{"  by dev-1@example.com\n"}},
		{[]string{"diff", "cm/settings", "-n", "shop", "--since", "2026-11-20 14:01", "--until", "2026-11-20 14:03:30 UTC", "-o", "json"}, []string{`"person":{"user":"dev-1@example.com"`}},
		{[]string{"get", "pods", "-n", "shop", "--deleted"}, []string{"BY\n", "dev-7@example.com\n"}},
		{[]string{"tail", "cm,pods,deploy", "-n", "shop", "-N", "all", "--no-follow"}, []string{"dev-1@example.com, kubectl-edit  data", `\x1b[2Jroot\n, helm`, "dev-7@example.com"}},
		{[]string{"tail", "cm/settings", "-n", "shop", "-N", "all", "--no-follow", "-o", "json"}, []string{`"person":{"user":"dev-1@example.com"`}},
		{[]string{"why", "cm/settings", "-n", "shop"}, []string{"by dev-1@example.com, kubectl-patch", "audit a-"}},
		{[]string{"why", "cm/settings", "-n", "shop", "-o", "json"}, []string{`"person": {`, `"user": "dev-1@example.com"`}},
		{[]string{"why", "pod/debug", "-n", "shop"}, []string{"by dev-7@example.com, kubectl/v1.37 delete", "audit a-"}},
	} {
		out, notes, status := ask(c.args...)
		for _, has := range c.has {
			if !strings.Contains(out, has) {
				t.Errorf("%v: no %q, status %d:\n%s%s", c.args, has, status, out, notes)
			}
		}
		if strings.Contains(out, "\x1b[2J") {
			t.Errorf("%v: what a name says to a terminal", c.args)
		}
	}
	torn := slices.Clone(side)
	torn[len(torn)-20] ^= 1
	if err := os.WriteFile(journal+".audit", torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, notes, status := ask("history", "cm/settings", "-n", "shop"); status != 0 || strings.Contains(out, "dev-1") ||
		!strings.Contains(notes, "journal.jsonl.audit: lines ") {
		t.Errorf("with a damaged block, status %d: %s%s", status, out, notes)
	}
	if err := os.WriteFile(journal+".audit", []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, notes, _ := ask("history", "-A", "-o", "json")
	if out != before || !strings.Contains(notes, "no person is named") {
		t.Errorf("with a damaged file: %s", notes)
	}
	if err := os.Remove(journal + ".audit"); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := ask("history", "-A", "-o", "json"); out != before {
		t.Error("without the file, the answer is another one")
	}
}

// TestAuditOfSeveral asks two journals as one, of which each has a file of its own.
func TestAuditOfSeveral(t *testing.T) {
	dir := t.TempDir()
	var args []string
	for i, resource := range []string{"configmaps", "widgets"} {
		path := filepath.Join(dir, resource+".jsonl")
		j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
		s := j.Stream(resource, "Thing")
		s.Snapshot()
		s.Synced()
		for n := range 5 {
			j.Now = j.Now.Add(time.Minute)
			s.Put("kubectl-edit", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"it","uid":"%d"},"data":{"n":"%d"}}`, i+1, n))
		}
		j.Confirm(false, s)
		j.Stop()
		log := auditOf(t, path, func(*line.Fields) string { return fmt.Sprint("dev-", i) })
		var out, notes bytes.Buffer
		if status := run(t.Context(), []string{"audit", log, "--journal", path}, strings.NewReader(""), &out, &notes); status != 0 {
			t.Fatal(notes.String())
		}
		args = append(args, "--journal", path)
	}
	var out, notes bytes.Buffer
	run(t.Context(), append([]string{"history", "configmaps,widgets", "--all", "-o", "json"}, args...), strings.NewReader(""), &out, &notes)
	if a, b := strings.Count(out.String(), `"user":"dev-0"`), strings.Count(out.String(), `"user":"dev-1"`); a != 5 || b != 5 {
		t.Errorf("%d and %d lines have a person:\n%s%s", a, b, out.String(), notes.String())
	}
}
