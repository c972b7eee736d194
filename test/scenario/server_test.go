package scenario

import (
	"errors"
	"testing"

	"kubejournal/test/invariant"
)

// The API server dies under load, twice, and the daemon stays up.
func TestAPIServerKilledUnderLoad(t *testing.T) {
	s := own.get(t)
	sc := play(t, s, every())
	writers := sc.churn(t, s.namespaces(t, 2)...)
	sc.daemon.start()
	for range 2 {
		writers.more(100)
		if err := errors.Join(s.KillAPIServer(), s.StartAPIServer(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	writers.more(100)
	writers.Stop()
	for _, l := range gaps(sc.verify(true)) {
		if l.Reason != "Expired" {
			t.Errorf("%s: GAP %s", l.Where, l.Reason)
		}
	}
}

// etcd dies under load, and with it all that the API server can do.
func TestEtcdKilledUnderLoad(t *testing.T) {
	s := own.get(t)
	sc := play(t, s, every())
	writers := sc.churn(t, s.namespaces(t, 2)...)
	sc.daemon.start()
	for range 2 {
		writers.more(100)
		if err := errors.Join(s.KillEtcd(), s.StartEtcd(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	writers.more(100)
	writers.Stop()
	for _, l := range gaps(sc.verify(true)) {
		if l.Reason != "Expired" {
			t.Errorf("%s: GAP %s", l.Where, l.Reason)
		}
	}
}

// etcd is put back from a backup while the daemon is down, and while it is up: it has seen what never happened.
func TestPositionAheadOfServer(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]bool{"daemon down": false, "daemon up": true} {
		t.Run(name, func(t *testing.T) {
			s := own.get(t)
			ns := s.namespaces(t, 2)
			sc := play(t, s, every(ns...))
			sc.daemon.start()
			writers := sc.churn(t, ns...)
			writers.more(60)
			writers.Stop()
			backup, err := s.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// More than an API server writes by itself at its start, on every stream.
			writers = sc.churn(t, ns...)
			writers.more(400)
			writers.Stop()
			sc.caughtUp()
			before := len(sc.daemon.tell())
			if !up {
				sc.daemon.stop()
			}
			if err := s.Restore(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			sc.Ledger.Restored()
			if !up {
				sc.daemon.start()
			}
			sc.grown(before + 2*len(sc.Ledger.Sources)) // each with its GAP and SYNCED
			writers = sc.churn(t, ns...)
			writers.more(60)
			writers.Stop()
			ahead := make(map[string]int)
			for _, l := range gaps(sc.verify(true)[before:]) {
				if l.Reason == invariant.Ahead {
					ahead[l.Stream]++
				}
			}
			for _, src := range sc.Ledger.Sources {
				if ahead[src.Stream()] != 1 {
					t.Errorf("%s: %d GAPs PositionAheadOfServer, want 1", src.Stream(), ahead[src.Stream()])
				}
			}
		})
	}
}
