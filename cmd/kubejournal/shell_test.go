package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubejournal/test/journaltest"
)

// TestBashCompletion puts what is completed into a line of bash as readline does, and has bash run it: nothing but the command
// itself runs, with each name as one word.
func TestBashCompletion(t *testing.T) {
	clearEnv(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	path := filepath.Join(dir, "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	s := j.Stream("roles.rbac.authorization.k8s.io", "Role")
	s.Snapshot()
	names := []string{"web", "x$(touch " + mark + ")a", "x$(touch " + mark + ")b", "y`touch " + mark + "`", "z;touch " + mark + ";", "v\ntouch " + mark + "\n"}
	for _, text := range hostile {
		if len(text) > 1000 {
			continue // no line has such a name
		}
		names = append(names, strings.ReplaceAll(strings.ReplaceAll(text, notUTF8, "\ufffd"), "EVIL", "touch "+mark))
	}
	for n, name := range names {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Put("", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%s,"uid":"a%d"}}`, quoted, n))
	}
	s.Synced()
	j.Kill()
	_, completed, _ := execute(t, cobra.ShellCompRequestCmd, "history", "--journal", path, "role", "")
	script := "kubejournal() { printf '%s\\n' \"$#\"; }\n"
	words := 0
	for word := range strings.Lines(completed) {
		if word = strings.TrimSuffix(word, "\n"); strings.HasPrefix(word, ":") {
			break
		}
		script += "kubejournal " + word + "\n"
		words++
	}
	if words == 0 {
		t.Fatalf("nothing is completed: %q", completed)
	}
	out, err := exec.Command(bash, "-c", script).CombinedOutput() //nolint:gosec // which is what is tested
	if err != nil || string(out) != strings.Repeat("1\n", words) {
		t.Errorf("bash: %v: %q of %q", err, out, completed)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a name was run")
	}
}
