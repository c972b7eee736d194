package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A credential plugin that does not come back does not hold up a stop: client-go runs it without a context.
func TestStopBesideHangingPlugin(t *testing.T) {
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: sh
      args: ["-c", "touch %[1]s; while [ -e %[1]s ]; do sleep 0.1; done"]
`, began) // the plugin ends with the folder
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exited := make(chan int, 1)
	go func() {
		exited <- run(ctx, []string{"run", "pods", "--kubeconfig", kubeconfig}, nil, io.Discard, io.Discard)
	}()
	limit := time.After(soon)
	for {
		if _, err := os.Stat(began); err == nil {
			break
		}
		select {
		case <-limit:
			t.Fatal("the plugin was not asked")
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if status := wait(t, exited); status != 0 {
		t.Errorf("status %d", status)
	}
}
