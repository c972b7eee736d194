package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

// TestUnlisted asks for objects of a kind of which the server could never list all: that there is no line about one says
// nothing, in whatever question.
func TestUnlisted(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "j.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	pods := j.Stream("pods", "Pod")
	pods.Snapshot()
	pods.Put("", `{"metadata":{"namespace":"shop","name":"web","uid":"p1"}}`)
	pods.Synced()
	blobs := j.Stream("blobs.example.com", "Blob")
	blobs.Snapshot()
	blobs.Put("", `{"metadata":{"namespace":"shop","name":"a","uid":"b1"}}`)
	crds := j.Stream("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition")
	crds.Snapshot()
	crds.Put("", `{"metadata":{"name":"lumps.example.com","uid":"c1"},"spec":{"group":"example.com",`+
		`"names":{"plural":"lumps","singular":"lump","kind":"Lump"}}}`)
	crds.Synced()
	j.Now = j.Now.Add(time.Minute)
	j.Confirm(false, pods, crds)
	j.Kill()
	for _, c := range []struct {
		object string
		status int
		text   string
	}{
		{"blobs/x", exitNotCovered, "no list of it is complete yet"},
		{"blobs/a", exitNotCovered, "no list of it is complete yet"},
		{"blobs.example.com/x", exitNotCovered, "no list of it is complete yet"},
		{"lumps/x", exitNotCovered, "nobody watched"},
		{"lump/x", exitNotCovered, ""},
		{"lumps.example.com/x", exitNotCovered, "nobody watched"},
		{"pods/x", exitFault, "no line about"},
	} {
		questions := []string{"history", "history --deleted", "get --at 2026-11-20T14:00:30Z", "blame --at 2026-11-20T14:00:30Z",
			"diff --since 2026-11-20T14:00:10Z --until 2026-11-20T14:00:30Z"}
		for _, question := range questions {
			args := append(strings.Fields(question), "--journal", path, "-n", "shop", c.object)
			status, stdout, stderr := execute(t, args...)
			if status != c.status || !strings.Contains(stderr, c.text) {
				t.Errorf("%q %s: status %d, %s%s", question, c.object, status, stdout, stderr)
			}
		}
	}
}
