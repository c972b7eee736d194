package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	stopLimit  = 10 * time.Second // from SIGTERM to the end; the daemon promises 5 s
	stderrTail = 4 << 10          // bytes of stderr shown in an error
)

// build builds the program into dir.
func build(ctx context.Context, dir string, race bool) (string, error) {
	program := filepath.Join(dir, "kubejournal")
	args := []string{"build", "-o", program}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "kubejournal/cmd/kubejournal")...)
	// An interrupt lets the go command remove its work folder and end its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubejournal: %w\n%s", err, out)
	}
	return program, nil
}

// process is one run of the program.
type process struct {
	cmd     *exec.Cmd
	stderr  string // path
	started time.Time
	done    chan struct{} // closed when it has ended and been waited for
}

// launch starts the program in dir, with its stderr in a file of that name. stdout may be nil.
func launch(program, dir, stderr string, stdout *os.File, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, stderr))
	if err != nil {
		return nil, fmt.Errorf("start kubejournal: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, log, attributes()
	// Nothing of the developer's own; halt_on_error makes a race an exit status.
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "GORACE=halt_on_error=1", "PATH=" + os.Getenv("PATH")}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	p := &process{cmd: cmd, stderr: log.Name(), started: time.Now(), done: make(chan struct{})}
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
		return nil, fmt.Errorf("start kubejournal: %w", err)
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

// errEnded says that the program had ended by itself, or did not end well when it was asked to.
var errEnded = errors.New("kubejournal has ended")

// kill ends the program by SIGKILL and returns the moment just after the signal. The error wraps errEnded where it did
// not live until then.
func (p *process) kill() (time.Time, error) {
	err := p.cmd.Process.Signal(syscall.SIGKILL)
	at := time.Now()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return at, fmt.Errorf("kill kubejournal: %w", err)
	}
	<-p.done
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return at, p.fault(errEnded)
	}
	return at, p.sound()
}

// stop ends the program by SIGTERM, which must be clean and quick.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop kubejournal: %w", err)
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		err := p.fault(fmt.Errorf("kubejournal still runs %s after SIGTERM", stopLimit))
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the log that stays then tells where it stands
		<-p.done
		return err
	}
	if p.cmd.ProcessState.ExitCode() != 0 && !p.unborn() {
		return p.fault(errEnded)
	}
	return p.sound()
}

// unborn tells whether SIGTERM ended the program before its main could take note of signals, and so before it did
// anything: under the race detector that takes a while.
func (p *process) unborn() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGTERM {
		return false
	}
	log, err := os.ReadFile(p.stderr)
	return err == nil && len(log) == 0
}

// sound returns an error if there was a race or a panic.
func (p *process) sound() error {
	log, err := os.ReadFile(p.stderr)
	if err != nil {
		return fmt.Errorf("read kubejournal's log: %w", err)
	}
	if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("goroutine ")) {
		return p.fault(errors.New("kubejournal had a race or a panic"))
	}
	return nil
}

// fault adds how the program ended and the end of its log to an error.
func (p *process) fault(what error) error {
	log, err := os.ReadFile(p.stderr)
	if err != nil {
		return errors.Join(what, err)
	}
	state := "running"
	if !p.alive() {
		state = p.cmd.ProcessState.String()
	}
	return fmt.Errorf("%w (%s), %s:\n%s", what, state, filepath.Base(p.stderr), log[max(0, len(log)-stderrTail):])
}

// lastWords is the last line of its log.
func (p *process) lastWords() string {
	log, err := os.ReadFile(p.stderr)
	if err != nil {
		return err.Error()
	}
	log = bytes.TrimSpace(log)
	return string(log[bytes.LastIndexByte(log, '\n')+1:])
}

// told is what a run says of itself in its log.
type told struct {
	running  bool // it came to the end of its start
	address  string
	readBack int  // lines of the journal that no commit knew of
	torn     bool // the journal had a torn last line
}

func (p *process) told() (told, error) {
	log, err := os.ReadFile(p.stderr)
	if err != nil {
		return told{}, fmt.Errorf("read kubejournal's log: %w", err)
	}
	var t told
	for line := range bytes.Lines(log) {
		var entry struct {
			Msg      string `json:"msg"`
			Address  string `json:"address"`
			Lines    int    `json:"lines"`
			CutBytes int    `json:"cutBytes"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue // half a line of a log that was killed
		}
		switch entry.Msg {
		case "listening":
			t.address = entry.Address
		case "running":
			t.running = true
		case "read back the journal's tail":
			t.readBack, t.torn = entry.Lines, entry.CutBytes > 0
		}
	}
	return t, nil
}
