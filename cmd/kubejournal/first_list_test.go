package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

// A first list that is begun twice, or that cannot be completed, can have MODIFIED lines. They are not hidden as objects that
// existed before, and blame names no writer for them, since any number of writes may lie between.
func TestChangeInAFirstList(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	pods := j.Stream("pods", "Pod")
	pods.Snapshot()
	object := func(node, manager, at string) string {
		return `{"metadata":{"namespace":"shop","name":"web","uid":"p1","creationTimestamp":"2026-11-20T13:00:00Z",` +
			`"managedFields":[{"manager":"` + manager + `","operation":"Update","time":"` + at + `",` +
			`"fieldsV1":{"f:spec":{"f:nodeName":{}}}}]},"spec":{"nodeName":"` + node + `"}}`
	}
	pods.Put("", object("n1", "kubectl", "2026-11-20T13:00:00Z"))
	pods.Put("", object("n2", "robot", "2026-11-20T13:50:00Z"))
	pods.Synced()
	j.Kill()
	status, stdout, stderr := execute(t, "history", "pods", "-n", "shop", "--until", "seq:3", "--journal", path)
	if status != exitOK || !strings.Contains(stdout, "spec.nodeName n1→n2") {
		t.Errorf("history: %d, %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = execute(t, "blame", "pod/web", "-n", "shop", "--at", "seq:3", "--journal", path)
	if status != exitOK || !strings.Contains(stdout, "since seq 1    2  |   nodeName: n2") {
		t.Errorf("blame: %d, %s%s", status, stdout, stderr)
	}
}
