package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/coverage"
)

// copySample copies test/sample's journal into a folder, and returns the path of its active file.
func copySample(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "test", "sample"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "journal") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, "test", "sample", e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), b, 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "journal.jsonl")
}

// A tail that ends says which lines are missing among those that it shows, and what comes before them is nobody's
// doubt.
func TestTailMissingLines(t *testing.T) {
	clearEnv(t)
	path := copySample(t, t.TempDir())
	if status, _, stderr := execute(t, "tail", path, "-N", "all", "--no-follow"); status != 0 || strings.Contains(stderr, "missing") {
		t.Fatalf("whole: status %d, %s", status, stderr)
	}
	last := filepath.Join(filepath.Dir(path), "journal-2026-11-23T10-23-22.435.jsonl")
	zipped, err := os.Open(last + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	z, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	cut := len(lines) - 4 // a line among the last ten
	if err := os.WriteFile(last, bytes.Join(append(lines[:cut:cut], lines[cut+1:]...), nil), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(last+".gz"), os.Remove(last+".index")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"-N", "all"}, exitNotCovered},
		{nil, exitNotCovered},
		{[]string{"-o", "json"}, exitNotCovered},
		{[]string{"-N", "all", "pods"}, exitNotCovered},
		{[]string{"-N", "2"}, 0},
		{[]string{"-N", "0"}, 0},
	} {
		status, _, stderr := execute(t, append([]string{"tail", path, "--no-follow"}, c.args...)...)
		if status != c.want || strings.Contains(stderr, " is missing in ") != (c.want != 0) {
			t.Errorf("%v: status %d, want %d: %s", c.args, status, c.want, stderr)
		}
	}
}

// A daemon sets a damaged coverage file aside. Who asks about the time before is told that nothing is known of it.
func TestDamagedCoverageIsADoubt(t *testing.T) {
	clearEnv(t)
	path := copySample(t, t.TempDir())
	covered := coverage.Path(path)
	b, err := os.ReadFile(covered)
	if err != nil {
		t.Fatal(err)
	}
	b[30] ^= 1 // its header
	if err := os.WriteFile(covered, b, 0o640); err != nil {
		t.Fatal(err)
	}
	second := func(n int) time.Time { return time.Date(2026, 11, 23, 10, 23, n, 0, time.UTC) }
	f, err := coverage.Open(path, coverage.Options{Now: func() time.Time { return second(1) }})
	if err != nil {
		t.Fatal(err)
	}
	f.Committed(1191, 1190, maps.All(map[string]coverage.Progress{
		"deployments.apps": {Since: second(2).UnixNano(), Confirmed: second(22).UnixNano()},
	}))
	f.Close(true)
	kept, err := filepath.Glob(covered + ".damaged-*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	if got, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(got, b) {
		t.Errorf("what was set aside is another file: %v", err)
	}
	for question, doubtful := range map[string]bool{
		"history deploy/web -n shop":                                true,
		"history deploy/web -n shop --until 2026-11-23T10:23:20Z":   true,
		"history deploy/web -n shop --since 2026-11-23T10:22:10Z":   true,
		"diff deploy --since 2026-11-23T10:22:10Z --until seq:1180": true,
		"get deploy --deleted":                                      true,
		"get deploy --at 2026-11-23T10:23:20Z":                      false,
		"history deploy --since 2026-11-23T10:23:04Z":               false,
		"blame deploy/web -n shop --at 2026-11-23T10:23:20Z":        false,
	} {
		status, _, stderr := execute(t, append(strings.Fields(question), "--journal", path)...)
		if said := strings.Contains(stderr, "is kept as "+kept[0]); said != doubtful || doubtful && status == 0 {
			t.Errorf("%s: status %d, doubt %v, want %v: %s", question, status, said, doubtful, stderr)
		}
	}
}

// A config in the current folder that another user has made is not read unless it is named: it can name a program to
// run.
func TestForeignConfig(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	t.Chdir(dir)
	marker := filepath.Join(dir, "ran")
	plugin := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [" + marker + "], interactiveMode: Never}}}]\n"
	writeFile(t, "kubeconfig", plugin)
	writeFile(t, "kubejournal.yaml", "resources: [pods]\nkubernetes: {kubeconfig: kubeconfig}\n")
	if os.Chown("kubejournal.yaml", 12345, -1) != nil {
		t.Skip("only root can give a file to another user")
	}
	for _, command := range []string{"validate --server", "rbac --enumerate", "run", "history pods", "tail", "checkpoint show"} {
		status, _, stderr := execute(t, strings.Fields(command)...)
		if status == 0 || !strings.Contains(stderr, "belongs to user 12345") {
			t.Errorf("%s: status %d: %s", command, status, stderr)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program that a stranger's config leads to was run")
	}
	if status, _, stderr := execute(t, "validate", "--config", "kubejournal.yaml"); status != 0 {
		t.Errorf("named: status %d: %s", status, stderr)
	}
}

// A question answers from all files of a shared folder, and says which are not of the user that the journal is of.
func TestForeignFilesInAnAnswer(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	path := copySample(t, dir)
	planted := filepath.Join(dir, "journal-2026-11-23T10-22-18.170.jsonl.gz")
	if os.Chown(planted, 12345, -1) != nil {
		t.Skip("only root can give a file to another user")
	}
	for mode, said := range map[os.FileMode]bool{0o755: false, 0o777 | os.ModeSticky: true} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, out, stderr := execute(t, "history", "deploy/web", "-n", "shop", "--journal", path)
		if strings.Contains(stderr, planted+" belongs to user 12345") != said || !strings.Contains(out, "MOD") {
			t.Errorf("%v: %s%s", mode, out, stderr)
		}
	}
}
