package discovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

// ErrNothingKnown says that the server has not answered once yet.
var ErrNothingKnown = errors.New("the server's resources are not known yet")

// NotFoundError says that the server does not have a resource, or not yet: the entry is pending.
type NotFoundError struct {
	Name     string // as the user wrote it, with group and version
	Wildcard bool   // the entry stands for whatever there is, and nothing of it is left
	// Failed are the group versions that the server could not tell about and that were never seen before; the
	// resource may be one of theirs.
	Failed []schema.GroupVersion
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("the server has no resource %q", e.Name)
	if e.Wildcard {
		msg = fmt.Sprintf("the server has nothing to watch for %q that no other entry names", e.Name)
	}
	if len(e.Failed) > 0 {
		names := make([]string, len(e.Failed))
		for i, gv := range e.Failed {
			names[i] = gv.String()
		}
		msg += ", but it could not tell about " + strings.Join(names, ", ")
	}
	return msg
}

// UnwatchableError says that a resource is there but takes no list or no watch: the entry is pending, as a later
// version of its server may take them.
type UnwatchableError struct {
	GVR   schema.GroupVersionResource
	Verbs []string // what it takes
}

func (e *UnwatchableError) Error() string {
	verbs := "nothing"
	if len(e.Verbs) > 0 {
		verbs = strings.Join(e.Verbs, ", ")
	}
	return fmt.Sprintf("%s cannot be journalled: it needs list and watch, the server offers %s", e.GVR.GroupResource(), verbs)
}

// AmbiguousError says that a name fits several resources between which the server gives no order.
type AmbiguousError struct {
	Name    string
	Matches []schema.GroupVersionResource
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Matches))
	for i, m := range e.Matches {
		names[i] = m.GroupResource().String()
	}
	slices.Sort(names)
	return fmt.Sprintf("%q could be any of %s; write one of them", e.Name, strings.Join(slices.Compact(names), ", "))
}

// ScopeError says that an entry names namespaces for a resource that has none. Its text is a config fault.
type ScopeError struct {
	File  string
	Line  int
	Entry string
	GVR   schema.GroupVersionResource
}

func (e *ScopeError) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d", e.Line)
	}
	if where != "" {
		where += ": "
	}
	return fmt.Sprintf("%s%s.namespaces: %s have no namespaces; leave namespaces out", where, e.Entry, e.GVR.GroupResource())
}

// SameStreamError says that two entries come to one stream, by names that only the server knows to be the same.
type SameStreamError struct {
	entry, other config.Resource
	stream       string
}

func (e *SameStreamError) Error() string {
	return fmt.Sprintf("%s: %s (%s) and %s (%s) come to the same stream %s; remove one of them",
		at(e.entry), e.other.Entry, e.other.Name, e.entry.Entry, e.entry.Name, e.stream)
}

// DoubledError says that two entries come to the same objects, which the server serves through two groups.
type DoubledError struct {
	entry, other config.Resource
	streams      [2]string // of other and of entry
}

func (e *DoubledError) Error() string {
	return fmt.Sprintf("%s: %s (%s) and %s (%s) come to the same objects, which the server has both as %s and as %s; remove one of them",
		at(e.entry), e.other.Entry, e.other.Name, e.entry.Entry, e.entry.Name, e.streams[0], e.streams[1])
}

// at is the place of an entry, as the faults of a config begin.
func at(entry config.Resource) string {
	if entry.Line > 0 {
		return fmt.Sprintf("%s:%d", entry.File, entry.Line)
	}
	return "command line"
}

// IsConfigFault tells whether only the user can mend an error of Resolve.
func IsConfigFault(err error) bool {
	return errors.As(err, new(*ScopeError)) || errors.As(err, new(*SameStreamError)) || errors.As(err, new(*DoubledError))
}

// PartialError says that the server told about some of its groups only. What was known of the others stays in use.
type PartialError struct {
	Failed map[schema.GroupVersion]error
}

func (e *PartialError) Error() string {
	parts := make([]string, 0, len(e.Failed))
	for gv, err := range e.Failed {
		parts = append(parts, fmt.Sprintf("%s: %v", gv, err))
	}
	slices.Sort(parts)
	return "discover part of the resources: " + strings.Join(parts, "; ")
}

// Unwrap lets errors.Is look at each cause.
func (e *PartialError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }
