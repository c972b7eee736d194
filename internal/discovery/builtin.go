package discovery

import (
	_ "embed"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinTable is what a kube-apiserver v1.36 serves by itself that can be watched, one resource a line:
// resource.version.group, kind, scope, short names. A test on a real one holds it in step.
//
//go:embed builtin.txt
var builtinTable string

// Offline returns a Resolver that knows Kubernetes' own resources and uses no server; it must not be refreshed.
func Offline() *Resolver { return &Resolver{known: builtin()} }

// IsBuiltin reports whether a group is one of Kubernetes' own: its resources come with the server and need no
// CustomResourceDefinition.
func IsBuiltin(group string) bool { return builtin().index(group) >= 0 }

var builtin = sync.OnceValue(func() *snapshot {
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	groups := map[string]*metav1.APIGroup{}
	var inOrder []*metav1.APIGroup
	for line := range strings.Lines(builtinTable) {
		fields := append(strings.Fields(line), "")
		resource, rest, _ := strings.Cut(fields[0], ".")
		version, group, _ := strings.Cut(rest, ".")
		gv := schema.GroupVersion{Group: group, Version: version}
		g := groups[group]
		if g == nil {
			g = &metav1.APIGroup{Name: group, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: version}}
			groups[group], inOrder = g, append(inOrder, g)
		}
		if lists[gv] == nil {
			lists[gv] = &metav1.APIResourceList{GroupVersion: gv.String()}
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: version})
		}
		described := metav1.APIResource{
			Name: resource, SingularName: strings.ToLower(fields[1]), Kind: fields[1], Namespaced: fields[2] == "namespaced",
			Verbs: metav1.Verbs{"list", "watch"},
		}
		if fields[3] != "" {
			described.ShortNames = strings.Split(fields[3], ",")
		}
		lists[gv].APIResources = append(lists[gv].APIResources, described)
	}
	all := make([]*metav1.APIResourceList, 0, len(lists))
	for _, l := range lists {
		all = append(all, l)
	}
	return newSnapshot(inOrder, all, nil, nil)
})
