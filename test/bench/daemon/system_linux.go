package main

import "syscall"

// attributes end a process with the thread that started it, so that it does not outlive a killed benchmark.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
