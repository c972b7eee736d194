package discovery

import (
	_ "embed"
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

var builtin = sync.OnceValue(func() *snapshot {
	s := &snapshot{}
	for line := range strings.Lines(builtinTable) {
		fields := append(strings.Fields(line), "")
		resource, rest, _ := strings.Cut(fields[0], ".")
		version, group, _ := strings.Cut(rest, ".")
		i := s.index(group)
		if i < 0 {
			i = len(s.groups)
			s.groups = append(s.groups, &restmapper.APIGroupResources{
				Group:              metav1.APIGroup{Name: group, PreferredVersion: metav1.GroupVersionForDiscovery{Version: version}},
				VersionedResources: map[string][]metav1.APIResource{},
			})
		}
		g := s.groups[i]
		if g.VersionedResources[version] == nil {
			g.Group.Versions = append(g.Group.Versions, metav1.GroupVersionForDiscovery{Version: version})
		}
		g.VersionedResources[version] = append(g.VersionedResources[version], metav1.APIResource{
			Name: resource, SingularName: strings.ToLower(fields[1]), Kind: fields[1], Namespaced: fields[2] == "namespaced",
			Verbs: metav1.Verbs{"list", "watch"}, ShortNames: strings.FieldsFunc(fields[3], func(r rune) bool { return r == ',' }),
		})
	}
	return s
})
