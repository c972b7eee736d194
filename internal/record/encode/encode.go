// Package encode turns the objects of a stream into lines.
package encode

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/previous"
	"kubejournal/internal/record/recorder"
)

// Encoder turns a stream's events into lines: it decides which are written, and what they say beside the object.
type Encoder struct {
	render    *object.Renderer
	sel       *selector
	previous  *previous.Store // nil: nothing is compared
	writers   writers
	form      object.Line
	filtered  prometheus.Counter // events that are held back
	tracked   int                // objects that are known, by what events say; each list corrects it
	gauge     prometheus.Gauge   // the sum of tracked over the streams of the resource
	last      object.Object      // scratch: the previous version of an object that is gone
	writtenAt int64              // Unix seconds, of the last line; 0: not known or no line
	owned     [][]byte           // scratch: what the entries of managedFields own
	recent    recent             // objects that the stream has met
}

// Options say what a stream writes of its objects.
type Options struct {
	Shape        object.Shape
	Selection    Selection
	Payload      object.Payload
	Changes      bool     // MODIFIED lines say which fields changed
	IgnoreFields []string // paths; a MODIFIED in which nothing else changed is not written
	MaxLineBytes int      // as in object.Line
}

// New returns what makes the lines about the objects of a target. Where nothing is compared, previous is nil.
func New(
	t client.Target, o *Options, render *object.Renderer, previous *previous.Store, m *metrics.Metrics, log *zap.Logger,
) (e *Encoder, err error) {
	group, resource := t.Resource.Group, t.Resource.Resource
	e = &Encoder{
		render: render, previous: previous, form: object.Line{Payload: o.Payload, MaxBytes: o.MaxLineBytes},
		gauge: m.Tracked.WithLabelValues(group, resource), filtered: m.Filtered.WithLabelValues(group, resource),
		writers: newWriters(previous, t.LabelSelector != "" || t.FieldSelector != ""),
	}
	e.sel, err = newSelector(o.Selection, m.FilterErrors.WithLabelValues(group, resource), log)
	return e, err
}

// Reset forgets what batches that were dropped have brought.
func (e *Encoder) Reset() {
	if e.previous != nil {
		e.previous.Reset()
	}
	e.writers.reset()
	e.recent.reset()
}

// Add writes the line about a scanned object into the batch, unless it is held back, and returns the transition.
// Silently, the object becomes known without a line.
func (e *Encoder) Add(
	b *recorder.Batch, l object.Line, o *object.Object, silently bool,
) (checkpoint.Transition, error) {
	t := checkpoint.Transition{
		Type: l.Type, Origin: l.Origin, HeldBack: true,
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}
	e.writtenAt = 0
	value, err := e.encode(b, l, o, silently, &t)
	if err != nil {
		return t, err
	}
	if t.HeldBack && !silently {
		e.filtered.Inc()
	}
	e.know(b, &t, value)
	return t, nil
}

// encode adds the line about a scanned object to the batch, or has t say what holds it back. It returns what is to be
// stored of the object; nil leaves what was stored before.
func (e *Encoder) encode(
	b *recorder.Batch, l object.Line, o *object.Object, silently bool, t *checkpoint.Transition,
) (value []byte, err error) {
	if e.sel.excludes(o.Namespace) {
		return nil, nil
	}
	var (
		before   previous.Version
		compared previous.Comparison
	)
	mark := e.writers.next(l.Type, o)
	compares := e.previous != nil && l.Type != line.Deleted && o.Unusable == nil
	if compares {
		if l.Type == line.Modified {
			if before, err = e.before(o.Namespace, o.Name); err != nil {
				return nil, err
			}
		}
		if compared, err = e.previous.Compare(before, o); err != nil {
			return nil, fmt.Errorf("%w: %w", client.ErrBadFrame, err)
		}
		if compared.Same {
			t.Withheld = before.Withheld
			return nil, nil
		}
	}
	t.Withheld = !e.sel.matches(l.Type, o)
	t.HeldBack = silently || t.Withheld || !e.sel.wants(l.Type)
	if !t.HeldBack {
		lines, err := e.appendLine(b.Lines(), l, o, max(before.Mark, mark), compared) // one of the marks is 0
		if err != nil {
			return nil, fmt.Errorf("%w: %w", client.ErrBadFrame, err)
		}
		b.AddLine(lines, l.Type, l.Origin, l.Received, o.ResourceVersion)
	}
	switch {
	case compares:
		return compared.Value(t.Withheld), nil
	case e.previous != nil && l.Type != line.Deleted:
		return e.previous.Unknown(t.Withheld), nil
	}
	return nil, nil
}

// before returns what is stored of an object.
func (e *Encoder) before(namespace, name []byte) (previous.Version, error) {
	if e.previous == nil {
		return previous.Version{}, nil
	}
	v, err := e.previous.Get(namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	return v, err
}

// appendLine appends the line about a scanned object. before is the mark of the version before it.
func (e *Encoder) appendLine(
	dst []byte, l object.Line, o *object.Object, before object.Mark, compared previous.Comparison,
) ([]byte, error) {
	var owned bool
	l.Payload, l.MaxBytes = e.form.Payload, e.form.MaxBytes
	l.Write, owned = e.written(l, o, before)
	if e.writtenAt = l.Write.At; !compared.Known() {
		return e.render.AppendLine(dst, l, o)
	}
	var sets [][]byte
	if owned {
		e.owned = e.render.FieldSets(e.owned[:0], o)
		sets = e.owned
	}
	list, owner := compared.Changes(sets)
	l.Changes = list
	if owned {
		l.Write = o.WrittenBy(owner, before, l.Received)
		e.writtenAt = l.Write.At
	}
	return e.render.AppendLine(dst, l, o)
}

// know updates the stored previous version of an object after a transition. With an empty value the stored one stays.
func (e *Encoder) know(b *recorder.Batch, t *checkpoint.Transition, value []byte) {
	if t.Type == line.Added || t.Type == line.Modified {
		e.recent.put(t.Namespace, t.Name, t.UID)
	}
	switch t.Type {
	case line.Added:
		e.track(1)
	case line.Deleted:
		e.track(-1)
		e.recent.remove(t.Namespace, t.Name)
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
func (e *Encoder) track(n int) {
	e.tracked += n
	e.gauge.Add(float64(n))
}

// SetTracked corrects the number of known objects.
func (e *Encoder) SetTracked(n int) { e.track(n - e.tracked) }

// LastWrite is when the last version that was added was written; zero where that is not known.
func (e *Encoder) LastWrite() time.Time {
	if e.writtenAt <= 0 {
		return time.Time{}
	}
	return time.Unix(e.writtenAt, 0)
}

// Met reports what is known of the uid under a name from what the stream has met.
func (e *Encoder) Met(namespace, name, uid []byte) UIDState {
	return e.recent.look(namespace, name, uid)
}

// AddGone writes the line about an object that a list has shown to be gone.
func (e *Encoder) AddGone(b *recorder.Batch, k object.Known, silently bool) (checkpoint.Transition, error) {
	namespace, name := []byte(k.Namespace), []byte(k.Name)
	t := checkpoint.Transition{
		Type: line.Deleted, Origin: line.FromRelist, HeldBack: true, Namespace: namespace, Name: name,
	}
	switch {
	case silently:
	case e.sel.excludes(namespace), !e.sel.matchesGone(k.Withheld), !e.sel.wants(line.Deleted):
		e.filtered.Inc()
	default:
		before, err := e.before(namespace, name)
		if err != nil {
			return t, err
		}
		now := time.Now()
		lines, err := e.appendGone(b.Lines(), now, k, before)
		if err != nil {
			return t, err
		}
		b.AddLine(lines, t.Type, t.Origin, now, nil)
		t.HeldBack = false
	}
	e.know(b, &t, nil)
	return t, nil
}

// appendGone appends the line about an object that is gone, of which before is stored.
func (e *Encoder) appendGone(dst []byte, now time.Time, k object.Known, before previous.Version) ([]byte, error) {
	var o *object.Object
	if before.Object != nil && e.render.Scan(before.Object, &e.last) == nil {
		o = &e.last
	}
	return e.render.AppendGone(dst, now, k, e.form, o)
}

// StoreMissing stores an object at a version that the reader knows, unless that is stored.
func (e *Encoder) StoreMissing(b *recorder.Batch, o *object.Object, withheld bool) error {
	e.recent.put(o.Namespace, o.Name, o.UID)
	if e.sel.excludes(o.Namespace) {
		return nil
	}
	e.writers.next(line.Added, o)
	if e.previous == nil || o.Unusable != nil {
		return nil
	}
	before, err := e.before(o.Namespace, o.Name)
	if err != nil {
		return err
	}
	value, err := e.previous.Missing(before, o, withheld)
	if err != nil {
		return fmt.Errorf("%w: %w", client.ErrBadFrame, err)
	}
	if value != nil {
		e.previous.Put(&b.Changes, b.Number(), o.Namespace, o.Name, value)
	}
	return nil
}

// Complete adds to the batch that ends a list that all known objects are stored.
func (e *Encoder) Complete(b *recorder.Batch) {
	if e.previous != nil {
		e.previous.Complete(&b.Changes, b.Number())
	}
}
