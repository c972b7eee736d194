package watcher_test

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/test/faultdisk"
)

// gate stands between the recorder and its files, and is where a test kills the
// daemon or fills the disk.
type gate struct {
	disk  *faultdisk.Disk // of the journal; dies with the daemon
	file  *journal.File
	store *checkpoint.Store

	wrote func([]byte) // called before each write; nil does nothing

	died chan struct{} // closed when the daemon is dead
	once sync.Once     // closes it

	diskMu   sync.Mutex // mu may be held when it is taken
	injected *injection // guarded by diskMu; nil is none

	mu   bubbleMutex // guards all below
	full bool        // the disk takes nothing
	room int         // bytes that the disk takes before it is full; -1 is no bound
	// Bytes and commits that are still let through before the daemon dies; -1
	// is no bound. Of the last write a part reaches the journal; the last commit
	// reaches the checkpoint if persisted.
	bytes, commits int
	persisted      bool
	uncommitted    string // a write with this text is the last before death; "" is none

	slowWrite, slowCommit time.Duration // how long the next one takes
	// failing is how many commits to come are reported as failed; they reach the
	// checkpoint all the same if failPersisted.
	failing       int
	failPersisted bool
}

// bubbleMutex is a mutex of a bubble, in which time passes while a goroutine waits for it: a journal that was
// just opened makes its first write wait.
type bubbleMutex chan struct{}

func (m bubbleMutex) Lock()   { m <- struct{}{} }
func (m bubbleMutex) Unlock() { <-m }

var (
	errKilled   = errors.New("killed")
	errDiskFull = errors.New("no space left on device")
)

// newGate returns a gate whose file and store are still to be set.
func newGate() *gate {
	g := &gate{room: -1, bytes: -1, commits: -1, died: make(chan struct{}), mu: make(bubbleMutex, 1)}
	g.disk = faultdisk.New(g.decide)
	return g
}

// die lets nothing through any more. What is being written has been written
// when it returns.
func (g *gate) die() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill()
	g.disk.Kill()
}

func (g *gate) kill() { g.once.Do(func() { close(g.died) }) }

func (g *gate) dead() bool {
	select {
	case <-g.died:
		return true
	default:
		return false
	}
}

// injection is what becomes of the operation of one kind on the journal's files
// that follows the next few.
type injection struct {
	kind  faultdisk.Kind
	after int // operations of that kind
	fault faultdisk.Fault
}

// inject plans what becomes of an operation.
func (g *gate) inject(s *injection) {
	g.diskMu.Lock()
	defer g.diskMu.Unlock()
	g.injected = s
}

// decide is asked by the disk.
func (g *gate) decide(op faultdisk.Op) faultdisk.Fault {
	g.diskMu.Lock()
	defer g.diskMu.Unlock()
	s := g.injected
	if s == nil || s.kind != op.Kind {
		return faultdisk.None
	}
	if s.after--; s.after >= 0 {
		return faultdisk.None
	}
	g.injected = nil
	if s.fault.Kills() {
		g.kill()
	}
	return s.fault
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

// slow makes the next write and the next commit take their time.
func (g *gate) slow(write, commit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slowWrite, g.slowCommit = write, commit
}

// failCommits makes n commits fail, or only seem to.
func (g *gate) failCommits(n int, persisted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing, g.failPersisted = n, persisted
}

// heal ends all that the disk does.
func (g *gate) heal() {
	g.setFull(false)
	g.slow(0, 0)
	g.failCommits(0, false)
	g.inject(nil)
}

// dawdle waits as long as *d says, once, or until the daemon dies.
func (g *gate) dawdle(d *time.Duration) {
	g.mu.Lock()
	wait := *d
	*d = 0
	g.mu.Unlock()
	if wait == 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.died:
	}
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
	if g.wrote != nil && !g.dead() {
		g.wrote(p)
	}
	g.dawdle(&g.slowWrite)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.uncommitted != "" && bytes.Contains(p, []byte(g.uncommitted)) {
		g.commits = 0
	}
	switch {
	case g.dead():
		return 0, errKilled
	case g.full:
		return 0, errDiskFull
	case g.room >= 0:
		part := p[:min(g.room, len(p))]
		n, err := g.file.Write(part)
		g.room -= n
		if g.full = n == len(part) && n < len(p); g.full {
			err = errors.Join(err, errDiskFull)
		}
		return n, err
	case g.bytes < 0:
		return g.file.Write(p)
	}
	part := p[:min(g.bytes, len(p))]
	n, err := g.file.Write(part)
	g.bytes -= n
	if n == len(part) && n < len(p) {
		g.kill()
		g.disk.Kill()
		err = errors.Join(err, errKilled)
	}
	return n, err
}

// Sync implements recorder.Output.
func (g *gate) Sync() error {
	if g.dead() {
		return errKilled
	}
	return g.file.Sync()
}

// Verify implements recorder.Output.
func (g *gate) Verify() error {
	if g.dead() {
		return errKilled
	}
	return g.file.Verify()
}

// Mark implements recorder.Output.
func (g *gate) Mark() journal.Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file.Mark()
}

// Commit implements recorder.Checkpoint.
func (g *gate) Commit(b *checkpoint.Batch) error {
	g.dawdle(&g.slowCommit)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead() {
		return errKilled
	}
	if g.commits == 0 {
		g.kill()
		g.disk.Kill()
		if g.persisted {
			return errors.Join(g.store.Commit(b), errKilled)
		}
		return errKilled
	}
	if g.commits > 0 {
		g.commits--
	}
	if g.failing > 0 {
		g.failing--
		if g.failPersisted {
			return errors.Join(g.store.Commit(b), errDiskFull)
		}
		return errDiskFull
	}
	return g.store.Commit(b)
}

// Size implements recorder.Checkpoint.
func (g *gate) Size() (int64, error) { return g.store.Size() }

// InPlace implements recorder.Checkpoint.
func (g *gate) InPlace() error { return g.store.InPlace() }

func (g *gate) Streams() (map[string]checkpoint.Stream, error) { return g.store.Streams() }

// Extent implements recorder.Output.
func (g *gate) Extent() journal.Extent { return g.file.Extent() }

// Seal implements recorder.Output.
func (g *gate) Seal(after uint64) *line.Seal { return g.file.Seal(after) }

// Committed implements recorder.Output.
func (g *gate) Committed(seq uint64) { g.file.Committed(seq) }
