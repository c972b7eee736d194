// Package manager runs the streams that a config comes to, and keeps track of what cannot run.
//
// The goroutine of Run owns which streams run. Apply hands it other options; it compares what each stream is to be
// (watcher.Spec) with what it is, and touches those that differ: a stream is stopped, and the one in its place takes the
// position from the checkpoint, once that has all that was submitted. It is the same as a restart of the daemon, for that
// stream alone. Before the first one is stopped, all that can be wrong was looked for.
//
// What the server serves changes by itself. That only ever adds streams. The watch of a resource that goes away brings its
// objects' deletions and ends with a 404, and then the stream is dropped or pending. While something is pending because
// the server does not have it, or an entry has a wildcard, CustomResourceDefinitions are watched to ask again in time.
package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/metrics"
	"kubejournal/internal/watcher"
)

// Options is what a Manager needs beside its parts.
type Options struct {
	Cluster       string // stamped on every line
	ClusterUID    string // stamped on GAP and SYNCED lines
	Resources     []config.Resource
	RedactSecrets bool
	Redact        []config.Redact
	DropFields    []string
	MaxLineBytes  int64         // as in event.Line
	Silence       time.Duration // as in watcher.Spec
}

// Manager runs the streams that the entries of a config come to. An entry
// whose resource the server does not have, or does not let this identity
// watch, is pending: retried without blocking other streams.
//
// The goroutine of Run starts and stops all streams, also those of other options
// that Apply hands over.
type Manager struct {
	parts
	resolver *discovery.Resolver
	requests chan request
	ended    chan ending
	stopped  chan struct{} // closed when Run ends

	// Run's, from its beginning on.
	options     Options
	crds        *discovery.CRDWatcher // says when the server may serve other resources
	asked       asked
	nothingLost bool // no stream is owed the GAP of a lost checkpoint any more

	mu         sync.Mutex
	running    map[string]*running // by stream name; guarded by mu
	refused    map[string]*waiting // streams that the server does not let run, by name; guarded by mu
	unresolved map[int]*waiting    // entries that come to no stream, by index; guarded by mu
	unknown    map[string]bool     // names without a resource that were warned about; guarded by mu
	started    bool                // what can run was started; guarded by mu
}

// parts are what all streams share.
type parts struct {
	client *kubeclient.Client
	store  watcher.Store
	rec    watcher.Recorder
	m      *metrics.Metrics
	log    *zap.Logger
}

// asked is when the server was asked last what it serves.
type asked struct {
	at    time.Time
	fault string // that was logged, "" where there was none
}

// wanted is a stream that the config and the server come to.
type wanted struct {
	entry config.Resource // that it comes from
	spec  watcher.Spec
}

// running is a stream with its goroutine.
type running struct {
	wanted
	stream *watcher.Stream
	since  time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

// request asks Run to go on with other options.
type request struct {
	options Options
	done    chan result // holds one
}

type result struct {
	difference Difference
	err        error
}

// ending is how a stream's goroutine ended.
type ending struct {
	name string
	err  error
}

// New returns a manager that has not started anything. resolver must
// have been refreshed.
func New(client *kubeclient.Client, resolver *discovery.Resolver, store watcher.Store, rec watcher.Recorder, options Options, m *metrics.Metrics, log *zap.Logger) *Manager {
	return &Manager{
		parts:    parts{client: client, store: store, rec: rec, m: m, log: log},
		resolver: resolver, options: options,
		requests:   make(chan request),
		ended:      make(chan ending),
		stopped:    make(chan struct{}),
		crds:       discovery.NewCRDWatcher(client, log),
		running:    make(map[string]*running),
		refused:    make(map[string]*waiting),
		unresolved: make(map[int]*waiting),
		unknown:    make(map[string]bool),
	}
}

// Check returns what only the server can tell to be wrong with the config, one
// error per fault. Resources that are not there are no fault. Not beside Run.
func (m *Manager) Check() []error { return m.CheckOptions(m.options) }

// CheckOptions is Check of other options. Safe for concurrent use.
func (m *Manager) CheckOptions(o Options) []error { return m.faults(m.desired(o)) }

// faults is Check of what options come to.
func (m *Manager) faults(desired map[string]wanted, errs []error) []error {
	var faults []error
	for _, err := range errs {
		if discovery.IsConfigFault(err) {
			faults = append(faults, err)
		}
	}
	// A stream that could not be made would otherwise be found when others are
	// stopped already.
	scratch := metrics.New("", "")
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if _, err := watcher.NewStream(desired[name].spec, m.client, m.store, m.rec, scratch, zap.NewNop()); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Run runs the streams until ctx ends, and returns when all have stopped.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.stopped)
	defer m.stopAll()
	defer m.crds.Close()
	tick := time.NewTicker(pendingFirst)
	defer tick.Stop()
	if err := m.reconcile(ctx); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case e := <-m.ended:
			err = m.end(e)
		case r := <-m.requests:
			difference, fault := m.apply(ctx, r.options)
			r.done <- result{difference, fault}
		case <-m.crds.Changed():
			m.crds.Plan(time.Since(m.asked.at))
		case <-m.crds.Due():
			m.crds.Asked()
			err = m.look(ctx)
		case <-tick.C:
			m.clearLost()
			err = m.retry(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// retry tries what is pending and due again.
func (m *Manager) retry(ctx context.Context) error {
	due, anew := m.due()
	poll := m.openEnded() && time.Since(m.asked.at) >= m.crds.PollInterval()
	if !due && !poll {
		return nil
	}
	if anew || poll || time.Since(m.asked.at) >= pendingMax {
		m.refresh(ctx)
	}
	return m.reconcile(ctx)
}

// look asks the server what it serves now that a definition has changed. What
// waited for one does not wait any longer.
func (m *Manager) look(ctx context.Context) error {
	m.refresh(ctx)
	m.mu.Lock()
	for _, w := range m.refused {
		if w.reason == watcher.ReasonNotFound {
			w.until = time.Now()
		}
	}
	m.mu.Unlock()
	return m.reconcile(ctx)
}

// desired resolves all entries: the streams by name, and for each entry why it
// comes to none, or not to all, nil where it does. Safe for concurrent use.
func (m *Manager) desired(o Options) (map[string]wanted, []error) {
	streams := make(map[string]wanted)
	errs := make([]error, len(o.Resources))
	for i, resolved := range m.resolver.ResolveAll(o.Resources) {
		for _, name := range o.Resources[i].Exclude {
			if _, known := m.resolver.Fits(name, schema.GroupResource{}); !known {
				m.warnUnknown("exclude names no resource that the server has now", o.Resources[i].Entry, name)
			}
		}
		errs[i] = resolved.Err
		for _, s := range resolved.Streams {
			streams[s.Name()] = wanted{s.Entry, m.spec(o, s)}
		}
	}
	return streams, errs
}

// reconcile starts what should run, does not, and is due; and starts again what
// is to run in another way since the server serves other resources. It stops
// nothing: the watch of a resource that goes away tells of its objects' deletions
// and ends by itself.
func (m *Manager) reconcile(ctx context.Context) error {
	desired, errs := m.desired(m.options)
	m.dropRefused(desired)
	m.setUnresolved(errs)
	var again []*running
	m.mu.Lock()
	for name, r := range m.running {
		// What the server says of names takes no redaction away: only an edit does.
		if w, is := desired[name]; is && !m.same(r.wanted, w) && !redactsLess(&w.spec, &r.spec) {
			again = append(again, r)
		}
	}
	m.mu.Unlock()
	m.stop(again)
	if err := m.startAll(ctx, desired); err != nil {
		return err
	}
	m.crds.Set(ctx, m.openEnded() || m.missing())
	return nil
}

// startAll starts what does not run and is not to wait.
func (m *Manager) startAll(ctx context.Context, desired map[string]wanted) error {
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if !m.startable(name) {
			continue
		}
		if err := m.start(ctx, desired[name]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.started = true
	m.mu.Unlock()
	return nil
}

// startable reports whether a stream does not run and is not to wait.
func (m *Manager) startable(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.refused[name]
	return m.running[name] == nil && (w == nil || !time.Now().Before(w.until))
}

// start starts a stream.
func (m *Manager) start(ctx context.Context, w wanted) error {
	s, err := watcher.NewStream(w.spec, m.client, m.store, m.rec, m.m, m.log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{wanted: w, stream: s, since: time.Now(), cancel: cancel, done: make(chan struct{})}
	m.mu.Lock()
	m.running[w.spec.Name] = r
	m.mu.Unlock()
	go func() {
		defer close(r.done)
		err := s.Run(ctx)
		select {
		case m.ended <- ending{w.spec.Name, err}:
		case <-ctx.Done():
		}
	}()
	return nil
}

// end notes that a stream has ended by itself. Only a stream that waits
// for the server does; any other error ends the manager.
func (m *Manager) end(e ending) error {
	m.mu.Lock()
	r := m.running[e.name]
	delete(m.running, e.name)
	m.mu.Unlock()
	lasted := time.Duration(0)
	if r != nil {
		r.cancel()
		<-r.done
		lasted = time.Since(r.since)
	}
	p := new(watcher.PendingError)
	if !errors.As(e.err, &p) {
		return e.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.refused[e.name]
	if lasted > pendingMax {
		before = nil // it ran meanwhile
	}
	w := m.wait(before, e.name, p.Reason, p.Err)
	if r != nil {
		w.wanted, w.last = r.wanted, r.stream.Status()
	}
	m.refused[e.name] = w
	return nil
}

// refresh asks the server what it serves. What it does not tell stays as it was.
func (m *Manager) refresh(ctx context.Context) {
	m.asked.at = time.Now()
	err := m.resolver.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != m.asked.fault {
		m.log.Warn("discovery is incomplete", zap.Error(err))
	}
	m.asked.fault = fault
}

// stopAll stops every stream and waits for them.
func (m *Manager) stopAll() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.running))
	m.mu.Unlock()
	m.stop(all)
}

// stop stops streams and waits for them. Their positions stay where they are, and
// what they have submitted is written.
func (m *Manager) stop(all []*running) {
	for _, r := range all {
		r.cancel()
	}
	for _, r := range all {
		<-r.done
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range all {
		delete(m.running, r.spec.Name)
	}
}
