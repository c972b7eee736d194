package discovery

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/restmapper"

	"kubejournal/internal/format/builtin"
)

// Offline returns a Resolver that knows Kubernetes' own resources and uses no server; it must not be refreshed.
func Offline() *Resolver {
	r := new(Resolver)
	r.known.Store(offline())
	return r
}

var offline = sync.OnceValue(func() *snapshot {
	s := &snapshot{}
	for b := range builtin.All() {
		i := s.index(b.Group)
		if i < 0 {
			i = len(s.groups)
			s.groups = append(s.groups, &restmapper.APIGroupResources{
				Group: metav1.APIGroup{Name: b.Group,
					PreferredVersion: metav1.GroupVersionForDiscovery{Version: b.Version}},
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
