package cluster

import (
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// stopped reports whether all threads of a child stand still after SIGSTOP, which they do some time after the signal
// was sent. It asks about stops only and leaves the answer in place, so it takes nothing from whoever waits for the
// end.
func stopped(pid int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == unix.EINTR {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for process state: %w", err)
	}
	return info.Signo != 0, nil
}

// claimPort takes a name that stands for the port, which the kernel gives up with this process. It fails if another
// cluster has it.
func claimPort(port int) (io.Closer, error) {
	return net.Listen("unix", fmt.Sprintf("@kubejournal/port/%d", port))
}
