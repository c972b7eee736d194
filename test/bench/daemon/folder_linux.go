package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watchFolder returns a file from which something can be read whenever a file in the folder was written to.
func watchFolder(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch folder: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(fmt.Errorf("watch folder: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), dir), nil
}
