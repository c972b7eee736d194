package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"kubejournal/test/bench/baseline"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

const (
	standbyRate  = 250.0           // changes per second
	retryPeriod  = 2 * time.Second // the default
	lastRenewals = 2               // after the load: the standby then has dropped what it held
)

// standby measures whole processes that journal changes while they are made, evenly, from a real API server over TLS,
// all at the same time: a single daemon, and two with leader election. What they take from ready to caught up counts,
// not their start.
func (b *bench) standby(ctx context.Context) error {
	return b.withServer(ctx, cluster.Options{Audit: cluster.AuditRequests}, func(r *realServer) error {
		if err := r.write(ctx, realPods); err != nil {
			return err
		}
		for n := range r.count {
			if err := r.standbyOnce(ctx, fmt.Sprint("bench-", n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// member is one of the processes.
type member struct {
	*program.Process
	name, journal string
	before        time.Duration // CPU until it was ready
}

// standbyOnce is one reading, with a Lease of its own.
func (r *realServer) standbyOnce(ctx context.Context, lease string) error {
	election := "leaderElection: {leaseName: " + lease + ", leaseNamespace: default}\n"
	var members []*member
	defer func() {
		for _, m := range members {
			m.End()
		}
	}()
	for _, way := range []struct{ name, more string }{{"single", ""}, {"leader", election}, {"standby", election}} {
		m, err := r.member(ctx, way.name, way.more)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		members = append(members, m)
		if way.name != "standby" {
			if err := awaitLines(ctx, m.Process, m.journal, `"type":"SYNCED"`, 1); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
	}
	single, leader, standby := members[0], members[1], members[2]
	for _, m := range members {
		var err error
		if m.before, err = m.CPU(); err != nil {
			return err
		}
	}
	r.say("%d changes at %g/s: a single daemon, a leader and its standby", r.live, standbyRate)
	began := time.Now()
	if err := r.pace(ctx, r.live, standbyRate); err != nil {
		return err
	}
	ended := time.Now()
	for _, m := range []*member{single, leader} {
		if err := awaitLines(ctx, m.Process, m.journal, `"origin":"watch"`, r.live); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	traffic, err := r.leaseTraffic(ctx, lease, began, ended)
	if err != nil {
		return err
	}
	memory := map[*member]float64{}
	for _, m := range members {
		used, err := m.CPU()
		if err != nil {
			return err
		}
		most, err := m.Memory("VmHWM")
		if err != nil {
			return err
		}
		memory[m] = float64(most[0]) / (1 << 20)
		figures := []figure{
			{float64((used - m.before).Microseconds()) / float64(r.live), "cpu-us/event"},
			{(used - m.before).Seconds(), "cpu-s"}, {memory[m], "rss-MiB"},
		}
		switch m {
		case leader:
			figures = append(figures, traffic...)
		case standby:
			figures = append(figures, figure{memory[standby] - memory[single], "more-rss-MiB"})
		}
		r.line("BenchmarkStandby/way="+m.name, r.live, figures...)
	}
	// It has followed: it holds nothing back, and never was the leader.
	metrics, err := standby.Metrics(ctx)
	if held, turns := metrics["kubejournal_standby_held_bytes"], metrics["kubejournal_takeovers_total"]; err != nil ||
		held != 0 || turns != 0 {
		return errors.Join(fmt.Errorf("the standby holds %g bytes and was the leader %g times", held, turns), err)
	}
	// The leader last, so that the standby does not take over.
	for _, m := range []*member{single, standby, leader} {
		if err := m.Stop(stopLimit); err != nil {
			return err
		}
	}
	return nil
}

// member starts a daemon on files of its own and waits until it is ready.
func (r *realServer) member(ctx context.Context, name, more string) (*member, error) {
	dir, err := r.folder(name + "-")
	if err != nil {
		return nil, err
	}
	if err := writeConfig(dir, "pods", more); err != nil {
		return nil, err
	}
	p, err := launch(dir, r.program, nil, "run", "--config", configFile, "--kubeconfig", r.cluster.Kubeconfig(),
		"--output", journalFile, "--checkpoint", "checkpoint.db", "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &member{Process: p, name: name, journal: filepath.Join(dir, journalFile)}
	if err := p.Wait(ctx, baseline.Patience, "wait until it is ready", func() error {
		return p.Ready(ctx)
	}); err != nil {
		p.End()
		return nil, err
	}
	return m, nil
}

// leaseTraffic waits until the Lease was renewed some times after the load's end, and read by the standby after that.
// It returns how often the API server has seen it written and read since the load began, by whichever replica, per
// retry period.
func (r *realServer) leaseTraffic(ctx context.Context, lease string, began, ended time.Time) ([]figure, error) {
	var writes, reads []time.Time
	err := program.Eventually(ctx, baseline.Patience, "wait for renewals", func() error {
		requests, err := r.cluster.Requests()
		if err != nil {
			return program.Final(err)
		}
		writes, reads = nil, nil
		late := 0
		for _, q := range requests {
			switch {
			case q.Resource != "leases.coordination.k8s.io" || q.Name != lease || q.Received.Before(began):
			case q.Verb != "get":
				if writes = append(writes, q.Received); q.Received.After(ended) {
					late++
				}
			default:
				reads = append(reads, q.Received)
			}
		}
		if late < lastRenewals || len(reads) < 2 || reads[len(reads)-1].Before(writes[len(writes)-1]) {
			return fmt.Errorf("there are %d", late)
		}
		return nil
	})
	per := func(all []time.Time) float64 {
		return float64(len(all)-1) * float64(retryPeriod) / float64(all[len(all)-1].Sub(all[0]))
	}
	if err != nil {
		return nil, err
	}
	return []figure{{per(writes), "lease-writes/retry"}, {per(reads), "lease-reads/retry"}}, nil
}
