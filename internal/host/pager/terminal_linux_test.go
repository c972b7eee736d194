package pager

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal. end closes it and returns what was written to it, in Unix lines.
func terminal(t *testing.T) (user, tty *os.File, end func() string) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	written := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(user) // EIPE when the last writer has closed it
		written <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	return user, tty, func() string { tty.Close(); return <-written }
}

// script writes a pager and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pager")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func noWarning(t *testing.T) func(error) {
	return func(err error) { t.Error("warned:", err) }
}

func TestPaged(t *testing.T) {
	t.Setenv("LESS", "") // taken out below, and put back afterwards
	os.Unsetenv("LESS")
	_, tty, end := terminal(t)
	pager := script(t, `echo "LESS=$LESS $1"; sed "s/^/> /"; echo end`)
	p := Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": pager + " arg"}), noWarning(t))
	if !p.Paged() || p.Notes(tty) != p || p.Notes(io.Discard) != io.Discard {
		t.Error(p.Paged())
	}
	fmt.Fprintln(p, "one")
	fmt.Fprintln(p.Notes(tty), "two")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := end(); got != "LESS=FRX arg\n> one\n> two\nend\n" {
		t.Errorf("%q", got)
	}
}

// Close waits for the user; the pager's own settings and a pipeline are respected.
func TestShell(t *testing.T) {
	t.Setenv("LESS", "-S")
	_, tty, end := terminal(t)
	p := Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": `tr a-z A-Z | sed "s/^/$LESS /"`, "LESS": "-S"}), noWarning(t))
	fmt.Fprintln(p, "one")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := end(); got != "-S ONE\n" {
		t.Errorf("%q", got)
	}
}

func TestNoPager(t *testing.T) {
	for _, pager := range []string{"", "cat"} {
		_, tty, end := terminal(t)
		p := Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": pager}), noWarning(t))
		fmt.Fprintln(p, "one")
		if err := p.Close(); err != nil || p.Paged() {
			t.Error(err)
		}
		if got := end(); got != "one\n" {
			t.Errorf("%q", got)
		}
	}
}

// Where stdin is no terminal, nobody may be there to leave the pager: a script in a pseudo terminal, or input from a file.
func TestNoTerminalOnStdin(t *testing.T) {
	r, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, stdin := range []io.Reader{r, null, strings.NewReader(""), nil} {
		_, tty, end := terminal(t)
		p := Start(t.Context(), stdin, tty, lookup(map[string]string{"PAGER": "sed 's/^/> /'"}), noWarning(t))
		fmt.Fprintln(p, "one")
		if err := p.Close(); err != nil || p.Paged() {
			t.Errorf("%T: paged: %t, %v", stdin, p.Paged(), err)
		}
		if got := end(); got != "one\n" {
			t.Errorf("%T: %q", stdin, got)
		}
	}
}

// A pager that is not there is one warning.
func TestMissing(t *testing.T) {
	_, tty, end := terminal(t)
	var warnings []string
	p := Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": "kubejournal-no-pager -R"}), func(err error) { warnings = append(warnings, err.Error()) })
	fmt.Fprintln(p, "one")
	if err := p.Close(); err != nil || p.Paged() {
		t.Error(err)
	}
	if got := end(); got != "one\n" || len(warnings) != 1 || !strings.Contains(warnings[0], `exec: "kubejournal-no-pager"`) {
		t.Errorf("%q, %q", got, warnings)
	}
	// One that only the shell can look for.
	_, tty, _ = terminal(t)
	p = Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": "X=1 kubejournal-no-pager 2>/dev/null"}), noWarning(t))
	if err := p.Close(); err == nil || err.Error() != "run pager: exit status 127" {
		t.Error(err)
	}
}

// The user may leave early, however the pager ends then.
func TestQuit(t *testing.T) {
	for _, end := range []string{"exit 0", "exit 3", "kill -9 $$"} {
		_, tty, _ := terminal(t)
		p := Start(t.Context(), tty, tty, lookup(map[string]string{"PAGER": script(t, "read line; "+end)}), noWarning(t))
		var err error
		for err == nil {
			_, err = p.Write(bytes.Repeat([]byte("line\n"), 1000))
		}
		if !Quit(err) {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// When the context ends, a Write that waits for the user returns, the pager lives on with what it has, and Close waits.
func TestInterrupted(t *testing.T) {
	user, tty, end := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	pager := script(t, `exec 3<&0; echo up; read key < /dev/fd/1; wc -c <&3 > /dev/null; echo "got $key"`)
	p := Start(ctx, tty, tty, lookup(map[string]string{"PAGER": pager}), noWarning(t))
	wrote := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = p.Write(make([]byte, 64<<10))
		}
		wrote <- err
	}()
	cancel()
	if err := <-wrote; !Quit(err) {
		t.Error(err)
	}
	fmt.Fprintln(user, "q")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := end(); !strings.Contains(got, "got q") {
		t.Errorf("%q", got)
	}
}

// less gives the terminal back as it was.
func TestLess(t *testing.T) {
	if _, err := os.Stat("/usr/bin/less"); err != nil {
		t.Skip("no less")
	}
	_, tty, end := terminal(t)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERM", "xterm")
	p := Start(t.Context(), tty, tty, lookup(nil), noWarning(t))
	fmt.Fprintln(p, "\x1b[32mone\x1b[m")
	if err := p.Close(); err != nil || !p.Paged() {
		t.Error(err)
	}
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Error("the terminal has other settings", err)
	}
	if got := end(); !strings.Contains(got, "one") {
		t.Errorf("%q", got)
	}
}
