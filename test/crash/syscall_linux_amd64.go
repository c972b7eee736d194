package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// operation reads from a thread's registers what it is about to do; nil where that is none of ours. A call that changes
// the folder in a way that Image does not know is an error, so that none goes unnumbered.
func (t *tracer) operation(tid int, r *unix.PtraceRegs) (*Operation, error) {
	call := r.Orig_rax
	switch call {
	case unix.SYS_OPENAT:
		return t.opening(tid, int32(r.Rdi), r.Rsi, r.Rdx)
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
		unix.SYS_FCHMOD:
		return t.onFile(tid, call, r)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return t.onNames(tid, Rename, r)
	case unix.SYS_LINKAT:
		return t.onNames(tid, Link, r)
	case unix.SYS_UNLINKAT:
		return t.onName(tid, Unlink, int32(r.Rdi), r.Rsi)
	case unix.SYS_FCHMODAT:
		return t.onName(tid, Mode, int32(r.Rdi), r.Rsi)
	}
	return nil, t.unknown(tid, r)
}

// opening is an openat that creates or cuts.
func (t *tracer) opening(tid int, dir int32, name, flags uint64) (*Operation, error) {
	op, err := t.onName(tid, Create, dir, name)
	if op == nil || err != nil {
		return nil, err
	}
	switch _, err := os.Lstat(filepath.Join(t.folder, op.Path)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", op.Path, err)
	case flags&unix.O_TRUNC != 0:
		op.Kind = Truncate
	default:
		op.Kind = Open
	}
	return op, nil
}

// onFile is a call on an open file.
func (t *tracer) onFile(tid int, call uint64, r *unix.PtraceRegs) (*Operation, error) {
	fd := int32(r.Rdi)
	file := fmt.Sprintf("/proc/%d/fd/%d", tid, fd)
	path, err := os.Readlink(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no such file: the call finds that too
	}
	if err != nil {
		return nil, fmt.Errorf("look at open file: %w", err)
	}
	rel, inside := t.inside(path)
	if !inside || strings.HasSuffix(path, " (deleted)") {
		return nil, nil // a file without a name is gone with the process
	}
	op := &Operation{Role: roleOf(rel), Path: rel, file: file}
	switch call {
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		op.Kind = Sync
	case unix.SYS_FTRUNCATE:
		op.Kind, op.Length = Truncate, int64(r.Rsi)
	case unix.SYS_FALLOCATE:
		op.Kind, op.Length = Allocate, int64(r.Rdx+r.R10)
	case unix.SYS_FCHMOD:
		op.Kind = Mode
	case unix.SYS_PWRITE64:
		op.Kind, op.Length, op.Offset = Write, int64(r.Rdx), int64(r.R10)
	case unix.SYS_WRITE:
		op.Kind, op.Length = Write, int64(r.Rdx)
		if op.Offset, err = position(tid, fd); err != nil {
			return nil, err
		}
	}
	return op, nil
}

// position is where an open file's next write goes.
func position(tid int, fd int32) (int64, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tid, fd))
	if err != nil {
		return 0, fmt.Errorf("look at open file: %w", err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(string(info)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	flags, err := strconv.ParseUint(fields["flags"], 8, 64)
	if err != nil {
		return 0, fmt.Errorf("read flags of open file: %w", err)
	}
	if flags&unix.O_APPEND != 0 {
		stat, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
		if err != nil {
			return 0, fmt.Errorf("look at open file: %w", err)
		}
		return stat.Size(), nil
	}
	at, err := strconv.ParseInt(fields["pos"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read position of open file: %w", err)
	}
	return at, nil
}

// onName is a call on a name.
func (t *tracer) onName(tid int, kind Kind, dir int32, name uint64) (*Operation, error) {
	path, err := pathAt(tid, dir, name)
	if err != nil {
		return nil, err
	}
	rel, inside := t.inside(path)
	if !inside {
		return nil, nil
	}
	return &Operation{Kind: kind, Role: roleOf(rel), Path: rel}, nil
}

// onNames is a call on two names.
func (t *tracer) onNames(tid int, kind Kind, r *unix.PtraceRegs) (*Operation, error) {
	from, err := t.onName(tid, kind, int32(r.Rdi), r.Rsi)
	if err != nil {
		return nil, err
	}
	to, err := t.onName(tid, kind, int32(r.Rdx), r.R10)
	switch {
	case err != nil:
		return nil, err
	case from == nil && to == nil:
		return nil, nil
	case from == nil || to == nil:
		return nil, fmt.Errorf("%s into or out of the folder", kind)
	}
	from.To = to.Path
	return from, nil
}

// unknown is an error where a call that no operation stands for would change the folder.
func (t *tracer) unknown(tid int, r *unix.PtraceRegs) error {
	call := r.Orig_rax
	switch call {
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_SYNC_FILE_RANGE, unix.SYS_SENDFILE:
		if !t.isOurs(tid, r.Rdi) {
			return nil
		}
	case unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE:
		if !t.isOurs(tid, r.Rdx) {
			return nil
		}
	default:
		for _, n := range namesOf(r) {
			path, err := pathAt(tid, n.dir, n.name)
			if err != nil {
				return err
			}
			if _, inside := t.inside(path); inside {
				return fmt.Errorf("system call %d on %s is not known to the tracer", call, path)
			}
		}
		return nil
	}
	return fmt.Errorf("system call %d on a file of the folder is not known to the tracer", call)
}

// name is a name in a call's arguments.
type name struct {
	dir  int32
	name uint64 // address
}

// namesOf returns the names that a call changes, of those that no operation stands for.
func namesOf(r *unix.PtraceRegs) []name {
	switch r.Orig_rax {
	case unix.SYS_OPENAT2, unix.SYS_MKDIRAT:
		return []name{{int32(r.Rdi), r.Rsi}}
	case unix.SYS_SYMLINKAT:
		return []name{{int32(r.Rsi), r.Rdx}}
	case unix.SYS_RENAME, unix.SYS_LINK:
		return []name{{unix.AT_FDCWD, r.Rdi}, {unix.AT_FDCWD, r.Rsi}}
	case unix.SYS_SYMLINK:
		return []name{{unix.AT_FDCWD, r.Rsi}}
	}
	return []name{{unix.AT_FDCWD, r.Rdi}} // open, creat, truncate, unlink, rmdir, mkdir, chmod
}

func (t *tracer) isOurs(tid int, fd uint64) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	_, inside := t.inside(path)
	return err == nil && inside
}

// inside returns a path's name in the folder.
func (t *tracer) inside(path string) (string, bool) {
	if path == t.folder {
		return ".", true
	}
	return strings.CutPrefix(path, t.folder+"/")
}

// pathAt is the absolute path that a call names by a folder and a string.
func pathAt(tid int, dir int32, name uint64) (string, error) {
	path, err := text(tid, name)
	if err != nil || filepath.IsAbs(path) {
		return filepath.Clean(path), err
	}
	base := fmt.Sprintf("/proc/%d/cwd", tid)
	if dir != unix.AT_FDCWD {
		base = fmt.Sprintf("/proc/%d/fd/%d", tid, dir)
	}
	folder, err := os.Readlink(base)
	if err != nil {
		return "", fmt.Errorf("look at folder of call: %w", err)
	}
	return filepath.Join(folder, path), nil
}

// text reads a string, which ends with a zero byte, from a thread's memory.
func text(tid int, address uint64) (string, error) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return "", fmt.Errorf("read memory: %w", err)
	}
	defer memory.Close()
	var b [unix.PathMax]byte
	n, err := memory.ReadAt(b[:], int64(address))
	end := bytes.IndexByte(b[:n], 0)
	if end < 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("no end of the string")
		}
		return "", fmt.Errorf("read memory: %w", err)
	}
	return string(b[:end]), nil
}
