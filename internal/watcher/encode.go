package watcher

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/changes"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/recorder"
)

// encoder turns a stream's events into lines: it decides which are written, and what they say beside the object. A stream
// that is asked for nothing but its objects has neither selector nor previous versions, and its bytes go from the wire to
// the line.
type encoder struct {
	render   *event.Renderer
	sel      *selector      // nil: everything is written
	previous *changes.Store // nil: nothing is compared
	form     event.Line
	filtered prometheus.Counter // events that are held back
	tracked  int                // objects that are known, by what events say; each list corrects it
	gauge    prometheus.Gauge   // the sum of tracked over the streams of the resource
	last     event.Object       // scratch: the previous version of an object that is gone
	unusable map[string]bool    // objects that were logged as such
}

// newEncoder returns what makes the stream's lines.
func (s *Stream) newEncoder() (e *encoder, err error) {
	spec, group, resource := &s.spec, s.resource.Group, s.resource.Resource
	e = &encoder{
		render: s.render, form: event.Line{Payload: spec.Payload, MaxBytes: spec.MaxLineBytes},
		gauge: s.m.Tracked.WithLabelValues(group, resource), filtered: s.m.Filtered.WithLabelValues(group, resource), unusable: make(map[string]bool),
	}
	if only := spec.Selection; only.Types != nil || only.ExcludeNamespaces != nil || only.Filter != "" {
		if e.sel, err = newSelector(only, s.m.FilterErrors.WithLabelValues(group, resource), s.log); err != nil {
			return nil, err
		}
	}
	e.previous, err = changes.New(changes.Config{
		Stream: spec.Name, Changes: spec.Changes, IgnoreFields: spec.IgnoreFields, Shape: spec.Shape, Payload: spec.Payload,
		ExcludeNamespaces: spec.Selection.ExcludeNamespaces,
	}, s.store, s.producer.Committed, s.log)
	return e, err
}

// maxWarned bounds how many unusable objects a stream remembers to have logged.
const maxWarned = 1024

// scan reads an object as the server sent it. One that no line can hold must not stall its stream: where it can be named,
// it takes the way of all others, as an event.Object that is Unusable. What cannot be named either is a bad frame.
func (s *Stream) scan(raw []byte) error {
	o := &s.object
	err := s.render.Scan(raw, o)
	if err == nil {
		return nil
	}
	if err = s.render.Identify(raw, o, err); err != nil {
		return fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
	}
	s.m.Unusable.WithLabelValues(s.resource.Group, s.resource.Resource).Inc()
	object := string(o.Namespace) + "/" + string(o.Name)
	logged := s.encoder.unusable
	if logged[object] {
		return nil
	}
	if len(logged) >= maxWarned {
		clear(logged)
	}
	logged[object] = true
	s.log.Warn("object is unusable, its line has no object", zap.String("namespace", string(o.Namespace)), zap.String("name", string(o.Name)),
		zap.String("uid", string(o.UID)), zap.String("resourceVersion", string(o.ResourceVersion)),
		zap.String("reason", o.Unusable.Reason), zap.Error(o.Unusable.Err))
	return nil
}

// add writes the line about a scanned object into the batch, unless it is held back, and returns the transition.
func (e *encoder) add(b *recorder.Batch, l event.Line, o *event.Object) (checkpoint.Transition, error) {
	t := transition(l, o)
	value, err := e.encode(b, l, o, &t)
	if err != nil {
		return t, err
	}
	if t.HeldBack {
		e.filtered.Inc()
	}
	e.know(b, &t, value)
	return t, nil
}

// addSilently takes an object as known without a line.
func (e *encoder) addSilently(b *recorder.Batch, l event.Line, o *event.Object) (checkpoint.Transition, error) {
	t := transition(l, o)
	t.Withheld = !e.sel.excludes(o.Namespace) && !e.sel.matches(event.Added, o)
	var value []byte
	if e.stores(o) {
		if _, err := e.previous.Compare(changes.Version{}, o); err != nil {
			return t, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
		}
		value = e.previous.Value(t.Withheld)
	}
	e.know(b, &t, value)
	return t, nil
}

// addGone writes the line about an object that a list has shown to be gone.
func (e *encoder) addGone(b *recorder.Batch, k checkpoint.Known, silently bool) (checkpoint.Transition, error) {
	t := checkpoint.Transition{Type: event.Deleted, Origin: event.FromRelist, HeldBack: true, Namespace: []byte(k.Namespace), Name: []byte(k.Name)}
	switch {
	case silently:
	case e.sel.excludes(t.Namespace), !e.sel.matchesGone(k.Withheld), !e.sel.wants(event.Deleted):
		e.filtered.Inc()
	default:
		before, err := e.before(t.Namespace, t.Name)
		if err != nil {
			return t, err
		}
		now := time.Now()
		lines, err := e.appendGone(b.Lines(), now, k, before)
		if err != nil {
			return t, err
		}
		b.AddLine(lines, t.Type, t.Origin, now)
		t.HeldBack = false
	}
	e.know(b, &t, nil)
	return t, nil
}

// transition is that of an event without a line.
func transition(l event.Line, o *event.Object) checkpoint.Transition {
	return checkpoint.Transition{
		Type: l.Type, Origin: l.Origin, HeldBack: true,
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}
}

// know adds to the batch what is stored of an object behind its transition; no value leaves what was stored before.
func (e *encoder) know(b *recorder.Batch, t *checkpoint.Transition, value []byte) {
	switch t.Type {
	case event.Added:
		e.track(1)
	case event.Deleted:
		e.track(-1)
		if e.previous != nil {
			e.previous.Remove(&b.Changes, b.Number(), t.Namespace, t.Name)
		}
		return
	}
	if len(value) > 0 {
		e.previous.Put(&b.Changes, b.Number(), t.Namespace, t.Name, value)
	}
}

// track counts known objects.
func (e *encoder) track(n int) {
	e.tracked += n
	e.gauge.Add(float64(n))
}

// encode adds the line about a scanned object to the batch, or has t say what holds it back. It returns what is to be
// stored of the object; nil leaves what was stored before.
func (e *encoder) encode(b *recorder.Batch, l event.Line, o *event.Object, t *checkpoint.Transition) (value []byte, err error) {
	if e.sel.excludes(o.Namespace) {
		return nil, nil
	}
	var before changes.Version
	compares := e.previous != nil && l.Type != event.Deleted && o.Unusable == nil
	if compares {
		if l.Type == event.Modified {
			if before, err = e.before(o.Namespace, o.Name); err != nil {
				return nil, err
			}
		}
		same, err := e.previous.Compare(before, o)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
		}
		if same {
			t.Withheld = before.Withheld
			return nil, nil
		}
	}
	t.Withheld = !e.sel.matches(l.Type, o)
	t.HeldBack = t.Withheld || !e.sel.wants(l.Type)
	if !t.HeldBack {
		lines, err := e.appendLine(b.Lines(), l, o, before)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
		}
		b.AddLine(lines, l.Type, l.Origin, l.Received)
	}
	switch {
	case compares:
		return e.previous.Value(t.Withheld), nil
	case e.previous != nil && l.Type != event.Deleted:
		return e.previous.Unknown(t.Withheld), nil
	}
	return nil, nil
}

// appendLine appends the line about a scanned object, of which before is stored.
func (e *encoder) appendLine(dst []byte, l event.Line, o *event.Object, before changes.Version) ([]byte, error) {
	l.Payload, l.MaxBytes = e.form.Payload, e.form.MaxBytes
	if before.Object != nil {
		l.Changes = e.previous.Changes(before)
	}
	return e.render.AppendLine(dst, l, o)
}

// appendGone appends the line about an object that is gone, of which before is stored.
func (e *encoder) appendGone(dst []byte, now time.Time, k checkpoint.Known, before changes.Version) ([]byte, error) {
	var o *event.Object
	if before.Object != nil && e.render.Scan(before.Object, &e.last) == nil {
		o = &e.last
	}
	return e.render.AppendGone(dst, now, k, e.form, o)
}

// stores reports whether the version of an object is stored.
func (e *encoder) stores(o *event.Object) bool {
	return e.previous != nil && o.Unusable == nil && !e.sel.excludes(o.Namespace)
}

// before returns what is stored of an object.
func (e *encoder) before(namespace, name []byte) (changes.Version, error) {
	if e.previous == nil {
		return changes.Version{}, nil
	}
	v, err := e.previous.Get(namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", errStore, err)
	}
	return v, err
}

// storeMissing stores an object at a version that the reader knows, unless that is stored.
func (e *encoder) storeMissing(b *recorder.Batch, o *event.Object, withheld bool) error {
	if !e.stores(o) {
		return nil
	}
	before, err := e.before(o.Namespace, o.Name)
	if err != nil {
		return err
	}
	value, err := e.previous.Missing(before, o, withheld)
	if err != nil {
		return fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
	}
	if value != nil {
		e.previous.Put(&b.Changes, b.Number(), o.Namespace, o.Name, value)
	}
	return nil
}

// reset drops what was not committed: the checkpoint has all that was submitted.
func (e *encoder) reset() {
	if e.previous != nil {
		e.previous.Reset()
	}
}

// complete adds to the batch that ends a list that all known objects are stored.
func (e *encoder) complete(b *recorder.Batch) {
	if e.previous != nil {
		e.previous.Complete(&b.Changes, b.Number())
	}
}
