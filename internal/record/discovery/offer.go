package discovery

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

// Offer is a resource that can be watched.
type Offer struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool
	ShortNames []string
	Versions   []string               // that are served, the GVR's first
	Same       []schema.GroupResource // that serve the same objects
	Refusal    string                 // why this identity may not watch it, as far as that was asked; "" where it may

	Unversioned bool   // its lists have no version, as far as that was asked: it cannot be followed
	Finding     string // what is wrong with its lists, in words; "" is nothing
}

// Usable reports whether it can be journalled, now or once its lists work.
func (o Offer) Usable() bool { return o.Refusal == "" && !o.Unversioned }

// Offers returns all that can be watched, core first, then in the server's order of groups, by name in each; of
// resources that serve the same objects the one that a wildcard takes. It returns nothing before the first Refresh that
// worked.
func (r *Resolver) Offers() []Offer {
	s := r.snapshot()
	var all []Offer
	first := map[string]int{}
	for _, found := range s.matches(config.Resource{Name: config.Wildcard}) {
		if i, seen := first[found.class()]; seen {
			all[i].Same = append(all[i].Same, found.gvr.GroupResource())
			continue
		}
		first[found.class()] = len(all)
		all = append(all, Offer{
			GVR: found.gvr, Kind: found.Kind, Namespaced: found.Namespaced, ShortNames: found.ShortNames,
			Versions: s.versionsWith(found),
		})
	}
	slices.SortFunc(all, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(s.index(a.GVR.Group), s.index(b.GVR.Group)),
			strings.Compare(a.GVR.Resource, b.GVR.Resource))
	})
	return all
}

// versionsWith returns the versions in which a resource is served, its own first.
func (s *snapshot) versionsWith(r served) []string {
	versions := []string{r.gvr.Version}
	for other := range s.within(&r.gvr.Group, "") {
		if other.Name == r.Name && other.gvr != r.gvr {
			versions = append(versions, other.gvr.Version)
		}
	}
	return versions
}

// Named returns the resources that an entry without wildcards is about, whether or not they can be watched. One that is
// not known is taken at its word; known then says false.
func (r *Resolver) Named(entry config.Resource) (resources []schema.GroupResource, known bool) {
	all := r.snapshot().named(entry.Name, entry.Group, entry.Version)
	return groupResources(all), all[0].Name != ""
}

func groupResources(all []served) []schema.GroupResource {
	var resources []schema.GroupResource
	for _, r := range all {
		resources = append(resources, r.gvr.GroupResource())
	}
	return resources
}
