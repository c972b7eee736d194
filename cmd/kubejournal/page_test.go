package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the pages show of test/sample, which is the journal of a played incident, is what a terminal of 100 columns shows. With
// -update it is rewritten, and missing indexes of the sample first; test/sample/README.md says how the sample is made.
func TestPagesAsk(t *testing.T) {
	sample := filepath.Join(root, "test", "sample")
	if *update {
		cmd := exec.Command("kubejournal", "index")
		cmd.Dir = sample
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	shown := pageShows(t, "docs/find-out.md", "text", sample) + pageShows(t, "README.md", "text", sample)
	for _, command := range []string{"history ", "get ", "get .* --clean", "diff ", "blame ", "why ", "coverage", "index --verify"} {
		if !regexp.MustCompile("(?m)^kubejournal " + command).MatchString(shown) {
			t.Errorf("no page shows %s", command)
		}
	}
}

// pageShows compares the questions and answers in a page's blocks of a kind with what is shown in a folder, and returns the questions.
func pageShows(t *testing.T, name, kind, dir string) (shown string) {
	t.Helper()
	asked := regexp.MustCompile("(?ms)^```" + kind + "\n[$] (kubejournal [^\n]*)\n(?:.*?\n)?```$")
	path := filepath.Join(source, root, filepath.FromSlash(name))
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := asked.ReplaceAllFunc(page, func(block []byte) []byte {
		command := string(asked.FindSubmatch(block)[1])
		shown += command + "\n"
		return fmt.Appendf(nil, "```%s\n$ %s\n%s```", kind, command, asShown(t, dir, command))
	})
	if bytes.Equal(page, want) {
		return shown
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return shown
	}
	blocks := asked.FindAll(want, -1)
	for i, is := range asked.FindAll(page, -1) {
		if !bytes.Equal(is, blocks[i]) {
			t.Errorf("%s shows\n%s\nbut it is\n%s", name, is, blocks[i])
		}
	}
	return shown
}

// asShown returns what a command shows on a terminal of 100 columns, and its exit status unless that is 0.
func asShown(t *testing.T, dir, command string) string {
	t.Helper()
	s := newTerminal(t, 100)
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, s.tty, s.tty
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TZ=UTC", "NO_COLOR=1", "TERM=xterm", "PAGER=cat"}
	err := cmd.Run()
	status := ""
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		status = fmt.Sprintf("# exit status %d\n", ended.ExitCode())
	} else if err != nil {
		t.Fatal(err)
	}
	const end = "<end>"
	if _, err := s.tty.WriteString(end); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(s.until(t, `(?s).*`+end), "\r", "")
	return strings.TrimSuffix(text, end) + status
}
