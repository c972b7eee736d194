package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

// ErrNothingKnown is returned before the first Refresh that worked.
var ErrNothingKnown = errors.New("the server's resources are not known yet")

// NotFoundError means that the server does not have a resource, or not yet. The entry is pending.
type NotFoundError struct {
	Name     string // as the user wrote it, with group and version
	Wildcard bool   // the entry stands for whatever there is, and nothing of it is left
	// Failed are the group versions that the server gave no answer for and that were never seen before; the resource
	// may be one of theirs.
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

// UnwatchableError means that a resource does not support list and watch. The entry is pending, as a later version of its server
// may support them.
type UnwatchableError struct {
	GVR   schema.GroupVersionResource
	Verbs []string // what it supports
}

func (e *UnwatchableError) Error() string {
	verbs := cmp.Or(strings.Join(e.Verbs, ", "), "nothing")
	return fmt.Sprintf("%s cannot be journalled: it needs list and watch, the server offers %s", e.GVR.GroupResource(), verbs)
}

// AmbiguousError means that a name fits several resources between which the server gives no order.
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

// EntryError is a fault of an entry that shows only beside what the server has, and that only the config can mend. Its text
// is a config fault.
type EntryError struct{ msg string }

func (e *EntryError) Error() string { return e.msg }

// IsConfigFault reports whether an error of ResolveAll goes away only when the config changes.
func IsConfigFault(err error) bool { return errors.As(err, new(*EntryError)) }

// noNamespaces is the fault of an entry that names namespaces for a resource that has none.
func noNamespaces(entry config.Resource, resource schema.GroupResource) *EntryError {
	return &EntryError{fmt.Sprintf("%s%s.namespaces: %s have no namespaces; leave namespaces out", at(entry), entry.Entry, resource)}
}

// sameStream is the fault of two entries that resolve to one stream, by names that only the server knows to be the same.
func sameStream(entry, other config.Resource, stream Stream) *EntryError {
	return &EntryError{fmt.Sprintf("%s%s (%s) and %s (%s) come to the same stream %s; remove one of them",
		at(entry), other.Entry, other.Name, entry.Entry, entry.Name, stream.Name())}
}

// sameObjects is the fault of two entries that resolve to the same objects, which the server serves through two groups.
func sameObjects(stream, other Stream) *EntryError {
	entry, otherEntry := stream.Entry, other.Entry
	return &EntryError{fmt.Sprintf("%s%s (%s) and %s (%s) come to the same objects, which the server has both as %s and as %s; remove one of them",
		at(entry), otherEntry.Entry, otherEntry.Name, entry.Entry, entry.Name, other.Name(), stream.Name())}
}

// at is the place of an entry, as the faults of a config begin.
func at(entry config.Resource) string {
	where := cmp.Or(entry.File, "command line")
	if entry.Line > 0 {
		where += fmt.Sprintf(":%d", entry.Line)
	}
	return where + ": "
}

// PartialError means that the server answered for some of its groups only. What was known of the others stays in use.
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

// Unwrap gives errors.Is each cause.
func (e *PartialError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }
