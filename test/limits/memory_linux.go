package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// group is a control group with a limit of memory, nil where none can be made.
type group struct {
	dir string
	v1  bool
}

// newGroup makes a control group below this process's own, of version 2 or 1, whichever has the controller of memory.
func newGroup(limit int64) (*group, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var tried []error
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		g := &group{v1: parts[1] == "memory"}
		parent, file := filepath.Join("/sys/fs/cgroup", parts[2]), "memory.max"
		if g.v1 {
			parent, file = filepath.Join("/sys/fs/cgroup/memory", parts[2]), "memory.limit_in_bytes"
		}
		g.dir = filepath.Join(parent, fmt.Sprintf("kubejournal-limits-%d", os.Getpid()))
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			tried = append(tried, err)
			continue
		}
		if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o600); err != nil {
			tried = append(tried, err, os.Remove(g.dir))
			continue
		}
		return g, nil
	}
	return nil, errors.Join(append(tried, errors.New("no control group of memory can be made here"))...)
}

// procs is the file that a process writes its id to, to be in the group.
func (g *group) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

// killed is how many processes the kernel has killed for want of memory; -1 is not known.
func (g *group) killed() int {
	file := "memory.events"
	if g.v1 {
		file = "memory.oom_control"
	}
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
			if n, err := strconv.Atoi(fields[1]); err == nil {
				return n
			}
		}
	}
	return -1
}

// remove removes the group, which must be empty.
func (g *group) remove() error {
	if g == nil {
		return nil
	}
	return os.Remove(g.dir)
}

// anonymous is the memory of a process that is not a file's, in bytes.
func anonymous(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RssAnon:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// sockets is how many sockets a process has open.
func sockets(pid int) (n int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
