package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/kube/fake"
)

// quiet is a kubejournal process that watches config maps of which nothing changes, beside its API server.
type quiet struct {
	*fake.Server
	t                            *testing.T
	kubeconfig, output, position string
	process                      *exec.Cmd
}

// startQuiet starts a process, and waits until pulses have confirmed it for longer than a change can have.
func startQuiet(t *testing.T) *quiet {
	t.Helper()
	q := &quiet{Server: fake.New(fake.Options{BookmarkInterval: time.Hour}), t: t}
	t.Cleanup(q.Close)
	dir := t.TempDir()
	q.kubeconfig = must[string](t)(q.Kubeconfig(dir))
	q.output, q.position = filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "kubejournal.db")
	q.start()
	until(t, "it watches", func() bool { return strings.Contains(q.journal(), `"type":"SYNCED"`) })
	q.change("before")
	changed := time.Now()
	until(t, "pulses", func() bool { return q.last().To.Sub(changed) > 11*time.Second })
	return q
}

func (q *quiet) start() {
	q.t.Helper()
	q.process = exec.Command("kubejournal", "run", "configmaps", "--kubeconfig", q.kubeconfig,
		"--output", q.output, "--checkpoint", q.position)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "KUBEJOURNAL_") {
			q.process.Env = append(q.process.Env, kv)
		}
	}
	if err := q.process.Start(); err != nil {
		q.t.Fatal(err)
	}
	process := q.process.Process
	q.t.Cleanup(func() { _ = process.Kill() })
}

func (q *quiet) signal(s os.Signal) {
	q.t.Helper()
	if err := q.process.Process.Signal(s); err != nil {
		q.t.Fatal(err)
	}
}

func (q *quiet) journal() string {
	content, _ := os.ReadFile(q.output) // it is made by the process
	return string(content)
}

// create makes a config map, in a second in which nothing else has happened.
func (q *quiet) create(name string) (at time.Time) {
	q.t.Helper()
	for second := time.Now().Unix(); time.Now().Unix() == second; {
		<-time.After(10 * time.Millisecond)
	}
	at = time.Now()
	must[map[string]any](q.t)(q.Create(configmaps, configmap(name)))
	return at
}

// change is create, and waits for the line.
func (q *quiet) change(name string) {
	q.t.Helper()
	q.create(name)
	until(q.t, "the line of "+name, func() bool { return strings.Contains(q.journal(), `"name":"`+name+`"`) })
}

// intervals is what the command coverage says of the stream.
func (q *quiet) intervals() []coverage.Interval {
	q.t.Helper()
	var out strings.Builder
	args := []string{"coverage", "configmaps", "-o", "json", "--journal", q.output}
	if status := run(q.t.Context(), args, nil, &out, io.Discard); status != 0 {
		return nil
	}
	var streams []coverage.Stream
	if err := json.Unmarshal([]byte(out.String()), &streams); err != nil || len(streams) != 1 {
		q.t.Fatalf("%v: %s", err, out.String())
	}
	return streams[0].Intervals
}

func (q *quiet) last() (last coverage.Interval) {
	q.t.Helper()
	if all := q.intervals(); len(all) > 0 {
		last = all[len(all)-1]
	}
	return last
}

// What pulses have confirmed stays covered over the end of a process, though changes follow of the time between.
func TestPulsesOverRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, tt := range map[string]struct {
		end  os.Signal
		want string
	}{
		"stopped": {syscall.SIGTERM, coverage.Stopped},
		"killed":  {syscall.SIGKILL, coverage.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := startQuiet(t)
			reached := q.last().To
			q.signal(tt.end)
			_ = q.process.Wait() // with the status of its end
			ended := time.Now()
			q.create("between")
			q.start()
			until(t, "it is followed again", func() bool {
				last := q.last()
				return !last.Late && last.From.After(ended)
			})
			q.change("after")
			first := q.intervals()[0]
			if first.Late || first.End != tt.want || first.To.Before(reached) || first.To.After(ended) {
				t.Errorf("it was covered to %s and ended at %s, now to %+v", reached, ended, q.intervals())
			}
		})
	}
}

// A process that was stopped for a while, and continues, reads what has waited: it came late.
func TestPulsesOverSuspension(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	t.Parallel()
	q := startQuiet(t)
	q.signal(syscall.SIGSTOP)
	at := q.create("meanwhile")
	<-time.After(13 * time.Second)
	q.signal(syscall.SIGCONT)
	continued := time.Now()
	until(t, "it is followed again", func() bool {
		last := q.last()
		return !last.Late && last.To.Sub(continued) > time.Second
	})
	q.change("after")
	late := false
	for _, i := range q.intervals() {
		if !i.From.After(at) && i.To.After(at) {
			late = i.Late
		}
	}
	if !late {
		t.Errorf("the change at %s was received after %s: %+v", at, continued, q.intervals())
	}
}
