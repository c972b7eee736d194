//go:build linux && amd64

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

const (
	patience     = time.Minute // for what should come at once
	pollInterval = 4 * time.Millisecond
	// stopLimit is how long a daemon may take to end after SIGTERM: a pod's grace period.
	stopLimit = 30 * time.Second
	// noticed is how long a failure that readiness does not tell of goes on.
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

// errEnded says that the daemon has ended while something was expected of it.
var errEnded = errors.New("the daemon has ended")

// await waits until condition is met, as long as the daemon runs. On the way it sees to a fault that lasts.
func (r *run) await(ctx context.Context, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := r.attend(ctx)
		if err == nil {
			err = condition()
		}
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-tick.C:
		case <-r.Done():
			return fmt.Errorf("await %s: %w", what, errEnded)
		case <-ctx.Done():
			return fmt.Errorf("await %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// final is an error that waiting does not mend.
type final struct{ error }

// attend ends a fault that lasts once the daemon has said that something is wrong.
func (r *run) attend(ctx context.Context) error {
	s := r.plan.state()
	switch {
	case s.err != nil:
		return final{s.err}
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
		if r.address = listening(log); r.address == "" {
			return 0, "", errors.New("not listening yet")
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// listening finds the address in a log, "" while there is none.
func listening(log []byte) string {
	for line := range bytes.Lines(log) {
		var entry struct{ Msg, Address string }
		if bytes.Contains(line, []byte("listening")) && json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			return entry.Address
		}
	}
	return ""
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

var errorCount = regexp.MustCompile(`(?m)^kubejournal_(?:output|checkpoint)_errors_total (\S+)$`)

// counted returns how many failures the daemon has counted.
func (r *run) counted(ctx context.Context) (float64, error) {
	_, body, err := r.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	found := errorCount.FindAllStringSubmatch(body, -1)
	if len(found) != 2 {
		return 0, fmt.Errorf("%d counters of errors in the metrics, want 2", len(found))
	}
	sum := 0.0
	for _, m := range found {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// end waits for the end of the daemon, which was told to stop, and returns its exit status; -1 where it was killed.
func (r *run) end(ctx context.Context) (int, error) {
	began := time.Now()
	err := r.await(ctx, "end", func() error { return errors.New("still running") })
	if !errors.Is(err, errEnded) {
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
