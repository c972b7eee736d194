// Package discovery resolves config entries to the streams that the API server offers for them.
package discovery

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/format/line"
)

// Stream is one resumable watch: one resource, one namespace or all, one pair of selectors, all objects or a share of
// them.
type Stream struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool

	Namespace     string // "" is all of them
	LabelSelector string // canonical
	FieldSelector string // canonical
	Initial       string // config.Snapshot or config.Skip

	// Overlaps says that another stream can have objects of the same uids and versions: one of all namespaces, or one
	// of the resource that this one is a view of. It ignores streams with selectors.
	Overlaps bool

	Entry config.Resource // that the stream comes from
}

// Name is the text of StreamName. A position is kept under it: a stream resumes when only the version changes.
func (s Stream) Name() string { return s.StreamName().String() }

// StreamName is what the stream is called.
func (s Stream) StreamName() line.StreamName {
	return line.StreamName{
		Resource: s.GVR.GroupResource().String(), Namespace: s.Namespace,
		LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Shard: s.Entry.Shard.String(),
	}
}

// Selects reports whether the stream has selectors.
func (s *Stream) Selects() bool { return s.LabelSelector != "" || s.FieldSelector != "" }
