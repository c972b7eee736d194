package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

// Of replicas the answer says that a line may count twice.
func TestStatsReplicas(t *testing.T) {
	clearEnv(t)
	begin := time.Now().Add(-time.Minute)
	var args []string
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(t.TempDir(), name+".jsonl")
		j := journaltest.New(t, path, begin)
		s := j.Stream("configmaps", "ConfigMap")
		s.Snapshot()
		s.Synced()
		s.Put("helm", `{"metadata":{"namespace":"shop","name":"web","uid":"b1"}}`)
		confirmNow(t, j, path, s)
		args = append(args, "--journal", path)
	}
	const note = "each of 2 journals is counted: a line that two replicas have counts twice\n"
	for n, want := range map[int]bool{2: false, 4: true} {
		status, stdout, stderr := execute(t, append([]string{"stats", "cm/web"}, args[:n]...)...)
		if status != 0 || strings.Contains(stderr, note) != want {
			t.Errorf("status %d\n%s%s", status, stdout, stderr)
		}
	}
}

func TestStatsTop(t *testing.T) {
	clearEnv(t)
	for top, want := range map[string]string{
		"x": `--top: "x" is not a number; see 'kubejournal stats --help'`, "-1": "--top -1 is no number of rows; 0 is all",
	} {
		if status, _, stderr := execute(t, "stats", "--top", top); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", top, status, stderr)
		}
	}
}
