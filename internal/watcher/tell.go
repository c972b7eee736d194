package watcher

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/event"
	"kubejournal/internal/recorder"
)

// teller makes lines of a stream's events: it decides which are written, and what
// they say beside the object. A stream that is asked for nothing but its objects
// has neither selector nor keeper, and its bytes go from the wire to the line.
type teller struct {
	render   *event.Renderer
	sel      *selector // nil: everything is written
	keep     *keeper   // nil: nothing is compared
	form     event.Line
	plain    bool               // lines have the usual form
	filtered prometheus.Counter // events that are held back

	shaped, changes, value []byte       // scratch
	last                   event.Object // scratch: the last state that is known
}

// telling is what an event comes to.
type telling struct {
	line     []byte // what was given, with the line behind it if there is one
	told     bool   // there is one
	withheld bool   // the filter held it back
	kept     []byte // what is kept of the object from now on; nil: what was kept before
}

// asks puts into the spec what the entry of a config asks of a stream.
func (s *Spec) asks(e config.Resource) {
	s.Selection = Selection{Types: e.Types, ExcludeNamespaces: e.ExcludeNamespaces, Filter: e.Filter}
	s.Payload, s.Changes, s.IgnoreFields = event.Payload(e.Payload), e.Changes, e.IgnoreFields
}

// tell appends the line about an object that the renderer has scanned. before is
// what is kept of the object; the zero value where nothing is, or none is to be
// compared with.
func (t *teller) tell(dst []byte, l event.Line, o *event.Object, before kept) (telling, error) {
	if t.sel != nil && t.sel.excludes(o.Namespace) {
		t.filtered.Inc()
		return telling{line: dst}, nil
	}
	var sum event.Digest
	if t.keep != nil && t.keep.digester != nil && l.Type != event.Deleted {
		var err error
		if sum, err = t.keep.digester.Digest(o.Raw); err != nil {
			return telling{}, err
		}
		if l.Type == event.Modified && before.hasSum && before.digest == sum {
			t.filtered.Inc()
			return telling{line: dst, withheld: before.withheld}, nil
		}
	}
	out := telling{line: dst, told: true}
	if t.sel != nil {
		matches := t.sel.matches(l.Type, o.Raw)
		out.withheld, out.told = !matches, matches && t.sel.wants(l.Type)
	}
	keeps := t.keep != nil && l.Type != event.Deleted
	t.shaped = t.shaped[:0]
	if keeps && t.keep.changes {
		t.shaped = o.AppendShaped(t.shaped)
	}
	if !out.told {
		t.filtered.Inc()
	} else if err := t.write(&out, l, o, before); err != nil {
		return telling{}, err
	}
	if keeps {
		t.value = t.keep.make(t.value[:0], t.shaped, sum, out.withheld)
		out.kept = t.value
	}
	return out, nil
}

// write appends the line.
func (t *teller) write(out *telling, l event.Line, o *event.Object, before kept) (err error) {
	if t.plain {
		out.line, err = t.render.AppendEvent(out.line, l.Type, l.Origin, l.Received, o)
		return err
	}
	l.Payload, l.MaxBytes = t.form.Payload, t.form.MaxBytes
	if l.Type == event.Modified && t.keep != nil && t.keep.changes && before.object != nil {
		if t.changes, err = event.AppendChanges(t.changes[:0], before.object, t.shaped); err != nil {
			return err
		}
		l.Changes = t.changes
	}
	out.line, err = t.render.AppendLine(out.line, l, o)
	return err
}

// tellGone appends the line about an object that a list has shown to be gone.
func (t *teller) tellGone(dst []byte, received time.Time, k checkpoint.Known, before kept) (telling, error) {
	if t.sel != nil && t.sel.excludes([]byte(k.Namespace)) {
		t.filtered.Inc()
		return telling{line: dst}, nil
	}
	var o *event.Object
	if before.object != nil {
		if err := t.render.Scan(before.object, &t.last); err != nil {
			return telling{}, fmt.Errorf("kept object: %w", err)
		}
		o = &t.last
	}
	if t.sel != nil {
		matches := t.sel.matchesGone(k.Withheld)
		if o != nil && t.sel.filter != nil {
			matches = t.sel.matches(event.Deleted, o.Raw)
		}
		if !matches || !t.sel.wants(event.Deleted) {
			t.filtered.Inc()
			return telling{line: dst}, nil
		}
	}
	known := event.Known{Namespace: k.Namespace, Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion}
	if t.plain && o == nil {
		return telling{line: t.render.AppendDeleted(dst, received, known), told: true}, nil
	}
	line, err := t.render.AppendGone(dst, received, known, t.form, o)
	return telling{line: line, told: true}, err
}

// know puts what an event makes known into the batch.
func (t *teller) know(b *recorder.Batch, typ event.Type, namespace, name, uid, version []byte, withheld bool, value []byte) {
	switch {
	case typ == event.Deleted:
		b.Changes.Delete(namespace, name)
		if t.keep != nil {
			t.keep.remove(b, namespace, name)
		}
		return
	case withheld:
		b.Changes.PutWithheld(namespace, name, uid, version)
	default:
		b.Changes.Put(namespace, name, uid, version)
	}
	if len(value) > 0 {
		t.keep.put(b, namespace, name, value)
	}
}

// before is what is kept of an object that an event of a type is to be compared
// with.
func (t *teller) before(typ event.Type, namespace, name []byte) (kept, error) {
	if t.keep == nil || typ != event.Modified {
		return kept{}, nil
	}
	return t.keep.get(namespace, name)
}

// silent is what is kept of an object that no line tells of.
func (t *teller) silent(o *event.Object, withheld bool) ([]byte, error) {
	if t.keep == nil {
		return nil, nil
	}
	var (
		sum event.Digest
		err error
	)
	if t.keep.digester != nil {
		if sum, err = t.keep.digester.Digest(o.Raw); err != nil {
			return nil, err
		}
	}
	t.shaped = o.AppendShaped(t.shaped[:0])
	t.value = t.keep.make(t.value[:0], t.shaped, sum, withheld)
	return t.value, nil
}

// lacks tells whether an object that ought to be kept is not.
func (t *teller) lacks(namespace, name []byte) (bool, error) {
	if t.keep == nil || t.sel != nil && t.sel.excludes(namespace) {
		return false, nil
	}
	v, err := t.keep.get(namespace, name)
	return !v.hasSum && v.object == nil, err
}

// flushed tells that the checkpoint has all that was submitted, and that nothing
// else will be.
func (t *teller) flushed() {
	if t.keep != nil {
		t.keep.forget()
	}
}
