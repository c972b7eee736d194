package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/kube/fake"
)

// Two signals that come at once are one request: the program ends with everything committed.
func TestTwoSignalsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		wrapper []string
		signals []os.Signal // to the wrapper, if there is one
	}{
		{"both", nil, []os.Signal{syscall.SIGTERM, syscall.SIGINT}},
		// It passes a signal on to the process, and to its group.
		{"timeout of coreutils", []string{"timeout", "1h"}, []os.Signal{syscall.SIGTERM}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.wrapper) > 0 {
				if _, err := exec.LookPath(tc.wrapper[0]); err != nil {
					t.Skip(err)
				}
			}
			clearEnv(t)
			srv := fake.New(fake.Options{})
			t.Cleanup(srv.Close)
			dir := t.TempDir()
			kubeconfig, err := srv.Kubeconfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			output, positions, log := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "kubejournal.db"), newScreen()
			args := slices.Concat(tc.wrapper, []string{
				"kubejournal", "run", "configmaps", "--kubeconfig", kubeconfig, "--output", output, "--checkpoint", positions,
			})
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			lines := func() []string {
				content, _ := os.ReadFile(output) // it is made by the program
				return strings.SplitAfter(string(content), "\n")
			}
			until(t, "it watches", func() bool { return strings.Contains(strings.Join(lines(), ""), `"type":"SYNCED"`) })
			for i := range 500 {
				must[map[string]any](t)(srv.Create(configmaps, configmap("c"+strconv.Itoa(i))))
			}
			until(t, "it writes", func() bool { return len(lines()) > 100 })
			for _, signal := range tc.signals {
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			if text := log.String(); !strings.Contains(text, "stopped, everything is written and committed") || strings.Contains(text, "asked a second time") {
				t.Errorf("it says:\n%s", text)
			}
			store, err := checkpoint.OpenReadOnly(positions)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			mark, err := store.Mark()
			if err != nil {
				t.Fatal(err)
			}
			all := lines()
			var last struct{ Seq uint64 }
			if err := json.Unmarshal([]byte(all[len(all)-2]), &last); err != nil {
				t.Fatal(err)
			}
			if all[len(all)-1] != "" || last.Seq != mark.Seq || last.Seq < 100 {
				t.Errorf("the journal ends with %q at seq %d, the checkpoint has seq %d", all[len(all)-1], last.Seq, mark.Seq)
			}
		})
	}
}
