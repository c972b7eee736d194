package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"syscall"
	"testing"

	"kubejournal/test/invariant"
	merging "kubejournal/test/replicas"
	"kubejournal/test/workload"
)

// replicas are daemons of which one writes at a time.
type replicas struct {
	*scenario
	all []*daemon
}

// election is what replicas have in their config, with short times.
func election(namespace string) object {
	return object{"leaderElection": object{
		"leaseName": "kubejournal", "leaseNamespace": namespace, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms",
	}}
}

func playReplicas(t *testing.T, s *server, entries []entry, namespace string, count int) *replicas {
	r := &replicas{scenario: play(t, s, entries)}
	for range count {
		d := newDaemon(t, s.Kubeconfig(), nil)
		d.rewrite(d.content(s.Kubeconfig(), workload.Configs(entries), election(namespace)))
		r.all = append(r.all, d)
	}
	return r
}

// leads reports whether a daemon says that it writes.
func (d *daemon) leads() (bool, error) {
	_, body, err := d.get("/metrics")
	return regexp.MustCompile(`(?m)^kubejournal_leader\{.*\} 1$`).MatchString(body), err
}

// leader waits until one of the daemons that run writes, not the one that is left out.
func (r *replicas) leader(but *daemon) (leader *daemon) {
	r.t.Helper()
	eventually(r.t, later, "a leader", func() error {
		for _, d := range r.all {
			if d == but || d.process == nil || !d.process.Alive() {
				continue
			}
			if is, err := d.leads(); err == nil && is {
				leader = d
				return nil
			}
		}
		return errors.New("there is none")
	})
	return leader
}

// merged is what the journals say together, and as they are.
func (r *replicas) merged() ([]invariant.Line, *invariant.Replicas) {
	raw := new(invariant.Replicas)
	for _, d := range r.all {
		raw.Journals = append(raw.Journals, d.tell())
	}
	lines, err := merging.Merge(raw.Journals...)
	if err != nil {
		r.t.Fatal(err)
	}
	return lines, raw
}

// caughtUp waits until the journals together have all acknowledged writes, and replayed are what the server has.
func (r *replicas) caughtUp() {
	r.t.Helper()
	eventually(r.t, later, "catch up", func() error {
		lines, raw := r.merged()
		if open := listing(lines); open != "" {
			return fmt.Errorf("stream %s is in the middle of a list", open)
		}
		told, err := invariant.Replay(lines)
		if err != nil {
			return err
		}
		followed, err := invariant.Replay(raw.Follow())
		if err != nil {
			return err
		}
		is, err := r.live()
		if err != nil {
			return err
		}
		return errors.Join(invariant.Writes(lines, r.Ledger.Writes()), invariant.Compare(told, is),
			raw.Acknowledged(r.Ledger.Writes()), invariant.Compare(followed, is))
	})
}

// Leaders die, stop and sleep past their lease while objects change: another continues where they were.
func TestTakeover(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 2)
	r := playReplicas(t, s, every(), ns[0], 2)
	for _, d := range r.all {
		d.start()
	}
	writers := r.churn(t, ns...)
	for _, d := range r.all {
		for _, s := range r.Ledger.Sources {
			d.await(s.Stream(), "Watching")
		}
	}
	for round := range 9 {
		d := r.leader(nil)
		writers.more(20 + rand.N(60))
		switch round % 3 {
		case 0:
			d.kill()
		case 1:
			d.stop()
		case 2:
			d.process.signal(syscall.SIGSTOP)
		}
		r.leader(d)
		writers.more(30)
		if round%3 == 2 {
			d.process.signal(syscall.SIGCONT) // it still takes itself for the leader
		} else {
			d.start()
		}
	}
	writers.Stop()
	r.caughtUp()
	for _, d := range r.all {
		d.stop()
		lines, err := invariant.Read(d.journal())
		if err = errors.Join(err, invariant.Sequence(lines, 1), invariant.Shape(lines), invariant.Unique(lines)); err != nil {
			t.Error(err)
		}
	}
	lines, raw := r.merged()
	noGap(t, lines)
	if err := errors.Join(
		raw.Check(), raw.Merged(lines), invariant.Objects(lines), invariant.Streams(lines, true),
	); err != nil {
		t.Error(err)
	}
	t.Logf("%d lines, %d acknowledged writes, %d repeated", len(lines), len(r.Ledger.Writes()), len(raw.Repeated()))
}
