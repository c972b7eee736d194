package watcher_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing/synctest"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/record/streams"
	"kubejournal/test/faultdisk"
)

func (m *model) killed(*rand.Rand) string {
	if m.life == nil {
		return ""
	}
	m.kill()
	return "the daemon is killed"
}

func (m *model) stopped(*rand.Rand) string {
	if m.life == nil {
		return ""
	}
	m.interrupted = true
	if err := m.terminate(); err != nil {
		return fmt.Sprintf("the daemon is stopped, and leaves something undone: %.80v", err)
	}
	return "the daemon is stopped"
}

// stopTimeout is how long after SIGTERM the daemon ends, whatever is undone.
const stopTimeout = 5 * time.Second

// terminate ends the daemon as SIGTERM does. The error is what it could not do in its time.
func (m *model) terminate() error {
	g, began := m.life.gate, time.Now()
	err := m.ended()
	if d := time.Since(began); d > stopTimeout {
		m.t.Errorf("the daemon took %v to stop", d)
	}
	dead := g.dead()
	g.die() // a write that still blocks is left behind
	synctest.Wait()
	if err != nil || dead {
		return errors.Join(errors.New("killed"), err)
	}
	store, err := checkpoint.Open(m.db())
	must(m.t, err)
	mark, err := store.Mark()
	must(m.t, errors.Join(err, store.Close()))
	if lines := m.whole(); len(lines) > 0 && lines[len(lines)-1].Seq != mark.Seq {
		m.t.Errorf("stopped with seq %d in the journal and %d in the checkpoint", lines[len(lines)-1].Seq, mark.Seq)
	}
	return nil
}

func (m *model) arm(r *rand.Rand) string {
	if m.life == nil {
		return ""
	}
	m.interrupted = true
	g := m.life.gate
	switch r.IntN(3) {
	case 0:
		n := r.IntN(1 + r.IntN(20*(400+m.pad)))
		g.dieAfterBytes(n)
		return fmt.Sprintf("the daemon will die %d bytes from here", n)
	case 1:
		n, persisted := r.IntN(5), r.IntN(2) == 0
		g.dieAtCommit(n, persisted)
		return fmt.Sprintf("the daemon will die at commit %d from here, persisted %v", n, persisted)
	}
	text := []string{`"type":"GAP"`, `"type":"SYNCED"`, `"type":"DELETED"`, `"origin":"relist"`, `"origin":"snapshot"`}[r.IntN(5)]
	g.dieUncommitted(text)
	return "the daemon will die between a line of " + text + " and its commit"
}

// How long one write and one commit may take.
const (
	slowestWrite  = 30 * time.Second
	slowestCommit = 10 * time.Second
)

// diskKinds are operations on files. Most are those of a rotation.
var diskKinds = []faultdisk.Kind{
	faultdisk.Write, faultdisk.Sync, faultdisk.Truncate,
	faultdisk.Create, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Remove,
	faultdisk.Create, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Remove,
}

// disk is what the disk does to the daemon.
func (m *model) disk(r *rand.Rand) string {
	if m.life == nil {
		m.atStart = &injection{
			kind:  []faultdisk.Kind{faultdisk.Sync, faultdisk.Truncate, faultdisk.Create, faultdisk.SyncDir}[r.IntN(4)],
			after: r.IntN(3),
			fault: faultdisk.Faults[r.IntN(len(faultdisk.Faults))],
		}
		return fmt.Sprintf("after %d times %s of the journal in the next start: %v", m.atStart.after, m.atStart.kind, m.atStart.fault)
	}
	g := m.life.gate
	switch r.IntN(7) {
	case 6:
		m.interrupted = true
		s := &injection{
			kind:  diskKinds[r.IntN(len(diskKinds))],
			after: r.IntN(4),
			fault: faultdisk.Faults[r.IntN(len(faultdisk.Faults))],
		}
		what := fmt.Sprintf("after %d times %s of the journal: %v", s.after, s.kind, s.fault)
		g.inject(s) // the disk's from here
		return what
	case 0:
		g.setFull(true)
		return "the disk is full"
	case 1:
		n := r.IntN(6 * (400 + m.pad))
		g.fillAfter(n)
		return fmt.Sprintf("the disk takes %d bytes more", n)
	case 2:
		write, commit := time.Duration(r.Int64N(int64(slowestWrite))), time.Duration(r.Int64N(int64(slowestCommit)))
		g.slow(write, commit)
		return fmt.Sprintf("the next write takes %v, the next commit %v", write, commit)
	case 3:
		n, persisted := 1+r.IntN(6), r.IntN(2) == 0
		g.failCommits(n, persisted)
		return fmt.Sprintf("%d commits fail, persisted %v", n, persisted)
	default:
		g.heal()
		return "the disk is well"
	}
}

// reload is another list of entries.
func (m *model) reload(r *rand.Rand) string {
	if m.frozen {
		return ""
	}
	some := slices.DeleteFunc(slices.Clone(m.pool), func(config.Resource) bool { return r.IntN(2) == 0 })
	if len(some) == 0 {
		some = m.pool[:1]
	}
	m.down(r)
	m.entries = some
	m.up()
	return fmt.Sprintf("%d entries of %d", len(some), len(m.pool))
}

// reapply is another list of entries for the daemon as it runs, all of them
// changed or none, or one with a fault.
func (m *model) reapply(r *rand.Rand) string {
	if m.frozen || m.life == nil {
		return ""
	}
	m.interrupted = true // a list may be under way
	some := slices.DeleteFunc(slices.Clone(m.pool), func(config.Resource) bool { return r.IntN(2) == 0 })
	cluster := []string{"", "", "one", "two"}[r.IntN(4)]
	faulty := len(some) > 0 && r.IntN(5) == 0
	if faulty {
		some = append(some, some[0])
	}
	m.starts = append(m.starts, time.Now()) // of those that are changed, which ask as they do at a start
	d, err := m.apply(some, func(o *streams.Options) { o.Cluster = cluster })
	if err == nil && faulty {
		// The server does not have the resource now, and so there is no fault yet.
		some = some[:len(some)-1]
		d, err = m.apply(some, nil)
	}
	if err != nil {
		return fmt.Sprintf("a config is not applied: %.80v", err)
	}
	m.entries = some
	m.begun()
	return fmt.Sprintf("another config is applied: %+v", d)
}

// down ends the daemon, if one runs, in one way or the other.
func (m *model) down(r *rand.Rand) {
	what := ""
	switch {
	case m.life == nil:
		return
	case r.IntN(2) == 0:
		what = m.killed(r)
	default:
		what = m.stopped(r)
	}
	m.remark("%s", what)
}

// lose takes the checkpoint away.
func (m *model) lose(r *rand.Rand) string {
	if m.frozen {
		return "" // with it goes what is known of the server
	}
	m.down(r)
	m.interrupted = true
	if err := os.Remove(m.db()); err != nil {
		return ""
	}
	m.one.lost = true
	return "the checkpoint is removed"
}
