package scenario

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/invariant"
)

// scenario is a daemon on a server, with a ledger of what is written there.
type scenario struct {
	author
	t      *testing.T
	server *server
	daemon *daemon
}

// play makes a scenario; the daemon does not run yet. Its streams begin with the entries given.
func play(t *testing.T, s *server, entries []entry) *scenario {
	t.Helper()
	program(t) // or the writers would be at it for as long as it builds
	g := new(ledger)
	for _, e := range entries {
		g.sources = append(g.sources, e.sources()...)
	}
	return &scenario{
		author: author{client: s.client, ledger: g},
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
		o := object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}
		if _, err := s.client.Resource(namespaces).Create(t.Context(), o.unstructured(), metav1.CreateOptions{}); err != nil {
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
				err := s.client.Resource(k.gvr).Namespace(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
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
	state := make(invariant.State)
	for _, src := range s.ledger.sources {
		gvr := src.kind.gvr
		list, err := s.client.Resource(gvr).Namespace(src.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: src.selector})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			k := invariant.Key{Group: gvr.Group, Resource: gvr.Resource, Namespace: item.GetNamespace(), Name: item.GetName()}
			content, err := json.Marshal(item.Object)
			if err != nil {
				return nil, err
			}
			if state[k], err = invariant.Expect(k, content); err != nil {
				return nil, err
			}
		}
	}
	return state, nil
}

// caughtUp waits until the journal's replay is what the server has, all acknowledged writes stand in it, and no list is
// open: the last line of a difference comes before the SYNCED that closes it.
func (s *scenario) caughtUp() {
	s.t.Helper()
	eventually(s.t, later, "catch up", func() error {
		if !s.daemon.process.alive() {
			s.t.Fatalf("the daemon has ended: %s", s.daemon.process.cmd.ProcessState)
		}
		lines := s.daemon.tell()
		if open := listing(lines); open != "" {
			return fmt.Errorf("stream %s is in the middle of a list", open)
		}
		if err := invariant.Writes(lines, s.ledger.all()); err != nil {
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
		invariant.Writes(lines, s.ledger.all()),
		invariant.Compare(told, is),
	); err != nil {
		s.t.Errorf("the journal of %d lines does not hold:\n%v", len(lines), err)
	}
	if len(lines) < 2 || len(s.ledger.all()) == 0 {
		s.t.Errorf("%d lines and %d writes prove nothing", len(lines), len(s.ledger.all()))
	}
	for name, content := range s.daemon.files() {
		leak(s.t, name, content)
	}
	s.t.Logf("%d lines, %d acknowledged writes, %d gaps", len(lines), len(s.ledger.all()), len(gaps(lines)))
	return lines
}

// leak fails where a Secret's value is among what was written.
func leak(t *testing.T, name string, content []byte) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(secretValue))
	encoded = strings.TrimRight(encoded, "=")
	encoded = encoded[:len(encoded)-len(encoded)%4] // the rest depends on what follows
	for _, value := range []string{secretValue, encoded} {
		if i := bytes.Index(content, []byte(value)); i >= 0 {
			t.Errorf("%s: holds a Secret's value: ...%q", name, content[max(0, i-200):min(len(content), i+60)])
		}
	}
}
