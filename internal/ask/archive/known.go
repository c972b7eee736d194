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

// resourceNames returns the resources that the journal has streams of: with the group of a custom resource, and of one
// that has the name of one of Kubernetes' own.
func (j *Journal) resourceNames(ctx context.Context) ([]string, error) {
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

// CompleteObjects completes a word that names objects: the last of several RESOURCEs separated by commas, the NAME
// after RESOURCE/, or a NAME where the word before is a RESOURCE.
func (j *Journal) CompleteObjects(ctx context.Context, namespaces, args []string, word string) []string {
	resource, _, slash := strings.Cut(word, "/")
	before := resource + "/"
	if !slash && len(args) > 0 && !strings.Contains(args[0], "/") {
		resource, before = args[0], ""
	} else if !slash {
		before = word[:strings.LastIndexByte(word, ',')+1]
		all, _ := j.resourceNames(ctx) // or those that were found
		return after(before, all)
	}
	objects, err := argument.Objects([]string{resource})
	if err != nil {
		return nil
	}
	s := &argument.Selection{Objects: objects, Namespaces: namespaces}
	if j.Resolve(ctx, s) != nil {
		return nil
	}
	all, _ := j.known(ctx, s, func(m argument.Match) string { return m.Name })
	return after(before, all)
}

// CompleteNamespaces completes the last of several namespaces separated by commas, with those that there are, and those
// that objects are in.
func (j *Journal) CompleteNamespaces(ctx context.Context, word string) []string {
	all, _ := j.known(ctx, &argument.Selection{}, func(m argument.Match) string {
		if m.Stream.Group == "" && m.Stream.Resource == "namespaces" {
			return m.Name
		}
		return m.Namespace
	})
	return after(word[:strings.LastIndexByte(word, ',')+1], all)
}

// after puts before in front of names.
func after(before string, names []string) []string {
	for i := range names {
		names[i] = before + names[i]
	}
	return names
}
