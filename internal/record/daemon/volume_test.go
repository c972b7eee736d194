package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// A volume that refuses locks is named as that, with what to do; one whose lock another process holds is not.
func TestVolumeWithoutLocks(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.EBADF,
		syscall.EWOULDBLOCK,
	} {
		l := newLive(t)
		writeFile(t, l.config(), l.text("configmaps"))
		l.disk = faultdisk.RefusingLocks(disk.OS, errno)
		l.start()
		l.until("it ends", func() bool { return l.logged("kubejournal: ") > 0 })
		err := l.stop()
		want := "the volume refuses to lock files: " + errno.Error() +
			"; mount it with locks (NFS: version 4, or local_lock=flock; CIFS: nobrl), or name a file on another volume"
		if errno == syscall.EWOULDBLOCK {
			want = "held by another process; stop the other kubejournal"
		}
		if err == nil || !strings.HasPrefix(err.Error(), "output.path: ") || !strings.Contains(err.Error(), l.journal()) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", errno.Error(), err)
		}
	}
}

// Who may not write is told whose the folder is, and that it is not the mode that refuses it.
func TestRemedyOfRefusal(t *testing.T) {
	dir := t.TempDir()
	refused := &fs.PathError{Op: "open", Path: "f", Err: syscall.EACCES}
	path := filepath.Join(dir, "f")
	mine := fmt.Sprintf("; %s belongs to %d:%d with mode drwx", dir, os.Getuid(), os.Getgid())
	if got := remedy(refused, path); !strings.HasPrefix(got, mine) ||
		!strings.Contains(got, "to which that mode gives the right: SELinux, or") || !strings.Contains(got, "fsGroup") {
		t.Errorf("%s", got)
	}
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	refused = &fs.PathError{Op: "open", Path: "f", Err: syscall.EPERM}
	if got := remedy(refused, path); !strings.HasPrefix(got, "; "+path+" belongs to ") {
		t.Errorf("%s", got)
	}
	if got := remedy(refused, filepath.Join(dir, "none", "f")); got != "; name a file that can be written here" {
		t.Errorf("%s", got)
	}
}
