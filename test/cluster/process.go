package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond
	startTimeout = 2 * time.Minute // also under the race detector on a busy machine of two cores
	stopTimeout  = 2 * time.Minute // an API server may take a minute to let its requests go
	pauseTimeout = 10 * time.Second
	tailLines    = 20 // of a server's log, in an error
)

// keeper is the thread that starts servers. Linux kills a child when the thread that started it ends, and the Go
// runtime ends threads as it likes: so one goroutine stays locked to one thread for as long as the cluster lives.
type keeper struct {
	calls chan func()
	life  context.Context // ends at Close or at the time limit
	done  chan struct{}   // closed when the thread ends
}

func newKeeper(life context.Context) *keeper {
	k := &keeper{calls: make(chan func()), life: life, done: make(chan struct{})}
	go k.run()
	return k
}

func (k *keeper) run() {
	defer close(k.done)
	runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
	for {
		select {
		case call := <-k.calls:
			call()
		case <-k.life.Done():
			return
		}
	}
}

// do runs f on the keeper's thread and waits for it.
func (k *keeper) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case k.calls <- func() { result <- f() }:
		return <-result
	case <-k.life.Done():
		return context.Cause(k.life)
	}
}

// server is one program that is started, stopped and started again.
type server struct {
	name string
	log  string // path; every run appends to it

	mu   sync.Mutex
	last *process // the latest run, ended or not; nil before the first
}

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended and been waited for
	paused atomic.Bool   // stopped by SIGSTOP: it answers nobody until SIGCONT
}

func (s *server) start(k *keeper, path string, args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.alive() {
		return fmt.Errorf("start %s: it is running", s.name)
	}
	if err := context.Cause(k.life); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := k.do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.done)
	}()
	s.last = p
	return nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// running is the present run, or nil.
func (s *server) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || !s.last.alive() {
		return nil
	}
	return s.last
}

// signal goes to the present run by its process id; os.Process makes sure that the id is still its own.
func (s *server) signal(sig syscall.Signal) (*process, error) {
	p := s.running()
	if p == nil {
		return nil, fmt.Errorf("signal %s: it is not running", s.name)
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal %s: %w", s.name, err)
	}
	return p, nil
}

// pause returns when the server stands still.
func (s *server) pause() error {
	p, err := s.signal(syscall.SIGSTOP)
	if err != nil {
		return err
	}
	p.paused.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), pauseTimeout)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return stopped(p.cmd.Process.Pid) }); err != nil {
		return fmt.Errorf("pause %s: %w", s.name, err)
	}
	return nil
}

func (s *server) resume() error {
	p, err := s.signal(syscall.SIGCONT)
	if err == nil {
		p.paused.Store(false)
	}
	return err
}

// stop sends the signal and waits for the end.
func (s *server) stop(sig syscall.Signal) error {
	p, err := s.signal(sig)
	if err != nil {
		return err
	}
	if p.paused.Load() { // it would not see SIGTERM
		if err := s.resume(); err != nil && p.alive() {
			return err
		}
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return s.withLog(fmt.Errorf("stop %s: still running %s after %s", s.name, stopTimeout, sig))
	}
}

// wait polls check until it holds, the server ends, or a deadline passes.
func (s *server) wait(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		if s.running() == nil {
			return false, errors.New("it ended")
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if last != nil {
		err = fmt.Errorf("%w (last answer: %w)", err, last)
	}
	return s.withLog(fmt.Errorf("wait for %s: %w", s.name, err))
}

// withLog adds the end of the server's log to an error.
func (s *server) withLog(err error) error {
	return fmt.Errorf("%w\n%s", err, tail(s.log))
}

// poll calls check at once and then at short intervals until it returns true or an error, or ctx ends.
func poll(ctx context.Context, check func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := check(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func tail(path string) string {
	const enough = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > enough {
		_, _ = file.Seek(-enough, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(content)
}

func lastLines(content []byte) string {
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
