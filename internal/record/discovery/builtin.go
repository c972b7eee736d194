package discovery

import (
	_ "embed"
	"iter"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/restmapper"
)

// builtinTable is what a kube-apiserver v1.36 serves by itself that can be watched, one resource a line:
// resource.version.group, kind, scope, short names. A test on a real one holds it in step.
//
//go:embed builtin.txt
var builtinTable string

// Offline returns a Resolver that knows Kubernetes' own resources and uses no server; it must not be refreshed.
func Offline() *Resolver {
	r := new(Resolver)
	r.known.Store(builtin())
	return r
}

// IsBuiltin reports whether a group is one of Kubernetes' own: its resources come with the server and need no
// CustomResourceDefinition.
func IsBuiltin(group string) bool { return builtin().index(group) >= 0 }

// IsCustom reports whether a name, as kubectl takes it, has the group of custom resources, or of another API server.
// Kubernetes' own groups have no dot, or are in the table.
func IsCustom(name string) bool {
	group := anyVersion(name).Group
	return strings.Contains(group, ".") && !IsBuiltin(group)
}

// Builtin is a resource of Kubernetes' own.
type Builtin struct {
	Resource, Version, Group, Kind string
	Namespaced                     bool
	ShortNames                     []string
}

// Builtins yields Kubernetes' own resources that can be watched, core first.
func Builtins() iter.Seq[Builtin] {
	return func(yield func(Builtin) bool) {
		for line := range strings.Lines(builtinTable) {
			fields := append(strings.Fields(line), "")
			b := Builtin{Kind: fields[1], Namespaced: fields[2] == "namespaced"}
			b.Resource, b.Version, _ = strings.Cut(fields[0], ".")
			b.Version, b.Group, _ = strings.Cut(b.Version, ".")
			b.ShortNames = strings.FieldsFunc(fields[3], func(r rune) bool { return r == ',' })
			if !yield(b) {
				return
			}
		}
	}
}

var builtin = sync.OnceValue(func() *snapshot {
	s := &snapshot{}
	for b := range Builtins() {
		i := s.index(b.Group)
		if i < 0 {
			i = len(s.groups)
			s.groups = append(s.groups, &restmapper.APIGroupResources{
				Group:              metav1.APIGroup{Name: b.Group, PreferredVersion: metav1.GroupVersionForDiscovery{Version: b.Version}},
				VersionedResources: map[string][]metav1.APIResource{},
			})
		}
		g := s.groups[i]
		if g.VersionedResources[b.Version] == nil {
			g.Group.Versions = append(g.Group.Versions, metav1.GroupVersionForDiscovery{Version: b.Version})
		}
		g.VersionedResources[b.Version] = append(g.VersionedResources[b.Version], metav1.APIResource{
			Name: b.Resource, SingularName: strings.ToLower(b.Kind), Kind: b.Kind, Namespaced: b.Namespaced,
			Verbs: metav1.Verbs{"list", "watch"}, ShortNames: b.ShortNames,
		})
	}
	return s
})
