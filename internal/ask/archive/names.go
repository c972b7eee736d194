package archive

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/host/suggest"
)

// names are those that a journal has, of which one was probably meant that it does not have. The zero names has none.
type names struct {
	resources  map[string]string // with their kinds
	namespaces map[string]bool
	objects    map[argument.Resource]map[string]bool // of those that are asked for
	elsewhere  map[argument.Object]string            // a namespace that has it
}

// maxNames bounds the names of a kind.
const maxNames = 10_000

func put[V any](all *map[string]V, name string, v V) {
	if *all == nil {
		*all = make(map[string]V)
	}
	if _, known := (*all)[name]; !known && len(*all) < maxNames {
		(*all)[strings.Clone(name)] = v
	}
}

// addResource adds a resource, with its group if it has one, and its kind.
func (n *names) addResource(resource, kind string) { put(&n.resources, resource, kind) }

// addNamespace adds a namespace.
func (n *names) addNamespace(name string) { put(&n.namespaces, name, true) }

// addObject adds an object of the resource of o, which is asked for in some namespaces; in any if there are none.
func (n *names) addObject(o *argument.Object, in []string, namespace, name string) {
	if n.objects == nil {
		n.objects, n.elsewhere = make(map[argument.Resource]map[string]bool), make(map[argument.Object]string)
	}
	switch there := len(in) == 0 || slices.Contains(in, namespace); {
	case there:
		all := n.objects[o.Resource]
		put(&all, name, true)
		n.objects[o.Resource] = all
	case name == o.Name:
		n.elsewhere[*o] = strings.Clone(namespace)
	}
}

// noResource is the error for a resource that is not there.
func (n *names) noResource(r *argument.Resource) *argument.UnknownError {
	near := n.nearResource(r)
	switch {
	case r.MayCome():
		return argument.NobodyWatched(r.String(), mean(near))
	case near == "" && len(n.resources) > 0:
		all := slices.Sorted(maps.Keys(n.resources)) // custom ones first: it is one of these
		slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
		near = "; it has " + argument.Some(all)
	default:
		near = mean(near)
	}
	return &argument.UnknownError{
		NoResource: true,
		Text: fmt.Sprintf(
			"the journal has no line about %q, and it is not a resource of Kubernetes' own%s", r, near,
		),
	}
}

// noNamespace is the error for a namespace that is not there.
func (n *names) noNamespace(name string) *argument.UnknownError {
	return argument.Unknownf(
		"the journal has no line about a namespace %q%s", name,
		mean(suggestName(name, slices.Sorted(maps.Keys(n.namespaces)))),
	)
}

// noObject is the error for an object that is in none of some namespaces. Two resources may have been named as kubectl
// does not take them.
func (n *names) noObject(o *argument.Object, in []string) *argument.UnknownError {
	meant := mean(suggestName(o.Name, slices.Sorted(maps.Keys(n.objects[o.Resource]))))
	if namespace := n.elsewhere[*o]; namespace != "" {
		meant = "; namespace " + namespace + " has one"
	} else if other, err := argument.ParseObject(o.Name); meant == "" && err == nil && other.MayCome() {
		meant = fmt.Sprintf("; for both resources write %s,%s", o.Word(), o.Name)
	} else if meant == "" && strings.Contains(o.Name, ",") {
		meant = fmt.Sprintf("; a comma is a part of a name: for several objects write e.g. %s a b", o.Word())
	}
	where := strings.Join(in, " or ")
	if where != "" {
		where = " in namespace " + where
	}
	return argument.Unknownf("the journal has no line about %s of the name %q%s%s", o.Resource, o.Name, where, meant)
}

// nearResource suggests a resource for a word, which may have the initials of a kind or begin like it.
func (n *names) nearResource(r *argument.Resource) string {
	there := slices.Sorted(maps.Keys(n.resources))
	for _, resource := range there {
		kind := n.resources[resource]
		initials := strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r
			}
			return -1
		}, kind)
		begins := len(r.Word()) > 2 && len(kind) > len(r.Word()) && strings.EqualFold(kind[:len(r.Word())], r.Word())
		if begins || strings.EqualFold(initials, r.Word()) {
			return resource
		}
	}
	if near := suggestResource(r.Word(), there); near != "" && near != r.Word() {
		return near
	}
	short := slices.DeleteFunc(
		there, func(resource string) bool { return rank(resource) > 0 || !abbreviates(r.Word(), resource) },
	)
	if len(short) == 1 {
		return short[0]
	}
	return ""
}

// rank is 0 for a custom resource.
func rank(resource string) int {
	if builtin.IsCustom(resource) {
		return 0
	}
	return 1
}

// abbreviates reports whether a word begins like a name and has letters of it in their order, as short names do.
func abbreviates(word, name string) bool {
	if word == "" || name == "" || word[0] != name[0] {
		return false
	}
	for i := range len(word) {
		n := strings.IndexByte(name, word[i])
		if n < 0 {
			return false
		}
		name = name[n+1:]
	}
	return true
}

func mean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// suggestResource returns what was probably meant by an unknown resource: one of those that there are, or of
// Kubernetes' own; "" where nothing is near.
func suggestResource(name string, there []string) string {
	var short []string
	for b := range builtin.All() {
		there = append(there, b.Resource)
		short = append(short, b.ShortNames...)
	}
	return suggestName(name, append(there, short...))
}

// suggestName returns the nearest of the names, or "" where none is near. Of a name with a group the resource counts
// too.
func suggestName(name string, there []string) string {
	if near := suggest.Near(name, there); near != "" {
		return near
	}
	resources := make([]string, len(there))
	for i, known := range there {
		resources[i], _, _ = strings.Cut(known, ".")
	}
	near := suggest.Near(name, resources)
	if near == "" && len(name) > 3 {
		near = suggest.Near(name+"s", resources) // of a singular
	}
	if near == "" {
		return ""
	}
	return there[slices.Index(resources, near)]
}
