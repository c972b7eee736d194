package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{
		"": "", "a": filepath.Join(dir, "a"), "./a/b": filepath.Join(dir, "a", "b"), "/a": "/a",
		"a/../b": "a/../b", // a may be a link
	} {
		if got := Absolute(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]fs.FileMode{"file": 0o600, "read-only": 0o400} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir("folder", 0o700), os.Mkdir("closed", 0o500), os.Symlink("nothing", "link")); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for path, want := range map[string]error{
		"new": nil, "file": nil, "folder/new": nil, "link": nil, filepath.Join(dir, "new"): nil,
		"folder": syscall.EISDIR, "none/new": fs.ErrNotExist, "file/new": syscall.ENOTDIR,
		"read-only": fs.ErrPermission, "closed/new": fs.ErrPermission,
	} {
		if os.Getuid() == 0 && errors.Is(want, fs.ErrPermission) {
			want = nil // who may do everything
		}
		if err := CheckWritable(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if after := names(t, dir); len(after) != len(before) {
		t.Errorf("it has left %v, there was %v", after, before)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
