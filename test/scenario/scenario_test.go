package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// scenario is a daemon on a server, with a ledger of what is written there.
type scenario struct {
	workload.Author
	t      *testing.T
	server *server
	daemon *daemon
}

// play makes a scenario; the daemon does not run yet. Its streams begin with the entries given.
func play(t *testing.T, s *server, entries []entry) *scenario {
	t.Helper()
	kubejournal(t) // or the writers would be at it for as long as it builds
	return &scenario{
		Author: workload.Author{Client: s.client, Ledger: &workload.Ledger{Sources: workload.Sources(entries)}},
		t:      t, server: s,
		daemon: newDaemon(t, s.Kubeconfig(), entries),
	}
}

// namespaces makes namespaces, whose objects go at the test's end.
func (s *server) namespaces(t *testing.T, count int) []string {
	t.Helper()
	var names []string
	prefix := fmt.Sprintf("n%08x-", rand.Uint32())
	for i := range count {
		ns := prefix + string(rune('a'+i))
		if err := workload.MakeNamespace(t.Context(), s.client, ns); err != nil {
			t.Fatal(err)
		}
		names = append(names, ns)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		for _, ns := range names {
			for _, k := range everyKind {
				// A scenario that failed may have left no server to ask, and gets a new one.
				err := s.client.Resource(k.Resource).Namespace(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
				if err != nil && !t.Failed() {
					t.Logf("clean up: %v", err)
				}
			}
		}
	})
	return names
}

// live lists what the sources read.
func (s *scenario) live() (invariant.State, error) {
	return workload.Live(s.t.Context(), s.Client, s.Ledger.Sources)
}

// caughtUp waits until the journal's replay is what the server has, all acknowledged writes stand in it, and no list is
// open: the last line of a difference comes before the SYNCED that closes it.
func (s *scenario) caughtUp() {
	s.t.Helper()
	eventually(s.t, later, "catch up", func() error {
		if !s.daemon.process.Alive() {
			s.t.Fatalf("the daemon has ended: %s", s.daemon.process.State())
		}
		lines := s.daemon.tell()
		if open := listing(lines); open != "" {
			return fmt.Errorf("stream %s is in the middle of a list", open)
		}
		if err := invariant.Writes(lines, s.Ledger.Writes()); err != nil {
			return err
		}
		told, err := invariant.Replay(lines)
		if err != nil {
			return err
		}
		is, err := s.live()
		if err != nil {
			return err
		}
		return invariant.Compare(told, is)
	})
}

// listing names a stream whose last list, the first or one after a GAP, has no SYNCED yet; "" where there is none.
func listing(lines []invariant.Line) string {
	synced := make(map[string]bool)
	for _, l := range lines {
		synced[l.Stream] = l.Type == invariant.Synced || l.Type != invariant.Gap && synced[l.Stream]
	}
	for stream, closed := range synced {
		if !closed {
			return stream
		}
	}
	return ""
}

// verify waits until the journal has caught up, stops the daemon, and proves all it has written. interrupted says that
// the scenario may have broken into a list.
func (s *scenario) verify(interrupted bool) []invariant.Line {
	s.t.Helper()
	s.caughtUp()
	s.daemon.stop()
	lines, err := invariant.Read(s.daemon.journal())
	if err != nil {
		s.t.Fatal(err)
	}
	is, err := s.live()
	if err != nil {
		s.t.Fatal(err)
	}
	told, err := invariant.Replay(lines)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(
		invariant.All(lines, invariant.Options{Interrupted: interrupted}),
		invariant.Writes(lines, s.Ledger.Writes()),
		invariant.Compare(told, is),
	); err != nil {
		s.t.Errorf("the journal of %d lines does not hold:\n%v", len(lines), err)
	}
	if len(lines) < 2 || len(s.Ledger.Writes()) == 0 {
		s.t.Errorf("%d lines and %d writes prove nothing", len(lines), len(s.Ledger.Writes()))
	}
	for name, content := range s.daemon.files() {
		if err := workload.Leak(name, content); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Logf("%d lines, %d acknowledged writes, %d gaps", len(lines), len(s.Ledger.Writes()), len(gaps(lines)))
	return lines
}
