package main

import "syscall"

// attributes keep the daemon out of a terminal's Ctrl-C, which is for the demo, and end it with the thread that started
// it: see run.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
