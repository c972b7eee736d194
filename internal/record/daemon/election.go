package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/config"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/status"
	"kubejournal/internal/record/takeover"
)

// leases are what leaders hold.
var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// joinElection makes the part that takes part in the leader election, where the config asks for one.
func (d *Daemon) joinElection() error {
	o := d.cfg.LeaderElection
	if o.LeaseName == "" {
		return nil
	}
	var fault *config.Fault
	if d.lease, fault = access.LeaseNamespace(d.cfg); fault != nil {
		return config.Faults{*fault}
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("leaderElection: %w", err)
	}
	terms, err := d.store.Terms()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(d.access.Config())
	if err != nil {
		return fmt.Errorf("leaderElection: %w", err)
	}
	d.elector = takeover.New(takeover.Config{
		Name: d.cfg.Lease(), Namespace: d.lease,
		// The name of a pod alone may be that of another one, which a node that nobody reaches still runs.
		Identity:      host + "_" + strings.ToLower(rand.Text()),
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Leases: client.Resource(leases).Namespace(d.lease), Replica: d.rec.Replica(),
		Terms: terms, SaveTerms: d.store.SetTerms, Log: d.Log, Changed: d.turned,
		Able: func() error { return errors.Join(d.rec.OutputError(), d.rec.CheckpointError()) },
	})
	d.metrics.WatchElection(d.elector.Describe(), func() float64 { return float64(d.rec.Replica().Held()) },
		func() float64 { return float64(d.elector.Status().Seen.Unix()) })
	return nil
}

// elect takes part in the election until stop is called, which waits until the Lease is given up.
func (d *Daemon) elect() (stop func()) {
	if d.elector == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.elector.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// turned shows that another replica writes, or this one.
func (d *Daemon) turned(before, now takeover.Status) {
	leads := 0.0
	if now.Leads {
		leads = 1
		if !before.Leads {
			d.metrics.Takeovers.Inc()
		}
	}
	d.metrics.Leader.Set(leads)
}

// streamsReady is why streams keep the daemon from being ready.
func (d *Daemon) streamsReady() error {
	standby := false
	if d.elector != nil {
		s := d.elector.Status()
		standby = !s.Leads && s.Holder != ""
	}
	return d.manager.Ready(standby)
}

// whoWrites says it in words.
func (d *Daemon) whoWrites() string {
	switch s := d.elector.Status(); {
	case s.Leads && s.LeftOut > 0:
		return fmt.Sprintf("the leader, term %d; the Lease has no room for %d positions", s.Term, s.LeftOut)
	case s.Leads:
		return fmt.Sprintf("the leader, term %d", s.Term)
	case s.Holder == "":
		return "standby, and no replica writes"
	default:
		return fmt.Sprintf("standby, %s writes, term %d", s.Holder, s.Term)
	}
}

// election is what the status says of it; nil where there is none.
func (d *Daemon) election() *status.Election {
	if d.elector == nil {
		return nil
	}
	s := d.elector.Status()
	return &status.Election{
		Lease: d.elector.Describe(), Identity: d.elector.Identity(), Leads: s.Leads, Holder: s.Holder, Term: s.Term,
		Seen: s.Seen.Truncate(time.Second), HeldBytes: d.rec.Replica().Held(), LeftOut: s.LeftOut,
	}
}
