// Package auditlog follows the audit logs of an API server on this machine, and notes beside a journal which user made
// its lines, as they come.
//
// A round reads what is new in the logs, matches the lines that have become old enough, and appends to the side file.
// Nothing else is remembered: a restart begins a little before the last line in the side file, and reads the logs again
// that were written since. What is known already stays as it is.
package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"kubejournal/internal/ask/person"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Every is the time between two rounds.
const Every = 5 * time.Second

// Several is in Status.Lines where several requests fit.
const Several = "several"

// Status is how far a follower has come.
type Status struct {
	Files   int               // that the patterns name
	Events  int               // that were read, of any kind
	Damaged int               // lines that cannot be read
	Lines   map[string]uint64 // of which it was written who made them, by how that is known; Several
	Decided time.Time         // up to when lines are decided
}

// Follower follows the logs for one journal. It is for one goroutine.
type Follower struct {
	Status

	journal  string
	complete bool
	live     *person.Live
	files    files
	until    time.Time     // up to when lines are matched
	entries  []audit.Entry // that are still to be written
}

// New returns a follower for the journal whose active file is at path. complete says that the logs have the requests to
// all API servers of the cluster.
func New(path string, complete bool) *Follower {
	path = disk.Absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // where questions look for the side file
	}
	return &Follower{journal: path, complete: complete, Status: Status{Lines: make(map[string]uint64)}}
}

// Close closes the logs; nil has none.
func (f *Follower) Close() {
	if f == nil {
		return
	}
	for _, one := range f.files.all {
		one.close()
	}
}

// Round reads what is new in the files that the patterns name, and writes down what is known since. After an error the
// next round does what this one could not.
func (f *Follower) Round(ctx context.Context, patterns []string, now time.Time) error {
	if f.live == nil {
		live, since, err := person.NewLive(f.journal, f.complete)
		if err != nil {
			return err
		}
		f.live, f.files.since = live, since
	}
	errs := []error{f.files.look(patterns, now)}
	f.Files = 0
	for _, one := range f.files.all {
		if !one.gone {
			f.Files++
		}
	}
	if f.complete { // what is missing may fit a line too
		until, wait := f.files.lost()
		if wait {
			return errors.Join(errs...)
		}
		f.live.Lost(until)
	}
	for ctx.Err() == nil {
		one := f.files.next()
		if one == nil {
			break
		}
		// What is to be read was written later, but for what a server holds back.
		if err := f.decide(ctx, one.at); err != nil {
			return errors.Join(append(errs, err)...)
		}
		lines, err := f.files.read(one)
		if err != nil {
			if !errors.Is(err, errReplaced) {
				errs = append(errs, err)
			}
			if f.complete {
				return errors.Join(errs...)
			}
			continue
		}
		n, err := audit.Read(bytes.NewReader(lines), f.live.Add, func(int, string) {})
		f.Events += n.Events
		f.Damaged += n.Damaged
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", one.path, err))
		}
	}
	if ctx.Err() == nil {
		errs = append(errs, f.decide(ctx, now))
	}
	return errors.Join(errs...)
}

// decide writes who made the lines that are old enough, now that the logs have been read up to a time.
func (f *Follower) decide(ctx context.Context, read time.Time) error {
	if err := f.write(); err != nil {
		return err // so that what is to be written does not grow
	}
	until := read.Add(-person.Wait)
	if until.Before(f.until) {
		return nil
	}
	var err error
	f.entries, err = f.live.Match(ctx, until)
	if err == nil {
		f.until, f.Decided = until, read.Add(-person.Settle)
	}
	return errors.Join(err, f.write())
}

// write appends to the side file.
func (f *Follower) write() error {
	if len(f.entries) == 0 {
		return nil
	}
	oldest := uint64(0)
	if all, err := segment.List(f.journal); err == nil && len(all) > 0 {
		oldest = all[0].FirstSeq
	}
	if err := audit.Append(f.journal, oldest, f.entries); err != nil {
		return err
	}
	for _, e := range f.entries {
		if e.User == "" {
			f.Lines[Several]++
		} else {
			f.Lines[string(e.Match)]++
		}
	}
	f.entries = nil
	return nil
}
