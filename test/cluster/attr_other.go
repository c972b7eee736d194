//go:build !linux

package cluster

import "syscall"

// attributes keep a server out of a terminal's Ctrl-C, which is for its owner. Only Linux can also end it with its
// parent: elsewhere the time limit has to do.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
