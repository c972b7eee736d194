package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"kubejournal/test/program"
)

const (
	stopLimit = 10 * time.Second // from SIGTERM to the end; the daemon promises 5 s
	pollEvery = 10 * time.Millisecond
	mib       = 1 << 20
)

// process is a child whose memory is looked at.
type process struct {
	*program.Process
	wait sync.WaitGroup
	mu   sync.Mutex
	peak usage // guarded by mu; each of the two at its own time
}

// usage is what /proc tells of a process's memory, in bytes.
type usage struct {
	anon int64 // RssAnon
	rss  int64 // VmRSS: with the page cache that it has mapped
}

// roleVariable tells a test binary that it runs as one of the program's roles; the program itself needs no telling.
const roleVariable = "KUBEJOURNAL_SCALE_ROLE"

// launch starts a program in dir. stdout may be nil.
func launch(dir, name string, stdout io.Writer, path string, args ...string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Env = dir, stdout, program.Environ(dir, append(program.Runtime(), roleVariable+"=1")...)
	started, err := program.Start(cmd, filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{Process: started}
	p.wait.Go(p.sample)
	return p, nil
}

// sample keeps the peak of what the process uses, until it ends.
func (p *process) sample() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if u, err := p.usage(); err == nil { // an error: it has ended
			p.mu.Lock()
			p.peak.anon, p.peak.rss = max(p.peak.anon, u.anon), max(p.peak.rss, u.rss)
			p.mu.Unlock()
		}
		select {
		case <-p.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *process) usage() (usage, error) {
	m, err := p.Memory("RssAnon", "VmRSS")
	if err != nil {
		return usage{}, err
	}
	return usage{m[0], m[1]}, nil
}

// peaks is the peak until now.
func (p *process) peaks() usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// end ends the process, whatever state it is in.
func (p *process) end() {
	p.End()
	p.wait.Wait()
}

// cpu is what a process that has ended has used.
func (p *process) cpu() float64 {
	used, _ := p.CPU() // that one cannot fail
	return used.Seconds()
}
