package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kubejournal/internal/journal"
	"kubejournal/internal/manager"
	"kubejournal/internal/ops"
)

// startup is what a start is doing, for /readyz. Safe for concurrent use.
type startup struct {
	doing atomic.Pointer[func() string]
}

// is says what the start does from now on.
func (s *startup) is(doing func() string) { s.doing.Store(&doing) }

// says is the same in fixed words.
func (s *startup) says(words string) { s.is(func() string { return words }) }

// err is why the daemon is not ready: it starts.
func (s *startup) err() error { return errors.New((*s.doing.Load())()) }

// newSite returns the site of a daemon that starts.
func (d *daemon) newSite(configPath string) *ops.Site {
	started := time.Now()
	d.startup.says("opening the output and the checkpoint")
	return ops.NewSite(d.metrics.Registry,
		[]ops.Check{{Name: "startup", Err: d.startup.err}},
		func() []manager.StreamStatus { return nil },
		func() ops.About {
			return ops.About{
				Version: d.build.version, Commit: d.build.commit, Started: started, Cluster: d.cfg.Cluster,
				Config: configPath, Output: d.cfg.Output.Path, Checkpoint: d.cfg.Checkpoint.Path,
			}
		})
}

// listen answers over HTTP from now on, once.
func (d *daemon) listen() error {
	if d.cfg.Listen == "" || d.server != nil {
		return nil
	}
	server, err := d.serve("listening", d.cfg.Listen, d.site)
	if err != nil {
		return fmt.Errorf("%w; name another address, or \"\" for none", err)
	}
	d.server = server
	return nil
}

// recovering says how far the reading of a journal has come.
func recovering(file *journal.File) string {
	passed, total := file.Progress()
	return fmt.Sprintf("recovering: read %s of %s", bytesOf(passed), bytesOf(total))
}

// bytesOf is a number of bytes for people.
func bytesOf(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "kB", "MB"} {
		if f < 1000 {
			return fmt.Sprintf("%.3g %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.1f GB", f)
}
