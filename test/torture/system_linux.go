package main

import "syscall"

// attributes keep the daemon out of a terminal's Ctrl-C, and end it with the thread that started it, so that it does
// not outlive a killed torture.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
