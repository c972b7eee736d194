package tail

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/rawjson"
)

// maxNames bounds the names of a kind that are remembered for suggestions.
const maxNames = 10_000

// names looks in a journal for what a filter names, so that a misspelt name is an error and not an empty screen. Where a short name
// is that of a CustomResourceDefinition, the filter gets its resource.
type names struct {
	filter     *Filter
	lines      int
	resources  []bool // of the filter's objects: whether there is a line about the resource
	objects    []bool // and about one of that name, in the filter's namespaces
	elsewhere  string // another namespace that has one of a name
	namespaces []bool // of the filter's
	missing    int    // of all these

	// For suggestions: the resources that lines are about, with their kinds, the namespaces, and the objects of the resources
	// that are asked for.
	kinds    map[string]string
	inUse    map[string]bool
	sameKind map[string]bool
	resource []byte // scratch
}

// newNames returns nil where the filter names nothing.
func newNames(f *Filter) *names {
	n := &names{
		filter: f, resources: make([]bool, len(f.Objects)), objects: make([]bool, len(f.Objects)),
		namespaces: make([]bool, len(f.Namespaces)), missing: 2*len(f.Objects) + len(f.Namespaces),
		kinds: map[string]string{}, inUse: map[string]bool{}, sameKind: map[string]bool{},
	}
	if n.missing == 0 {
		return nil
	}
	return n
}

// see looks at a line. It reports whether everything is found.
func (n *names) see(l *line.Fields) bool {
	n.lines++
	n.resource = appendResource(n.resource[:0], l)
	if _, ok := n.kinds[string(n.resource)]; !ok && len(n.kinds) < maxNames {
		n.kinds[string(n.resource)] = string(l.Text(line.Kind))
	}
	if string(n.resource) == "customresourcedefinitions.apiextensions.k8s.io" {
		n.resolve(l)
	}
	for i := range n.filter.Objects {
		if n.resources[i] && n.objects[i] {
			continue
		}
		o := &n.filter.Objects[i]
		if !hasResource(o, l) {
			continue
		}
		n.found(&n.resources[i])
		name, namespace := l.Text(line.Name), string(l.Text(line.Namespace))
		there := len(n.namespaces) == 0 || slices.Contains(n.filter.Namespaces, namespace)
		switch {
		case o.Name == "" || o.Name == string(name) && there:
			n.found(&n.objects[i])
		case o.Name == string(name):
			n.elsewhere = namespace
		case there && len(n.sameKind) < maxNames:
			n.sameKind[string(name)] = true
		}
	}
	if len(n.namespaces) > 0 {
		n.seeNamespace(l)
	}
	return n.missing == 0
}

func (n *names) found(what *bool) {
	if !*what {
		*what = true
		n.missing--
	}
}

// seeNamespace looks at the namespace that a line is in, or that it is about.
func (n *names) seeNamespace(l *line.Fields) {
	namespace := l.Text(line.Namespace)
	if string(n.resource) == "namespaces" {
		namespace = l.Text(line.Name)
	}
	if l.AboutStream() {
		scope, _ := url.ParseQuery(string(l.Scope())) // what cannot be read names none
		namespace = []byte(scope.Get("namespace"))
	}
	for i, wanted := range n.filter.Namespaces {
		if wanted == string(namespace) {
			n.found(&n.namespaces[i])
		}
	}
	if len(namespace) > 0 && len(n.inUse) < maxNames && !n.inUse[string(namespace)] {
		n.inUse[string(namespace)] = true
	}
}

// resolve looks whether a CustomResourceDefinition gives a short name that the filter has.
func (n *names) resolve(l *line.Fields) {
	v := rawjson.Pick(rawjson.At(l.Object, []byte("/spec")), "group", "names")
	group := rawjson.Inside(v[0])
	v = rawjson.Pick(v[1], "plural", "shortNames")
	plural := rawjson.Inside(v[0])
	if len(group) == 0 || len(plural) == 0 {
		return
	}
	for short := range rawjson.Elements(v[1]) {
		for i := range n.filter.Objects {
			if o := &n.filter.Objects[i]; !n.resources[i] && o.IsWord(string(rawjson.Inside(short))) {
				o.Resolve(string(plural), string(group))
				n.found(&n.resources[i])
				n.found(&n.objects[i])
			}
		}
	}
}

// fault returns an error that names what is not in the journal and cannot be waited for. What can be gets a notice.
func (n *names) fault(o *Options) error {
	for i, there := range n.namespaces {
		if name := n.filter.Namespaces[i]; !there && len(n.inUse) > 0 {
			return fmt.Errorf("the journal has no line about a namespace %q%s", name, mean(query.Suggest(name, sorted(n.inUse))))
		}
	}
	for i, there := range n.resources {
		switch r := &n.filter.Objects[i]; {
		case !there && !r.MayCome():
			return fmt.Errorf("the journal has no line about %q, and it is not a resource of Kubernetes' own%s", r, n.meant(r))
		case !there && n.lines > 0:
			o.notice("the journal has no line about %s yet%s", r, n.meant(r))
		case !n.objects[i] && n.lines > 0:
			in := strings.Join(n.filter.Namespaces, " or ")
			if in != "" {
				in = " in namespace " + in
			}
			err := fmt.Errorf("the journal has no line about %s of the name %q%s%s", r, r.Name, in, n.meantObject(r))
			if !o.Follow {
				return err
			}
			o.notice("%v; waiting for one", err)
		}
	}
	return nil
}

// meant suggests a resource: a word may be a short name that nobody knows here, which has the initials of a kind or begins
// like it.
func (n *names) meant(o *query.Object) string {
	there := slices.Sorted(maps.Keys(n.kinds))
	word := o.Word()
	near := query.SuggestResource(word, there)
	if near == word && o.MayCome() {
		return ""
	}
	for _, resource := range there {
		kind := n.kinds[resource]
		initials := strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r
			}
			return -1
		}, kind)
		begins := len(word) > 2 && len(kind) > len(word) && strings.EqualFold(kind[:len(word)], word)
		if begins || strings.EqualFold(initials, word) {
			return mean(resource)
		}
	}
	if near == "" && !o.MayCome() {
		return "; write a custom resource with its group, e.g. " + word + ".example.com"
	}
	return mean(near)
}

// meantObject suggests another name; two resources may have been named as kubectl does not take them.
func (n *names) meantObject(o *query.Object) string {
	if n.elsewhere != "" {
		return "; namespace " + n.elsewhere + " has one"
	}
	if near := query.Suggest(o.Name, sorted(n.sameKind)); near != "" {
		return mean(near)
	}
	if other, err := query.ParseObject(o.Name); err == nil && other.MayCome() {
		return fmt.Sprintf("; for both resources write %s,%s", o.Word(), o.Name)
	}
	return ""
}

func mean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// checkNames looks for what the filter names, from the newest line back and no further than it must.
func (t *tail) checkNames(ctx context.Context) error {
	n := newNames(&t.o.Filter)
	if n == nil {
		return nil
	}
	var found bool
	visit := func(raw []byte) (wanted, done bool) {
		found = t.line.Parse(raw) == nil && n.see(&t.line)
		return false, found
	}
	if t.in.f != nil {
		if _, err := placeBackward(ctx, t.in.f, visit); err != nil {
			return err
		}
	}
	for i := len(t.files) - 1; i >= 0 && !found; i-- {
		for raw := range t.linesOf(ctx, &t.otherLines, t.files[i], 0) {
			if visit(raw); found {
				break
			}
		}
	}
	if !found && ctx.Err() == nil {
		return n.fault(&t.o)
	}
	return nil
}
