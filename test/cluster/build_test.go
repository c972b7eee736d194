package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/program"
)

// fakeModule has the two packages that build asks for, each a small program, so that a build takes a second.
func fakeModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	main := "package main\n\nfunc main() {}\n"
	for name, content := range map[string]string{
		"go.mod": "module fake\n\ngo 1.26.0\n\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n\tk8s.io/kubernetes v1.36.3\n)\n\n" +
			"replace (\n\tgo.etcd.io/etcd/server/v3 => ./etcd\n\tk8s.io/kubernetes => ./kubernetes\n)\n",
		"go.sum":                                "",
		"etcd/go.mod":                           "module go.etcd.io/etcd/server/v3\n\ngo 1.26.0\n",
		"etcd/main.go":                          main,
		"kubernetes/go.mod":                     "module k8s.io/kubernetes\n\ngo 1.26.0\n",
		"kubernetes/cmd/kube-apiserver/main.go": main,
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func TestBuildOnce(t *testing.T) {
	dir := fakeModule(t)
	count := func() int {
		t.Helper()
		var progress bytes.Buffer
		binaries, err := build(t.Context(), dir, &progress)
		must(t, err)
		if !exist(binaries) {
			t.Fatalf("no programs at %+v", binaries)
		}
		return strings.Count(progress.String(), "building")
	}
	if got := count(); got != 2 {
		t.Fatalf("first: %d programs built, want 2", got)
	}
	if got := count(); got != 0 {
		t.Errorf("again: %d programs built, want 0", got)
	}
	must(t, os.Remove(filepath.Join(dir, ".bin", "etcd")))
	if got := count(); got != 2 {
		t.Errorf("with etcd missing: %d programs built, want 2", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte("\n"), 0o644))
	if got := count(); got != 2 {
		t.Errorf("with another go.sum: %d programs built, want 2", got)
	}
}

func TestBuildFault(t *testing.T) {
	dir := fakeModule(t)
	must(t, os.WriteFile(filepath.Join(dir, "etcd", "main.go"), []byte("package main\n\nfunc main() { broken }\n"), 0o644))
	for range 2 { // half a build must not pass for a whole one
		var progress bytes.Buffer
		_, err := build(t.Context(), dir, &progress)
		if err == nil || !strings.Contains(err.Error(), "undefined: broken") {
			t.Fatalf("error %v does not show the compiler's", err)
		}
	}
}

func TestBuildWaitsForItsTurn(t *testing.T) {
	dir := fakeModule(t)
	must(t, os.Mkdir(filepath.Join(dir, ".bin"), 0o755))
	unlock, err := program.Lock(t.Context(), filepath.Join(dir, ".bin", "lock"))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	if _, err := build(ctx, dir, &progress); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("build beside another: %v", err)
	}
	unlock()
	_, err = build(t.Context(), dir, &progress)
	must(t, err)
}

func TestVersionFlags(t *testing.T) {
	flags := versionFlags("v1.36.3")
	for _, want := range []string{"version.gitVersion=v1.36.3", "version.gitMajor=1", "version.gitMinor=36"} {
		if strings.Count(flags, want) != 2 {
			t.Errorf("%q is not there for both packages: %s", want, flags)
		}
	}
}
