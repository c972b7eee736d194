package program

import (
	"os/exec"
	"syscall"
)

// bind keeps a program out of a terminal's Ctrl-C, which is for the process that started it, and ends it with the
// thread that started it.
func bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}
