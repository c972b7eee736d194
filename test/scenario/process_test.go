package scenario

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

// nodeName is the NODE_NAME of every program, as the downward API would set it.
const nodeName = "node-1"

// process is one run of the program.
type process struct {
	*program.Process
	t *testing.T
}

// launch starts the program in dir; it ends with the test at the latest. stdout may be nil.
func launch(t *testing.T, dir string, stdout io.Writer, args ...string) *process {
	t.Helper()
	log, err := os.CreateTemp(dir, "stderr-")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(kubejournal(t), args...)
	cmd.Dir, cmd.Stdout, cmd.Env = dir, stdout, program.Environ(dir, "NODE_NAME="+nodeName)
	p, err := program.Start(cmd, log.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End()
		if err := p.Sound(); err != nil {
			t.Error(err)
		} else if t.Failed() {
			t.Log(p.Fault(errors.New(strings.Join(args, " "))))
		}
	})
	return &process{p, t}
}

func (p *process) log() string {
	p.t.Helper()
	content, err := p.Log()
	if err != nil {
		p.t.Fatal(err)
	}
	return string(content)
}

// kill ends the program by SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.Done()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end of the program and returns its status.
func (p *process) exit() int {
	p.t.Helper()
	status, err := p.Exit(soon)
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

// teller is a run whose journal goes to stdout.
type teller struct {
	*process
	out *program.Output
}

func launchTeller(t *testing.T, dir string, args ...string) *teller {
	t.Helper()
	out := new(program.Output)
	return &teller{launch(t, dir, out, args...), out}
}

// lines is what it has told so far.
func (r *teller) lines() []invariant.Line {
	r.t.Helper()
	lines, err := invariant.Parse("stdout", 1, r.out.Text())
	if err != nil {
		r.t.Fatal(err)
	}
	return lines
}

func (r *teller) await(what string, found func([]invariant.Line) error) {
	r.t.Helper()
	eventually(r.t, soon, what, func() error { return found(r.lines()) })
}
