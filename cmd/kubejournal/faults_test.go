package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

// execute runs the program in the process, as main would.
func execute(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// clearEnv takes what the developer's own environment says out of the test.
func clearEnv(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "KUBEJOURNAL_") {
			t.Setenv(name, "")
		}
	}
}

func TestFaultyConfigs(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const golden = "testdata/faults.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	clearEnv(t)
	if len(archive.Files)%2 != 0 {
		t.Fatalf("%s: a config without its faults", golden)
	}
	if n := len(archive.Files) / 2; n < 30 {
		t.Fatalf("%s: only %d configs", golden, n)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		name := strings.TrimSuffix(in.Name, ".yaml")
		if want.Name != name+".stderr" {
			t.Fatalf("%s: %s is followed by %s", golden, in.Name, want.Name)
		}
		t.Run(name, func(t *testing.T) {
			got := faultsOf(t, in.Data)
			if *update {
				want.Data = []byte(got)
				return
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(golden, txtar.Format(archive), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
}

// faultsOf validates and runs a config and returns what both say about it.
func faultsOf(t *testing.T, config []byte) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("kubejournal.yaml", config, 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := execute(t, "validate", "--config", "kubejournal.yaml")
	if status != exitUsage || stdout != "" {
		t.Errorf("validate: status %d, stdout %q, want status 2 and nothing", status, stdout)
	}
	runStatus, _, runErr := execute(t, "run", "--config", "kubejournal.yaml")
	if runStatus != exitUsage || runErr != stderr {
		t.Errorf("run differs from validate: status %d, stderr %q", runStatus, runErr)
	}
	if stderr == "" || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("stderr %q is not lines", stderr)
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "kubejournal.yaml:") {
			t.Errorf("line does not name its file: %q", line)
		}
		if strings.Contains(line, "goroutine") || strings.Contains(line, "Usage:") {
			t.Errorf("more than a fault: %q", line)
		}
	}
	return stderr
}

// What a text archive cannot hold.
func TestFaultyFiles(t *testing.T) {
	clearEnv(t)
	for _, tc := range []struct {
		name, want string
		write      func(t *testing.T, path string)
	}{
		{
			name: "not UTF-8", want: "kubejournal.yaml: is not UTF-8 text; save the file as UTF-8\n",
			write: func(t *testing.T, path string) { writeFile(t, path, "resources: [\"p\xff\"]\n") },
		},
		{
			name: "control character", want: "kubejournal.yaml: not valid YAML: control characters are not allowed\n",
			write: func(t *testing.T, path string) { writeFile(t, path, "resources: [\"p\x00\"]\n") },
		},
		{
			name: "directory", want: "$WORK/kubejournal.yaml: is a directory; name the file in it\n",
			write: func(t *testing.T, path string) {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "missing", want: "$WORK/kubejournal.yaml: no such file; name the config with --config\n",
			write: func(*testing.T, string) {},
		},
		{
			name: "too large", want: "$WORK/kubejournal.yaml: is larger than 1048576 bytes; is this the config?\n",
			write: func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("#\n", 1<<20)) },
		},
		{
			name: "symlink loop", want: "$WORK/kubejournal.yaml: cannot be read: too many levels of symbolic links\n",
			write: func(t *testing.T, path string) {
				if err := os.Symlink(path, path); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			tc.write(t, "kubejournal.yaml")
			status, _, stderr := execute(t, "run", "--config", "kubejournal.yaml")
			if want := strings.Replace(tc.want, "$WORK", dir, 1); status != exitUsage || stderr != want {
				t.Errorf("status %d, stderr %q, want 2 and %q", status, stderr, want)
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
