package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	stopLimit = 10 * time.Second // from SIGTERM to the end; the daemon promises 5 s
	tailBytes = 4 << 10          // bytes of a log shown in an error
)

// process is a child, with its stderr in a file.
type process struct {
	cmd     *exec.Cmd
	log     string // path of its stderr
	started time.Time
	done    chan struct{} // closed when it has ended and been waited for
	usage   *sampler
}

// launch starts a program in dir. stdout may be nil.
func launch(dir, name string, stdout *os.File, program string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, args...), log: log.Name(), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = dir, log, attributes()
	// Nothing of the developer's own, but for what a container would set.
	p.cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), roleVariable + "=1"}
	for _, key := range []string{"GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GODEBUG"} {
		if v, ok := os.LookupEnv(key); ok {
			p.cmd.Env = append(p.cmd.Env, key+"="+v)
		}
	}
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	began := make(chan error, 1)
	go func() {
		defer close(p.done)
		// Linux kills a child when the thread that started it ends: this one stays as long as the child does.
		runtime.LockOSThread()
		p.started = time.Now()
		err := p.cmd.Start()
		began <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.usage = sample(p.cmd.Process.Pid, p.done)
	return p, nil
}

// roleVariable tells a test binary that it runs as one of the program's roles; the program itself needs no telling.
const roleVariable = "KUBEJOURNAL_SCALE_ROLE"

// signal asks the child to end, and waits for that.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.cmd.Path, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		err := p.fault(fmt.Errorf("still runs %s after %v", stopLimit, s))
		_ = p.cmd.Process.Kill() // it may have ended meanwhile
		<-p.done
		return err
	}
	p.usage.wait.Wait()
	return nil
}

// end ends the child, whatever state it is in.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.done
	p.usage.wait.Wait()
}

// cpu is what a child that has ended has spent.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// fault adds the end of the log to an error.
func (p *process) fault(what error) error {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return errors.Join(what, err)
	}
	return fmt.Errorf("%s: %w:\n%s", filepath.Base(p.cmd.Path), what, log[max(0, len(log)-tailBytes):])
}

// follow calls fn with each line of a child's log as it comes, until fn returns true, the child ends or ctx does.
func (p *process) follow(ctx context.Context, fn func([]byte) bool) error {
	f, err := os.Open(p.log)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	var (
		r    = bufio.NewReader(f)
		line []byte
		last bool
		tick = time.NewTicker(pollEvery)
	)
	defer tick.Stop()
	for {
		part, err := r.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			if fn(line) {
				return nil
			}
			line = line[:0]
			continue
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("read log: %w", err)
		case last:
			return p.fault(errors.New("ended too early"))
		}
		select {
		case <-p.done:
			last = true // once more, for what it said last
		case <-tick.C:
		case <-ctx.Done():
			return p.fault(ctx.Err())
		}
	}
}
