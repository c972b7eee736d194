package scenario

import "syscall"

// attributes end the program with the thread that started it, so that it does not outlive a killed test.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
