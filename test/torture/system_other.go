//go:build !linux

package main

import "syscall"

// attributes keep the daemon out of a terminal's Ctrl-C.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
