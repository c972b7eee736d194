package cluster

import "syscall"

// attributes keep a server out of a terminal's Ctrl-C, which is for its owner, and end it with the thread that started
// it: see keeper.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
