package watcher

import (
	"context"
	"errors"
	"fmt"
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
	SpoolDir      string // for what a relist holds back
	// CheckpointLost says that the checkpoint was damaged or is missing beside
	// a journal: each stream begins with a GAP.
	CheckpointLost bool
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
	// gaps holds, for each stream that has run, the reason of the GAP that it
	// still owes. Owned by Run.
	gaps map[string]string

	mu      sync.Mutex
	running map[string]*running // by stream name; guarded by mu
	pending map[string]waiting  // by stream name, or by entry while that is unknown; guarded by mu
	started bool                // what can run was started; guarded by mu
}

// running is a stream with its goroutine.
type running struct {
	stream *Stream
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
	name           string // for people
	reason, detail string
	pause          time.Duration
	until          time.Time
}

// NewManager returns a manager that has not started anything. resolver must
// have been refreshed.
func NewManager(client *Client, resolver *discovery.Resolver, store Store, rec Recorder, options Options, m *metrics.Metrics, log *zap.Logger) *Manager {
	return &Manager{
		client: client, resolver: resolver, store: store, rec: rec, options: options, m: m, log: log,
		ended:   make(chan ending),
		gaps:    make(map[string]string),
		running: make(map[string]*running),
		pending: make(map[string]waiting),
	}
}

// Check returns what only the server can tell to be wrong with the config, one
// error per fault. Resources that are not there are no fault.
func (m *Manager) Check() []error {
	_, faults := m.desired()
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-m.ended:
			if err := m.end(e); err != nil {
				return err
			}
		case <-tick.C:
			if !m.due() {
				continue
			}
			if err := m.resolver.Refresh(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("discovery is incomplete", zap.Error(err))
			}
			if err := m.reconcile(ctx); err != nil {
				return err
			}
		}
	}
}

// desired resolves all entries: the streams by name, and what is wrong with the
// config. Entries that cannot be resolved for now become pending.
func (m *Manager) desired() (map[string]discovery.Stream, []error) {
	var (
		streams = make(map[string]discovery.Stream)
		owner   = make(map[string]config.Resource)
		faults  []error
	)
	for _, entry := range m.options.Resources {
		resolved, err := m.resolver.Resolve(entry)
		if err == nil {
			m.setPending(entry.Entry, nil)
		}
		if scope := new(discovery.ScopeError); errors.As(err, &scope) {
			faults = append(faults, err)
			continue
		}
		if err != nil {
			m.setPending(entry.Entry, &waiting{name: entry.Name, reason: reasonOf(err), detail: err.Error()})
			continue
		}
		for _, s := range resolved {
			if other, taken := owner[s.Name()]; taken {
				faults = append(faults, fmt.Errorf("%s: %s (%s) and %s (%s) come to the same stream %s; remove one of them",
					where(entry), other.Entry, other.Name, entry.Entry, entry.Name, s.Name()))
				continue
			}
			owner[s.Name()] = entry
			streams[s.Name()] = s
		}
	}
	return streams, faults
}

func where(e config.Resource) string {
	if e.Line == 0 {
		return "command line"
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// reasonOf is one word for why an entry cannot be resolved.
func reasonOf(err error) string {
	switch {
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
	desired, faults := m.desired()
	for _, err := range faults {
		m.log.Error("config fault", zap.Error(err))
	}
	names := make([]string, 0, len(desired))
	for name := range desired {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if m.isRunning(name) || !m.isDue(name) {
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

// start starts a stream.
func (m *Manager) start(ctx context.Context, name string, d discovery.Stream) error {
	gap, ran := m.gaps[name]
	if !ran && m.options.CheckpointLost {
		gap = reasonCheckpointLost
	}
	s, err := NewStream(m.spec(name, d), m.client, m.store, m.rec, gap, m.m, m.log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{stream: s, cancel: cancel, done: make(chan struct{})}
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
		if named, err := m.resolver.Lookup(r.Resource); err == nil && named == resource {
			shape.Redact = append(shape.Redact, r.Fields...)
		}
	}
	return Spec{
		Name: name, Kind: d.Kind, Cluster: m.options.Cluster, Shape: shape, SpoolDir: m.options.SpoolDir,
		SkipInitial: d.Initial == config.Skip,
		Target: Target{
			Resource: d.GVR, Namespace: d.Namespace,
			LabelSelector: d.LabelSelector, FieldSelector: d.FieldSelector,
		},
	}
}

// end takes note that a stream has ended by itself. Only a stream that waits
// for the server does; any other error ends the manager.
func (m *Manager) end(e ending) error {
	m.mu.Lock()
	r := m.running[e.name]
	delete(m.running, e.name)
	m.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
		m.gaps[e.name] = r.stream.gap
	}
	p := new(PendingError)
	if !errors.As(e.err, &p) {
		return e.err
	}
	m.setPending(e.name, &waiting{name: e.name, reason: p.Reason, detail: p.Err.Error()})
	return nil
}

// setPending notes why name is pending; nil: it is not. What stays pending is
// tried at longer and longer intervals.
func (m *Manager) setPending(name string, w *waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, was := m.pending[name]
	if w == nil {
		delete(m.pending, name)
		return
	}
	w.pause = pendingFirst
	if was && time.Since(before.until) < 2*pendingMax {
		w.pause = min(2*before.pause, pendingMax)
	}
	w.until = time.Now().Add(w.pause)
	m.pending[name] = *w
	if !was || before.reason != w.reason {
		m.log.Warn("pending: cannot be journalled now, trying again",
			zap.String("resource", w.name), zap.String("reason", w.reason), zap.String("error", w.detail))
	}
}

// due tells whether anything pending is to be tried again.
func (m *Manager) due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, w := range m.pending {
		if m.running[name] == nil && !time.Now().Before(w.until) {
			return true
		}
	}
	return false
}

func (m *Manager) isDue(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, is := m.pending[name]
	return !is || !time.Now().Before(w.until)
}

func (m *Manager) isRunning(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[name] != nil
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

// Synced returns nil once every stream that is not pending is past its first
// sync. Safe for concurrent use.
func (m *Manager) Synced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return errors.New("not started yet")
	}
	var behind []string
	for name, r := range m.running {
		if s := r.stream.Status(); s.State != Pending && !s.Synced {
			behind = append(behind, name)
		}
	}
	if len(behind) > 0 {
		slices.Sort(behind)
		return fmt.Errorf("not synced yet: %s", strings.Join(behind, ", "))
	}
	return nil
}

// StreamStatus is how one stream or pending entry stands.
type StreamStatus struct {
	Name string
	Status
}

// Streams tells how everything stands, by name. Safe for concurrent use.
func (m *Manager) Streams() []StreamStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []StreamStatus
	for name, r := range m.running {
		all = append(all, StreamStatus{name, r.stream.Status()})
	}
	for name, w := range m.pending {
		if m.running[name] == nil {
			all = append(all, StreamStatus{w.name, Status{State: Pending, Reason: w.reason}})
		}
	}
	slices.SortFunc(all, func(a, b StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}
