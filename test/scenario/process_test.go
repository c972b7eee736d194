package scenario

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// nodeName is the NODE_NAME of every program, as the downward API would set it.
const nodeName = "node-1"

const stderrTail = 8 << 10 // bytes of stderr shown on failure

// process is one run of the program.
type process struct {
	cmd    *exec.Cmd
	stderr string        // path
	done   chan struct{} // closed when it has ended and been waited for
}

// launch starts the program in dir; it ends with the test at the latest. stdout may be nil.
func launch(t *testing.T, dir string, stdout *os.File, args ...string) *process {
	t.Helper()
	log, err := os.CreateTemp(dir, "stderr-")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program(t), args...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, log, attributes()
	// Nothing of the developer's own; halt_on_error makes a race an exit status.
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "GORACE=halt_on_error=1", "NODE_NAME=" + nodeName, "PATH=" + os.Getenv("PATH")}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	p := &process{cmd: cmd, stderr: log.Name(), done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// Linux kills a child when the thread that started it ends: this one stays as long as the child does.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.alive() {
			p.kill(t)
		}
		content := p.log(t)
		if bytes.Contains(content, []byte("DATA RACE")) || bytes.Contains(content, []byte("goroutine ")) {
			t.Errorf("%s: a race or a panic", filepath.Base(p.stderr))
		}
		if t.Failed() {
			t.Logf("%s of %s:\n%s", filepath.Base(p.stderr), strings.Join(args, " "), content[max(0, len(content)-stderrTail):])
		}
	})
	return p
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) log(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// kill ends the program by SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && p.alive() {
		t.Fatalf("signal: %v", err)
	}
}

// exit waits for the end of the program and returns its status.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	eventually(t, soon, "exit", func() error {
		if p.alive() {
			return fmt.Errorf("process %d is still running", p.cmd.Process.Pid)
		}
		return nil
	})
	return p.cmd.ProcessState.ExitCode()
}
