package scenario

import (
	"slices"
	"testing"

	"kubejournal/test/invariant"
)

// A first sync while objects change, and what comes after it.
func TestSnapshotThenChurn(t *testing.T) {
	s := own.get(t)
	sc := play(t, s, every())
	ns := s.namespaces(t, 3)
	writers := sc.churn(t, ns...)
	writers.more(150)
	sc.daemon.start()
	writers.more(300)
	writers.Stop()
	lines := sc.verify(false)
	noGap(t, lines)
	origins := make(map[string]int)
	for _, l := range lines {
		origins[l.Origin]++
	}
	if origins[invariant.FromSnapshot] == 0 || origins[invariant.FromWatch] < 250 {
		t.Errorf("lines by origin: %v", origins)
	}
}

// Streams of two namespaces out of three, some with a selector that objects come under and leave.
func TestNamespacesAndSelector(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 3)
	watched := ns[:2]
	entries := every(watched...)
	entries[0].Selector, entries[2].Selector = "app=web", "app=web"
	sc := play(t, s, entries)
	writers := sc.churn(t, ns...)
	writers.more(100)
	sc.daemon.start()
	writers.more(300)
	writers.Stop()
	lines := sc.verify(false)
	noGap(t, lines)
	streams := make(map[string]int)
	for _, l := range lines {
		streams[l.Stream]++
		if l.Type != invariant.Synced && !slices.Contains(watched, l.Namespace) {
			t.Errorf("%s: namespace %q is not watched", l.Where, l.Namespace)
		}
	}
	for _, src := range sc.Ledger.Sources {
		if streams[src.Stream()] == 0 {
			t.Errorf("no line of stream %s, there are %v", src.Stream(), streams)
		}
	}
	if len(streams) != len(sc.Ledger.Sources) {
		t.Errorf("streams are %v", streams)
	}
}
