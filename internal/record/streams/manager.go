// Package streams runs the streams of a config, and keeps track of what cannot run.
//
// The goroutine of Run owns which streams run. Apply hands it other options; it compares what each stream is to be
// (watcher.Spec) with what it is, and replaces those that differ, once all options are validated. The new stream takes
// the position from the checkpoint, as after a restart of the daemon.
//
// What the server serves changes by itself. That stops no stream: the watch of a resource that goes away brings its
// objects' deletions and ends with a 404, and then the stream is dropped or pending. While something is pending because
// the server does not have it, or an entry has a wildcard, CustomResourceDefinitions are watched to ask again in time.
package streams

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
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
	MaxLineBytes  int64         // as in object.Line.MaxBytes
	Silence       time.Duration // as in watcher.Spec
}

// Manager runs the streams of a config. What the server does not have, or does not let this identity watch, is pending.
type Manager struct {
	// Rediscovered is called when a change of a CRD has had the server asked what it serves; nil is nothing. It is set
	// before Run.
	Rediscovered func()

	parts
	resolver *discovery.Resolver
	requests chan func(context.Context) // for Run's goroutine
	ended    chan *running              // by themselves
	stopped  chan struct{}              // closed when Run ends
	ending   sync.WaitGroup             // the ends of streams' coverage that are being submitted

	// Owned by Run's goroutine once it has begun.
	options   Options
	crds      *discovery.CRDWatcher // says when the server may serve other resources
	refreshed time.Time             // when the server was asked last what it serves
	fault     string                // why the last discovery was incomplete, as it was logged; "" where it was not
	owed      map[string]bool       // streams that a lost checkpoint may have had, see loadOwed; nil while unknown

	unknown sync.Map // names without a resource that were warned about

	shown
}

// shown is what other goroutines may read, with mu. Only Run's goroutine writes it, with mu, and so may read it
// without. ready is the exception.
type shown struct {
	mu         sync.Mutex
	running    map[string]*running // by stream name
	refused    map[string]*waiting // streams that the server does not let run, by name
	unresolved []*waiting          // entries without a stream
	started    bool                // what can run was started
	ready      bool                // see Ready, which writes it
}

// Recorder is what the streams write to.
type Recorder interface {
	watcher.Recorder
	// Begin says by which keys of its entry, as package coverage names them, a stream holds changes back.
	Begin(stream string, heldBackBy []string)
	// End ends the coverage of a stream that is not watched any more, for one of package coverage's reasons.
	End(ctx context.Context, stream, reason string) error
}

// Store is what the streams read from, and whether an earlier one was lost.
type Store interface {
	watcher.Store
	Lost() (bool, error)
	ClearLost() error
	LostNames() ([]string, error)
	SetLostNames([]string) error
}

// parts are what all streams share.
type parts struct {
	client  *client.Client
	store   Store
	rec     Recorder
	outages *outage.Tracker
	m       *metrics.Metrics
	log     *zap.Logger
}

// wanted is a stream that must run, by the config and what the server offers.
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
	done   chan struct{} // closed when the goroutine has ended
	err    error         // why it has ended by itself
}

// New returns a manager that has not started anything. resolver must have been refreshed.
func New(
	client *client.Client, resolver *discovery.Resolver, store Store, rec Recorder, options Options,
	m *metrics.Metrics, log *zap.Logger,
) *Manager {
	resolver.Prefer(func(stream string) bool {
		_, known, err := store.Stream(stream)
		return known && err == nil // a stream that starts reports the error
	})
	return &Manager{
		parts:    parts{client: client, store: store, rec: rec, outages: outage.New(log), m: m, log: log},
		resolver: resolver, options: options,
		requests: make(chan func(context.Context)),
		ended:    make(chan *running),
		stopped:  make(chan struct{}),
		crds:     discovery.NewCRDWatcher(client, log),
		shown:    shown{running: make(map[string]*running), refused: make(map[string]*waiting)},
	}
}

// CheckOptions returns what only the server can say to be wrong with options, one error per fault. Resources that are
// not there are no fault. Safe for concurrent use.
func (m *Manager) CheckOptions(o Options) []error { return m.faults(m.desired(o)) }

// faults is CheckOptions for the streams of options.
func (m *Manager) faults(desired map[string]wanted, errs []error) []error {
	var faults []error
	for _, err := range errs {
		if discovery.IsConfigFault(err) {
			faults = append(faults, err)
		}
	}
	// A stream that could not be made would otherwise be found when others are stopped already.
	scratch := metrics.New("", "")
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		_, err := watcher.NewStream(desired[name].spec, m.client, m.store, m.rec, m.outages, scratch, zap.NewNop())
		if err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Run runs the streams until ctx ends, and returns when all have stopped.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer m.ending.Wait()
	defer cancel()
	defer m.outages.Close()
	defer func() { m.stop(slices.Collect(maps.Values(m.running))) }()
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
		case r := <-m.ended:
			err = m.end(r)
		case request := <-m.requests:
			request(ctx)
		case <-m.crds.Changed():
			m.crds.Plan(time.Since(m.refreshed))
		case <-m.crds.Due():
			m.crds.Asked()
			err = m.rediscover(ctx)
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
	due, recent := false, false // recent: one has not reached the longest pause yet
	for _, w := range m.pending() {
		if !time.Now().Before(w.until) {
			due, recent = true, recent || w.pause < pendingMax
		}
	}
	ago := time.Since(m.refreshed)
	poll := m.openEnded() && ago >= m.crds.PollInterval() || m.mistaken() && ago >= mistakenPoll
	if !due && !poll {
		return nil
	}
	if recent || poll || ago >= pendingMax {
		m.refresh(ctx)
	}
	return m.reconcile(ctx)
}

// mistaken reports whether what a stream has met is not what the server said that it serves. That may have changed.
func (m *Manager) mistaken() bool {
	for _, r := range m.running {
		if failure.BlamesDiscovery(r.stream.Status().Reason) {
			return true
		}
	}
	return false
}

// rediscover asks the server what it serves now that a CRD has changed. What waited for one does not wait any longer.
func (m *Manager) rediscover(ctx context.Context) error {
	m.refresh(ctx)
	if m.Rediscovered != nil {
		m.Rediscovered()
	}
	for _, w := range m.refused {
		if w.reason == failure.ReasonNotFound {
			w.until = time.Now()
		}
	}
	return m.reconcile(ctx)
}

// desired resolves all entries. It returns the streams by name, and for each entry an error if any of its streams is
// missing. Safe for concurrent use.
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

// reconcile starts what is due, and replaces what is to run in another way since the server serves other resources.
func (m *Manager) reconcile(ctx context.Context) error {
	desired, errs := m.desired(m.options)
	var again []*running
	for name, r := range m.running {
		// What the server says of names takes no redaction away: only an edit does.
		if w, is := desired[name]; is && !m.same(r.wanted, w) && !redactsLess(&w.spec, &r.spec) {
			again = append(again, r)
		}
	}
	m.stop(again)
	_, err := m.startAll(ctx, desired, errs)
	return err
}

// stop stops streams and waits for them. Their positions stay where they are, and what they have submitted is written.
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

// end notes that a stream has ended by itself. Only a stream that waits for the server does; any other error ends the
// manager.
func (m *Manager) end(r *running) error {
	m.stop([]*running{r})
	p := new(watcher.PendingError)
	if !errors.As(r.err, &p) {
		return r.err
	}
	name := r.spec.Name
	before := m.refused[name]
	if time.Since(r.since) > pendingMax {
		before = nil // it ran meanwhile
	}
	w := m.postpone(before, name, p.Reason, p.Err)
	w.wanted, w.last = r.wanted, r.stream.Status()
	m.mu.Lock()
	m.refused[name] = w
	m.mu.Unlock()
	return nil
}

// startAll starts what does not run and is not to wait, and notes what cannot run. It returns how many streams that
// waited are not desired any more.
func (m *Manager) startAll(ctx context.Context, desired map[string]wanted, errs []error) (dropped int, err error) {
	if m.owed == nil {
		if err := m.loadOwed(desired, errs); err != nil {
			return 0, err
		}
	}
	dropped = m.dropRefused(desired)
	m.setUnresolved(errs)
	m.mu.Lock()
	for name, r := range m.running { // before another stream brings the same objects
		if w, is := desired[name]; is && r.spec.IDScope != w.spec.IDScope {
			r.spec.IDScope = w.spec.IDScope
			r.stream.Distinguish(w.spec.IDScope)
		}
	}
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if w := m.refused[name]; m.running[name] != nil || w != nil && time.Now().Before(w.until) {
			continue
		}
		if err := m.start(ctx, desired[name]); err != nil {
			return dropped, err
		}
	}
	m.mu.Lock()
	m.started = true
	m.mu.Unlock()
	missing := slices.ContainsFunc(m.pending(), func(w *waiting) bool { return w.reason == failure.ReasonNotFound })
	m.crds.Set(ctx, missing || m.openEnded() || m.mistaken())
	return dropped, nil
}

// start starts a stream.
func (m *Manager) start(ctx context.Context, w wanted) error {
	spec := w.spec
	spec.Owed = m.owed[spec.Name] || m.owed[entryKey(w.entry)]
	s, err := watcher.NewStream(spec, m.client, m.store, m.rec, m.outages, m.m, m.log)
	if err != nil {
		return err
	}
	m.rec.Begin(w.spec.Name, heldBackBy(&w.spec))
	ctx, cancel := context.WithCancel(ctx)
	r := &running{wanted: w, stream: s, since: time.Now(), cancel: cancel, done: make(chan struct{})}
	m.mu.Lock()
	m.running[w.spec.Name] = r
	m.mu.Unlock()
	go func() {
		defer close(r.done)
		r.err = s.Run(ctx)
		select {
		case m.ended <- r:
		case <-ctx.Done():
		}
	}()
	return nil
}

// refresh asks the server what it serves. What it does not say stays as it was.
func (m *Manager) refresh(ctx context.Context) {
	m.refreshed = time.Now()
	err := m.resolver.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	before := m.fault
	m.fault = ""
	if err != nil {
		level := zapcore.WarnLevel
		if !m.Outage().Since.IsZero() {
			level = zapcore.DebugLevel // which explains it
		}
		if m.fault = err.Error(); m.fault != before {
			m.log.Log(level, "discovery is incomplete", zap.Error(err))
		}
	}
}
