// Package filewatch signals that files may have changed, however they are written: in place, by a rename over them, by
// another target of a symbolic link in the path (as the kubelet swaps a ConfigMap's), or by being removed and created
// again. It polls, which every file system supports. A signal does not say what changed: the caller reads the files and
// compares.
package filewatch

import (
	"context"
	"maps"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// poll is how often the files are looked at. A change is signaled once two polls find the same, since one edit is
	// several writes and renames. settleMax bounds that for a file that is written all the time.
	poll      = 200 * time.Millisecond
	settleMax = 2 * time.Second
	// anyway is how often a change is signaled in any case: a file may name others, and the times of files are coarse.
	anyway = 30 * time.Second
)

// Run signals changes of the files that paths returns, which is called at each poll, until ctx ends. The first signal,
// at once, is for what changed before. changed has a buffer of one: signals that nobody has received yet become one.
func Run(ctx context.Context, paths func() []string, changed chan<- struct{}) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var before map[string]unix.Stat_t
	for settling, due := false, time.Now(); ; {
		now := look(paths())
		same := maps.Equal(now, before)
		before = now
		if !same && !settling {
			settling = true
			if by := time.Now().Add(settleMax); by.Before(due) {
				due = by
			}
		}
		if same && settling || !time.Now().Before(due) {
			settling, due = false, time.Now().Add(anyway)
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns what differs when a file is another one or has another content; zero for a file that is not there.
func look(paths []string) map[string]unix.Stat_t {
	all := make(map[string]unix.Stat_t, len(paths))
	for _, path := range paths {
		var is unix.Stat_t
		if unix.Stat(path, &is) != nil {
			is = unix.Stat_t{}
		}
		is.Atim = unix.Timespec{} // reading is no change
		all[path] = is
	}
	return all
}
