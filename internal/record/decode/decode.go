// Package decode reads the objects that a server sends for one stream, and rejects what is no answer to its requests.
package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/metrics"
)

// What an object says that the server should not have sent.
var (
	ErrOtherKind  = errors.New("the server sends an object of another kind")
	ErrOtherScope = errors.New("the server sends an object of a namespaced kind without a namespace")
	ErrUnselected = errors.New("the server sends an object that the selector excludes")
)

// Decoder reads the objects that the server sends for one stream. It belongs to its stream.
type Decoder struct {
	target     client.Target
	kind       string
	namespaced bool // each object is in a namespace
	render     *object.Renderer
	selects    selects // what is checked of the selectors
	m          *metrics.Metrics
	others     prometheus.Counter // objects of other shards
	log        *zap.Logger
	// the server has sent objects of other shards: it does not know the selector, or not for this resource
	unselected bool
	foreign    bool            // the server has sent objects of other namespaces
	logged     map[string]bool // unusable objects
}

// New returns a decoder of the objects of a target.
func New(
	t client.Target, kind string, namespaced bool, render *object.Renderer, m *metrics.Metrics, log *zap.Logger,
) (d *Decoder, err error) {
	d = &Decoder{
		target: t, kind: kind, namespaced: namespaced, render: render, m: m, log: log, logged: make(map[string]bool),
		others: m.OtherShards.WithLabelValues(t.Resource.Group, t.Resource.Resource),
	}
	d.selects, err = parseSelects(t)
	return d, err
}

// Unselected reports whether the server has sent objects of other shards.
func (d *Decoder) Unselected() bool { return d.unselected }

// maxLogged bounds how many unusable objects a stream remembers to have logged.
const maxLogged = 1024

// Scan reads the object of an event as the server sent it, and reports whether it is in the stream's shard and
// namespace; of one that is not, o may have the names alone. An object that no line can hold must not stall its
// stream: where it can be named, it takes the way of all others, as an object.Object that is Unusable. What cannot be
// distinguished from other objects, or from its next version, is an error.
func (d *Decoder) Scan(t line.Type, raw []byte, o *object.Object) (mine bool, err error) {
	known := t == line.Added || t == line.Modified || t == line.Deleted
	if d.unselected && known && d.render.Peek(raw, o) && !d.target.Shard.Has(o.UID) &&
		client.IsPosition(o.ResourceVersion) {
		d.others.Inc()
		return false, nil
	}
	if err := d.render.Scan(raw, o); err != nil {
		if err := d.render.Identify(raw, o, err); err != nil {
			return false, fmt.Errorf("%w: %w", client.ErrBadFrame, err)
		}
	}
	switch {
	case t == line.Bookmark:
		return true, nil
	case !known:
		return false, fmt.Errorf("%w: type %q", client.ErrBadFrame, t)
	case len(o.Name) == 0:
		return false, fmt.Errorf("%w: an object without a name", client.ErrBadFrame)
	case !client.IsPosition(o.ResourceVersion):
		return false, fmt.Errorf("object %s/%s: %w", o.Namespace, o.Name, client.ErrNoVersion)
	case !d.target.Shard.Has(o.UID):
		d.unselected = true
		d.others.Inc()
		return false, nil
	}
	if mine, err := d.belongs(o); !mine || err != nil {
		return mine, err
	}
	if o.Unusable != nil {
		d.noteUnusable(o)
	}
	return true, nil
}

// noteUnusable counts an object that no line can hold, and logs it once.
func (d *Decoder) noteUnusable(o *object.Object) {
	d.m.Unusable.WithLabelValues(d.target.Resource.Group, d.target.Resource.Resource).Inc()
	object := string(o.Namespace) + "/" + string(o.Name)
	if d.logged[object] {
		return
	}
	if len(d.logged) >= maxLogged {
		clear(d.logged)
	}
	d.logged[object] = true
	d.log.Warn("object is unusable, its line has no object", zap.String("namespace", string(o.Namespace)),
		zap.String("name", string(o.Name)), zap.String("uid", string(o.UID)),
		zap.String("resourceVersion", string(o.ResourceVersion)), zap.String("reason", o.Unusable.Reason),
		zap.Error(o.Unusable.Err))
}

// Whole reports whether no selector is in the way of any object.
func (d *Decoder) Whole() bool {
	return d.target.LabelSelector == "" && d.target.FieldSelector == "" && d.target.Shard == (client.Shard{})
}

// separates reports whether a name has a byte that separates it from others in a path or a key.
func separates(name []byte) bool {
	return bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0
}

// belongs reports whether the scanned object is in the stream's namespace. The error says why the object cannot be an
// answer to the request.
func (d *Decoder) belongs(o *object.Object) (bool, error) {
	switch {
	case separates(o.Namespace) || separates(o.Name):
		return false, fmt.Errorf("%w: an object with the name %q in the namespace %q",
			client.ErrBadFrame, o.Name, o.Namespace)
	case len(o.Kind) > 0 && d.kind != "" && string(o.Kind) != d.kind:
		return false, fmt.Errorf("%w: %q %s/%s in the place of %s", ErrOtherKind, o.Kind, o.Namespace,
			o.Name, d.kind)
	case d.namespaced && len(o.Namespace) == 0:
		return false, fmt.Errorf("%w: %s", ErrOtherScope, o.Name)
	case d.target.Namespace != "" && string(o.Namespace) != d.target.Namespace:
		if !d.foreign {
			d.foreign = true
			d.log.Warn("the server sends objects of other namespaces, they are left out",
				zap.String("namespace", string(o.Namespace)))
		}
		return false, nil
	}
	if o.Unusable == nil && !d.selects.matches(o) {
		return false, fmt.Errorf("%w: %s/%s", ErrUnselected, o.Namespace, o.Name)
	}
	return true, nil
}

// CheckListKind returns an error where the kind of a list says that its objects, which do not say so themselves, are of
// another kind. Definitions may give the lists of a kind any name; their objects have kinds.
func (d *Decoder) CheckListKind(kind string) error {
	if of, ok := strings.CutSuffix(kind, "List"); ok && of != "" && d.kind != "" && of != d.kind {
		return fmt.Errorf("%w: a list of the kind %q in the place of %s", ErrOtherKind, kind, d.kind)
	}
	return nil
}

// labelsOf returns the labels of a scanned object.
func labelsOf(o *object.Object) labels.Set {
	var set labels.Set
	_ = json.Unmarshal(rawjson.At(o.Raw, []byte("/metadata/labels")), &set) // what is no map of strings counts as none
	return set
}

// selects is the part of a stream's selectors that can be checked: labels and names. Only the server knows what other
// fields mean.
type selects struct {
	labels labels.Selector // nil for none
	names  fields.Requirements
}

func parseSelects(t client.Target) (s selects, err error) {
	if t.LabelSelector != "" {
		if s.labels, err = labels.Parse(t.LabelSelector); err != nil {
			return s, fmt.Errorf("label selector: %w", err)
		}
	}
	all, err := fields.ParseSelector(t.FieldSelector)
	if err != nil {
		return s, fmt.Errorf("field selector: %w", err)
	}
	for _, r := range all.Requirements() {
		if r.Field == "metadata.name" || r.Field == "metadata.namespace" {
			s.names = append(s.names, r)
		}
	}
	return s, nil
}

func (s *selects) matches(o *object.Object) bool {
	for _, r := range s.names {
		value := o.Name
		if r.Field == "metadata.namespace" {
			value = o.Namespace
		}
		if (string(value) == r.Value) != (r.Operator != selection.NotEquals) {
			return false
		}
	}
	return s.labels == nil || s.labels.Matches(labelsOf(o))
}
