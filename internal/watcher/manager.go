package watcher

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/metrics"
)

const (
	// pendingFirst is how soon what is pending is tried again; the pause
	// doubles up to pendingMax.
	pendingFirst = 2 * time.Second
	pendingMax   = 15 * time.Second
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
	Silence       time.Duration // as in Spec
}

// Manager runs the streams that the entries of a config come to. An entry
// whose resource the server does not have, or does not let this identity
// watch, is pending: tried again, in nobody's way.
//
// The goroutine of Run starts and stops all streams, also those of other options
// that Apply hands over.
type Manager struct {
	client   *kubeclient.Client
	resolver *discovery.Resolver
	store    Store
	rec      Recorder
	m        *metrics.Metrics
	log      *zap.Logger

	options Options // Run's, from its beginning on
	ended   chan ending
	wishes  chan wish
	stopped chan struct{} // closed when Run ends
	// crds says when the server may serve other resources. Run's, like all down to mu.
	crds *discovery.CRDWatcher
	// refreshed is when the server was asked last what it serves.
	refreshed time.Time
	// nothingLost says that no stream is owed the GAP of a lost checkpoint any more.
	nothingLost bool
	// incomplete is the fault of discovery that was told of last.
	incomplete string

	mu         sync.Mutex
	running    map[string]*running // by stream name; guarded by mu
	refused    map[string]*waiting // streams that the server does not let run, by name; guarded by mu
	unresolved map[int]*waiting    // entries that come to no stream, by index; guarded by mu
	unknown    map[string]bool     // redact rules that were told of, by resource; guarded by mu
	started    bool                // what can run was started; guarded by mu
}

// wanted is a stream that the config and the server come to.
type wanted struct {
	entry config.Resource // that it comes from
	spec  Spec
}

// running is a stream with its goroutine.
type running struct {
	wanted
	stream *Stream
	since  time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

// wish is other options, and where to tell what came of them.
type wish struct {
	options Options
	told    chan outcomeOfWish
}

type outcomeOfWish struct {
	difference Difference
	err        error
}

// ending is how a stream's goroutine ended.
type ending struct {
	name string
	err  error
}

// waiting is why something is pending, and when it is tried again.
type waiting struct {
	wanted        // spec is empty where it comes to no stream
	name   string // for people
	reason string
	since  time.Time
	pause  time.Duration
	until  time.Time
	last   Status // of the stream, where one ran
}

// NewManager returns a manager that has not started anything. resolver must
// have been refreshed.
func NewManager(client *kubeclient.Client, resolver *discovery.Resolver, store Store, rec Recorder, options Options, m *metrics.Metrics, log *zap.Logger) *Manager {
	return &Manager{
		client: client, resolver: resolver, store: store, rec: rec, options: options, m: m, log: log,
		ended:      make(chan ending),
		wishes:     make(chan wish),
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
		if isConfigFault(err) {
			faults = append(faults, err)
		}
	}
	// A stream that could not be made would otherwise be found when others are
	// stopped already.
	scratch := metrics.New("", "")
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if _, err := NewStream(desired[name].spec, m.client, m.store, m.rec, scratch, zap.NewNop()); err != nil {
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
		case w := <-m.wishes:
			difference, why := m.apply(ctx, w.options)
			w.told <- outcomeOfWish{difference, why}
		case <-m.crds.Changed():
			m.crds.Plan(time.Since(m.refreshed))
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
	poll := m.openEnded() && time.Since(m.refreshed) >= m.crds.PollInterval()
	if !due && !poll {
		return nil
	}
	if anew || poll || time.Since(m.refreshed) >= pendingMax {
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
		if w.reason == reasonNotFound {
			w.until = time.Now()
		}
	}
	m.mu.Unlock()
	return m.reconcile(ctx)
}

// clearLost ends the time in which a stream without a position counts as one that
// a lost checkpoint had: once all that the config names are past their first sync,
// and so have a position that is committed. A resource that is added later is new.
func (m *Manager) clearLost() {
	m.mu.Lock()
	waiting := len(m.unresolved)
	for name := range m.refused {
		if m.running[name] == nil {
			waiting++
		}
	}
	m.mu.Unlock()
	if m.nothingLost || waiting > 0 || m.Synced() != nil {
		return
	}
	lost, err := m.store.Lost()
	if err == nil && lost {
		err = m.store.ClearLost()
	}
	if err != nil {
		m.log.Error("checkpoint cannot be committed, trying again", zap.Error(err))
		return
	}
	m.nothingLost = true
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

// isConfigFault tells whether only the user can mend an error.
func isConfigFault(err error) bool { return discovery.IsConfigFault(err) }

// reasonOf is one word for why an entry comes to no stream.
func reasonOf(err error) string {
	switch {
	case isConfigFault(err):
		return "ConfigFault"
	case errors.As(err, new(*discovery.NotFoundError)):
		return reasonNotFound
	case errors.As(err, new(*discovery.UnwatchableError)):
		return "NotWatchable"
	case errors.As(err, new(*discovery.AmbiguousError)):
		return "Ambiguous"
	}
	return "Undiscovered"
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

// redactsLess tells whether a spec leaves something as it is that another redacts.
func redactsLess(s, than *Spec) bool {
	return than.Shape.Secret && !s.Shape.Secret ||
		slices.ContainsFunc(than.Shape.Redact, func(path string) bool { return !slices.Contains(s.Shape.Redact, path) })
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

// dropRefused forgets the streams that wait and that nothing wants any more.
func (m *Manager) dropRefused(desired map[string]wanted) (dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.refused {
		if _, is := desired[name]; !is {
			delete(m.refused, name)
			if m.running[name] == nil {
				m.m.ForgetStream(name)
				dropped++
			}
		}
	}
	return dropped
}

// startable tells whether a stream does not run and is not to wait.
func (m *Manager) startable(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.refused[name]
	return m.running[name] == nil && (w == nil || !time.Now().Before(w.until))
}

// start starts a stream.
func (m *Manager) start(ctx context.Context, w wanted) error {
	s, err := NewStream(w.spec, m.client, m.store, m.rec, m.m, m.log)
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

// spec says how a resolved stream reads and writes. It follows from what it is
// given and from what the server serves, so that a stream whose spec is still the
// same need not be touched.
func (m *Manager) spec(o Options, d discovery.Stream) Spec {
	// In one order, so that another order in the config is the same.
	shape := event.Shape{Drop: sorted(o.DropFields)}
	resource := d.GVR.GroupResource()
	shape.Secret = o.RedactSecrets && resource == schema.GroupResource{Resource: "secrets"}
	for _, r := range o.Redact {
		if m.applies(r, resource) {
			shape.Redact = append(shape.Redact, r.Fields...)
		}
	}
	shape.Redact = sorted(shape.Redact)
	spec := Spec{
		Name: d.Name(), Kind: d.Kind, Cluster: o.Cluster, ClusterUID: o.ClusterUID, Shape: shape,
		Silence:     o.Silence,
		SkipInitial: d.Initial == config.Skip,
		Target: kubeclient.Target{
			Resource: d.GVR, Namespace: d.Namespace,
			LabelSelector: d.LabelSelector, FieldSelector: d.FieldSelector,
		},
		MaxLineBytes: int(o.MaxLineBytes),
	}
	spec.asks(d.Entry)
	if !d.Namespaced {
		spec.Selection.ExcludeNamespaces = nil // as its objects are in none
	}
	return spec
}

// sorted returns paths in their order, each once; nil for none.
func sorted(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// applies tells whether a redact rule is meant for a resource. In doubt it is: a
// rule holds for each resource that has its name in one way or another.
func (m *Manager) applies(rule config.Redact, resource schema.GroupResource) bool {
	if strings.EqualFold(rule.Resource, resource.Resource) {
		return true
	}
	fits, known := m.resolver.Fits(rule.Resource, resource)
	if !known {
		m.warnUnknown("redact rule names no resource that the server has now", rule.Entry, rule.Resource)
	}
	return fits
}

// warnUnknown says once that a name that is to keep something out of the journal
// means nothing now: it may be a slip.
func (m *Manager) warnUnknown(what, entry, name string) {
	m.mu.Lock()
	told := m.unknown[name]
	m.unknown[name] = true
	m.mu.Unlock()
	if !told {
		m.log.Warn(what, zap.String("entry", entry), zap.String("resource", name))
	}
}

// end takes note that a stream has ended by itself. Only a stream that waits
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
	p := new(PendingError)
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

// setUnresolved notes why entries come to no stream; nil: they come to some. An
// entry that has moved within the config waits for what it waited for.
func (m *Manager) setUnresolved(errs []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.unresolved
	m.unresolved = make(map[int]*waiting)
	for i, err := range errs {
		if err == nil {
			continue
		}
		entry := m.options.Resources[i]
		old := before[i]
		if old == nil || !sameEntry(old.entry, entry) {
			old = nil
			for _, w := range before {
				if sameEntry(w.entry, entry) {
					old = w
				}
			}
		}
		m.unresolved[i] = m.wait(old, entry.Name, reasonOf(err), err)
		m.unresolved[i].entry = entry
	}
	m.showUnresolved(before)
}

// showUnresolved has the metrics say that entries wait, as if each were a stream
// of its name, so that nobody waits for it unnoticed. before are those that waited
// until now. A stream that has the name speaks for itself. The caller holds mu.
func (m *Manager) showUnresolved(before map[int]*waiting) {
	waits := make(map[string]bool)
	for _, w := range m.unresolved {
		waits[w.name] = true
		if m.running[w.name] == nil {
			m.m.StreamState.WithLabelValues(w.name, string(Pending)).Set(1)
		}
	}
	for _, w := range before {
		if !waits[w.name] && m.running[w.name] == nil && m.refused[w.name] == nil {
			m.m.ForgetStream(w.name)
		}
	}
}

// wait says when something pending is tried again, at longer and longer
// intervals. before is what it waited for until now.
func (m *Manager) wait(before *waiting, name, reason string, err error) *waiting {
	w := &waiting{name: name, reason: reason, since: time.Now(), pause: pendingFirst}
	if before != nil {
		w.since, w.pause = before.since, min(2*before.pause, pendingMax)
	}
	w.until = time.Now().Add(w.pause)
	if before == nil || before.reason != reason {
		m.log.Warn("pending: cannot be journalled now, trying again",
			zap.String("resource", name), zap.String("reason", reason), zap.Error(err))
	}
	return w
}

// due tells whether anything pending is to be tried again, and whether some of
// it is so for the first few times.
func (m *Manager) due() (due, anew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	add := func(w *waiting) {
		if !now.Before(w.until) {
			due, anew = true, anew || w.pause < pendingMax
		}
	}
	for name, w := range m.refused {
		if m.running[name] == nil {
			add(w)
		}
	}
	for _, w := range m.unresolved {
		add(w)
	}
	return due, anew
}

// refresh asks the server what it serves. What it does not tell stays as it was.
func (m *Manager) refresh(ctx context.Context) {
	m.refreshed = time.Now()
	err := m.resolver.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	told := ""
	if err != nil {
		told = err.Error()
	}
	if told != "" && told != m.incomplete {
		m.log.Warn("discovery is incomplete", zap.Error(err))
	}
	m.incomplete = told
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
