// Package discovery resolves config entries to the streams that the API server offers for them.
package discovery

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

// Stream is one resumable watch: one resource, one namespace or all, one pair of selectors, all objects or a share of them.
type Stream struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool

	Namespace     string // "" is all of them
	LabelSelector string // canonical
	FieldSelector string // canonical
	Initial       string // config.Snapshot or config.Skip

	// Overlaps says that another stream can have objects of the same uids and versions: one of all namespaces, or one of
	// the resource that this one is a view of. It ignores streams with selectors.
	Overlaps bool

	Entry config.Resource // that the stream comes from
}

// Name is kubectl's name of the resource with its scope. A position is kept under it: a stream resumes when only the version
// changes.
func (s Stream) Name() string { return s.GVR.GroupResource().String() + s.scope() }

// Selects reports whether the stream has selectors.
func (s *Stream) Selects() bool { return s.LabelSelector != "" || s.FieldSelector != "" }

// CutShard cuts the shard off the name of a stream. It is as config.Shard's String has it, "" if there is none.
func CutShard(stream string) (name, shard string) {
	at := strings.LastIndexAny(stream, "?&") // scope puts it last, and escapes both in what is before
	if at >= 0 {
		if shard, ok := strings.CutPrefix(stream[at+1:], "shard="); ok {
			return stream[:at], shard
		}
	}
	return stream, ""
}

// scope is the part of the name that does not say what the resource is.
func (s Stream) scope() string {
	var parts []string
	for _, p := range [...]struct{ key, value string }{
		{"namespace", s.Namespace}, {"labelSelector", s.LabelSelector}, {"fieldSelector", s.FieldSelector}, {"shard", s.Entry.Shard.String()},
	} {
		if p.value != "" {
			parts = append(parts, p.key+"="+url.QueryEscape(p.value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "?" + strings.Join(parts, "&")
}
