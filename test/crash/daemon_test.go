//go:build linux && amd64

package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"kubejournal/test/program"
)

const (
	patience = time.Minute // for what should come at once
	// stopLimit is how long a daemon may take to end after SIGTERM: a pod's grace period.
	stopLimit = 30 * time.Second
	// noticed is how long a failure that readiness does not tell of continues.
	noticed = 100 * time.Millisecond
	// failuresEnough are enough of them.
	failuresEnough = 3
)

// run is one run of the daemon.
type run struct {
	*Process
	plan    *plan
	log     string // path
	address string // of its HTTP server
}

// await waits until condition is met, as long as the daemon runs. On the way it sees to a fault that lasts.
func (r *run) await(ctx context.Context, what string, condition func() error) error {
	return program.While(ctx, r.Done(), patience, "await "+what, func() error {
		if err := r.attend(ctx); err != nil {
			return err
		}
		return condition()
	})
}

// attend ends a fault that lasts once the daemon has said that something is wrong.
func (r *run) attend(ctx context.Context) error {
	s := r.plan.state()
	switch {
	case s.err != nil:
		return program.Final(s.err)
	case !s.lasting:
		return nil
	case !isVital(s.fired) || !s.running:
		if s.failures < failuresEnough && s.since < noticed {
			return nil
		}
	default:
		status, _, err := r.get(ctx, "/readyz")
		if err != nil || status != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz still answers %d while %s cannot be done (%v)", status, s.fired, err)
		}
	}
	r.plan.heal()
	return nil
}

// get asks the daemon's HTTP server.
func (r *run) get(ctx context.Context, path string) (status int, body string, err error) {
	if r.address == "" {
		log, err := os.ReadFile(r.log)
		if err != nil {
			return 0, "", err
		}
		if r.address = program.Listening(log); r.address == "" {
			return 0, "", errors.New("not listening yet")
		}
	}
	return program.Get(ctx, r.address, path)
}

// running reports whether a log says that the start is over.
func running(log []byte) bool { return bytes.Contains(log, []byte(`"msg":"running"`)) }

func (r *run) ready(ctx context.Context) error {
	return r.await(ctx, "ready", func() error {
		status, body, err := r.get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		return err
	})
}

// counted returns how many failures the daemon has counted.
func (r *run) counted(ctx context.Context) (float64, error) {
	_, body, err := r.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	metrics, err := program.Metrics(body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, name := range []string{`output_errors_total{operation="write"}`, `output_errors_total{operation="sync"}`,
		`output_errors_total{operation="rotate"}`, "checkpoint_errors_total"} {
		n, is := metrics["kubejournal_"+name]
		if !is {
			return 0, fmt.Errorf("the metrics do not have %s", name)
		}
		sum += n
	}
	return sum, nil
}

// end waits for the end of the daemon, which was told to stop, and returns its exit status; -1 where it was killed.
func (r *run) end(ctx context.Context) (int, error) {
	began := time.Now()
	err := r.await(ctx, "end", func() error { return errors.New("still running") })
	if !errors.Is(err, program.ErrEnded) {
		return 0, err
	}
	if took := time.Since(began); took > stopLimit {
		return 0, fmt.Errorf("the end took %s", took)
	}
	return r.exit()
}

// exit is how a daemon that has ended did so: its exit status, or -1 where it was killed.
func (r *run) exit() (int, error) {
	status, err := r.Status()
	if err != nil {
		return 0, err
	}
	if s := r.plan.state(); s.err != nil {
		return 0, s.err
	}
	log, err := os.ReadFile(r.log)
	if err != nil {
		return 0, err
	}
	if bytes.Contains(log, []byte("goroutine ")) || bytes.Contains(log, []byte("DATA RACE")) {
		return 0, errors.New("a panic or a race")
	}
	switch {
	case status.Exited():
		return status.ExitStatus(), nil
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return -1, nil
	}
	return 0, fmt.Errorf("ended with wait status %#x", int(status))
}
