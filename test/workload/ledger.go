package workload

import (
	"sync"

	"kubejournal/test/invariant"
)

// Ledger remembers what the server acknowledged, as the streams of the sources should tell it.
type Ledger struct {
	Sources []Source // not changed while there are writers

	mu           sync.Mutex
	epoch        int // guarded by mu, as all below
	acknowledged int
	unknown      int               // writes without an answer
	writes       []invariant.Write // one for each stream that reads the object
	doubtful     []Object          // whose last write had no answer
}

// Acknowledge notes a write that the server acknowledged. An object comes to a stream and leaves it by its label app,
// before and after; "" is no object. A deletion has no version: a client is not told.
func (g *Ledger) Acknowledge(o Object, before, after, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acknowledged++
	for _, s := range g.Sources {
		had, has := s.covers(o, before), s.covers(o, after)
		w := invariant.Write{
			Stream: s.Stream(), Epoch: g.epoch, UID: o.UID, ResourceVersion: version,
			What: s.Stream() + " " + o.Namespace + "/" + o.Name,
		}
		switch {
		case has && had:
			w.Type = invariant.Modified
		case has:
			w.Type = invariant.Added
		case had:
			w.Type = invariant.Deleted
		default:
			continue
		}
		g.writes = append(g.writes, w)
	}
}

// Writes returns the acknowledged writes.
func (g *Ledger) Writes() []invariant.Write {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes[:len(g.writes):len(g.writes)]
}

// Restored says that the server was restored to an earlier state.
func (g *Ledger) Restored() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
}

// Forget drops the writes, before a journal that begins with a first sync: it tells their result only.
func (g *Ledger) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = nil
}

// Reset forgets, and counts from here.
func (g *Ledger) Reset() {
	g.Forget()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acknowledged, g.unknown = 0, 0
}

// Counts returns how many writes were acknowledged, and how many were left without an answer.
func (g *Ledger) Counts() (acknowledged, unknown int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acknowledged, g.unknown
}

// doubt notes a write of which nobody knows whether it was made.
func (g *Ledger) doubt(o Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unknown++
	g.doubtful = append(g.doubtful, o)
}

// takeDoubtful hands over the objects of unknown fate.
func (g *Ledger) takeDoubtful() []Object {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.doubtful
	g.doubtful = nil
	return all
}

// putBack returns those of them that could not be asked about.
func (g *Ledger) putBack(rest []Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doubtful = append(g.doubtful, rest...)
}
