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
	"kubejournal/internal/format/builtin"
)

// ErrNothingKnown is returned before the first Refresh that worked.
var ErrNothingKnown = errors.New("the server's resources are not known yet")

// NotFoundError means that the server does not have a resource, or not yet. The entry is pending.
type NotFoundError struct {
	Name     string                // as the user wrote it, with group and version
	Wildcard bool                  // the entry has a wildcard, and nothing that fits is left
	Near     string                // what Name may be a misspelling of; "" if nothing is close
	Failed   []schema.GroupVersion // never seen, and not answered for now: the resource may be one of theirs
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("the server has no resource %q%s", e.Name, DidYouMean(e.Near))
	if e.Wildcard {
		msg = fmt.Sprintf("the server has nothing to watch for %q that no other entry names", e.Name)
	}
	if len(e.Failed) > 0 {
		msg += ", but it could not tell about " + strings.Join(texts(e.Failed), ", ")
	}
	return msg
}

// MayCome reports whether the server may get the resource as it is now: it may be a custom one, or is in a group that
// does not answer.
func (e *NotFoundError) MayCome() bool {
	return e.Wildcard || len(e.Failed) > 0 || builtin.IsCustom(e.Name)
}

// DidYouMean offers a name within a message; "" is none.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}

// texts returns what each of all is called.
func texts[T fmt.Stringer](all []T) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.String()
	}
	return names
}

// UnwatchableError means that a resource does not support list and watch. The entry is pending: a later server may.
type UnwatchableError struct {
	GVR   schema.GroupVersionResource
	Verbs []string // what it supports
}

func (e *UnwatchableError) Error() string {
	verbs := cmp.Or(strings.Join(e.Verbs, ", "), "nothing")
	return fmt.Sprintf("%s cannot be journalled: it needs list and watch, the server offers %s",
		e.GVR.GroupResource(), verbs)
}

// AmbiguousError means that a name fits several resources between which the server gives no order.
type AmbiguousError struct {
	Name    string
	Matches []schema.GroupResource
}

func (e *AmbiguousError) Error() string {
	names := slices.Sorted(slices.Values(texts(e.Matches)))
	return fmt.Sprintf("%q could be any of %s; write one of them", e.Name, strings.Join(names, ", "))
}

// EntryError is a fault of an entry that shows only beside what the server has, and that only the config can mend.
type EntryError struct{ config.Fault }

// IsConfigFault reports whether an error of ResolveAll goes away only when the config changes.
func IsConfigFault(err error) bool { return errors.As(err, new(*EntryError)) }

func entryError(entry config.Resource, format string, args ...any) *EntryError {
	return &EntryError{config.Fault{File: cmp.Or(entry.File, config.CommandLine), Line: entry.Line,
		Msg: fmt.Sprintf(format, args...)}}
}

// sameAs is the fault of two entries that resolve to the same thing, by names that only the server knows to be the
// same.
func sameAs(entry, other config.Resource, what string) *EntryError {
	return entryError(entry, "%s (%s) and %s (%s) name the same %s; remove one of them",
		other.Entry, other.Name, entry.Entry, entry.Name, what)
}

// PartialError means that the server answered for some of its groups only. What was known of the others stays in use.
type PartialError struct {
	Failed map[schema.GroupVersion]error
}

func (e *PartialError) Error() string {
	var parts []string
	for _, gv := range e.Versions() {
		parts = append(parts, fmt.Sprintf("%s: %v", gv, e.Failed[gv]))
	}
	return "discover part of the resources: " + strings.Join(parts, "; ")
}

// Versions are what the server did not answer for, in order.
func (e *PartialError) Versions() []schema.GroupVersion {
	return slices.SortedFunc(maps.Keys(e.Failed), func(a, b schema.GroupVersion) int {
		return strings.Compare(a.String(), b.String())
	})
}

// Unwrap gives errors.Is each cause.
func (e *PartialError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }
