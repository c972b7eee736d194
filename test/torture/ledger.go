package main

import (
	"sync"

	"kubejournal/test/invariant"
)

// ledger remembers what the server acknowledged, as the streams should tell it.
type ledger struct {
	sources []source

	mu           sync.Mutex
	acknowledged int               // guarded by mu
	unknown      int               // writes without an answer
	writes       []invariant.Write // acknowledged, one for each stream that reads the object
	doubtful     []live            // objects whose last write had no answer
}

// add notes a write. An object comes to a stream and leaves it by its label, app before and after; "" is no object.
func (g *ledger) add(k kind, namespace, name, before, after, uid, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acknowledged++
	for _, s := range g.sources {
		had := before != "" && s.covers(k, namespace, before)
		has := after != "" && s.covers(k, namespace, after)
		w := invariant.Write{Stream: s.stream(), UID: uid, ResourceVersion: version, What: s.stream() + " " + namespace + "/" + name}
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

// doubt notes a write of which nobody knows whether it was made.
func (g *ledger) doubt(o live) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unknown++
	g.doubtful = append(g.doubtful, o)
}

// takeDoubtful hands over the objects of unknown fate.
func (g *ledger) takeDoubtful() []live {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.doubtful
	g.doubtful = nil
	return all
}

// putBack returns those of them that could not be asked about.
func (g *ledger) putBack(rest []live) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doubtful = append(g.doubtful, rest...)
}

func (g *ledger) all() []invariant.Write {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes[:len(g.writes):len(g.writes)]
}

// forget drops the writes, before a journal that begins with a first sync: what was before that, it tells by its result.
func (g *ledger) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = nil
}

// reset forgets, and counts from here.
func (g *ledger) reset() {
	g.forget()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acknowledged, g.unknown = 0, 0
}

// counts returns how many writes were acknowledged, and how many were left without an answer.
func (g *ledger) counts() (acknowledged, unknown int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acknowledged, g.unknown
}
