package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// attributes end a process with the thread that started it, so that it does not outlive a killed comparison.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

const clockTick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go runs on

// cpuTime is what a process has used until now, user and system.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The program's name, in parentheses, may hold anything; utime and stime are the 12th and 13th fields behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("read CPU time: %d fields in %q", len(fields), stat)
	}
	var ticks int64
	for _, f := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// peakRSS is the most memory that a process has had resident, in bytes. What wait4 tells would be this program's own
// where that is more.
func peakRSS(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read peak RSS: %w", err)
	}
	for line := range bytes.Lines(status) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(string(line), "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("read peak RSS: process %d has ended", pid)
}
