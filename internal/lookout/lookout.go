// Package lookout notices that files may have changed, in whatever way they are
// written: in place, by a rename over them, by another target of a symbolic link
// on the way (as the kubelet swaps a ConfigMap's), or by being removed and made
// again.
//
// It says only that it is worth a look. What changed, and whether that is news,
// is for who reads the files.
package lookout

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
	// settle is how long nothing may happen to a file before it is told of: one
	// edit is several writes and renames.
	settle = 200 * time.Millisecond
	// settleMax bounds that for a file that is written all the time.
	settleMax = 2 * time.Second
	// poll is how often the files are worth a look in any case: not every file
	// system tells of changes (NFS, FUSE), and what tells may be used up
	// (fs.inotify.max_user_watches).
	poll = 30 * time.Second

	// The folder of a file may be busy with others, a journal above all, and the
	// system tells of all of it. Once something is not for us, we hear what else
	// there is, for listen, and then nothing for deaf: meanwhile the system keeps
	// one of several events that are the same.
	deaf   = 250 * time.Millisecond
	listen = 25 * time.Millisecond

	// maxLinks is how many symbolic links may stand on a path, as in the kernel.
	maxLinks = 40
)

// Lookout tells when files may have changed.
type Lookout struct {
	// C receives after a change, and now and then. It holds one: changes that
	// nobody has taken note of yet become one.
	C <-chan struct{}

	c     chan struct{}
	again chan struct{} // holds one: paths returns others
	paths func() []string
	log   *zap.Logger
	told  bool // that folders cannot be watched
}

// New returns a lookout for the files that paths names, which is asked again
// after each change. Nothing is told before Run.
func New(paths func() []string, log *zap.Logger) *Lookout {
	c := make(chan struct{}, 1)
	return &Lookout{C: c, c: c, again: make(chan struct{}, 1), paths: paths, log: log}
}

// Again says that paths returns other files. They are told of as well.
func (l *Lookout) Again() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// Run looks out until ctx ends.
func (l *Lookout) Run(ctx context.Context) {
	now := time.NewTicker(poll)
	defer now.Stop()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		l.unwatched(err)
		for {
			select {
			case <-now.C:
				l.tell()
			case <-ctx.Done():
				return
			}
		}
	}
	defer watcher.Close() //nolint:errcheck // nobody is told anything any more
	names := l.watch(watcher)
	l.tell() // of what changed before

	var (
		settled = stopped()
		due     time.Time // when a file that is written all the time is told of
		turn    = stopped()
		noisy   bool // turn runs
		events  = watcher.Events
	)
	defer settled.Stop()
	defer turn.Stop()
	unsettle := func() {
		if due.IsZero() {
			due = time.Now().Add(settleMax)
		}
		settled.Reset(min(settle, time.Until(due)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events:
			switch {
			case !open:
				return
			case slices.Contains(names, e.Name):
				unsettle()
			case !noisy:
				noisy = true
				turn.Reset(listen)
			}
		case <-turn.C:
			if events != nil {
				events = nil
				turn.Reset(deaf)
			} else {
				events, noisy = watcher.Events, false
			}
		case err := <-watcher.Errors:
			// Above all, there were more events than the system keeps.
			l.log.Debug("files may have changed unseen", zap.Error(err))
			unsettle()
		case <-settled.C:
			due = time.Time{}
			names = l.watch(watcher)
			l.tell()
		case <-l.again:
			names = l.watch(watcher)
			l.tell()
		case <-now.C:
			names = l.watch(watcher) // a folder may have been made
			l.tell()
		}
	}
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (l *Lookout) tell() {
	select {
	case l.c <- struct{}{}:
	default:
	}
}

// watch has the folders watched in which something stands that a path leads
// over, and returns what that is.
func (l *Lookout) watch(watcher *fsnotify.Watcher) []string {
	var names, folders []string
	for _, path := range l.paths() {
		more := onTheWay(path)
		names = append(names, more...)
		for _, name := range more {
			folders = append(folders, filepath.Dir(name))
		}
	}
	for _, old := range watcher.WatchList() {
		if !slices.Contains(folders, old) {
			_ = watcher.Remove(old) // gone already, with its folder
		}
	}
	for _, folder := range folders {
		if err := watcher.Add(folder); err != nil && !os.IsNotExist(err) {
			l.unwatched(err)
		}
	}
	return names
}

// unwatched says once that changes are found by looking alone.
func (l *Lookout) unwatched(err error) {
	if !l.told {
		l.told = true
		l.log.Warn("files cannot be watched for changes, looking at them now and then", zap.Duration("every", poll), zap.Error(err))
	}
}

// onTheWay returns the names whose change makes a path lead to other content: the
// file's own, and those of the symbolic links on the way to it.
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
