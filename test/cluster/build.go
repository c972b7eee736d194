package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"kubejournal/test/program"
)

const (
	defaultModule = "controlplane" // the folder under test/ of the newest Kubernetes
	recipe        = "1"            // part of the stamp: raise it when the build flags below change
)

// Binaries are the paths of the two programs of a control plane.
type Binaries struct {
	APIServer string
	Etcd      string
}

// Build returns the programs of test/controlplane and builds them first if they are missing or out of date, which
// takes minutes: it then says so on stderr. Test processes that call it together build once, the others wait.
func Build(ctx context.Context) (Binaries, error) {
	return BuildFrom(ctx, defaultModule)
}

// BuildFrom is Build for another folder under test/, one that pins another Kubernetes.
func BuildFrom(ctx context.Context, folder string) (Binaries, error) {
	root, err := program.Root()
	if err != nil {
		return Binaries{}, err
	}
	return build(ctx, filepath.Join(root, "test", folder), os.Stderr)
}

// build leaves the programs of the module in dir under dir/.bin. The stamp beside them is removed before the first of
// them is replaced and written after the last, so a build that was cut short is done again.
func build(ctx context.Context, dir string, progress io.Writer) (Binaries, error) {
	bin := filepath.Join(dir, ".bin")
	binaries := Binaries{APIServer: filepath.Join(bin, "kube-apiserver"), Etcd: filepath.Join(bin, "etcd")}
	want, err := stamp(dir)
	if err != nil {
		return Binaries{}, err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return Binaries{}, fmt.Errorf("make build folder: %w", err)
	}
	unlock, err := program.Lock(ctx, filepath.Join(bin, "lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()

	stampFile := filepath.Join(bin, "stamp")
	if got, err := os.ReadFile(stampFile); err == nil && string(got) == want && exist(binaries) {
		return binaries, nil
	}
	if err := os.Remove(stampFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Binaries{}, fmt.Errorf("remove old build stamp: %w", err)
	}
	version, err := release(ctx, dir)
	if err != nil {
		return Binaries{}, err
	}
	fmt.Fprintf(progress, "building kube-apiserver %s (about 4 minutes the first time)\n", version)
	if err := goBuild(ctx, dir, binaries.APIServer, versionFlags(version),
		"k8s.io/kubernetes/cmd/kube-apiserver"); err != nil {
		return Binaries{}, err
	}
	fmt.Fprintln(progress, "building etcd")
	if err := goBuild(ctx, dir, binaries.Etcd, "", "go.etcd.io/etcd/server/v3"); err != nil {
		return Binaries{}, err
	}
	if err := os.WriteFile(stampFile, []byte(want), 0o644); err != nil {
		return Binaries{}, fmt.Errorf("write build stamp: %w", err)
	}
	return binaries, nil
}

// release is the version of Kubernetes that the module in dir pins.
func release(ctx context.Context, dir string) (string, error) {
	return goCommand(ctx, dir, "list", "-mod=readonly", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
}

// versionFlags are the linker flags that a release build of Kubernetes sets. Without them the server calls itself
// v0.0.0-master, and what compares versions (clients, compatibility checks) goes wrong.
func versionFlags(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X "+pkg+".gitVersion="+version)
		if len(parts) == 3 {
			flags = append(flags, "-X "+pkg+".gitMajor="+parts[0], "-X "+pkg+".gitMinor="+parts[1])
		}
	}
	return strings.Join(flags, " ")
}

// goBuild builds beside the target and renames, so that a running server never has its program changed under it.
func goBuild(ctx context.Context, dir, target, ldflags, pkg string) error {
	fresh := target + ".new"
	_, err := goCommand(ctx, dir, "build", "-mod=readonly", "-trimpath", "-ldflags",
		strings.TrimSpace("-s -w "+ldflags), "-o", fresh, pkg)
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, target); err != nil {
		return fmt.Errorf("put %s in place: %w", filepath.Base(target), err)
	}
	return nil
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	// An interrupt lets the go command remove its work folder and end its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run go %s %s: %w\n%s", args[0], args[len(args)-1], err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// stamp names what the programs in dir are built from.
func stamp(dir string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, recipe, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("read control plane module: %w", err)
		}
		fmt.Fprintln(hash, name, len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)) + "\n", nil
}

func exist(b Binaries) bool {
	for _, path := range []string{b.APIServer, b.Etcd} {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
