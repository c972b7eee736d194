package main

import "syscall"

// attributes keep a child out of a terminal's Ctrl-C, and end it with the thread that started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
