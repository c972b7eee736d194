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
	if err := j.eachIndex(ctx, since, until, func(x *index.Index) error { return f.take(x, s) }); err != nil {
		return nil, err
	}
	for before := -1; before < len(f.up)+len(f.down); {
		before = len(f.up) + len(f.down)
		if err := j.eachIndex(ctx, since, until, f.look); err != nil {
			return nil, err
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

// eachIndex calls look with the index of each segment that says what there was between two moments.
func (j *Journal) eachIndex(
	ctx context.Context, since, until argument.Moment, look func(*index.Index) error,
) error {
	begin, _, err := j.Inside(ctx, since, until)
	if err != nil {
		return err
	}
	if begin, err = j.Base(ctx, begin); err != nil {
		return err
	}
	for i := begin; i < len(j.Segments); i++ {
		if until.Seq > 0 && j.Segments[i].FirstSeq > until.Seq {
			break
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return err
		}
		if err := look(x); err != nil {
			return err
		}
	}
	return nil
}

// Events returns a selection of the selected Events, and of those about selected objects, in the lines between two
// moments.
func (j *Journal) Events(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (*argument.Selection, error) {
	return archive.Again(j.Journal, func() (*argument.Selection, error) { return j.events(ctx, s, since, until) })
}

func (j *Journal) events(
	ctx context.Context, s *argument.Selection, since, until argument.Moment,
) (*argument.Selection, error) {
	objects, err := argument.Objects([]string{"events"})
	if err != nil {
		return nil, err
	}
	f := &family{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	if err := j.eachIndex(ctx, since, until, func(x *index.Index) error { return f.take(x, s) }); err != nil {
		return nil, err
	}
	// Nothing else than Events has the uids of the objects themselves, which are there so that there are some.
	is := &argument.Selection{Objects: objects, UIDs: maps.Clone(f.down), Unwatched: slices.Clone(s.Unwatched)}
	is.UIDs[""] = false
	if !f.namespaces[""] {
		is.Namespaces = slices.Sorted(maps.Keys(f.namespaces))
	}
	all, watched := &argument.Selection{Objects: objects, Namespaces: is.Namespaces}, false
	err = j.eachIndex(ctx, since, until, func(x *index.Index) error {
		watched = watched || len(all.Picks(x)) > 0
		for m, err := range all.Matches(x) {
			if err != nil {
				return err
			}
			if slices.ContainsFunc(m.Refs, func(uid string) bool { return f.down[uid] }) {
				is.UIDs[strings.Clone(m.UID)] = true
			}
		}
		return nil
	})
	if !watched {
		is.Unwatched = append(is.Unwatched, argument.NobodyWatched("events", ""))
	}
	return is, err
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
