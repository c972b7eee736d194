package query

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/index"
)

// UnknownError says that the journal has nothing of a name.
type UnknownError struct {
	Unwatched bool // it may have been there, and nobody watched
	text      string
}

func (e *UnknownError) Error() string { return e.text }

func unknown(format string, args ...any) error {
	return &UnknownError{text: fmt.Sprintf(format, args...)}
}

// definition is what a CustomResourceDefinition says, as index.Index.Names has it.
type definition struct {
	Group string `json:"group"`
	Names struct {
		Plural     string   `json:"plural"`
		Singular   string   `json:"singular"`
		Kind       string   `json:"kind"`
		ShortNames []string `json:"shortNames"`
	} `json:"names"`
	Scope    string `json:"scope"`
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

// Resolve finds what a selection names, and what is meant by short names that CustomResourceDefinitions give. The error is
// an *UnknownError for a name that no line is about, with what was probably meant.
func (j *Journal) Resolve(ctx context.Context, s *Selection) error {
	if j.Empty() {
		return nil
	}
	_, err := again(j, func() (*Selection, error) { return s, j.resolve(ctx, s) })
	return err
}

func (j *Journal) resolve(ctx context.Context, s *Selection) error {
	newest, err := j.newest(ctx)
	if err != nil {
		return err
	}
	for i := range s.Objects {
		if err := j.resolveResource(newest, &s.Objects[i]); err != nil {
			return err
		}
	}
	if err := j.resolveNamespaces(ctx, s); err != nil {
		return err
	}
	for i := range s.Objects {
		if s.Objects[i].Name != "" {
			if err := j.resolveName(ctx, s, &s.Objects[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Object) matches(s *index.Stream) bool {
	return o.Match([]byte(s.Group), []byte(s.Version), []byte(s.Resource), []byte(s.Kind))
}

func (j *Journal) resolveResource(newest []*index.Index, o *Object) error {
	kinds := make(map[string]string)
	for _, x := range newest {
		if slices.ContainsFunc(x.Streams, func(s index.Stream) bool { return o.matches(&s) }) {
			return nil
		}
		for _, s := range x.Streams {
			resource := s.Resource
			if s.Group != "" {
				resource += "." + s.Group
			}
			kinds[resource] = s.Kind
		}
	}
	defs, err := definitions(newest)
	if err != nil {
		return err
	}
	for _, d := range defs {
		if !o.hasGroup && (o.name == d.Names.Singular || slices.Contains(d.Names.ShortNames, o.name)) {
			o.Resolve(d.Names.Plural, d.Group)
			return nil
		}
	}
	if o.MayCome() {
		return &UnknownError{true, fmt.Sprintf("the journal has no line about %s: nobody watched them%s", o.Resource, mean(nearOther(o, kinds)))}
	}
	near := nearOther(o, kinds)
	if near == "" {
		return unknown("the journal has no line about %q, and it is not a resource of Kubernetes' own; it has %s", o.Resource, some(slices.Sorted(maps.Keys(kinds))))
	}
	return unknown("the journal has no line about %q, and it is not a resource of Kubernetes' own%s", o.Resource, mean(near))
}

// nearOther suggests a resource for a word, which may have the initials of a kind or begin like it.
func nearOther(o *Object, kinds map[string]string) string {
	there := slices.Sorted(maps.Keys(kinds))
	word := o.Word()
	for _, resource := range there {
		kind := kinds[resource]
		initials := strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r
			}
			return -1
		}, kind)
		begins := len(word) > 2 && len(kind) > len(word) && strings.EqualFold(kind[:len(word)], word)
		if begins || strings.EqualFold(initials, word) {
			return resource
		}
	}
	if near := SuggestResource(word, there); near != word {
		return near
	}
	return ""
}

func mean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// some lists the first of some names.
func some(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
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
	newest, err := j.newest(ctx)
	if err != nil {
		return nil, err
	}
	defs, err := definitions(newest)
	if err != nil {
		return nil, err
	}
	for _, d := range defs {
		for _, v := range d.Versions {
			if d.Group == s.Group && d.Names.Plural == s.Resource && v.Name == s.Version {
				return v.Columns, nil
			}
		}
	}
	return nil, nil
}

// resolveNamespaces makes sure that there is a line about something in each namespace, or about it.
func (j *Journal) resolveNamespaces(ctx context.Context, s *Selection) error {
	for _, namespace := range s.Namespaces {
		there := make(map[string]bool)
		found := false
		for i := len(j.segments) - 1; i >= 0 && !found; i-- {
			x, err := j.index(ctx, i)
			if err != nil {
				return err
			}
			for n, stream := range x.Streams {
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
			if i >= len(j.segments)-2 && !found {
				if err := namespacesOf(x, there); err != nil {
					return err
				}
			}
		}
		if !found {
			return unknown("the journal has no line about a namespace %q%s", namespace, mean(Suggest(namespace, slices.Sorted(maps.Keys(there)))))
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

func namespacesOf(x *index.Index, there map[string]bool) error {
	for n := range x.Streams {
		for o, err := range x.Objects(n, nil, nil) {
			if err != nil {
				return fmt.Errorf("read index: %w", err)
			}
			if o.Namespace != "" {
				there[strings.Clone(o.Namespace)] = true
			}
		}
	}
	return nil
}

// resolveName makes sure that there is a line about an object of that name.
func (j *Journal) resolveName(ctx context.Context, s *Selection, o *Object) error {
	one := &Selection{Objects: []Object{*o}, Namespaces: s.Namespaces}
	for i := len(j.segments) - 1; i >= 0; i-- {
		x, err := j.index(ctx, i)
		if err != nil {
			return err
		}
		for _, p := range one.picks(x) {
			for _, err := range one.objects(x, p) {
				if err != nil {
					return fmt.Errorf("read index: %w", err)
				}
				return nil
			}
		}
	}
	in := strings.Join(s.Namespaces, " or ")
	if in != "" {
		in = " in namespace " + in
	}
	meant, err := j.meantName(ctx, s, o)
	if err != nil {
		return err
	}
	return unknown("the journal has no line about %s of the name %q%s%s", o.Resource, o.Name, in, meant)
}

// meantName suggests another namespace or name.
func (j *Journal) meantName(ctx context.Context, s *Selection, o *Object) (string, error) {
	newest, err := j.newest(ctx)
	if err != nil {
		return "", err
	}
	elsewhere, names := "", make(map[string]bool)
	every := &Selection{Objects: []Object{{Resource: o.Resource}}}
	for _, x := range newest {
		for _, p := range every.picks(x) {
			for other, err := range every.objects(x, p) {
				if err != nil {
					return "", fmt.Errorf("read index: %w", err)
				}
				if other.Name == o.Name {
					elsewhere = strings.Clone(other.Namespace)
				}
				if len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, other.Namespace) {
					names[strings.Clone(other.Name)] = true
				}
			}
		}
	}
	if elsewhere != "" {
		return "; namespace " + elsewhere + " has one", nil
	}
	if near := Suggest(o.Name, slices.Sorted(maps.Keys(names))); near != "" {
		return mean(near), nil
	}
	if other, err := ParseObject(o.Name); err == nil && other.MayCome() {
		return fmt.Sprintf("; for both resources write %s,%s", o.Word(), o.Name), nil
	}
	return "", nil
}
