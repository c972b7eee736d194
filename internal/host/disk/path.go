package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Absolute returns a path with the working folder before it, so that a message says where a file was looked for. A path
// with .. in it stays as it is: after a link to a folder, .. is not what it looks like. So does "".
func Absolute(path string) string {
	full, err := filepath.Abs(path)
	if path == "" || err != nil || strings.Contains(path, "..") {
		return path
	}
	return full
}

// Real returns the path that symbolic links lead to, beside which a journal has its other files; path itself where
// there is nothing yet.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// CheckLink returns an error where path is a symbolic link that somebody else has made, or leads to one: who may write
// to a folder could have a process write to a file that it alone may write.
func CheckLink(path string) error {
	path = Absolute(path)
	const most = 40 // as in Linux; what goes round in circles fails when it is opened
	for range most {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return nil //nolint:nilerr // opening it says so
		}
		if of, ok := info.Sys().(*syscall.Stat_t); ok && of.Uid != 0 && int(of.Uid) != os.Geteuid() {
			return fmt.Errorf("%s is a symbolic link that user %d has made, which is not followed;"+
				" remove it, or name the file itself", path, of.Uid)
		}
		target, err := os.Readlink(path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if !filepath.IsAbs(target) {
			// Not cleaned: .. after a link to a folder is that folder's own.
			target = filepath.Dir(path) + string(filepath.Separator) + target
		}
		path = target
	}
	return nil
}

// Space returns how many bytes the file system of a folder has, and how many of them can still be written.
func Space(folder string) (free, size uint64, err error) {
	var is unix.Statfs_t
	if err := unix.Statfs(folder, &is); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: folder, Err: err}
	}
	block := uint64(is.Bsize) //nolint:gosec // never negative
	return is.Bavail * block, is.Blocks * block, nil
}

// CheckWritable returns why this process could not open a file for writing, or make it and others beside it. It changes
// nothing. The folder must exist.
func CheckWritable(path string) error {
	path = Absolute(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case err == nil:
		err = access(path, unix.R_OK|unix.W_OK)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return cmp.Or(err, access(filepath.Dir(path), unix.W_OK|unix.X_OK))
}

func access(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
