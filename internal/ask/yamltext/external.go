package yamltext

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"kubejournal/internal/host/disk"
)

// External compares objects with the program that KUBECTL_EXTERNAL_DIFF names, as kubectl diff does: it gets two
// directories, in which an object has a file of the same name. Close must follow.
type External struct {
	command  string
	from, to string // directories
}

// NewExternal returns an External for the value of KUBECTL_EXTERNAL_DIFF, which is not empty.
func NewExternal(command string) (*External, error) {
	e := &External{command: command}
	var err error
	if e.from, err = os.MkdirTemp("", "FROM-"); err != nil {
		return nil, err
	}
	disk.NoteTemporary(e.from) // until the process ends: a folder that is gone is no matter
	if e.to, err = os.MkdirTemp("", "TO-"); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	disk.NoteTemporary(e.to)
	return e, nil
}

// Close removes the directories.
func (e *External) Close() error {
	err := os.RemoveAll(e.from)
	if e.to != "" {
		err = errors.Join(err, os.RemoveAll(e.to))
	}
	return err
}

// Add adds an object, in a file of this name; see FileName. Where there is no object, the text is empty.
func (e *External) Add(name string, from, to []byte) error {
	if err := os.WriteFile(filepath.Join(e.from, name), from, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(e.to, name), to, 0o600)
}

// FileName returns the name of an object's file: group.version.kind.namespace.name, as kubectl has it, within what file
// systems take.
func FileName(group, version, kind, namespace, name string) string {
	const longest = 255
	if group != "" {
		group += "."
	}
	file := strings.NewReplacer("/", "_", "\x00", "_").Replace(
		group + strings.Join([]string{version, kind, namespace, name}, "."),
	)
	if len(file) > longest {
		sum := fmt.Sprintf(".%08x", crc32.ChecksumIEEE([]byte(file)))
		file = file[:longest-len(sum)] + sum
	}
	return file
}

// Run runs the program, and reports whether it found a difference: that is exit status 1, and more is a fault.
func (e *External) Run(ctx context.Context, stdout, stderr io.Writer) (different bool, err error) {
	args := externalArgs(e.command)
	cmd := exec.CommandContext(ctx, args[0], append([]string{e.from, e.to}, args[1:]...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it may have to restore a terminal
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("run %q of KUBECTL_EXTERNAL_DIFF: %w", args[0], cmp.Or(ctx.Err(), err))
	}
	return false, nil
}

var externalArg = regexp.MustCompile(`^[a-zA-Z0-9-=]+$`)

// externalArgs splits the command as kubectl does: at blanks, and arguments with anything but letters, digits, - and =
// are left out.
func externalArgs(command string) []string {
	words := strings.Split(strings.TrimSpace(command), " ")
	args := words[:1:1]
	for _, word := range words[1:] {
		if externalArg.MatchString(word) {
			args = append(args, word)
		}
	}
	return args
}
