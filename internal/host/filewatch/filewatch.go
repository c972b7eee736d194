// Package filewatch signals that files may have changed, however they are written: in place, by a rename over them, by
// another target of a symbolic link in the path (as the kubelet swaps a ConfigMap's), or by being removed and created again.
// A signal does not say what changed: the caller reads the files and compares.
package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// settle is how long a file must be quiet before its change is signaled: one edit is several writes and renames.
	// settleMax bounds that for a file that is written all the time.
	settle    = 200 * time.Millisecond
	settleMax = 2 * time.Second
	// poll is how often a change is signaled in any case: not every file system reports changes (NFS, FUSE), and watches
	// can run out (fs.inotify.max_user_watches).
	poll = 30 * time.Second

	// A folder may be busy with other files, such as the journal, and every write to them is an event. After an event of
	// another file, events are read for another listen and then ignored for deaf: meanwhile the kernel merges equal ones.
	deaf   = 250 * time.Millisecond
	listen = 25 * time.Millisecond

	maxLinks = 40 // symbolic links that a path may lead over, as in the kernel
)

// Watcher signals that files may have changed.
type Watcher struct {
	C      <-chan struct{} // receives after a change, and at intervals; changes that nobody has received yet become one
	c      chan struct{}   // the same, with a buffer of one
	again  chan struct{}   // buffer of one: paths returns other files
	paths  func() []string
	log    *zap.Logger
	warned bool // it is logged that folders cannot be watched
}

// New returns a watcher of the files that paths returns, which is called again after each change. Nothing is signaled
// before Run.
func New(paths func() []string, log *zap.Logger) *Watcher {
	c := make(chan struct{}, 1)
	return &Watcher{C: c, c: c, again: make(chan struct{}, 1), paths: paths, log: log}
}

// Again makes Run call paths again, and signals a change.
func (w *Watcher) Again() { offer(w.again) }

// offer sends to a channel whose buffer holds one, unless it is full.
func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run watches the files until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	now := time.NewTicker(poll)
	defer now.Stop()
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.unwatched(err)
		notify = nil
	} else {
		defer notify.Close() //nolint:errcheck // nothing is read from it any more
	}
	names := w.watch(notify)
	offer(w.c) // for what changed before

	var (
		settled <-chan time.Time
		due     time.Time        // when a file that is written all the time is signaled
		turn    <-chan time.Time // ends listen or deaf; nil before an event of another file
		events  chan fsnotify.Event
		errs    chan error
	)
	if notify != nil {
		events, errs = notify.Events, notify.Errors
	}
	unsettle := func() {
		if due.IsZero() {
			due = time.Now().Add(settleMax)
		}
		settled = time.After(min(settle, time.Until(due)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if slices.Contains(names, e.Name) {
				unsettle()
			} else if turn == nil {
				turn = time.After(listen)
			}
			continue
		case <-turn:
			if events != nil {
				events, turn = nil, time.After(deaf)
			} else {
				events, turn = notify.Events, nil
			}
			continue
		case err := <-errs: // most often more events than the kernel keeps
			w.log.Debug("files may have changed unseen", zap.Error(err))
			unsettle()
			continue
		case <-settled:
			due = time.Time{}
		case <-w.again:
		case <-now.C: // a folder may have been made
		}
		names = w.watch(notify)
		offer(w.c)
	}
}

// watch watches the folders of every name that the paths lead over, and returns these names. Without notify, which the
// system may refuse, there are none.
func (w *Watcher) watch(notify *fsnotify.Watcher) []string {
	if notify == nil {
		return nil
	}
	var names, folders []string
	for _, path := range w.paths() {
		more := onTheWay(path)
		names = append(names, more...)
		for _, name := range more {
			folders = append(folders, filepath.Dir(name))
		}
	}
	for _, old := range notify.WatchList() {
		if !slices.Contains(folders, old) {
			_ = notify.Remove(old) // fails where the folder is gone
		}
	}
	for _, folder := range folders {
		if err := notify.Add(folder); err != nil && !os.IsNotExist(err) {
			w.unwatched(err)
		}
	}
	return names
}

// unwatched logs once that changes are found by polling only.
func (w *Watcher) unwatched(err error) {
	if !w.warned {
		w.warned = true
		w.log.Warn("cannot watch files for changes, polling them", zap.Duration("every", poll), zap.Error(err))
	}
}

// onTheWay returns the names whose change can change what a path leads to: its own, and the symbolic links in it.
func onTheWay(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var names []string
	at, rest := "/", strings.Split(path, "/")[1:]
	for links := 0; len(rest) > 0; {
		name := filepath.Join(at, rest[0])
		last := len(rest) == 1
		rest = rest[1:]
		target, err := os.Readlink(name)
		switch {
		case err == nil && links < maxLinks:
			links++
			names = append(names, name)
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(strings.Trim(filepath.Clean(target), "/"), "/"), rest...)
		case last:
			return append(names, name)
		default:
			at = name
		}
	}
	return names
}
