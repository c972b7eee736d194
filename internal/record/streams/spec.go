package streams

import (
	"slices"
	"strings"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/encode"
	"kubejournal/internal/watcher"
)

// spec says how a resolved stream reads and writes. It follows from what it is given and from what the server serves,
// so that a stream whose spec is still the same need not be touched.
func (m *Manager) spec(o Options, d discovery.Stream) watcher.Spec {
	resource := d.GVR.GroupResource()
	var redact []string
	for _, r := range o.Redact {
		if m.applies(r, resource) {
			redact = append(redact, r.Fields...)
		}
	}
	spec := watcher.Spec{
		Name: d.Name(), Kind: d.Kind, Namespaced: d.Namespaced,
		Cluster: o.Cluster, ClusterUID: o.ClusterUID, Silence: o.Silence,
		SkipInitial: d.Initial == config.Skip,
		Target: client.Target{Resource: d.GVR, Namespace: d.Namespace, LabelSelector: d.LabelSelector,
			FieldSelector: d.FieldSelector, Shard: client.Shard(d.Entry.Shard)},
		Options: encode.Options{
			Shape: object.Shape{
				// In one order, so that another order in the config is the same.
				Drop: sorted(o.DropFields), Redact: sorted(redact),
				Secret: o.RedactSecrets && resource == schema.GroupResource{Resource: "secrets"},
			},
			MaxLineBytes: int(o.MaxLineBytes),
			Selection: encode.Selection{
				Types: d.Entry.Types, ExcludeNamespaces: d.Entry.ExcludeNamespaces, Filter: d.Entry.Filter,
			},
			Payload:      object.Payload(d.Entry.Payload),
			Changes:      d.Entry.Changes,
			IgnoreFields: d.Entry.IgnoreFields,
		},
	}
	// Streams with disjoint selectors share objects too, since an object can move from one to the other; and a stream
	// that is added later begins with objects that may already have lines. So any selector counts, whatever else the
	// config has.
	if d.Selects() || d.Overlaps {
		spec.IDScope = d.StreamName().Whole().String() // an object has the same id in all shards
	}
	if !d.Namespaced {
		spec.Selection.ExcludeNamespaces = nil // as its objects are in none
	}
	return spec
}

// heldBackBy returns the keys of an entry that keep changes out of the journal.
func heldBackBy(s *watcher.Spec) (keys []string) {
	holds := [len(coverage.HoldingBack)]bool{
		s.Selection.Types != nil, s.Selection.Filter != "", len(s.Selection.ExcludeNamespaces) > 0,
		len(s.IgnoreFields) > 0, s.SkipInitial,
	}
	for n, key := range coverage.HoldingBack {
		if holds[n] {
			keys = append(keys, key)
		}
	}
	return keys
}

// sorted returns paths in their order, each once; nil for none.
func sorted(paths []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// applies reports whether a redact rule applies to a resource. A rule whose name means nothing the server has applies
// to the resource that it may be a misspelling of, so that a slip shows too little and not too much. A rule with an
// ambiguous name applies to every resource that the name could mean.
func (m *Manager) applies(rule config.Redact, resource schema.GroupResource) bool {
	if strings.EqualFold(rule.Resource, resource.Resource) {
		return true
	}
	fits, known := m.resolver.Fits(rule.Resource, resource)
	if !known {
		m.warnUnknown("redact rule names no resource that the server has now", rule.Entry, rule.Resource)
		if near := m.resolver.Near(rule.Resource); near != "" {
			fits, _ = m.resolver.Fits(near, resource)
		}
	}
	return fits
}

// warnUnknown logs once that a name that is to keep something out of the journal means nothing now: it may be misspelt.
func (m *Manager) warnUnknown(what, entry, name string) {
	if _, logged := m.unknown.LoadOrStore(name, true); !logged {
		fields := []zap.Field{zap.String("entry", entry), zap.String("resource", name)}
		if near := m.resolver.Near(name); near != "" {
			fields = append(fields, zap.String("didYouMean", near))
		}
		m.log.Warn(what, fields...)
	}
}

// redactsLess reports whether a spec leaves something as it is that another redacts.
func redactsLess(s, than *watcher.Spec) bool {
	return than.Shape.Secret && !s.Shape.Secret ||
		slices.ContainsFunc(than.Shape.Redact, func(path string) bool { return !slices.Contains(s.Shape.Redact, path) })
}
