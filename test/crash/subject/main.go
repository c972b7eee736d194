//go:build linux && amd64

// Command subject is what the tracer's own tests trace. It takes the durable steps that its arguments name, in its
// working folder, and says how each one ended. One that fails does not end it.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	for _, does := range os.Args[1:] {
		fmt.Fprintf(os.Stderr, "%s: %v\n", does, take(strings.Split(does, " ")))
	}
}

func take(step []string) error {
	name, rest := step[1], slices.Concat(step[2:], []string{"", ""})
	switch step[0] {
	case "rename":
		return unix.Renameat(unix.AT_FDCWD, name, unix.AT_FDCWD, rest[0])
	case "link":
		return unix.Linkat(unix.AT_FDCWD, name, unix.AT_FDCWD, rest[0], 0)
	case "unlink":
		return unix.Unlinkat(unix.AT_FDCWD, name, 0)
	case "mkdir":
		return unix.Mkdirat(unix.AT_FDCWD, name, 0o700)
	}
	flags := map[string]int{"create": unix.O_CREAT, "open": unix.O_CREAT, "empty": unix.O_TRUNC,
		"append": unix.O_APPEND}[step[0]]
	if name != "." {
		flags |= unix.O_RDWR
	}
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch step[0] {
	case "write", "append":
		_, err = unix.Write(fd, []byte(rest[0]))
	case "pwrite":
		_, err = unix.Pwrite(fd, []byte(rest[1]), number(rest[0]))
	case "sync":
		err = unix.Fsync(fd)
	case "truncate":
		err = unix.Ftruncate(fd, number(rest[0]))
	case "allocate":
		err = unix.Fallocate(fd, 0, 0, number(rest[0]))
	case "chmod":
		err = unix.Fchmod(fd, 0o640)
	}
	return err
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the tests know their own numbers
	return n
}
