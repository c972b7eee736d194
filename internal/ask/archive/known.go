package archive

import (
	"context"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/builtin"
)

// The names that completion offers are those of the last indexes: objects that were deleted long ago are not among
// them.

// ResourceNames returns the resources that the journal has streams of: with the group of a custom resource, and of one
// that has the name of one of Kubernetes' own.
func (j *Journal) ResourceNames(ctx context.Context) ([]string, error) {
	names := make(map[string]bool)
	newest, err := j.Newest(ctx)
	for _, x := range newest {
		for i := range x.Streams {
			s := &x.Streams[i]
			if builtin.HasGroup(s.Group) {
				names[s.Resource] = true
			} else {
				names[argument.Named(s)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), err
}

// ObjectNames returns the names of the selected objects.
func (j *Journal) ObjectNames(ctx context.Context, s *argument.Selection) ([]string, error) {
	return j.known(ctx, s, func(m argument.Match) string { return m.Name })
}

// NamespaceNames returns the namespaces that there are, and those that objects are in.
func (j *Journal) NamespaceNames(ctx context.Context) ([]string, error) {
	return j.known(ctx, &argument.Selection{}, func(m argument.Match) string {
		if m.Stream.Group == "" && m.Stream.Resource == "namespaces" {
			return m.Name
		}
		return m.Namespace
	})
}

// known returns one of the names of each selected object, each name once.
func (j *Journal) known(ctx context.Context, s *argument.Selection, of func(argument.Match) string) ([]string, error) {
	newest, err := j.Newest(ctx)
	if err != nil {
		return nil, err
	}
	names, last := make(map[string]bool), ""
	for _, x := range newest {
		for m, err := range s.Matches(x) {
			if err != nil {
				return nil, err
			}
			if name := of(m); name != last && name != "" {
				last = strings.Clone(name)
				names[last] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
