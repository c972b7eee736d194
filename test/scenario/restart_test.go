package scenario

import (
	"fmt"
	"testing"

	"kubejournal/test/invariant"
)

// Writes continue while the daemon is down, and the server keeps their history.
func TestRestartWithHistory(t *testing.T) {
	s := shared.get(t)
	sc := play(t, s, every(s.namespaces(t, 1)...))
	writers := sc.churn(t, sc.Ledger.Sources[0].Namespace)
	sc.daemon.start()
	for range 3 {
		writers.more(60) // SIGTERM comes in the middle of the churn
		sc.daemon.stop()
		writers.more(60)
		sc.daemon.start()
	}
	writers.Stop()
	noGap(t, sc.verify(false))
}

// The history of what happened while the daemon was down is gone.
func TestRestartWithoutHistory(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	sc := play(t, s, every())
	ctx := t.Context()
	create := func(k kind, name string) live { return sc.made(k, ns, name, 1) }
	objects := make(map[string]live)
	for _, k := range everyKind {
		for _, name := range []string{"same", "changed", "gone", "again", "twice"} {
			objects[k.Kind+name] = create(k, name)
		}
	}
	sc.daemon.start()
	sc.caughtUp()
	sc.daemon.stop()
	before := len(sc.daemon.tell())
	for _, k := range everyKind {
		changed := objects[k.Kind+"changed"]
		for n := range 3 {
			sc.must(sc.Update(ctx, &changed, "web", 2+n))
		}
		for _, name := range []string{"gone", "again", "twice"} {
			sc.must(sc.Delete(ctx, objects[k.Kind+name]))
		}
		create(k, "again")
		sc.must(sc.Delete(ctx, create(k, "twice")))
		create(k, "twice")
		create(k, "new")
		sc.must(sc.Delete(ctx, create(k, "never")))
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	sc.daemon.start()
	lines := sc.verify(false)[before:]

	// What a reader is told of each kind, by name, in order.
	told := make(map[string][]string)
	reasons := make(map[string]int)
	for _, l := range lines {
		switch {
		case l.Type == invariant.Gap:
			reasons[l.Stream+" "+l.Reason]++
		case l.Namespace == ns:
			told[l.Kind+" "+l.Name] = append(told[l.Kind+" "+l.Name], l.Type)
			if l.Type == invariant.Deleted && l.FinalStateKnown == nil {
				t.Errorf("%s: a deletion found by a list does not say finalStateKnown: false", l.Where)
			}
		}
	}
	want := map[string]string{
		"same": "[]", "changed": "[MODIFIED]", "gone": "[DELETED]", "never": "[]", "new": "[ADDED]",
		"again": "[DELETED ADDED]", "twice": "[DELETED ADDED]",
	}
	for _, k := range everyKind {
		for name, w := range want {
			if got := fmt.Sprint(told[k.Kind+" "+name]); got != w {
				t.Errorf("%s %s: %s, want %s", k.Kind, name, got, w)
			}
		}
		if stream := k.Resource.GroupResource().String(); reasons[stream+" Expired"] != 1 {
			t.Errorf("%s: GAPs %v, want one, Expired", stream, reasons)
		}
	}
	if len(reasons) != len(everyKind) {
		t.Errorf("GAPs are %v", reasons)
	}
}
