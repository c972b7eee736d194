package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

func TestServeFlags(t *testing.T) {
	clearEnv(t)
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--at 1h --from 1h":     "--at is a moment that stays, and --from one that moves on",
		"--at rv:5":             "rv: is for one resource",
		"--from seq:5":          "--from takes a time, not seq:5",
		"--speed 3":             "--speed goes with --from",
		"--from 1h --speed 0":   "--speed must be more than 0",
		"--listen 0.0.0.0:0":    "0.0.0.0:0 is not loopback, so clients need a token",
		"--listen :0":           ":0 is not loopback",
		"--token-file " + short: "a token is one line of at least 16 characters",
		"--to rv:5":             "rv: is for one resource",
		"--to 1h --at 2h":       "--to moves a server that runs, and takes no --at",
		"--to 1h --kubeconfig " + short + " --token-file " + short: "the kubeconfig has the server's token",
		"--at 1h pods": `unexpected argument "pods"`,
	} {
		given := append([]string{"serve"}, strings.Fields(args)...)
		if !strings.Contains(args, "--to") {
			given = append(given, "--journal", "x")
		}
		status, _, stderr := execute(t, given...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

// A server runs until it is told to stop, and its kubeconfig leads to it.
func TestServe(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	path, kubeconfig := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "past.yaml")
	j := journaltest.New(t, path, time.Now().Add(-time.Minute))
	s := j.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", `{"metadata":{"namespace":"shop","name":"web","uid":"b1"}}`)
	s.Synced()
	confirmNow(t, j, path, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan int)
	var stderr strings.Builder
	go func() {
		ended <- run(ctx, []string{"serve", "--journal", path, "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig}, strings.NewReader(""), io.Discard, &stderr)
	}()
	var text []byte
	for text == nil {
		var err error
		if text, err = os.ReadFile(kubeconfig); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	_, url, _ := strings.Cut(string(text), "server: ")
	url, _, _ = strings.Cut(url, "\n")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/namespaces/shop/configmaps/web", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), `"kind":"ConfigMap"`) {
		t.Error(string(body), err)
	}
	status, _, said := execute(t, "serve", "--to", "30s", "--kubeconfig", kubeconfig)
	if want := "kubejournal: " + url + " serves the past, as of "; status != 0 || !strings.HasPrefix(said, want) {
		t.Error(status, said)
	}
	cancel()
	if status := <-ended; status != 0 || !strings.Contains(stderr.String(), "serving the past, as of the journal's last line, at "+url) {
		t.Error(status, stderr.String())
	}
	status, _, said = execute(t, "serve", "--to", "30s", "--kubeconfig", kubeconfig)
	if status != 1 || !strings.Contains(said, "no server was moved: ") {
		t.Error(status, said)
	}
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, said = execute(t, "serve", "--to", "30s", "--kubeconfig", kubeconfig)
	if status != 1 || !strings.Contains(said, "the file was not written by serve") {
		t.Error(status, said)
	}
}
