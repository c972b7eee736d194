package watcher_test

import (
	"bytes"
	"errors"
	"sync"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/journal"
)

// gate stands between the recorder and its files, and is where a test kills the
// daemon or fills the disk.
type gate struct {
	file  *journal.File
	store *checkpoint.Store

	mu   sync.Mutex // guards all below
	dead bool
	full bool // the disk takes nothing
	room int  // bytes that the disk takes before it is full; -1 is no bound
	// Bytes and commits that are still let through before the daemon dies; -1
	// is no bound. Of the last write a part reaches the journal; the last commit
	// reaches the checkpoint if persisted.
	bytes, commits int
	persisted      bool
	uncommitted    string        // a write with this text is the last before death; "" is none
	died           chan struct{} // closed with dead
}

var (
	errKilled   = errors.New("killed")
	errDiskFull = errors.New("no space left on device")
)

func newGate(file *journal.File, store *checkpoint.Store) *gate {
	return &gate{file: file, store: store, room: -1, bytes: -1, commits: -1, died: make(chan struct{})}
}

// die lets nothing through any more. What is being written has been written
// when it returns.
func (g *gate) die() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dieLocked()
}

func (g *gate) dieLocked() {
	if !g.dead {
		g.dead = true
		close(g.died)
	}
}

// dieAfterBytes kills the daemon in the middle of a write: n bytes are written.
func (g *gate) dieAfterBytes(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes = n
}

// dieAtCommit kills the daemon at the commit after the next commits, just
// before it or, when persisted, just after it is on disk.
func (g *gate) dieAtCommit(commits int, persisted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commits, g.persisted = commits, persisted
}

// dieUncommitted kills the daemon at the first commit that follows a line with
// text in it.
func (g *gate) dieUncommitted(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uncommitted = text
}

// disarm takes back what would kill the daemon.
func (g *gate) disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes, g.commits, g.uncommitted = -1, -1, ""
}

func (g *gate) setFull(full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full, g.room = full, -1
}

// fillAfter makes the disk full once it has taken n bytes more.
func (g *gate) fillAfter(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room = n
}

// Write implements recorder.Output.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.uncommitted != "" && bytes.Contains(p, []byte(g.uncommitted)) {
		g.commits = 0
	}
	switch {
	case g.dead:
		return 0, errKilled
	case g.full:
		return 0, errDiskFull
	case g.room >= 0:
		n, err := g.file.Write(p[:min(g.room, len(p))])
		g.room -= n
		if g.full = n < len(p); g.full {
			err = errors.Join(err, errDiskFull)
		}
		return n, err
	case g.bytes < 0:
		return g.file.Write(p)
	case g.bytes >= len(p):
		g.bytes -= len(p)
		return g.file.Write(p)
	}
	n, err := g.file.Write(p[:g.bytes])
	g.dieLocked()
	return n, errors.Join(err, errKilled)
}

// Sync implements recorder.Output.
func (g *gate) Sync() error { return g.file.Sync() }

// Mark implements recorder.Output.
func (g *gate) Mark() journal.Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file.Mark()
}

// Commit implements recorder.Checkpoint.
func (g *gate) Commit(b *checkpoint.Batch) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return errKilled
	}
	if g.commits == 0 {
		g.dieLocked()
		if g.persisted {
			return errors.Join(g.store.Commit(b), errKilled)
		}
		return errKilled
	}
	if g.commits > 0 {
		g.commits--
	}
	return g.store.Commit(b)
}

// Size implements recorder.Checkpoint.
func (g *gate) Size() (int64, error) { return g.store.Size() }
