// Package discovery resolves config entries to the streams that the API server offers for them.
package discovery

import (
	"fmt"
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

// scope is the part of the name that does not say what the resource is.
func (s Stream) scope() string {
	var parts []string
	shard := ""
	if of := s.Entry.Shard; of.Count > 1 {
		shard = fmt.Sprintf("%d-of-%d", of.Index, of.Count)
	}
	for _, p := range [...]struct{ key, value string }{
		{"namespace", s.Namespace}, {"labelSelector", s.LabelSelector}, {"fieldSelector", s.FieldSelector}, {"shard", shard},
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
