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
}

// Offers returns all that can be watched, core first, then in the server's order of groups, by name in each; of resources that serve the
// same objects the one that a wildcard takes. It returns nothing before the first Refresh that worked.
func (r *Resolver) Offers() []Offer {
	s := r.snapshot()
	if s == nil {
		return nil
	}
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
	rank := s.ranks()
	slices.SortFunc(all, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(rank[a.GVR.Group], rank[b.GVR.Group]), strings.Compare(a.GVR.Resource, b.GVR.Resource))
	})
	return all
}

// versionsWith returns the versions in which a resource is served, its own first.
func (s *snapshot) versionsWith(r served) []string {
	versions := []string{r.gvr.Version}
	for _, v := range versionsOf(s.groups[s.index(r.gvr.Group)]) {
		gvr := r.gvr
		gvr.Version = v
		if _, ok := s.resource(gvr); ok && v != r.gvr.Version {
			versions = append(versions, v)
		}
	}
	return versions
}

// Named returns the resources that an entry without wildcards is about, whether or not they can be watched. One that is
// not known is taken at its word; known then says false.
func (r *Resolver) Named(entry config.Resource) (resources []schema.GroupResource, known bool) {
	s := r.snapshot()
	if s == nil {
		s = &snapshot{}
	}
	for _, found := range s.named(entry.Name, entry.Group, entry.Version) {
		resources = append(resources, found.gvr.GroupResource())
		known = found.Name != ""
	}
	return resources, known
}
