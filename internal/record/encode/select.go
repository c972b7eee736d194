package encode

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/filter"
)

// Selection is what is written of a stream; what it holds back is known all the same. The zero Selection is everything.
type Selection struct {
	Types             []string // of lines about objects; nil: all
	ExcludeNamespaces []string // globs as in path.Match
	Filter            string   // CEL, see package filter
}

// selector decides by a Selection. It belongs to its stream.
type selector struct {
	Selection
	filter  *filter.Program // nil: none
	failed  prometheus.Counter
	log     *zap.Logger
	failing bool // a failure was logged
}

func newSelector(s Selection, failed prometheus.Counter, log *zap.Logger) (*selector, error) {
	sel := &selector{Selection: s, failed: failed, log: log}
	for _, g := range s.ExcludeNamespaces {
		if _, err := path.Match(g, ""); err != nil {
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

// excludes reports whether the objects of a namespace are not written. Those that are in none are.
func (s *selector) excludes(namespace []byte) bool {
	if len(s.ExcludeNamespaces) == 0 || len(namespace) == 0 {
		return false
	}
	name := string(namespace)
	return slices.ContainsFunc(s.ExcludeNamespaces, func(glob string) bool {
		matches, err := path.Match(glob, name)
		return matches && err == nil
	})
}

// wants reports whether lines of a type are written.
func (s *selector) wants(t line.Type) bool {
	return s.Types == nil || slices.Contains(s.Types, string(t))
}

var errUnusable = errors.New("evaluate filter: the object is unusable")

// matches asks the filter about an object as the server sent it; of an unusable one, nothing is known but its name.
// Where the filter cannot be evaluated, the object is counted, and written.
func (s *selector) matches(t line.Type, o *object.Object) bool {
	if s.filter == nil {
		return true
	}
	yes, err := true, errUnusable
	if o.Unusable == nil {
		yes, err = s.filter.Match(string(t), o.Raw)
	} else if is, decided := s.filter.MatchUnknown(string(t)); decided {
		yes, err = is, nil
	}
	if err == nil {
		return yes
	}
	s.failed.Inc()
	if !s.failing {
		s.failing = true
		s.log.Warn("filter cannot be evaluated on an object, which is written; further ones are only counted",
			zap.Error(err))
	}
	return true
}

// matchesGone asks the filter about a deletion that a list has shown. What the object was at the end is not known:
// where that decides, the deletion is written if the version before was.
func (s *selector) matchesGone(withheld bool) bool {
	if s.filter == nil {
		return true
	}
	if yes, decided := s.filter.MatchUnknown(string(line.Deleted)); decided {
		return yes
	}
	return !withheld
}
