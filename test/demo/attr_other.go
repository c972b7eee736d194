//go:build !linux

package main

import "syscall"

// attributes keep the daemon out of a terminal's Ctrl-C, which is for the demo.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
