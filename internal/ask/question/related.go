package question

import (
	"context"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
)

// family is what is found of a selection's relations.
type family struct {
	up, down   map[string]bool // uids; down has those that were selected, and "Kind namespace/name" of each
	namespaces map[string]bool
	defined    map[string]bool // resources of selected CustomResourceDefinitions, and whether there is a stream of them
}

// Related returns a selection of the selected objects and those that belong to them, in the lines between two moments:
// what they own, and what that owns; their owners, and theirs; the Events about any of what they own; and of a
// CustomResourceDefinition all objects that it defines.
func (j *Journal) Related(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (*argument.Selection, error) {
	return archive.Again(j.Journal, func() (*argument.Selection, error) { return j.related(ctx, s, since, until) })
}

func (j *Journal) related(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (*argument.Selection, error) {
	f := &family{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	begin, _, err := j.Inside(ctx, since, until)
	if err != nil {
		return nil, err
	}
	if begin, err = j.Base(ctx, begin); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		before := len(f.up) + len(f.down)
		for i := begin; i < len(j.Segments); i++ {
			if until.Seq > 0 && j.Segments[i].FirstSeq > until.Seq {
				break
			}
			x, err := j.Index(ctx, i)
			if err != nil {
				return nil, err
			}
			if first {
				err = f.take(x, s)
			} else {
				err = f.look(x)
			}
			if err != nil {
				return nil, err
			}
		}
		if !first && len(f.up)+len(f.down) == before {
			break
		}
	}
	uids := maps.Clone(f.up)
	maps.Copy(uids, f.down)
	delete(f.namespaces, "")
	unwatched := slices.Clone(s.Unwatched)
	for _, name := range slices.Sorted(maps.Keys(f.defined)) {
		if !f.defined[name] {
			unwatched = append(unwatched, argument.NobodyWatched(name, ""))
		}
	}
	return &argument.Selection{
		UIDs: uids, Namespaces: slices.Sorted(maps.Keys(f.namespaces)), Unwatched: unwatched, Bare: true,
	}, nil
}

// take begins with what is selected.
func (f *family) take(x *index.Index, s *argument.Selection) error {
	for m, err := range s.Matches(x) {
		if err != nil {
			return err
		}
		f.add(m)
		f.own(m)
		if m.Stream.Group == "apiextensions.k8s.io" && m.Stream.Resource == "customresourcedefinitions" {
			f.defined[strings.Clone(m.Name)] = false
		}
	}
	return nil
}

func (f *family) add(m argument.Match) {
	f.down[m.UID] = true
	f.down[m.Stream.Kind+" "+m.Namespace+"/"+m.Name] = true
	f.namespaces[strings.Clone(m.Namespace)] = true
}

// own notes the owners of an object; what an Event is about is none.
func (f *family) own(m argument.Match) {
	for _, uid := range m.Refs {
		if !strings.Contains(uid, " ") {
			f.up[uid] = true
		}
	}
}

// look goes through all objects of the family's namespaces once. What belongs to an object in no namespace may be in
// any: its Events are in default, the Lease of a Node in kube-node-lease.
func (f *family) look(x *index.Index) error {
	s := &argument.Selection{Bare: true}
	if !f.namespaces[""] {
		s.Namespaces = slices.Sorted(maps.Keys(f.namespaces))
	}
	for r, err := range x.Removals() {
		switch {
		case err != nil:
			return err
		case f.namespaces[""]: // some of what was removed there may have belonged to it
			f.namespaces[strings.Clone(r.Namespace)] = true
		}
	}
	for i := range x.Streams {
		if _, defined := f.defined[argument.Named(&x.Streams[i])]; defined {
			f.defined[argument.Named(&x.Streams[i])] = true
		}
	}
	for m, err := range s.Matches(x) {
		switch {
		case err != nil:
			return err
		case len(f.defined) > 0 && f.defined[argument.Named(m.Stream)],
			slices.ContainsFunc(m.Refs, func(uid string) bool { return f.down[uid] }):
			f.add(m)
		case f.up[m.UID] && m.Stream.Resource != "events":
			f.own(m)
		}
	}
	return nil
}
