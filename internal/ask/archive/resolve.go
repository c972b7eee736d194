package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// definition is what a CustomResourceDefinition says, as index.Index.Names has it.
type definition struct {
	Group    string                `json:"group"`
	Names    argument.DefinedNames `json:"names"`
	Versions []struct {
		Name    string   `json:"name"`
		Columns []Column `json:"additionalPrinterColumns"`
	} `json:"versions"`
}

// Column is a column that a CustomResourceDefinition gives a table of its objects.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Priority int    `json:"priority"`
}

// Resolve finds what a selection names, and what is meant by short names that CustomResourceDefinitions give. The error
// is an *UnknownError for a name that no line is about, with what was probably meant. Where some of the resources were
// not watched, the selection says so.
func (j *Journal) Resolve(ctx context.Context, s *argument.Selection) error {
	if s.Unwatched, s.Absent = nil, nil; j.Empty() || s.All() {
		return nil
	}
	_, err := Again(j, func() (*argument.Selection, error) { return s, j.resolve(ctx, s) })
	return err
}

func (j *Journal) resolve(ctx context.Context, s *argument.Selection) error {
	newest, err := j.Newest(ctx)
	if err != nil {
		return err
	}
	s.Unwatched, s.Absent = nil, nil
	var watched []*argument.Object
	for i := range s.Objects {
		err := j.resolveResource(newest, &s.Objects[i])
		if u, is := errors.AsType[*argument.UnknownError](err); is && u.Unwatched && tolerates(s, len(s.Unwatched)) {
			s.Unwatched = append(s.Unwatched, u)
			continue
		}
		if err != nil {
			return err
		}
		watched = append(watched, &s.Objects[i])
	}
	if err := j.resolveNamespaces(ctx, s); err != nil {
		return err
	}
	for _, o := range watched {
		if o.Name != "" {
			if err := j.resolveName(ctx, s, o); !awaits(s, err) {
				return err
			}
		}
	}
	return nil
}

// tolerates reports whether one more resource may have been watched by nobody, where that holds of some already.
func tolerates(s *argument.Selection, unwatched int) bool {
	return s.Wait || unwatched < len(s.Objects)-1
}

// awaits reports whether to go on: an object that is not there may still come where Wait is set.
func awaits(s *argument.Selection, err error) bool {
	u, unknown := errors.AsType[*argument.UnknownError](err)
	if unknown && s.Wait {
		s.Absent = append(s.Absent, u)
	}
	return err == nil || unknown && s.Wait
}

// resolveResource finds the resource of an object in the last indexes. A singular becomes the plural.
func (j *Journal) resolveResource(newest []*index.Index, o *argument.Object) error {
	var there names
	plurals := make(map[string]bool)
	for _, x := range newest {
		for _, s := range x.Streams {
			there.addResource(argument.Named(&s), s.Kind)
			if o.MatchStream(&s) {
				plurals[s.Resource] = true
			}
		}
	}
	if len(plurals) > 0 {
		if len(plurals) == 1 {
			o.Means(slices.Collect(maps.Keys(plurals))[0])
		}
		return nil
	}
	defs, err := definitions(newest)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(defs, func(d definition) bool { return d.Names.Resolve(&o.Resource, d.Group) }) {
		return nil
	}
	if slices.ContainsFunc(defs, func(d definition) bool { return d.Names.Defines(&o.Resource) }) {
		return argument.NobodyWatched(o.Resource.String(), "")
	}
	return there.noResource(&o.Resource)
}

func definitions(newest []*index.Index) (all []definition, err error) {
	names := make(map[string]string)
	for _, x := range slices.Backward(newest) {
		of, err := x.Names()
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		maps.Copy(names, of)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var d definition
		if json.Unmarshal([]byte(names[name]), &d) == nil { // what is not as the API has it defines nothing
			all = append(all, d)
		}
	}
	return all, nil
}

// Columns returns the columns that a CustomResourceDefinition gives a table of a stream's objects.
func (j *Journal) Columns(ctx context.Context, s *index.Stream) ([]Column, error) {
	newest, err := j.Newest(ctx)
	if err != nil {
		return nil, err
	}
	defs, err := definitions(newest)
	if err != nil {
		return nil, err
	}
	for _, d := range slices.Concat(j.defs, defs) {
		for _, v := range d.Versions {
			if d.Group == s.Group && d.Names.Plural == s.Resource && v.Name == s.Version {
				return v.Columns, nil
			}
		}
	}
	return nil, nil
}

// resolveNamespaces makes sure that there is a line about something in each namespace, about it, or about a stream of
// it.
func (j *Journal) resolveNamespaces(ctx context.Context, s *argument.Selection) error {
	for _, namespace := range s.Namespaces {
		var there names
		found := false
		for i := len(j.Segments) - 1; i >= 0 && !found; i-- {
			x, err := j.Index(ctx, i)
			if err != nil {
				return err
			}
			for n, stream := range x.Streams {
				found = found || line.ParseStreamName(stream.Name).Namespace == namespace
				for o, err := range firstOf(x, n, namespace) {
					if err != nil {
						return fmt.Errorf("read index: %w", err)
					}
					found = found || o.Namespace == namespace || stream.Resource == "namespaces" && o.Name == namespace
				}
				if found {
					break
				}
			}
			if i >= len(j.Segments)-2 && !found {
				if err := namespacesOf(x, &there); err != nil {
					return err
				}
			}
		}
		if !found {
			return there.noNamespace(namespace)
		}
	}
	return nil
}

// firstOf yields the first object of a stream in a namespace, and the namespace itself where the stream has namespaces.
func firstOf(x *index.Index, stream int, namespace string) func(func(*index.Object, error) bool) {
	return func(yield func(*index.Object, error) bool) {
		in, name := &namespace, (*string)(nil)
		if x.Streams[stream].Resource == "namespaces" {
			in, name = new(""), &namespace
		}
		for o, err := range x.Objects(stream, in, name) {
			yield(o, err)
			return
		}
	}
}

func namespacesOf(x *index.Index, there *names) error {
	for n := range x.Streams {
		for o, err := range x.Objects(n, nil, nil) {
			if err != nil {
				return fmt.Errorf("read index: %w", err)
			}
			if o.Namespace != "" {
				there.addNamespace(o.Namespace)
			}
		}
	}
	return nil
}

// resolveName makes sure that there is a line about an object of that name.
func (j *Journal) resolveName(ctx context.Context, s *argument.Selection, o *argument.Object) error {
	one := &argument.Selection{Objects: []argument.Object{*o}, Namespaces: s.Namespaces}
	for i := len(j.Segments) - 1; i >= 0; i-- {
		x, err := j.Index(ctx, i)
		if err != nil {
			return err
		}
		for _, err := range one.Matches(x) {
			return err // nil for the first that is there
		}
	}
	newest, err := j.Newest(ctx)
	if err != nil {
		return err
	}
	var there names
	every := &argument.Selection{Objects: []argument.Object{{Resource: o.Resource}}}
	for _, x := range newest {
		for other, err := range every.Matches(x) {
			if err != nil {
				return err
			}
			there.addObject(o, s.Namespaces, other.Namespace, other.Name)
		}
	}
	return there.noObject(o, s.Namespaces)
}
