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

	Entry config.Resource // that the stream comes from
}

// Name is kubectl's name of the resource with its scope. A position is kept under it: a stream resumes when only the version
// changes.
func (s Stream) Name() string { return s.GVR.GroupResource().String() + s.scope() }

// ShardOf is the shard in the name of a stream, as config.Shard's String has it.
func ShardOf(stream string) string {
	_, scope, _ := strings.Cut(stream, "?")
	values, err := url.ParseQuery(scope)
	if err != nil {
		return ""
	}
	return values.Get("shard")
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
