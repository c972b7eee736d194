package daemon

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kubejournal/internal/format/journal"
)

// A terminal that was closed ends the daemon, as a closed pipe does.
func TestTerminalIsClosed(t *testing.T) {
	out := journal.NewStdout(terminal{hungUp{}})
	if _, err := out.Write([]byte("line\n")); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := (terminal{io.Discard}).Write([]byte("line\n")); err != nil {
		t.Error(err)
	}
}

// hungUp is a terminal whose other side is gone.
type hungUp struct{}

func (hungUp) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EIO}
}

func TestWasClosed(t *testing.T) {
	for _, c := range []struct {
		what, path string
		flags      int
		want       bool
	}{
		{"what Go puts in the place of a closed stream", os.DevNull, os.O_RDWR, true},
		{"> /dev/null", os.DevNull, os.O_WRONLY, false},
		{"a file", filepath.Join(t.TempDir(), "f"), os.O_RDWR | os.O_CREATE, false},
	} {
		f, err := os.OpenFile(c.path, c.flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := wasClosed(f); got != c.want {
			t.Errorf("%s: wasClosed = %t, want %t", c.what, got, c.want)
		}
		f.Close()
	}
}
