//go:build !linux

package cluster

import "syscall"

// attributes keep a server out of a terminal's Ctrl-C, which is for its owner. Only Linux can also end it with its
// parent: elsewhere the time limit has to do.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stopped cannot be asked here without taking the process's end from whoever waits for it: the signal has to do.
func stopped(int) (bool, error) { return true, nil }
