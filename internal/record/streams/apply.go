package streams

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"kubejournal/internal/config"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/discovery"
)

// Difference is how many streams other options add, remove, change or leave alone. Pending ones count.
type Difference struct {
	Added, Removed, Changed, Unchanged int
}

// Apply has Run continue with other options and returns when it does. Only streams that the options change are touched:
// one that is not wanted any more is stopped and keeps its position, one that is to run in another way is stopped and
// resumes where it was, a new one is started, or resumes. With the faults of CheckOptions nothing has changed; any
// other error means that the streams, or ctx, have ended.
func (m *Manager) Apply(ctx context.Context, o Options) (d Difference, err error) {
	done := make(chan struct{})
	request := func(ctx context.Context) {
		defer close(done)
		d, err = m.apply(ctx, o)
	}
	select {
	case m.requests <- request:
		<-done // Run answers: all that waits in there ends with its context
		return d, err
	case <-m.stopped:
		return Difference{}, errors.New("apply config: the streams are stopped")
	case <-ctx.Done():
		return Difference{}, ctx.Err()
	}
}

// apply is Apply on Run's goroutine.
func (m *Manager) apply(ctx context.Context, o Options) (Difference, error) {
	desired, errs := m.desired(o)
	if m.namesUnknown(o, errs) {
		m.refresh(ctx)
		desired, errs = m.desired(o)
	}
	if faults := m.faults(desired, errs); len(faults) > 0 {
		return Difference{}, errors.Join(faults...)
	}
	var d Difference
	var stop []*running
	m.mu.Lock()
	for name, r := range m.running {
		w, is := desired[name]
		switch {
		case is && m.same(r.wanted, w):
			r.entry = w.entry
			d.Unchanged++
		case is:
			d.Changed++
			stop = append(stop, r)
		case contains(o.Resources, r.entry) && !m.serves(r.spec.Target):
			// The server does not have it any more. It ends by itself, with its objects' deletions.
			d.Unchanged++
		default:
			d.Removed++
			stop = append(stop, r)
			delete(m.refused, name)
		}
	}
	for name, now := range desired {
		switch w := m.refused[name]; {
		case m.running[name] != nil:
		case w == nil:
			d.Added++
		case m.same(w.wanted, now):
			w.entry = now.entry
			d.Unchanged++
		default:
			d.Changed++
			delete(m.refused, name) // and may be started at once
		}
	}
	m.mu.Unlock()

	m.stop(stop)
	for _, r := range stop {
		if name := r.spec.Name; desired[name].spec.Name == "" {
			m.m.ForgetStream(name)
			m.ending.Go(func() { // the output may be blocked
				// it fails only where ctx has ended, and with it all coverage
				_ = m.rec.End(ctx, name, coverage.Removed)
			})
			m.log.Info("no longer journalled, its position is kept", zap.String("stream", name))
		}
	}
	m.options = o
	dropped, err := m.startAll(ctx, desired, errs)
	d.Removed += dropped
	return d, err
}

// namesUnknown reports whether new entries, whose errors are errs, name what the server did not have when it was asked
// last.
func (m *Manager) namesUnknown(o Options, errs []error) bool {
	for i, err := range errs {
		if errors.As(err, new(*discovery.NotFoundError)) && !contains(m.options.Resources, o.Resources[i]) {
			return true
		}
	}
	return false
}

// same reports whether the running stream before already does what now asks for, so that it need not be restarted. That
// the server prefers another version is no reason to, as long as it still serves the old one; and ids change while it
// runs.
func (m *Manager) same(before, now wanted) bool {
	was, is := before.spec, now.spec
	is.IDScope = was.IDScope
	if was.Target.Resource.Version != is.Target.Resource.Version && sameEntry(before.entry, now.entry) &&
		m.serves(was.Target) {
		is.Target.Resource.Version = was.Target.Resource.Version
	}
	return reflect.DeepEqual(was, is)
}

// serves reports whether the server serves a resource in that version.
func (m *Manager) serves(t client.Target) bool {
	r := t.Resource
	_, err := m.resolver.Resolve(config.Resource{Name: r.Resource, Group: &r.Group, Version: r.Version})
	return err == nil
}

// contains reports whether an entry is among others, at any place.
func contains(entries []config.Resource, entry config.Resource) bool {
	return slices.ContainsFunc(entries, func(other config.Resource) bool { return sameEntry(entry, other) })
}

// sameEntry compares what two entries say, and not where they are.
func sameEntry(a, b config.Resource) bool {
	a.File, a.Line, a.Entry = b.File, b.Line, b.Entry
	return reflect.DeepEqual(a, b)
}

// openEnded reports whether the config may get more streams at any time.
func (m *Manager) openEnded() bool {
	return slices.ContainsFunc(m.options.Resources, config.Resource.IsWildcard)
}
