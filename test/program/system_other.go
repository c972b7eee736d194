//go:build !linux

package program

import (
	"os/exec"
	"syscall"
)

// bind keeps a program out of a terminal's Ctrl-C. Only Linux can also end it with the process that started it.
func bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}
