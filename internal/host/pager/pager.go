// Package pager shows a command's output page by page on a terminal, as git does.
package pager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

const (
	usual       = "less" // where PAGER is not set
	shellSyntax = "|&;<>()$`\\\"'\t\n*?[#~=%{}!"
)

// Pager writes to the user's pager, or to stdout where there is none. Close must follow, before the process ends: until
// then the terminal is the pager's.
type Pager struct {
	out   io.Writer // the pipe to the pager, or stdout
	pipe  *os.File  // nil where there is no pager
	cmd   *exec.Cmd
	close func() error // closes pipe, once
	wait  func() error // for the end of cmd, once
	stop  func() bool  // takes back that the end of the context closes pipe
}

// Start starts $PAGER (less if it is not set) if stdin and stdout are terminals; there is none if PAGER is empty or
// cat, or not set on a terminal that is dumb. Where stdin is none, nobody may be there to leave the pager. What it
// cannot start is passed to warn, and the output then goes to stdout as it is.
//
// Ctrl-C reaches the pager too, which decides what to do with it. When ctx ends, the pager gets no more output, and
// Close still waits for its user.
func Start(ctx context.Context, stdin io.Reader, stdout io.Writer, env func(string) (string, bool),
	warn func(error)) *Pager {
	p := &Pager{out: stdout}
	if !isTerminal(stdin) || !isTerminal(stdout) {
		return p
	}
	command := chosen(env)
	if command == "" {
		return p
	}
	if err := p.start(ctx, command, stdout, env); err != nil {
		warn(err)
	}
	return p
}

// chosen returns the user's pager, empty where there is none.
func chosen(env func(string) (string, bool)) string {
	command, ok := env("PAGER")
	if term, _ := env("TERM"); !ok && term == "dumb" {
		return "" // less would ask for a key there
	}
	if !ok {
		return usual
	}
	if command = strings.TrimSpace(command); command == "cat" {
		return ""
	}
	return command
}

func (p *Pager) start(ctx context.Context, command string, terminal io.Writer, env func(string) (string, bool)) error {
	// The shell would say that there is no such program, but only when the output is gone.
	if program := strings.Fields(command)[0]; !strings.ContainsAny(program, shellSyntax) {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	if !strings.ContainsAny(command, shellSyntax) {
		command = "exec " + command // no shell between that Ctrl-C ends
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", command) // not ended with ctx: see Start
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = r, terminal, os.Stderr, os.Environ()
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} { // as git has it
		if _, ok := env(name); !ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	err = cmd.Start()
	_ = r.Close() // the pager has its own
	if err != nil {
		return errors.Join(err, w.Close())
	}
	p.out, p.pipe, p.cmd, p.close, p.wait = w, w, cmd, sync.OnceValue(w.Close), sync.OnceValue(cmd.Wait)
	p.stop = context.AfterFunc(ctx, func() { _ = p.close() })
	return nil
}

// Write writes output. With an error for which Quit is true, nobody wants more.
func (p *Pager) Write(b []byte) (int, error) { return p.out.Write(b) }

// Quit reports whether err is that the reader of the output has gone, or that the context of Start has ended.
func Quit(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) }

// Paged reports whether there is a pager.
func (p *Pager) Paged() bool { return p.pipe != nil }

// Notes returns where remarks for stderr are to go: into the pager's pages if they would come up between them.
func (p *Pager) Notes(stderr io.Writer) io.Writer {
	if p.Paged() && isTerminal(stderr) {
		return p
	}
	return stderr
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Close ends the output, and waits until the user leaves the pager. An error is that it could not be run. It may be
// called several times.
func (p *Pager) Close() error {
	if !p.Paged() {
		return nil
	}
	p.stop()
	err := p.close()
	// Its other statuses, and signals, are between it and its user.
	const cannotExecute, notFound = 126, 127
	if wait := p.wait(); wait != nil {
		if code := p.cmd.ProcessState.ExitCode(); code == cannotExecute || code == notFound {
			return fmt.Errorf("run pager: %w", wait)
		}
	}
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
