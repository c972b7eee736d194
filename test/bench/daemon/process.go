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
	"runtime"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/test/bench/baseline"
)

const (
	pollInterval = 5 * time.Millisecond
	stopLimit    = 20 * time.Second // from SIGTERM to a process's end
	stderrTail   = 4 << 10          // bytes of stderr shown in an error
)

// process is one that is measured.
type process struct {
	cmd    *exec.Cmd
	stderr string        // path
	done   chan struct{} // closed when it has ended and been waited for
}

// launch starts a program with the folder dir as its own.
func launch(dir, program string, env []string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, log, attributes()
	// Nothing of the developer's own but what sets Go's runtime up.
	cmd.Env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	for _, key := range []string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC"} {
		if v, ok := os.LookupEnv(key); ok {
			cmd.Env = append(cmd.Env, key+"="+v)
		}
	}
	p := &process{cmd: cmd, stderr: log.Name(), done: make(chan struct{})}
	began := make(chan error, 1)
	go func() {
		defer close(p.done)
		// Linux kills a child when the thread that started it ends: this one stays as long as the child does.
		runtime.LockOSThread()
		err := cmd.Start()
		began <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process by SIGTERM, if it runs, and returns what it has taken: user and system time. The process must
// have ended well.
func (p *process) stop() (time.Duration, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("stop process: %w", err)
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.kill()
		return 0, p.fault(fmt.Sprintf("still runs %s after SIGTERM", stopLimit))
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		return 0, p.fault(p.cmd.ProcessState.String())
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.done
}

func (p *process) fault(what string) error {
	log, err := os.ReadFile(p.stderr)
	return errors.Join(fmt.Errorf("%s: %s\n%s", filepath.Base(p.cmd.Path), what, log[max(0, len(log)-stderrTail):]), err)
}

// listening waits for the address that the daemon serves its metrics at.
func (p *process) listening(ctx context.Context) (string, error) {
	address := ""
	err := p.until(ctx, "the daemon to listen", func() (bool, error) {
		log, err := os.ReadFile(p.stderr)
		for line := range bytes.Lines(log) {
			var entry struct{ Msg, Address string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
				address = entry.Address
			}
		}
		return address != "", err
	})
	return address, err
}

// until polls done while the process runs.
func (p *process) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, baseline.Patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-p.done:
			if ok, err := done(); ok || err != nil { // what it did last
				return err
			}
			return p.fault("ended before there was " + what)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

// lines waits until the file at path has at least n lines that contain what.
func (p *process) lines(ctx context.Context, path, what string, n int) error {
	file := &growing{path: path}
	defer file.close()
	have := 0
	return p.until(ctx, fmt.Sprintf("%d lines", n), func() (bool, error) {
		err := file.each(func(line []byte) error {
			if bytes.Contains(line, []byte(what)) {
				have++
			}
			return nil
		})
		return have >= n, err
	})
}

// growing is a file that another process appends lines to, from before it exists.
type growing struct {
	path string
	file *os.File
	rest []byte // of a line whose end has not been read
	buf  []byte
}

// each gives every line to f that has become complete since the last call.
func (g *growing) each(f func(line []byte) error) error {
	if g.file == nil {
		file, err := os.Open(g.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read output: %w", err)
		}
		g.file, g.buf = file, make([]byte, 256<<10)
	}
	for {
		n, err := g.file.Read(g.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read output: %w", err)
		}
		if n == 0 {
			return nil
		}
		b := g.buf[:n]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			line := b[:i+1]
			if len(g.rest) > 0 {
				g.rest = append(g.rest, line...)
				line = g.rest
			}
			if err := f(line); err != nil {
				return err
			}
			g.rest, b = g.rest[:0], b[i+1:]
		}
		g.rest = append(g.rest, b...)
	}
}

func (g *growing) close() {
	if g.file != nil {
		g.file.Close()
	}
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
func (j job) start(dir string) (*process, error) {
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
