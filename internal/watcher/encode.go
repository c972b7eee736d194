package watcher

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/changes"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/recorder"
)

// encoder turns a stream's events into lines: it decides which are written, and what
// they say beside the object. A stream that is asked for nothing but its objects has
// neither selector nor previous versions, and its bytes go from the wire to the line.
type encoder struct {
	render   *event.Renderer
	sel      *selector      // nil: everything is written
	previous *changes.Store // nil: nothing is compared
	form     event.Line
	tracked  tracked            // how many objects are known
	filtered prometheus.Counter // events that are held back

	last     event.Object    // scratch: the previous version of an object that is gone
	unusable map[string]bool // objects that were logged
}

// encoded is what became of an event.
type encoded struct {
	buf      []byte // what was given, with the line behind it if there is one
	written  bool   // there is one
	withheld bool   // the filter held it back
	value    []byte // what is stored of the object from now on; nil: what was stored before
}

// add writes the line about an object that the renderer has scanned into the batch,
// unless it is held back. It returns the transition that this is.
func (e *encoder) add(b *recorder.Batch, l event.Line, o *event.Object) (checkpoint.Transition, error) {
	out, err := e.encode(b.Lines(), l, o)
	if err != nil {
		return checkpoint.Transition{}, err
	}
	if out.written {
		b.AddLine(out.buf, l.Type, l.Origin, l.Received)
	}
	return e.know(b, o, checkpoint.Transition{Type: l.Type, Origin: l.Origin, HeldBack: !out.written, Withheld: out.withheld}, out.value), nil
}

// addSilently takes an object as known without a line.
func (e *encoder) addSilently(b *recorder.Batch, l event.Line, o *event.Object) (checkpoint.Transition, error) {
	held := !e.sel.excludes(o.Namespace) && !e.sel.matches(event.Added, o)
	var value []byte
	if e.stores(o) {
		if _, err := e.previous.Compare(changes.Version{}, o); err != nil {
			return checkpoint.Transition{}, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
		}
		value = e.previous.Value(held)
	}
	return e.know(b, o, checkpoint.Transition{Type: l.Type, Origin: l.Origin, HeldBack: true, Withheld: held}, value), nil
}

// addGone writes the line about an object that a list has shown to be gone.
func (e *encoder) addGone(b *recorder.Batch, l event.Line, k event.Known, silently bool) (checkpoint.Transition, error) {
	namespace, name := []byte(k.Namespace), []byte(k.Name)
	line := checkpoint.Transition{Type: l.Type, Origin: l.Origin, Namespace: namespace, Name: name, HeldBack: silently}
	if !silently {
		before, err := e.before(namespace, name)
		if err != nil {
			return line, err
		}
		out, err := e.encodeGone(b.Lines(), l, k, before)
		if err != nil {
			return line, err
		}
		if line.HeldBack = !out.written; out.written {
			b.AddLine(out.buf, l.Type, l.Origin, l.Received)
		}
	}
	e.forget(b, namespace, name)
	return line, nil
}

// know completes the transition of an event about an object, and adds to the batch
// what is stored of it; no value leaves what was stored before.
func (e *encoder) know(b *recorder.Batch, o *event.Object, l checkpoint.Transition, value []byte) checkpoint.Transition {
	l.Namespace, l.Name, l.UID, l.ResourceVersion = o.Namespace, o.Name, o.UID, o.ResourceVersion
	switch {
	case l.Type == event.Deleted:
		e.forget(b, o.Namespace, o.Name)
		return l
	case l.Type == event.Added:
		e.tracked.add(1)
	}
	if len(value) > 0 {
		e.previous.Put(&b.Changes, b.Number(), o.Namespace, o.Name, value)
	}
	return l
}

func (e *encoder) forget(b *recorder.Batch, namespace, name []byte) {
	e.tracked.add(-1)
	if e.previous != nil {
		e.previous.Remove(&b.Changes, b.Number(), namespace, name)
	}
}

// encode appends the line about an object that the renderer has scanned.
func (e *encoder) encode(dst []byte, l event.Line, o *event.Object) (encoded, error) {
	out := encoded{buf: dst}
	if e.sel.excludes(o.Namespace) {
		e.filtered.Inc()
		return out, nil
	}
	var before changes.Version
	compares := e.previous != nil && l.Type != event.Deleted && o.Unusable == nil
	if compares {
		var err error
		if l.Type == event.Modified {
			if before, err = e.before(o.Namespace, o.Name); err != nil {
				return out, err
			}
		}
		same, err := e.previous.Compare(before, o)
		if err != nil {
			return out, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
		}
		if same {
			e.filtered.Inc()
			out.withheld = before.Withheld
			return out, nil
		}
	}
	matches := e.sel.matches(l.Type, o)
	out.withheld, out.written = !matches, matches && e.sel.wants(l.Type)
	if !out.written {
		e.filtered.Inc()
	} else if err := e.write(&out, l, o, before); err != nil {
		return out, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
	}
	switch {
	case compares:
		out.value = e.previous.Value(out.withheld)
	case e.previous != nil && l.Type != event.Deleted:
		out.value = e.previous.Unknown(out.withheld)
	}
	return out, nil
}

// write appends the line.
func (e *encoder) write(out *encoded, l event.Line, o *event.Object, before changes.Version) (err error) {
	l.Payload, l.MaxBytes = e.form.Payload, e.form.MaxBytes
	if before.Object != nil {
		l.Changes = e.previous.Changes(before)
	}
	out.buf, err = e.render.AppendLine(out.buf, l, o)
	return err
}

// encodeGone appends the line about an object that a list has shown to be gone.
func (e *encoder) encodeGone(dst []byte, l event.Line, k event.Known, before changes.Version) (out encoded, err error) {
	out.buf = dst
	if e.sel.excludes([]byte(k.Namespace)) || !e.sel.matchesGone(k.Withheld) || !e.sel.wants(event.Deleted) {
		e.filtered.Inc()
		return out, nil
	}
	out.written = true
	var o *event.Object
	if before.Object != nil && e.render.Scan(before.Object, &e.last) == nil {
		o = &e.last
	}
	out.buf, err = e.render.AppendGone(dst, l.Received, k, e.form, o)
	return out, err
}

// tracked is how many objects a stream knows, as a share of its resource's gauge.
// What events say of it is set right by each list.
type tracked struct {
	gauge prometheus.Gauge
	n     int
}

func (t *tracked) add(n int) {
	t.n += n
	t.gauge.Add(float64(n))
}

func (t *tracked) set(n int) { t.add(n - t.n) }

// stores reports whether the version of an object is stored.
func (e *encoder) stores(o *event.Object) bool {
	return e.previous != nil && o.Unusable == nil && !e.sel.excludes(o.Namespace)
}

// before is what is stored of an object.
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

// storeMissing stores an object at a version that the reader knows, unless that is
// stored.
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

// complete adds to the batch that ends a list that what there is is stored.
func (e *encoder) complete(b *recorder.Batch) {
	if e.previous != nil {
		e.previous.Complete(&b.Changes, b.Number())
	}
}
