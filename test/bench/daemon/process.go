package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/test/bench/baseline"
	"kubejournal/test/program"
)

const stopLimit = 20 * time.Second // from SIGTERM to a process's end

// launch starts a program with the folder dir as its own.
func launch(dir, path string, env []string, args ...string) (*program.Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, program.Environ(dir, append(env, program.Runtime()...)...)
	return program.Start(cmd, filepath.Join(dir, "stderr"))
}

// configFile is what writeConfig writes.
const configFile = "kubejournal.yaml"

// writeConfig writes a config that journals one resource, and sets nothing else but more: named as an argument it would
// have changes.
func writeConfig(dir, resource, more string) error {
	return os.WriteFile(filepath.Join(dir, configFile), []byte("resources: ["+resource+"]\n"+more), 0o600)
}

// stop ends the process by SIGTERM, if it runs, and returns what it has taken: user and system time. The process must
// have ended well.
func stop(p *program.Process) (time.Duration, error) {
	if err := p.Stop(stopLimit); err != nil {
		return 0, err
	}
	return p.CPU()
}

// awaitLines waits until the file at path has at least n lines that contain what.
func awaitLines(ctx context.Context, p *program.Process, path, what string, n int) error {
	file := program.NewTail(path)
	defer file.Close()
	have := 0
	return p.Wait(ctx, baseline.Patience, fmt.Sprintf("wait for %d lines", n), func() error {
		more, err := countNext(file, what)
		if err != nil {
			return program.Final(err)
		}
		if have += more; have < n {
			return fmt.Errorf("there are %d", have)
		}
		return nil
	})
}

// countNext counts the lines that contain what, of those that have become complete.
func countNext(file *program.Tail, what string) (n int, err error) {
	text, err := file.Next()
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(what)) {
			n++
		}
	}
	return n, err
}

// jobEnv tells a process that it is to read a watch in the way of a baseline.
const jobEnv = "KUBEJOURNAL_BENCH_JOB"

// job is what such a process reads, and into which file.
type job struct {
	Way               string
	Host, Token, CA   string
	Version, Resource string
	From              string
	Events            int
	Path              string
}

var baselines = map[string]func(context.Context, baseline.Watch, io.Writer) error{
	"raw": baseline.Raw, "informer": baseline.Informer, "reflector": baseline.Reflector,
}

// start starts this program again to do the job.
func (j job) start(dir string) (*program.Process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return launch(dir, self, []string{jobEnv + "=" + string(text)})
}

// readIfAsked does a job if that is what this process was started for. Raw reads until ctx ends.
func readIfAsked(ctx context.Context) (asked bool, err error) {
	text := os.Getenv(jobEnv)
	if text == "" {
		return false, nil
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return true, fmt.Errorf("parse %s: %w", jobEnv, err)
	}
	out, err := os.Create(j.Path)
	if err != nil {
		return true, fmt.Errorf("make output: %w", err)
	}
	err = baselines[j.Way](ctx, baseline.Watch{
		Config: &rest.Config{
			Host: j.Host, BearerToken: j.Token, QPS: -1, UserAgent: "kubejournal-bench",
			TLSClientConfig: rest.TLSClientConfig{CAFile: j.CA},
		},
		Resource: schema.GroupVersionResource{Version: j.Version, Resource: j.Resource},
		From:     j.From, Events: j.Events,
	}, out)
	if errors.Is(err, context.Canceled) && j.Way == "raw" {
		err = nil
	}
	return true, errors.Join(err, out.Close())
}
