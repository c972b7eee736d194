// Package argument reads the arguments with which people ask a journal, objects named as for kubectl and times, and
// finds what they select. It needs neither a server nor a journal: short names are those of Kubernetes' own resources,
// until archive.Journal.Resolve finds others.
package argument

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/index"
)

// Object selects the objects of a resource, or the one of them that has the name, in whatever namespace.
type Object struct {
	Resource
	Name string // "" is every one
}

// IsOne reports whether objects of one name and of one resource are selected.
func (o *Object) IsOne() bool { return o.Name != "" && o.name != "*" }

// Resource selects a resource as kubectl lets one name it.
type Resource struct {
	name           string // lower case; plural or singular, "*" is every one
	version, group string
	hasGroup       bool // false: every group; "" is core
}

var (
	resourceForm = regexp.MustCompile(`^(\*|[A-Za-z][-A-Za-z0-9]*)(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)
	versionForm  = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// quoteTime is the error for a part of a TIME with spaces that became an argument of its own.
const quoteTime = "%q is a part of a time; write a time with spaces in quotes: 'yesterday 14:02'"

// isTime reports whether an argument is the rest of a TIME whose spaces were not quoted. No resource is named so.
func isTime(arg string) bool {
	return arg == "ago" || clockForm.MatchString(arg)
}

// isName reports whether an object may have the name: the API rules out /, %, . and .. alone, since a name is a
// segment of a URL's path.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// Objects reads arguments as kubectl get takes them: RESOURCE, RESOURCE NAME..., or RESOURCE/NAME..., where RESOURCE
// may be several with commas, unless a / follows. A NAME is an argument to its end, and may have commas and spaces
// itself. Beside a RESOURCE/NAME, what has no / is a RESOURCE.
func Objects(args []string) ([]Object, error) {
	if len(args) == 0 {
		return nil, nil
	}
	var all []Object
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") }) {
		for _, arg := range args {
			of := []string{arg}
			if !strings.Contains(arg, "/") {
				of = strings.Split(arg, ",")
			}
			for _, text := range of {
				o, err := ParseObject(text)
				if err != nil {
					return nil, err
				}
				all = append(all, o)
			}
		}
		return all, nil
	}
	for text := range strings.SplitSeq(args[0], ",") {
		o, err := ParseObject(text)
		if err != nil {
			return nil, err
		}
		if len(args) == 1 {
			all = append(all, o)
		}
		for _, name := range args[1:] {
			if isTime(name) && strings.Contains(name, ":") {
				return nil, fmt.Errorf(quoteTime, name)
			}
			if o.Name = name; !isName(name) {
				return nil, fmt.Errorf("%q is not the name of an object, which has no / and no %%", name)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// ObjectList reads RESOURCEs and RESOURCE/NAMEs with commas between. What cannot be a RESOURCE belongs to the NAME
// before it, which has a comma itself.
func ObjectList(list string) (all []Object, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		o, err := ParseObject(text)
		if last := len(all) - 1; err != nil && last >= 0 && all[last].Name != "" && isName(text) {
			all[last].Name += "," + text
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// ParseObject reads RESOURCE or RESOURCE/NAME, where RESOURCE is pods, po, pod, deployments.apps, deployments.v1.apps
// or *.
func ParseObject(text string) (Object, error) {
	resource, name, slash := strings.Cut(text, "/")
	switch {
	case isTime(text):
		return Object{}, fmt.Errorf(quoteTime, text)
	case !resourceForm.MatchString(resource):
		return Object{}, fmt.Errorf(
			"%q is not the name of a resource; write it as kubectl takes it, e.g. pods, deployments.apps or deploy/web",
			text,
		)
	case slash && !isName(name):
		return Object{}, fmt.Errorf("%q is not the name of an object; "+
			"write e.g. deploy/web, each as an argument of its own, and its namespace with -n", text)
	}
	first, rest, dotted := strings.Cut(resource, ".")
	r := Resource{name: strings.ToLower(first), group: rest, hasGroup: dotted}
	if version, group, ok := strings.Cut(rest, "."); ok && versionForm.MatchString(version) {
		r.version, r.group = version, group
	}
	if b, ok := builtins()[r.name]; ok && slices.Contains(b.ShortNames, r.name) {
		r.name = b.Resource
	}
	return Object{r, name}, nil
}

// builtins has Kubernetes' own resources by their plurals, singulars and short names.
var builtins = sync.OnceValue(func() map[string]builtin.Resource {
	all := map[string]builtin.Resource{}
	for b := range builtin.All() {
		for _, name := range append([]string{b.Resource, strings.ToLower(b.Kind)}, b.ShortNames...) {
			if _, ok := all[name]; !ok {
				all[name] = b
			}
		}
	}
	return all
})

// Short returns how the plural of one of Kubernetes' own resources is written in short; "" where there is no such name.
func Short(resource []byte) string {
	if b, ok := builtins()[string(resource)]; ok && len(b.ShortNames) > 0 {
		return b.ShortNames[0]
	}
	return ""
}

// IsBuiltin reports whether Kubernetes itself has a resource of that plural, in any group.
func IsBuiltin(resource []byte) bool {
	b, ok := builtins()[string(resource)]
	return ok && b.Resource == string(resource)
}

// inNoNamespace reports whether a resource is one of Kubernetes' own whose objects are in no namespace.
func inNoNamespace(group, resource []byte) bool {
	b, ok := builtins()[string(resource)]
	return ok && !b.Namespaced && b.Resource == string(resource) && b.Group == string(group)
}

// MayCome reports whether there may be such a resource though a journal has none: it is one of Kubernetes' own, or has
// a group as custom resources do.
func (r *Resource) MayCome() bool {
	if r.name == "*" || builtin.IsCustom(r.String()) {
		return true
	}
	for b := range builtin.All() {
		if (!r.hasGroup || b.Group == r.group) && (b.Resource == r.name || strings.EqualFold(b.Kind, r.name)) {
			return true
		}
	}
	return false
}

// Match reports whether a resource is selected. The singular is the kind in lower case, as in every API that follows
// the conventions.
func (r *Resource) Match(group, version, resource, kind []byte) bool {
	if r.name != "*" && string(resource) != r.name && !strings.EqualFold(string(kind), r.name) {
		return false
	}
	return (!r.hasGroup || string(group) == r.group) && (r.version == "" || string(version) == r.version)
}

// matchName is Match where the kind is not known.
func (r *Resource) matchName(group, resource string) bool {
	if b, ok := builtins()[r.name]; ok && b.Resource == resource {
		return !r.hasGroup || r.group == group
	}
	return (r.name == "*" || r.name == resource) && (!r.hasGroup || r.group == group)
}

// Means makes a resource that is named in its singular the one of a plural. It does nothing to every one.
func (r *Resource) Means(plural string) {
	if r.name != "*" {
		r.name = plural
	}
}

// MatchStream reports whether the resource of a stream is selected.
func (r *Resource) MatchStream(s *index.Stream) bool {
	return r.Match([]byte(s.Group), []byte(s.Version), []byte(s.Resource), []byte(s.Kind))
}

// Word is the resource's name without version and group, in lower case.
func (r *Resource) Word() string { return r.name }

// String returns the resource as ParseObject reads it, short names of Kubernetes' own resources written out.
func (r Resource) String() string {
	s := r.name
	if r.version != "" {
		s += "." + r.version
	}
	if r.hasGroup {
		s += "." + r.group
	}
	return s
}
