package tail

import (
	"net/url"
	"slices"

	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/rawjson"
)

// names looks in a stream of lines for what a filter names, so that a misspelt name is an error and not an empty screen:
// what a journal's index says of one. Where a name is one that a CustomResourceDefinition gives, the filter gets its resource.
type names struct {
	query.Names // that are there
	match       *query.Matcher
	filter      *query.Filter
	lines       int
	resources   []bool // of the filter's objects: whether there is a line about the resource
	objects     []bool // and about one of that name, in the filter's namespaces
	namespaces  []bool // of the filter's
	missing     int    // of all these
	resource    []byte // scratch
}

// newNames returns nil where the filter names nothing.
func newNames(m *query.Matcher) *names {
	f := m.Filter
	n := &names{
		match: m, filter: f, resources: make([]bool, len(f.Objects)), objects: make([]bool, len(f.Objects)),
		namespaces: make([]bool, len(f.Namespaces)), missing: 2*len(f.Objects) + len(f.Namespaces),
	}
	if n.missing == 0 {
		return nil
	}
	return n
}

// see looks at a line. It reports whether everything is found.
func (n *names) see(l *line.Fields) bool {
	n.lines++
	n.resource = appendResource(n.resource[:0], l, nil)
	n.AddResource(string(n.resource), string(l.Text(line.Kind)))
	if string(n.resource) == "customresourcedefinitions.apiextensions.k8s.io" {
		n.resolve(l)
	}
	for i := range n.filter.Objects {
		if n.resources[i] && n.objects[i] {
			continue
		}
		o := &n.filter.Objects[i]
		if !o.Match(l.Text(line.Group), l.Text(line.Version), l.Text(line.Resource), l.Text(line.Kind)) {
			continue
		}
		n.found(&n.resources[i])
		name, namespace := string(rawjson.Unquote(nil, l.Text(line.Name))), string(l.Text(line.Namespace))
		if o.Name == "" || o.Name == name && (len(n.namespaces) == 0 || slices.Contains(n.filter.Namespaces, namespace)) {
			n.found(&n.objects[i])
		} else if !l.AboutStream() {
			n.AddObject(o, n.filter.Namespaces, namespace, name)
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
	if len(namespace) > 0 {
		n.AddNamespace(string(namespace))
	}
}

// resolve looks whether a CustomResourceDefinition gives a name that the filter has.
func (n *names) resolve(l *line.Fields) {
	v := rawjson.Pick(rawjson.At(l.Object, []byte("/spec")), "group", "names")
	for i := range n.filter.Objects {
		if !n.resources[i] && n.filter.Objects[i].ResolveBy(rawjson.Inside(v[0]), v[1]) {
			n.found(&n.resources[i])
			n.found(&n.objects[i])
			n.match.Forget()
		}
	}
}

// fault returns an error that names what is not there. What may still come, where the journal is followed, gets a notice.
func (n *names) fault(o *Options) error {
	if n.missing == 0 || n.lines == 0 {
		return nil
	}
	s := &o.Filter.Selection
	for i, there := range n.resources {
		if there {
			continue
		}
		err := n.NoResource(&n.filter.Objects[i].Resource)
		if !err.Unwatched {
			return err
		}
		s.Unwatched = append(s.Unwatched, query.Doubt{Reason: err.Error()})
	}
	for i, there := range n.namespaces {
		if !there {
			return n.NoNamespace(n.filter.Namespaces[i])
		}
	}
	for i, there := range n.objects {
		if there || !n.resources[i] {
			continue
		}
		err := n.NoObject(&n.filter.Objects[i], n.filter.Namespaces)
		if !o.Follow {
			return err
		}
		s.Absent = append(s.Absent, err)
	}
	o.noticeUnknown()
	return o.covered()
}
