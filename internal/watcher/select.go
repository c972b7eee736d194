package watcher

import (
	"errors"
	"fmt"
	pathpkg "path"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/event"
	"kubejournal/internal/filter"
)

// Selection is what is written of a stream; what it holds back is known all the
// same. The zero Selection is everything.
type Selection struct {
	Types             []string // of lines about objects; nil: all
	ExcludeNamespaces []string // globs as in path.Match
	Filter            string   // CEL, see package filter
}

// selector decides by a Selection; nil selects everything. It belongs to its stream.
type selector struct {
	types   []string
	globs   []string
	filter  *filter.Program // nil: none
	out     map[string]bool // namespaces that were asked for: excluded or not
	failed  prometheus.Counter
	log     *zap.Logger
	failing bool // a failure was logged
}

// maxNamespaces bounds what a selector remembers.
const maxNamespaces = 4096

func newSelector(s Selection, failed prometheus.Counter, log *zap.Logger) (*selector, error) {
	sel := &selector{types: s.Types, globs: s.ExcludeNamespaces, out: make(map[string]bool), failed: failed, log: log}
	for _, g := range s.ExcludeNamespaces {
		if _, err := pathpkg.Match(g, ""); err != nil {
			return nil, fmt.Errorf("excluded namespaces %q: %w", g, err)
		}
	}
	if s.Filter != "" {
		var err error
		if sel.filter, err = filter.Compile(s.Filter); err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
	}
	return sel, nil
}

// excludes reports whether the objects of a namespace are not written. Those that
// are in none are.
func (s *selector) excludes(namespace []byte) bool {
	if s == nil || len(s.globs) == 0 || len(namespace) == 0 {
		return false
	}
	out, known := s.out[string(namespace)]
	if known {
		return out
	}
	name := string(namespace)
	out = slices.ContainsFunc(s.globs, func(glob string) bool {
		matches, err := pathpkg.Match(glob, name)
		return matches && err == nil
	})
	if len(s.out) >= maxNamespaces {
		clear(s.out)
	}
	s.out[name] = out
	return out
}

// wants reports whether lines of a type are written.
func (s *selector) wants(t event.Type) bool {
	return s == nil || s.types == nil || slices.Contains(s.types, string(t))
}

// matches asks the filter about an object as the server sent it; of an unusable one,
// nothing is known but its name. Where the filter cannot be evaluated, the object is
// counted, and written.
func (s *selector) matches(t event.Type, o *event.Object) bool {
	if s == nil || s.filter == nil {
		return true
	}
	if o.Unusable != nil {
		yes, decided := s.filter.MatchUnknown(string(t))
		if !decided {
			s.fail(errUnusable)
		}
		return yes || !decided
	}
	yes, err := s.filter.Match(string(t), o.Raw)
	if err != nil {
		s.fail(err)
	}
	return yes || err != nil
}

var errUnusable = errors.New("evaluate filter: the object is unusable")

func (s *selector) fail(err error) {
	s.failed.Inc()
	if !s.failing {
		s.failing = true
		s.log.Warn("filter cannot be evaluated on an object, which is written; further ones are only counted", zap.Error(err))
	}
}

// matchesGone asks the filter about a deletion that a list has shown. What the
// object was at the end is not known: where that decides, the reader is told if it
// was told of the version before.
func (s *selector) matchesGone(withheld bool) bool {
	if s == nil || s.filter == nil {
		return true
	}
	if yes, decided := s.filter.MatchUnknown(string(event.Deleted)); decided {
		return yes
	}
	return !withheld
}
