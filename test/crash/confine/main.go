//go:build linux && amd64

// Command confine becomes the program that its arguments name, with the system calls that change files reported to the
// tracer. It is the first half of package crash's tracer.
package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	// The filter is the thread's, and the thread that calls execve is the one that stays.
	runtime.LockOSThread()
	fmt.Fprintln(os.Stderr, confine(os.Args[1:]))
	os.Exit(125)
}

func confine(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("confine: name a program")
	}
	filter := filter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: give up privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0,
		0); err != nil {
		return fmt.Errorf("confine: install seccomp filter: %w", err)
	}
	return fmt.Errorf("confine: execute %s: %w", args[0], unix.Exec(args[0], args, os.Environ()))
}

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetFlags  = 16 + 2*8 // of openat: the low half of its third argument
)

// traced are the calls that are reported, openat aside.
var traced = []uint32{
	unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_OPENAT2,
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE,
	unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK,
	unix.SYS_SYMLINKAT, unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_MKDIRAT,
	unix.SYS_CHMOD, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
}

// filter reports the traced calls, and openat where it may create or cut a file.
func filter() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	f := []unix.SockFilter{load(offsetNumber)}
	for _, number := range traced {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
			answer(unix.SECCOMP_RET_TRACE))
	}
	return append(f,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_OPENAT},
		load(offsetFlags),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.O_CREAT | unix.O_TRUNC},
		answer(unix.SECCOMP_RET_TRACE),
		answer(unix.SECCOMP_RET_ALLOW),
	)
}
