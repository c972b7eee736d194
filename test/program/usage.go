package program

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is what /proc counts a process's time in: 100 a second on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is what the program has used until now, in user mode and in the kernel. While it runs that is read from /proc, so
// on Linux only.
func (p *Process) CPU() (time.Duration, error) {
	if s := p.State(); s != nil {
		return s.UserTime() + s.SystemTime(), nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The program's name, in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12 // of those after the name
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

// Memory returns what /proc says of a running program's memory, in bytes, in the order of keys such as VmHWM: the most
// that was resident. Linux only.
func (p *Process) Memory(keys ...string) ([]int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	var all []int64
	for _, key := range keys {
		_, rest, found := bytes.Cut(status, []byte("\n"+key+":"))
		line, _, _ := bytes.Cut(rest, []byte(" kB\n"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		if !found || err != nil { // a zombie has none
			return nil, fmt.Errorf("read memory: process %d has no %s", p.PID(), key)
		}
		all = append(all, n<<10)
	}
	return all, nil
}
