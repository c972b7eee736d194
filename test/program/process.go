// Package program builds, starts, watches and ends the programs that tests and benchmarks run.
package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ErrEnded says that a program has ended while it was expected to run, or did not end as it should.
var ErrEnded = errors.New("has ended")

const logTail = 8 << 10 // bytes of the log that an error shows

// Process is one run of a program. It ends with the process that started it: on Linux whatever becomes of that one.
type Process struct {
	cmd     *exec.Cmd
	log     string // path
	from    int64  // where the log of this run begins
	started time.Time
	done    chan struct{} // closed when it has ended and been waited for

	mu      sync.Mutex
	address string // of its HTTP server, "" until it is known; guarded by mu
}

// Environ is the environment of a program with a folder of its own, and nothing of the developer's: HOME, TMPDIR, PATH,
// and more. A race that the race detector finds ends the program.
func Environ(dir string, more ...string) []string {
	return append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"},
		more...)
}

// Start starts cmd. Its stderr, and its stdout unless cmd has one, are appended to the file at log. A nil environment
// is replaced by Environ(cmd.Dir).
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	defer file.Close()
	if p.from, err = file.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	cmd.Stderr = file
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	if cmd.Env == nil {
		cmd.Env = Environ(cmd.Dir)
	}
	bind(cmd)
	began := make(chan error, 1)
	go func() {
		defer close(p.done)
		// Linux kills a child when the thread that started it ends. This one stays as long as the child does, and
		// longer, since it may have started another one before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.started = time.Now()
		err := cmd.Start()
		began <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	return p, nil
}

// Name is the program's.
func (p *Process) Name() string { return filepath.Base(p.cmd.Path) }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Started returns the moment just before the start.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State says how the program ended, nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Alive() {
		return nil
	}
	return p.cmd.ProcessState
}

// Alive reports whether the program runs. A nil process does not.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Killed reports whether this signal ended the program.
func (p *Process) Killed(by syscall.Signal) bool {
	if p.Alive() {
		return false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == by
}

// Signal sends a signal. It is no error if the program has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name(), err)
	}
	return nil
}

// End kills the program if there is one and it runs, and waits for its end.
func (p *Process) End() {
	if p != nil {
		_ = p.cmd.Process.Kill() // an error says that it has ended
		<-p.done
	}
}

// Kill ends the program by SIGKILL and returns the moment just after the signal. The error wraps ErrEnded if the
// program did not live until then.
func (p *Process) Kill() (time.Time, error) {
	err := p.Signal(syscall.SIGKILL)
	at := time.Now()
	if err != nil {
		return at, err
	}
	<-p.done
	if !p.Killed(syscall.SIGKILL) {
		return at, p.Fault(ErrEnded)
	}
	return at, p.Sound()
}

// Stop ends the program by SIGTERM, which must be clean and take no longer than limit. A program that hangs gets
// SIGQUIT, so that its log says where it stands. The error wraps ErrEnded if the exit status is not 0.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	switch status, err := p.Exit(limit); {
	case err != nil:
		_ = p.Signal(syscall.SIGQUIT) // ended meanwhile is as good
		select {
		case <-p.done:
		case <-time.After(limit):
		}
		err = p.Fault(err)
		p.End()
		return err
	case status != 0:
		return p.Fault(ErrEnded)
	}
	return p.Sound()
}

// Exit waits for the program's end and returns its exit status, -1 if a signal ended it.
func (p *Process) Exit(limit time.Duration) (int, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		return 0, fmt.Errorf("%s still runs after %s", p.Name(), limit)
	}
}

// LogPath is the file that the log is in, after those of earlier runs.
func (p *Process) LogPath() string { return p.log }

// Log returns what this run has written to its log.
func (p *Process) Log() ([]byte, error) {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", p.Name(), err)
	}
	return content[min(p.from, int64(len(content))):], nil
}

// Sound returns an error if the log shows a race or a panic.
func (p *Process) Sound() error {
	log, err := p.Log()
	if err != nil {
		return err
	}
	if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("goroutine ")) {
		return p.Fault(errors.New("had a race or a panic"))
	}
	return nil
}

// Fault adds how the program ended, and the end of its log, to an error.
func (p *Process) Fault(what error) error {
	log, err := p.Log()
	if err != nil {
		return errors.Join(what, err)
	}
	state := "running"
	if !p.Alive() {
		state = p.cmd.ProcessState.String()
	}
	return fmt.Errorf("%s: %w (%s), %s:\n%s", p.Name(), what, state, filepath.Base(p.log),
		log[max(0, len(log)-logTail):])
}

// Runtime is what the environment sets of Go's runtime, as a container or a benchmark would, for an Environ.
func Runtime() []string {
	var set []string
	for _, key := range []string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG"} {
		if v, ok := os.LookupEnv(key); ok {
			set = append(set, key+"="+v)
		}
	}
	return set
}
