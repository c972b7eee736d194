package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute // on a busy machine; a second is usual
	stopTimeout  = 15 * time.Second
	pollInterval = 20 * time.Millisecond
)

// daemon is the kubejournal program and, while it runs, its process.
type daemon struct {
	program    string
	dir        string // it runs there, so that the paths of its config are the demo's own
	kubeconfig string

	cmd     *exec.Cmd     // nil while it is down
	done    chan struct{} // closed when the process has ended
	err     error         // how it ended; read it after done
	address string        // where it listens
}

// buildDaemon builds kubejournal into dir.
func buildDaemon(ctx context.Context, root, dir string) (string, error) {
	program := filepath.Join(dir, "kubejournal")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/kubejournal")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	// An interrupt lets the go command remove its work folder and end its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubejournal: %w\n%s", err, out)
	}
	return program, nil
}

// args are the arguments as a user would give them, in the daemon's own folder.
var args = []string{"run", "--config", "kubejournal.yaml", "--output", "journal.jsonl", "--listen", "127.0.0.1:0"}

func (d *daemon) logPath() string { return filepath.Join(d.dir, "kubejournal.log") }

// start starts the daemon and waits until it listens. What it logs is appended to one file.
func (d *daemon) start(ctx context.Context) error {
	log, err := os.OpenFile(d.logPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start kubejournal: %w", err)
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start kubejournal: %w", err)
	}
	cmd := exec.Command(d.program, args...)
	cmd.Dir = d.dir
	cmd.Env = append(cleanEnv(), "KUBECONFIG="+d.kubeconfig)
	cmd.Stderr = log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start kubejournal: %w", err)
	}
	done := make(chan struct{})
	go func() {
		d.err = cmd.Wait()
		close(done)
	}()
	d.cmd, d.done = cmd, done
	return d.wait(ctx, "it listens", startTimeout, func() (bool, error) {
		d.address, err = d.listening(before)
		return d.address != "", err
	})
}

// cleanEnv is the environment without what a developer may have set for kubejournal.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "KUBEJOURNAL_") {
			env = append(env, kv)
		}
	}
	return env
}

// listening finds the address in the log from an offset on, "" if it is not there yet.
func (d *daemon) listening(from int64) (string, error) {
	content, err := os.ReadFile(d.logPath())
	if err != nil {
		return "", fmt.Errorf("read kubejournal's log: %w", err)
	}
	for text := range bytes.Lines(content[from:]) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(text, &entry) == nil && entry.Msg == "listening" {
			return entry.Address, nil
		}
	}
	return "", nil
}

// ready waits until the daemon says so and returns the names of its streams.
func (d *daemon) ready(ctx context.Context) ([]string, error) {
	var streams []struct{ Stream, State, Reason string }
	err := d.wait(ctx, "it is ready", startTimeout, func() (bool, error) {
		if body, err := d.get(ctx, "/readyz"); err != nil || string(body) != "ok\n" {
			return false, nil //nolint:nilerr // not yet; a daemon that has ended is seen by wait
		}
		body, err := d.get(ctx, "/streams")
		if err == nil {
			err = json.Unmarshal(body, &streams)
		}
		return len(streams) > 0, err
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range streams {
		if s.State == "pending" {
			return nil, fmt.Errorf("stream %s is pending: %s", s.Stream, s.Reason)
		}
		names = append(names, s.Stream)
	}
	return names, nil
}

func (d *daemon) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask kubejournal: %w", err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask kubejournal: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask kubejournal: %w", err)
	}
	return body, nil
}

// stop asks the daemon to end, as kubelet or systemd would, and demands exit status 0.
func (d *daemon) stop() error {
	if d.cmd == nil {
		return nil
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop kubejournal: %w", err)
	}
	select {
	case <-d.done:
		d.cmd = nil
		if d.err != nil {
			return d.withLog(fmt.Errorf("stop kubejournal: %w", d.err))
		}
		return nil
	case <-time.After(stopTimeout):
		d.kill()
		return d.withLog(fmt.Errorf("stop kubejournal: still running %s after SIGTERM", stopTimeout))
	}
}

// kill ends the daemon if it runs. Its files are the demo's, and go with it.
func (d *daemon) kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // an error says that it has ended
	<-d.done
	d.cmd = nil
}

// wait polls check until it holds, the daemon ends, or time is up.
func (d *daemon) wait(ctx context.Context, what string, limit time.Duration, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := check(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return d.withLog(fmt.Errorf("wait until %s: %w", what, ctx.Err()))
		case <-d.done:
			err := fmt.Errorf("wait until %s: kubejournal has ended (%v)", what, d.cmd.ProcessState)
			d.cmd = nil
			return d.withLog(err)
		case <-ticker.C:
		}
	}
}

// withLog adds the end of the daemon's log to an error.
func (d *daemon) withLog(err error) error {
	const enough = 20 // lines
	content, readErr := os.ReadFile(d.logPath())
	if readErr != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	lines = lines[max(0, len(lines)-enough):]
	return fmt.Errorf("%w\nkubejournal's log:\n%s", err, bytes.Join(lines, []byte("\n")))
}
