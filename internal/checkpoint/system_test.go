package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openElsewhere opens path in a process of its own that may do less than this
// one, and returns what it says and its exit status: 2 for a damaged file.
func openElsewhere(t *testing.T, path string, env ...string) (said string, status int) {
	t.Helper()
	// By this name it is found also where the user that it runs as may not look.
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), helperEnv+"="+path), env...)
	if os.Geteuid() == 0 { // who may everything
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// open to everybody, down from the root, as the folder of a test is not.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "checkpoint-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(dir, 0o700)
		os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenReadOnlyFolder(t *testing.T) {
	dir := openFolder(t)
	path := filepath.Join(dir, "c.db")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	said, status := openElsewhere(t, path)
	if status != 1 || !strings.Contains(said, "permission denied") || strings.Contains(said, ".new-") {
		t.Errorf("in a folder that cannot be written: status %d, %s", status, said)
	}
	os.Chmod(dir, 0o777)
	if said, status := openElsewhere(t, path); status != 0 || said != "held" {
		t.Fatalf("status %d, %s", status, said)
	}
	// A file that may be read only: out of reach, not damaged.
	for mode, where := range map[os.FileMode]string{0: "unreadable", 0o444: "read-only"} {
		os.Chown(path, os.Geteuid(), os.Getegid()) // root's, where that is who we are
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if said, status := openElsewhere(t, path); status != 1 || !strings.Contains(said, "permission denied") {
			t.Errorf("%s: status %d, %s", where, status, said)
		}
	}
}

// TestCreateDiskFull has no room at each stage of making the file: nothing is
// left under its name, nor beside it.
func TestCreateDiskFull(t *testing.T) {
	dir := openFolder(t)
	path := filepath.Join(dir, "c.db")
	failed := 0
	for _, limit := range []int{0, 1, 4096, 8192, 16384, 20000, 32768, 1 << 19, 1 << 20, 4 << 20} {
		said, status := openElsewhere(t, path, fmt.Sprintf("%s=%d", fileLimitEnv, limit))
		left := names(t, dir)
		switch {
		case status == 0 && limit >= 1<<19 && slices.Equal(left, []string{"c.db"}):
			os.Remove(path)
		case status == 1 && strings.HasPrefix(said, "create checkpoint "+path+": ") && strings.HasSuffix(said, "file too large") && len(left) == 0:
			failed++
		default:
			t.Errorf("%d bytes: status %d, %s, left %v", limit, status, said, left)
		}
	}
	if failed < 5 {
		t.Errorf("only %d ran out of room", failed)
	}
}

// TestSymbolicLink: the file is what the link leads to, also where that is still
// to be made, and the link stays when a damaged file is set aside.
func TestSymbolicLink(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	link, target := filepath.Join(dir, "c.db"), filepath.Join(data, "real.db")
	for name, to := range map[string]string{link: filepath.Join(dir, "..", filepath.Base(dir), "hop"), filepath.Join(dir, "hop"): target} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, link)
	if !isNew(t, s) || s.Path() != target {
		t.Errorf("new: %v, Path %s", isNew(t, s), s.Path())
	}
	s.Close()
	if got := names(t, data); !slices.Equal(got, []string{"real.db"}) {
		t.Errorf("made %v", got)
	}
	write(t, target, []byte("broken"))
	if _, err := Open(link); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	kept, err := SetAside(link, time.Unix(0, 0))
	if err != nil || kept != target+".damaged-1970-01-01T00-00-00.000" || string(read(t, kept)) != "broken" {
		t.Errorf("kept %s, %v", kept, err)
	}
	if !WasSetAside(link) {
		t.Error("WasSetAside = false")
	}
	if s := mustOpen(t, link); !isNew(t, s) || s.Path() != target {
		t.Errorf("new: %v, Path %s", isNew(t, s), s.Path())
	}
	if got := names(t, dir); !slices.Equal(got, []string{"c.db", "hop"}) {
		t.Errorf("beside the link: %v", got)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(loop); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop: Open = %v", err)
	}
}
