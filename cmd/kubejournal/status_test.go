package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/fake"
)

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(soon), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not so after %v: %s", soon, what)
		}
	}
}

// listening is 'kubejournal run' beside the test, which watches config maps and may not watch secrets. It returns where it
// listens.
func listening(t *testing.T, log *screen) (address string, stop func() int) {
	t.Helper()
	clearEnv(t)
	dir := t.TempDir()
	srv := fake.New(fake.Options{})
	t.Cleanup(srv.Close)
	srv.Forbid(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	kubeconfig, err := srv.Kubeconfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kubejournal.yaml")
	writeFile(t, path, fmt.Sprintf("resources: [configmaps, secrets]\nlisten: 127.0.0.1:0\nkubernetes: {kubeconfig: %q}\noutput: {path: %q}\ncheckpoint: {path: %q}\n",
		kubeconfig, filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "c.db")))
	return runAt(t, log, "--config", path)
}

// runAt is 'kubejournal run' beside the test. It returns where it listens.
func runAt(t *testing.T, log *screen, args ...string) (address string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	exited := make(chan int, 1)
	go func() { exited <- run(ctx, append([]string{"run"}, args...), nil, io.Discard, log) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return wait(t, exited)
	})
	t.Cleanup(func() { stop() })
	until(t, "it listens", func() bool {
		for line := range strings.Lines(log.String()) {
			var entry struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
				address = entry.Address
			}
		}
		return address != ""
	})
	return address, stop
}

func TestStatus(t *testing.T) {
	address, stop := listening(t, newScreen())
	var status int
	var stdout, stderr string
	until(t, "it has both streams", func() bool {
		status, stdout, stderr = execute(t, "status", "--address", address)
		return strings.Contains(stdout, "Forbidden") && strings.Contains(stdout, "Watching")
	})
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"address     " + address + "\n", "ready       no\n", "up          ", "version     ",
		"            streams failed: refused by rights, credentials or config of this daemon: secrets (Forbidden)\n",
		"\nserver      http", "\nconfig      /", "/kubejournal.yaml\njournal     /", "/journal.jsonl\n            up to seq ",
		" free\ncheckpoint  /", "\nconfigmaps  Watching             ", "\nsecrets     Pending (Forbidden)  -", "s ago  ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "version     go1") || strings.Contains(stdout, "version     \n") {
		t.Errorf("Go's version in place of ours, or none:\n%s", stdout)
	}
	status, stdout, _ = execute(t, "status", "--address", address, "-o", "json")
	var streams []map[string]any
	if err := json.Unmarshal([]byte(stdout), &streams); status != 0 || err != nil || len(streams) != 2 {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
	if status := stop(); status != 0 {
		t.Errorf("run: status %d", status)
	}
}

// SIGHUP has the config read again.
func TestHangUp(t *testing.T) {
	log := newScreen()
	address, stop := listening(t, log)
	until(t, "it runs", func() bool {
		_, stdout, _ := execute(t, "status", "--address", address)
		return strings.Contains(stdout, "Watching")
	})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "it is reloaded", func() bool { return strings.Contains(log.String(), `"msg":"config reloaded"`) })
	if status := stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// A checkpoint of another cluster than the one that answers is a fault for the user to look into, not one of usage.
func TestRunOnAnotherCluster(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	if err := fillCheckpoint(path); err != nil {
		t.Fatal(err)
	}
	const uid = "99999999-8888-7777-6666-555555555555"
	srv := fake.New(fake.Options{ClusterUID: uid})
	t.Cleanup(srv.Close)
	kubeconfig := must[string](t)(srv.Kubeconfig(dir))
	status, stdout, stderr := execute(t, "run", "configmaps", "--kubeconfig", kubeconfig, "--checkpoint", path)
	want := "kubejournal: checkpoint.path: " + path + " belongs to another cluster (11111111-2222-3333-4444-555555555555; this one, "
	_, last, _ := strings.Cut(stderr, want)
	if status != exitFault || stdout != "" || !strings.Contains(last, "is "+uid+"); name another checkpoint and output") {
		t.Errorf("status %d, stdout %q, stderr %q, want %d and %q", status, stdout, stderr, exitFault, want)
	}
}

func TestStatusFaults(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	t.Chdir(dir)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := silent.Addr().String()
	silent.Close()
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go web.Serve(at)
	defer web.Close()
	_, port, err := net.SplitHostPort(nobody)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, "every.yaml", "resources: [pods]\nlisten: \":"+port+"\"\n")
	writeFile(t, "bad.yaml", "resorces: [pods]\nlisten: \":"+port+"\"\n")
	writeFile(t, "off.yaml", "resources: [pods]\nlisten: \"\"\n")
	writeFile(t, "any.yaml", "resources: [pods]\nlisten: \"127.0.0.1:0\"\n")
	writeFile(t, "broken.yaml", "resources: [\n")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--address", nobody}, 1, "no kubejournal answers at " + nobody + ": connect: connection refused; is it running"},
		{[]string{"--config", "every.yaml"}, 1, "no kubejournal answers at 127.0.0.1:" + port},
		{[]string{"--config", "bad.yaml"}, 1, "no kubejournal answers at 127.0.0.1:" + port},
		{[]string{"--address", at.Addr().String()}, 1, " is not a kubejournal daemon, or one older than this command: 404 Not Found"},
		{[]string{"--config", "off.yaml"}, 2, "listens nowhere"},
		{[]string{"--config", "any.yaml"}, 2, "any free port"},
		{[]string{"--config", "broken.yaml"}, 2, "broken.yaml:"},
		{[]string{"--address", "8080"}, 2, "--address: \"8080\" is no address and port"},
		{[]string{"-o", "xml"}, 2, "--output: \"xml\" is not known"},
		{[]string{"pods"}, 2, "unexpected argument"},
	} {
		status, stdout, stderr := execute(t, append([]string{"status"}, c.args...)...)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %d and %q", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

// A name that may be a slip waits, as it may be a custom resource; log and status say what it may mean.
func TestPendingSlip(t *testing.T) {
	clearEnv(t)
	dir, log := t.TempDir(), newScreen()
	path := filepath.Join(dir, "kubejournal.yaml")
	writeFile(t, path, "resources: [configmaps, deploymnets]\noutput: {path: "+filepath.Join(dir, "journal.jsonl")+"}\n")
	srv := fake.New(fake.Options{})
	t.Cleanup(srv.Close)
	kubeconfig, err := srv.Kubeconfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	address, stop := runAt(t, log, "--config", path, "--kubeconfig", kubeconfig, "--checkpoint", "", "--listen", "127.0.0.1:0")
	var stdout string
	until(t, "it is pending", func() bool {
		_, stdout, _ = execute(t, "status", "--address", address)
		return strings.Contains(stdout, "deploymnets")
	})
	if !regexp.MustCompile(`(?m)^deploymnets +Pending \(NotFound, did you mean deployments\?\)`).MatchString(stdout) ||
		!strings.Contains(stdout, "NotFound, did you mean deployments?)") {
		t.Errorf("status:\n%s", stdout)
	}
	if status := stop(); status != 0 || !strings.Contains(log.String(), `(did you mean deployments?)`) {
		t.Errorf("status %d, log:\n%s", status, log)
	}
}

// As an argument, what may be a custom resource that is still to come waits too.
func TestArgumentToCome(t *testing.T) {
	clearEnv(t)
	out := newScreen()
	_, stop := running(t, out, "configmaps", "gizmos.example.com", "widgets.v1.networking.example.com")
	out.until(t, `"type":"SYNCED"`)
	stop()
}
