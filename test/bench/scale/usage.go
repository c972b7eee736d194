package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	pollEvery = 10 * time.Millisecond
	mib       = 1 << 20
)

// usage is what /proc tells of a process's memory, in bytes.
type usage struct {
	anon int64 // RssAnon
	rss  int64 // VmRSS: with the page cache that it has mapped
}

// readUsage reads /proc/PID/status.
func readUsage(pid int) (usage, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return usage{}, err
	}
	anon, err := statusBytes(b, "RssAnon:")
	if err != nil {
		return usage{}, err
	}
	rss, err := statusBytes(b, "VmRSS:")
	return usage{anon, rss}, err
}

// statusBytes is the value of a line such as "VmRSS:     1234 kB", in bytes.
func statusBytes(status []byte, key string) (int64, error) {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == key {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("read memory of a process: it has no %s", key) // a zombie has none
}

// clockTick is what /proc counts a process's time in: 100 a second on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// readCPU reads the time that a process has spent, in user mode and in the kernel, from /proc/PID/stat.
func readCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const user, system = 11, 12 // of those behind the name
	if len(fields) <= system {
		return 0, fmt.Errorf("read time of process %d: %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// sampler keeps the peak of what a process uses until it ends or done is closed.
type sampler struct {
	wait sync.WaitGroup
	mu   sync.Mutex
	peak usage // guarded by mu; each of the two at its own time
}

func sample(pid int, done <-chan struct{}) *sampler {
	s := new(sampler)
	s.wait.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			if u, err := readUsage(pid); err == nil { // an error: it has ended, which done tells too
				s.mu.Lock()
				s.peak.anon, s.peak.rss = max(s.peak.anon, u.anon), max(s.peak.rss, u.rss)
				s.mu.Unlock()
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return s
}

// peaks is the peak until now.
func (s *sampler) peaks() usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}
