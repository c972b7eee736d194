package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubejournal/internal/host/disk"
)

// What others have put in the place of a file that is made is neither followed nor written to, and does not block.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	path := filepath.Join(dir, ".journal.tmp")
	for name, put := range map[string]func() error{
		"nothing":       func() error { return nil },
		"a file":        func() error { return os.WriteFile(path, []byte("old and longer"), 0o666) },
		"a link":        func() error { return os.Symlink(precious, path) },
		"a second name": func() error { return os.Link(precious, path) },
		"a FIFO":        func() error { return syscall.Mkfifo(path, 0o666) },
	} {
		if err := os.WriteFile(precious, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		f, err := disk.Create(disk.OS, path, 0o640)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = f.Close()
		content, _ := os.ReadFile(path)
		kept, _ := os.ReadFile(precious)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || string(content) != "new" || string(kept) != "secret" {
			t.Errorf("%s: %v, %q, %q", name, err, content, kept)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// An owner file that is a link or a FIFO is not written to, and does not block.
func TestForeignOwnerFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, disk.OwnerPath(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Claim(disk.OS, path); err == nil {
		t.Error("the owner file is a link, and it was written")
	}
	if kept, _ := os.ReadFile(precious); string(kept) != "secret" {
		t.Errorf("%q", kept)
	}
	if err := os.Remove(disk.OwnerPath(path)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(disk.OwnerPath(path), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Claim(disk.OS, path); err == nil {
		t.Error("the owner file is a FIFO, and it was written")
	}
}

// A symbolic link of one's own is followed, and one of another user is not.
func TestCheckLink(t *testing.T) {
	dir := t.TempDir()
	link, second := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "second")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(link, second); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, second, filepath.Join(dir, "none")} {
		if err := disk.CheckLink(path); err != nil {
			t.Error(err)
		}
	}
	if os.Lchown(link, 12345, -1) != nil {
		t.Skip("only root can give a link to another user")
	}
	for _, path := range []string{link, second} {
		if err := disk.CheckLink(path); err == nil || !strings.Contains(err.Error(), link+" is a symbolic link that user 12345 has made") {
			t.Error(err)
		}
	}
}
