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
	Resources     []config.Resource
	RedactSecrets bool
	Redact        []config.Redact
	DropFields    []string
	MaxLineBytes  int64         // as in event.Line
	SpoolDir      string        // for what a relist holds back
	Silence       time.Duration // as in Spec
}

// Manager runs the streams that the entries of a config come to. An entry
// whose resource the server does not have, or does not let this identity
// watch, is pending: tried again, in nobody's way.
type Manager struct {
	client   *Client
	resolver *discovery.Resolver
	store    Store
	rec      Recorder
	options  Options
	m        *metrics.Metrics
	log      *zap.Logger

	ended chan ending
	// nothingLost says that no stream is owed the GAP of a lost checkpoint any
	// more. Run's.
	nothingLost bool
	// incomplete is the fault of discovery that was told of last; of Run only.
	incomplete string

	mu         sync.Mutex
	running    map[string]*running // by stream name; guarded by mu
	refused    map[string]*waiting // streams that the server does not let run, by name; guarded by mu
	unresolved map[int]*waiting    // entries that come to no stream, by index; guarded by mu
	unknown    map[string]bool     // redact rules that were told of; guarded by mu
	started    bool                // what can run was started; guarded by mu
}

// running is a stream with its goroutine.
type running struct {
	stream *Stream
	since  time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

// ending is how a stream's goroutine ended.
type ending struct {
	name string
	err  error
}

// waiting is why something is pending, and when it is tried again.
type waiting struct {
	name   string // for people
	reason string
	since  time.Time
	pause  time.Duration
	until  time.Time
	last   Status // of the stream, where one ran
}

// NewManager returns a manager that has not started anything. resolver must
// have been refreshed.
func NewManager(client *Client, resolver *discovery.Resolver, store Store, rec Recorder, options Options, m *metrics.Metrics, log *zap.Logger) *Manager {
	return &Manager{
		client: client, resolver: resolver, store: store, rec: rec, options: options, m: m, log: log,
		ended:      make(chan ending),
		running:    make(map[string]*running),
		refused:    make(map[string]*waiting),
		unresolved: make(map[int]*waiting),
		unknown:    make(map[string]bool),
	}
}

// Check returns what only the server can tell to be wrong with the config, one
// error per fault. Resources that are not there are no fault.
func (m *Manager) Check() []error {
	var faults []error
	_, errs := m.desired()
	for _, err := range errs {
		if isConfigFault(err) {
			faults = append(faults, err)
		}
	}
	return faults
}

// Run runs the streams until ctx ends, and returns when all have stopped.
func (m *Manager) Run(ctx context.Context) error {
	defer m.stopAll()
	tick := time.NewTicker(pendingFirst)
	defer tick.Stop()
	if err := m.reconcile(ctx); err != nil {
		return err
	}
	var refreshed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-m.ended:
			if err := m.end(e); err != nil {
				return err
			}
		case <-tick.C:
			m.clearLost()
			due, anew := m.due()
			if !due {
				continue
			}
			if anew || time.Since(refreshed) >= pendingMax {
				refreshed = time.Now()
				m.refresh(ctx)
			}
			if err := m.reconcile(ctx); err != nil {
				return err
			}
		}
	}
}

// clearLost ends the time in which a stream without a position counts as one that
// a lost checkpoint had: once all that the config names are past their first sync,
// and so have a position that is committed. A resource that is added later is new.
func (m *Manager) clearLost() {
	m.mu.Lock()
	waiting := len(m.refused) + len(m.unresolved)
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
// comes to none, or not to all, nil where it does.
func (m *Manager) desired() (map[string]discovery.Stream, []error) {
	streams := make(map[string]discovery.Stream)
	errs := make([]error, len(m.options.Resources))
	for i, resolved := range m.resolver.ResolveAll(m.options.Resources) {
		errs[i] = resolved.Err
		for _, s := range resolved.Streams {
			streams[s.Name()] = s
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
		return "NotFound"
	case errors.As(err, new(*discovery.UnwatchableError)):
		return "NotWatchable"
	case errors.As(err, new(*discovery.AmbiguousError)):
		return "Ambiguous"
	}
	return "Undiscovered"
}

// reconcile starts what should run, does not, and is due.
func (m *Manager) reconcile(ctx context.Context) error {
	desired, errs := m.desired()
	for i, err := range errs {
		m.setUnresolved(i, err)
	}
	names := slices.Sorted(maps.Keys(desired))
	m.mu.Lock()
	maps.DeleteFunc(m.refused, func(name string, _ *waiting) bool {
		_, wanted := desired[name]
		return !wanted
	})
	m.mu.Unlock()
	for _, name := range names {
		if !m.startable(name) {
			continue
		}
		if err := m.start(ctx, name, desired[name]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.started = true
	m.mu.Unlock()
	return nil
}

// startable tells whether a stream does not run and is not to wait.
func (m *Manager) startable(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.refused[name]
	return m.running[name] == nil && (w == nil || !time.Now().Before(w.until))
}

// start starts a stream.
func (m *Manager) start(ctx context.Context, name string, d discovery.Stream) error {
	s, err := NewStream(m.spec(name, d), m.client, m.store, m.rec, m.m, m.log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{stream: s, since: time.Now(), cancel: cancel, done: make(chan struct{})}
	m.mu.Lock()
	m.running[name] = r
	m.mu.Unlock()
	go func() {
		defer close(r.done)
		err := s.Run(ctx)
		select {
		case m.ended <- ending{name, err}:
		case <-ctx.Done():
		}
	}()
	return nil
}

// spec says how a resolved stream reads and writes.
func (m *Manager) spec(name string, d discovery.Stream) Spec {
	shape := event.Shape{Drop: m.options.DropFields}
	resource := d.GVR.GroupResource()
	shape.Secret = m.options.RedactSecrets && resource == schema.GroupResource{Resource: "secrets"}
	for _, r := range m.options.Redact {
		if m.applies(r, resource) {
			shape.Redact = append(shape.Redact, r.Fields...)
		}
	}
	spec := Spec{
		Name: name, Kind: d.Kind, Cluster: m.options.Cluster, Shape: shape,
		SpoolDir: m.options.SpoolDir, Silence: m.options.Silence,
		SkipInitial: d.Initial == config.Skip,
		Target: Target{
			Resource: d.GVR, Namespace: d.Namespace,
			LabelSelector: d.LabelSelector, FieldSelector: d.FieldSelector,
		},
		MaxLineBytes: int(m.options.MaxLineBytes),
	}
	spec.asks(d.Entry)
	return spec
}

// applies tells whether a redact rule is meant for a resource. In doubt it is:
// a rule by a bare name holds for the resources of that name in all groups, and
// one that fits several holds for each.
func (m *Manager) applies(rule config.Redact, resource schema.GroupResource) bool {
	if strings.EqualFold(rule.Resource, resource.Resource) {
		return true
	}
	named, err := m.resolver.Lookup(rule.Resource)
	if err == nil {
		return named == resource
	}
	m.mu.Lock()
	told := m.unknown[rule.Entry]
	m.unknown[rule.Entry] = true
	m.mu.Unlock()
	if !told {
		m.log.Warn("redact rule names no resource that the server has now",
			zap.String("entry", rule.Entry), zap.String("resource", rule.Resource), zap.Error(err))
	}
	ambiguous := new(discovery.AmbiguousError)
	return errors.As(err, &ambiguous) && slices.ContainsFunc(ambiguous.Matches, func(r schema.GroupVersionResource) bool {
		return r.GroupResource() == resource
	})
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
	m.refused[e.name] = m.wait(before, e.name, p.Reason, p.Err)
	if r != nil {
		m.refused[e.name].last = r.stream.Status()
	}
	return nil
}

// setUnresolved notes why an entry comes to no stream; nil: it comes to some.
func (m *Manager) setUnresolved(i int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.unresolved, i)
		return
	}
	m.unresolved[i] = m.wait(m.unresolved[i], m.options.Resources[i].Name, reasonOf(err), err)
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
	all := m.running
	m.running = make(map[string]*running)
	m.mu.Unlock()
	for _, r := range all {
		r.cancel()
	}
	for _, r := range all {
		<-r.done
	}
}
