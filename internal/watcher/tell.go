package watcher

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/changes"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
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
	tracked  tracked            // how many objects are known
	filtered prometheus.Counter // events that are held back

	shaped, changes, value []byte       // scratch
	last                   event.Object // scratch: the last state that is known

	unusable map[string]bool // objects that were logged
}

// telling is what an event comes to.
type telling struct {
	line     []byte // what was given, with the line behind it if there is one
	told     bool   // there is one
	withheld bool   // the filter held it back
	kept     []byte // what is kept of the object from now on; nil: what was kept before
}

// tell appends the line about an object that the renderer has scanned. before is
// what is kept of the object; the zero value where nothing is, or none is to be
// compared with.
func (t *teller) tell(dst []byte, l event.Line, o *event.Object, before kept) (telling, error) {
	if t.sel != nil && t.sel.excludes(o.Namespace) {
		t.filtered.Inc()
		return telling{line: dst}, nil
	}
	keeps := t.keep != nil && l.Type != event.Deleted
	if o.Unusable != nil {
		return t.tellUnusable(dst, l, o, keeps)
	}
	var sum changes.Digest
	if keeps {
		var err error
		if sum, err = t.digest(o); err != nil {
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
		t.value = t.keep.encode(t.value[:0], nil, t.shaped, sum, out.withheld)
		out.kept = t.value
	}
	return out, nil
}

// tellUnusable is tell for an object of which nothing is known but its name.
func (t *teller) tellUnusable(dst []byte, l event.Line, o *event.Object, keeps bool) (out telling, err error) {
	out = telling{line: dst, told: true}
	if t.sel != nil {
		matches := t.sel.matchesUnusable(l.Type)
		out.withheld, out.told = !matches, matches && t.sel.wants(l.Type)
	}
	if !out.told {
		t.filtered.Inc()
	} else if out.line, err = t.render.AppendLine(dst, l, o); err != nil {
		return telling{}, err
	}
	if keeps {
		t.value = t.keep.nothing(t.value[:0], out.withheld)
		out.kept = t.value
	}
	return out, nil
}

// write appends the line.
func (t *teller) write(out *telling, l event.Line, o *event.Object, before kept) (err error) {
	l.Payload, l.MaxBytes = t.form.Payload, t.form.MaxBytes
	if l.Type == event.Modified && t.keep != nil && t.keep.changes && before.object != nil {
		// What is kept may be from a version that kept deeper objects, and cannot be compared with.
		if t.changes, err = changes.Append(t.changes[:0], before.object, t.shaped); err == nil {
			l.Changes = t.changes
		}
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
	if t.sel != nil && !(t.sel.matchesGone(k.Withheld) && t.sel.wants(event.Deleted)) {
		t.filtered.Inc()
		return telling{line: dst}, nil
	}
	var o *event.Object
	if before.object != nil && t.render.Scan(before.object, &t.last) == nil {
		o = &t.last
	}
	known := event.Known{Namespace: k.Namespace, Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion}
	line, err := t.render.AppendGone(dst, received, known, t.form, o)
	return telling{line: line, told: true}, err
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

// know puts what an event makes known into the batch.
func (t *teller) know(b *recorder.Batch, typ event.Type, namespace, name, uid, version []byte, withheld bool, value []byte) {
	if typ == event.Added {
		t.tracked.add(1)
	}
	switch {
	case typ == event.Deleted:
		t.tracked.add(-1)
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
	if t.keep == nil || o.Unusable != nil || t.sel != nil && t.sel.excludes(o.Namespace) {
		return nil, nil
	}
	sum, err := t.digest(o)
	if err != nil {
		return nil, err
	}
	return t.keepAs(o, nil, sum, withheld), nil
}

// missing is what is to be kept of an object at a version that the reader knows,
// nil where nothing is missing in what is kept of it. An object that is kept stays:
// it is the one that the reader was told of last.
func (t *teller) missing(o *event.Object, withheld bool) ([]byte, error) {
	if t.keep == nil || o.Unusable != nil || t.sel != nil && t.sel.excludes(o.Namespace) {
		return nil, nil
	}
	is, err := t.keep.get(o.Namespace, o.Name)
	if err != nil {
		return nil, err
	}
	var sum changes.Digest
	if !is.hasSum || !t.keep.lasting() {
		if sum, err = t.digest(o); err != nil {
			return nil, err
		}
	}
	if !t.keep.lacks(is, sum) {
		return nil, nil
	}
	if is.hasSum && t.keep.lasting() {
		sum = is.digest
	}
	return t.keepAs(o, is.packed, sum, withheld), nil
}

func (t *teller) digest(o *event.Object) (changes.Digest, error) {
	if t.keep.digester == nil {
		return changes.Digest{}, nil
	}
	sum, err := t.keep.digester.Digest(o.Raw)
	if err != nil {
		return sum, fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
	}
	return sum, nil
}

func (t *teller) keepAs(o *event.Object, packed []byte, sum changes.Digest, withheld bool) []byte {
	t.shaped = t.shaped[:0]
	if t.keep.changes && packed == nil {
		t.shaped = o.AppendShaped(t.shaped)
	}
	t.value = t.keep.encode(t.value[:0], packed, t.shaped, sum, withheld)
	return t.value
}

// withholds tells whether the filter keeps an object from the reader that no line
// tells of.
func (t *teller) withholds(o *event.Object) bool {
	if t.sel == nil || t.sel.excludes(o.Namespace) {
		return false
	}
	if o.Unusable != nil {
		return !t.sel.matchesUnusable(event.Added)
	}
	return !t.sel.matches(event.Added, o.Raw)
}

// committed tells that the checkpoint has all that was submitted, and that what
// else there was never will be.
func (t *teller) committed() {
	if t.keep != nil {
		t.keep.committed()
	}
}

// complete notes in the batch that the list which it ends has kept what there is.
func (t *teller) complete(b *recorder.Batch) {
	if t.keep != nil {
		t.keep.complete(b)
	}
}
