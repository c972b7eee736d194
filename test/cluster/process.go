package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kubejournal/test/program"
)

const (
	startTimeout = 2 * time.Minute // also under the race detector on a busy machine of two cores
	stopTimeout  = 2 * time.Minute // an API server may take a minute to let its requests go
	pauseTimeout = 10 * time.Second
)

// server is one program that is started, stopped and started again.
type server struct {
	name string
	log  string // path; every run appends to it

	mu     sync.Mutex
	last   *program.Process // the latest run, ended or not; nil before the first; guarded by mu
	paused atomic.Bool      // that run, by SIGSTOP: it answers nobody until SIGCONT
}

// start starts the server unless the cluster's life is over.
func (s *server) start(life context.Context, path string, args []string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(life); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	if s.last.Alive() {
		return fmt.Errorf("start %s: it is running", s.name)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = os.Environ()
	s.paused.Store(false)
	s.last, err = program.Start(cmd, s.log)
	return err
}

// running is the present run, or nil.
func (s *server) running() *program.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.Alive() {
		return nil
	}
	return s.last
}

// signal sends a signal to the present run.
func (s *server) signal(sig syscall.Signal) (*program.Process, error) {
	p := s.running()
	if p == nil {
		return nil, fmt.Errorf("signal %s: it is not running", s.name)
	}
	err := p.Signal(sig)
	return p, err
}

// pause returns when the server stands still.
func (s *server) pause() error {
	p, err := s.signal(syscall.SIGSTOP)
	if err != nil {
		return err
	}
	s.paused.Store(true)
	return program.Eventually(context.Background(), pauseTimeout, "pause "+s.name, func() error {
		still, err := stopped(p.PID())
		if err != nil {
			return program.Final(err)
		}
		if !still {
			return errors.New("it moves")
		}
		return nil
	})
}

func (s *server) resume() error {
	_, err := s.signal(syscall.SIGCONT)
	if err == nil {
		s.paused.Store(false)
	}
	return err
}

// stop sends the signal and waits for the end.
func (s *server) stop(sig syscall.Signal) error {
	p, err := s.signal(sig)
	if err != nil {
		return err
	}
	if s.paused.Load() { // it would not see SIGTERM
		if err := s.resume(); err != nil && p.Alive() {
			return err
		}
	}
	if _, err := p.Exit(stopTimeout); err != nil {
		return p.Fault(fmt.Errorf("stop by %s: %w", sig, err))
	}
	return nil
}

// wait polls check until it holds, the server ends, or a deadline passes.
func (s *server) wait(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.mu.Lock()
	p := s.last
	s.mu.Unlock()
	err := p.Wait(ctx, startTimeout, "wait for "+s.name, func() error { return check(ctx) })
	if err != nil && p.Alive() {
		err = p.Fault(err)
	}
	return err
}
