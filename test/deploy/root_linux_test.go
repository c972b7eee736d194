package deploy

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The image that make image makes runs as a container: in a root folder with nothing but its own and what the pod mounts,
// read-only but for its state, as 65532, without a capability, finding the server by what a kubelet gives it.
func TestEmptyRoot(t *testing.T) {
	s := theServer(t)
	m := mustKustomize(t, "deployment")
	s.apply(t, false, m.ofKind("Namespace")...)
	s.grant(t, m)

	image := t.TempDir()
	started, err := theImage(t).unpack(image)
	if err != nil {
		t.Fatal(err)
	}
	if started.User != fmt.Sprintf("%d:%d", user, user) || !slices.Equal(started.Entrypoint, []string{"/kubejournal"}) {
		t.Fatalf("the image is started as %+v", started)
	}
	config := s.RESTConfig()
	authority, err := os.ReadFile(config.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(m.config(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		configPath + "/kubejournal.yaml": text,
		tokenPath + "/token":             []byte(s.token(t, m)),
		tokenPath + "/ca.crt":            authority,
		tokenPath + "/namespace":         []byte(m.namespace(t)),
	} {
		path := filepath.Join(image, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o555)); err != nil {
			t.Fatal(err)
		}
	}
	state := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(image, statePath), 0o755), os.Chown(state, user, user)); err != nil {
		t.Fatalf("%v; run this test as root", err)
	}
	mount(t, image, image, readOnly)
	mount(t, state, filepath.Join(image, statePath), 0)

	env := append(m.environment(t, nodeName), serverEnvironment(t, s)...)
	inside := func(args ...string) *exec.Cmd { return contained(image, user, user, env, args...) }
	p := start(t, inside(append(daemon(t, m.pod(t).Spec).Args, "--listen", "127.0.0.1:0")...))
	eventually(t, "every stream watches", p.watching)
	// As kubectl exec does, which names no config.
	if out, err := inside("tail", "--no-follow").CombinedOutput(); err != nil || !strings.Contains(string(out), "SYNCED") {
		t.Errorf("tail: %v\n%s", err, out)
	}
	p.stop()

	for _, name := range []string{"journal.jsonl", "kubejournal.db"} {
		if info, err := os.Stat(filepath.Join(state, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if log := string(p.log()); strings.Contains(log, `"level":"error"`) || strings.Contains(log, `"level":"warn"`) {
		t.Error("the daemon complains")
	}
}

const readOnly = unix.MS_RDONLY

// contained is the program in a root folder.
func contained(image string, uid, gid uint32, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/kubejournal", args...)
	cmd.Dir, cmd.Env = "/", env
	// Changing from root to another user gives the capabilities up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// serverEnvironment is how a container finds the server.
func serverEnvironment(t *testing.T, s *server) []string {
	t.Helper()
	address, err := url.Parse(s.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"KUBERNETES_SERVICE_HOST=" + address.Hostname(), "KUBERNETES_SERVICE_PORT=" + address.Port()}
}

// mount puts a folder on another one, for as long as the test runs.
func mount(t *testing.T, from, to string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount %s: %v; run this test as root", to, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", to, err)
		}
	})
	if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		t.Fatalf("mount %s: %v", to, err)
	}
}

// Times are in the zone that TZ names, though the image has no files of zones.
func TestZoneInEmptyRoot(t *testing.T) {
	image := t.TempDir()
	if _, err := theImage(t).unpack(image); err != nil {
		t.Fatal(err)
	}
	line := `{"seq":1,"time":"2026-11-20T10:20:30.000000000Z","type":"ADDED","id":"u/1/ADDED","stream":"pods","version":"v1",` +
		`"resource":"pods","kind":"Pod","namespace":"a","name":"b","uid":"u","resourceVersion":"1"}` + "\n"
	if err := os.WriteFile(filepath.Join(image, "journal.jsonl"), []byte(line), 0o644); err != nil { //nolint:gosec // for 65532
		t.Fatal(err)
	}
	for _, uid := range []uint32{user, 1000700000} { // the image's, and such as OpenShift gives
		out, err := contained(image, uid, 0, []string{"TZ=Asia/Tokyo"}, "tail", "--no-follow", "/journal.jsonl").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "19:20:30") {
			t.Errorf("%d: %v\n%s", uid, err, out)
		}
	}
}
