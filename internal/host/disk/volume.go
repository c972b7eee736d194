package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNoLocks says that a volume has no locks, or does not give one.
var ErrNoLocks = errors.New("the volume refuses to lock files")

// ErrNoMapping says that a volume cannot map files into memory.
var ErrNoMapping = errors.New("the volume cannot map files into memory")

// LockError classifies what flock returns. Network volumes pass the lock on to their server: one without a lock service
// answers ENOLCK or EOPNOTSUPP, and one that enforces permissions or locks of its own EPERM or EACCES.
func LockError(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	refusals := []error{syscall.ENOLCK, errors.ErrUnsupported, os.ErrPermission, syscall.EINVAL, syscall.EBADF}
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
	}
	return err
}

// DescribeOwner says to whom a file that was refused to this process belongs, or the folder that it would be made in.
func DescribeOwner(path string) string {
	path = Absolute(path)
	need := os.FileMode(0o6)
	info, err := os.Stat(path)
	if err != nil {
		path, need = filepath.Dir(path), 0o3
		info, err = os.Stat(path)
	}
	if err != nil {
		return "" // the refusal itself is of a folder above
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	is := fmt.Sprintf("%s belongs to %d:%d with mode %s, and this process is %d:%d",
		path, owner.Uid, owner.Gid, info.Mode(), os.Geteuid(), os.Getegid())
	if permits(info.Mode(), owner, need) {
		is += ", to which that mode gives the right: SELinux, or the server of a network volume (root_squash), " +
			"refuses it"
	}
	return is
}

// permits reports whether a mode gives this process the rights need of rwx.
func permits(mode os.FileMode, owner *syscall.Stat_t, need os.FileMode) bool {
	groups, _ := os.Getgroups() // without them, its own is left
	switch {
	case os.Geteuid() == 0:
		return true
	case int(owner.Uid) == os.Geteuid():
		mode >>= 6
	case int(owner.Gid) == os.Getegid() || slices.Contains(groups, int(owner.Gid)):
		mode >>= 3
	}
	return mode&need == need
}
