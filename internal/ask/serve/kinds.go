package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/version"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// kind is a resource in one version, as clients see it.
type kind struct {
	builtin.Resource
	Singular, ListKind string
	Categories         []string
	// Custom says that a CustomResourceDefinition has it: its objects are written as these are.
	Custom     bool
	columns    []column
	selectable []string                          // fields, as in spec.color
	from       *kind                             // whose objects it has under other names; nil for any other
	said       *discoveryv2.APIResourceDiscovery // what the API server said of it; nil where that is not recorded
}

// definedVersion is a version of a CustomResourceDefinition.
type definedVersion struct {
	Name       string   `json:"name"`
	Served     bool     `json:"served"`
	Columns    []column `json:"additionalPrinterColumns"`
	Selectable []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"selectableFields"`
}

// column is one that a CustomResourceDefinition gives a table.
type column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"`
	JSONPath    string `json:"jsonPath"`
}

// defined is a CustomResourceDefinition.
type defined struct {
	Group string `json:"group"`
	Scope string `json:"scope"`
	Names struct {
		argument.DefinedNames
		ListKind   string   `json:"listKind"`
		Categories []string `json:"categories"`
	} `json:"names"`
	Versions []definedVersion `json:"versions"`
}

func (d *defined) kind(v *definedVersion) *kind {
	k := &kind{
		Resource: builtin.Resource{
			Resource: d.Names.Plural, Version: v.Name, Group: d.Group, Kind: d.Names.Kind,
			Namespaced: d.Scope == "Namespaced", ShortNames: d.Names.ShortNames,
		},
		Singular: d.Names.Singular, ListKind: d.Names.ListKind, Categories: d.Names.Categories,
		Custom: true, columns: v.Columns,
	}
	for _, f := range v.Selectable {
		k.selectable = append(k.selectable, strings.TrimPrefix(f.JSONPath, "."))
	}
	if v.Columns == nil {
		k.columns = []column{{Name: "Age", Type: "date", Description: describes["creationTimestamp"],
			JSONPath: ".metadata.creationTimestamp"}}
	}
	k.complete()
	return k
}

// complete sets names that follow from others.
func (k *kind) complete() {
	k.Singular = cmp.Or(k.Singular, strings.ToLower(k.Kind))
	k.ListKind = cmp.Or(k.ListKind, k.Kind+"List")
}

// apis is what is served at a moment: groups and versions in the order in which clients prefer them. A kind without a
// name is that of a version that has none.
type apis []*kind

// find returns a resource; group and version alone are enough to know whether there is any.
func (a apis) find(group, version, resource string) (k *kind, known bool) {
	for _, k := range a {
		if k.Group == group && k.Version == version {
			if known = true; k.Resource.Resource == resource {
				return k, true
			}
		}
	}
	return nil, known
}

var crds = mustSelect("customresourcedefinitions", "apiextensions.k8s.io")

func mustSelect(resource, group string) argument.Object {
	o, err := argument.ParseObject(resource + "." + group)
	if err != nil {
		panic(err)
	}
	return o
}

// kinds returns what is served now.
func (s *Server) kinds(ctx context.Context, p *past) (all apis, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := s.served.Load()
	if p.of == now {
		return p.api, nil
	}
	if all, err = p.kindsAt(ctx, now.moment()); err == nil && !now.moves() {
		p.api, p.of = all, now
	}
	return all, err
}

// kindsAt returns what is served at a moment: the resources of the journal's streams, in the version that the journal
// has, those of CustomResourceDefinitions, and all else that the API server said it had; where that is not recorded,
// those of Kubernetes itself. p.mu is held.
func (p *past) kindsAt(ctx context.Context, at argument.Moment) (apis, error) {
	defs, known, err := p.definitions(ctx, at)
	if err != nil {
		return nil, err
	}
	streams, err := archive.Again(p.j.Journal, func() ([]watched, error) { return p.watched(ctx) })
	if err != nil {
		return nil, err
	}
	said, _, err := p.discovered(ctx, at)
	if err != nil {
		return nil, err
	}
	var all apis
	seen := map[string]bool{} // resources; false for one whose definition is gone
	recorded := map[string]bool{}
	for _, w := range streams {
		k := w.kind(defs, known)
		recorded[k.name()] = true
		if seen[k.name()] = !k.gone; !k.gone {
			all = append(all, &k.kind)
		}
	}
	for _, d := range defs {
		if name := d.Names.Plural + "." + d.Group; !seen[name] {
			seen[name] = true
			for i := range d.Versions {
				if v := &d.Versions[i]; v.Served {
					all = append(all, d.kind(v))
				}
			}
		}
	}
	ranks := map[string]int{} // of groups, and of their versions
	if said != nil {
		all = all.with(said, seen, ranks)
	} else {
		all = all.withBuiltin(seen, ranks)
	}
	all.twins(func(name string) bool { return recorded[name] })
	slices.SortStableFunc(all, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(ranks[a.Group], ranks[b.Group]), strings.Compare(a.Group, b.Group),
			cmp.Compare(ranks[a.Group+"/"+a.Version], ranks[b.Group+"/"+b.Version]),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version),
			strings.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return all, nil
}

func (k *kind) name() string { return k.Resource.Resource + "." + k.Group }

// setRank has a name come after those before it, and before those that have no rank.
func setRank(ranks map[string]int, name string) {
	if _, ranked := ranks[name]; !ranked {
		ranks[name] = len(ranks) - math.MaxInt32
	}
}

// with returns kinds with what the API server said of them, and the others that it had, but those that are seen: these
// are in another version in the journal, or gone.
func (a apis) with(said []discoveryv2.APIGroupDiscovery, seen map[string]bool, ranks map[string]int) apis {
	of := map[[3]string]*kind{}
	for _, k := range a {
		of[[3]string{k.Group, k.Version, k.Resource.Resource}] = k
	}
	for _, g := range said {
		setRank(ranks, g.Name)
		for _, v := range g.Versions {
			setRank(ranks, g.Name+"/"+v.Version)
			a = append(a, &kind{Resource: builtin.Resource{Group: g.Name, Version: v.Version}})
			for i := range v.Resources {
				r := &v.Resources[i]
				k := of[[3]string{g.Name, v.Version, r.Resource}]
				if _, is := seen[r.Resource+"."+g.Name]; k == nil && !is && r.ResponseKind != nil {
					k = &kind{Resource: builtin.Resource{
						Resource: r.Resource, Version: v.Version, Group: g.Name, Kind: r.ResponseKind.Kind,
					}}
					k.Custom = builtin.IsCustom(k.name())
					a = append(a, k)
				}
				if k != nil {
					k.said, k.Namespaced = r, r.Scope == discoveryv2.ScopeNamespace
					k.ShortNames, k.Singular, k.Categories = r.ShortNames, r.SingularResource, r.Categories
					k.complete()
				}
			}
		}
	}
	return a
}

// withBuiltin returns kinds, and Kubernetes' own that are not seen.
func (a apis) withBuiltin(seen map[string]bool, ranks map[string]int) apis {
	for r := range builtin.All() {
		setRank(ranks, r.Group)
		if !seen[r.Resource+"."+r.Group] {
			k := &kind{Resource: r}
			k.complete()
			a = append(a, k)
		}
	}
	for _, k := range a {
		if _, builtin := ranks[k.Group]; builtin && !k.Custom {
			k.Categories = categories(k)
		}
	}
	return a
}

// watched is a resource that a stream is of.
type watched struct {
	*index.Stream
	namespaced bool // one of its objects is in a namespace
	defined    bool // the journal has had a CustomResourceDefinition of it
}

// watched returns the resources of the streams.
func (p *past) watched(ctx context.Context) (all []watched, err error) {
	newest, err := p.j.Newest(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[[2]string]int{}
	for _, x := range newest {
		for i := range x.Streams {
			s := &x.Streams[i]
			if s.Kind == "" || s.Resource == line.Journal && s.Group == "" {
				continue
			}
			name := [2]string{s.Group, s.Resource}
			n, there := seen[name]
			if !there {
				n = len(all)
				seen[name] = n
				w := watched{Stream: s}
				if w.defined, err = p.isDefined(ctx, argument.Named(s)); err != nil {
					return nil, err
				}
				all = append(all, w)
			}
			if all[n].namespaced {
				continue
			}
			for o, err := range x.Objects(i, nil, nil) {
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				all[n].namespaced = o.Namespace != ""
				break
			}
		}
	}
	return all, nil
}

// isDefined reports whether there was a CustomResourceDefinition of a name, also one that is long gone.
func (p *past) isDefined(ctx context.Context, name string) (bool, error) {
	o, err := argument.ParseObject(crds.String() + "/" + name)
	if err != nil || !builtin.IsCustom(name) {
		return false, nil // then no definition has the name
	}
	s := argument.Selection{Objects: []argument.Object{o}}
	for i := range slices.Backward(p.j.Segments) {
		x, err := p.j.Index(ctx, i)
		if err != nil {
			return false, err
		}
		for _, err := range s.Matches(x) {
			return err == nil, err
		}
	}
	return false, nil
}

// streamKind is the kind of a stream; gone says that no CustomResourceDefinition has it at the moment.
type streamKind struct {
	kind
	gone bool
}

// kind returns what a stream's objects are, by the definitions that there were, if these are known.
func (w *watched) kind(defs []*defined, known bool) (k streamKind) {
	k.Resource = builtin.Resource{
		Resource: w.Resource, Version: w.Version, Group: w.Group, Kind: w.Kind, Namespaced: w.namespaced,
	}
	for r := range builtin.All() {
		if r.Resource == w.Resource && r.Group == w.Group {
			k.Namespaced, k.ShortNames = r.Namespaced, r.ShortNames
			k.complete()
			return k
		}
	}
	for _, d := range defs {
		if d.Group != w.Group || d.Names.Plural != w.Resource {
			continue
		}
		for i := range d.Versions {
			if v := &d.Versions[i]; v.Name == w.Version {
				k.kind = *d.kind(v)
				return k
			}
		}
		k.kind = *d.kind(&definedVersion{Name: w.Version})
		return k
	}
	// What an aggregated API server has needs no definition.
	k.gone = known && w.defined
	k.Custom = w.defined || !known && builtin.IsCustom(w.Resource+"."+w.Group)
	k.complete()
	return k
}

// definitions returns the CustomResourceDefinitions of a moment; known is false where it is not known which there were.
func (p *past) definitions(ctx context.Context, at argument.Moment) (all []*defined, known bool, err error) {
	st, err := p.j.State(ctx, &argument.Selection{Objects: []argument.Object{crds}}, at)
	if err != nil {
		return nil, false, err
	}
	known = !slices.ContainsFunc(st.Doubts, func(d question.Doubt) bool { return !d.AsOf })
	var missing []question.Item
	for _, item := range st.Items {
		if _, read := p.defs[item.Last.Seq]; !read {
			missing = append(missing, item)
		}
	}
	found := make([]*defined, len(missing))
	if err := p.j.Read(ctx, missing, func(i int, l *line.Fields) error {
		var d defined
		spec := rawjson.At(l.Object, []byte("/spec"))
		if json.Unmarshal(spec, &d) == nil && d.Names.Plural != "" && d.Names.Kind != "" {
			found[i] = &d
		}
		return nil
	}); err != nil {
		return nil, false, err
	}
	for i := range missing {
		p.defs[missing[i].Last.Seq] = found[i]
	}
	for _, item := range st.Items {
		if d := p.defs[item.Last.Seq]; d != nil {
			all = append(all, d)
		} else {
			known = false
		}
	}
	return all, known, nil
}

// categories returns those that Kubernetes' own resources are in.
func categories(k *kind) []string {
	switch k.Resource.Resource + "." + k.Group {
	case "pods.", "services.", "replicationcontrollers.", "deployments.apps", "daemonsets.apps", "replicasets.apps",
		"statefulsets.apps", "jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling":
		return []string{"all"}
	case "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io":
		return []string{"api-extensions"}
	}
	if k.Group == "admissionregistration.k8s.io" {
		return []string{"api-extensions"}
	}
	return nil
}
