package discovery

import (
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// snapshot is what the server was known to serve at one time. It never changes once it is made.
type snapshot struct {
	groups []*restmapper.APIGroupResources // core first, then in the server's order, which decides between equal names
	failed []schema.GroupVersion           // asked for and never seen, sorted
}

// newSnapshot puts an answer together; where the answer has a hole that before could fill, it does.
func newSnapshot(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed *PartialError,
	before *snapshot) *snapshot {
	byVersion := make(map[string][]metav1.APIResource, len(lists))
	for _, l := range lists {
		byVersion[l.GroupVersion] = l.APIResources
	}
	s := &snapshot{}
	for _, g := range groups {
		out := &restmapper.APIGroupResources{Group: *g, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range g.Versions {
			resources, ok := byVersion[v.GroupVersion]
			if ok && failed.Failed[schema.GroupVersion{Group: g.Name, Version: v.Version}] == nil {
				out.VersionedResources[v.Version] = resources
			}
		}
		s.groups = append(s.groups, out)
	}
	for _, gv := range failed.Versions() {
		if resources, ok := before.resources(gv); ok {
			s.keep(gv, resources, before)
		} else {
			s.failed = append(s.failed, gv)
		}
	}
	slices.SortStableFunc(s.groups, func(a, b *restmapper.APIGroupResources) int {
		return min(len(a.Group.Name), 1) - min(len(b.Group.Name), 1)
	})
	return s
}

// keep carries a failed version over. The answer's list of groups may have left it out: aggregated discovery does that
// to a group none of whose versions can be reached.
func (s *snapshot) keep(gv schema.GroupVersion, resources []metav1.APIResource, before *snapshot) {
	i := before.index(gv.Group)
	old := before.groups[i].Group
	if j := s.index(gv.Group); j >= 0 {
		g := s.groups[j]
		g.VersionedResources[gv.Version] = resources
		g.Group.Versions, g.Group.PreferredVersion = mergeVersions(old, g)
		return
	}
	// At its old place, as the order decides between equal names.
	s.groups = slices.Insert(s.groups, min(i, len(s.groups)), &restmapper.APIGroupResources{
		Group:              old,
		VersionedResources: map[string][]metav1.APIResource{gv.Version: resources},
	})
}

// mergeVersions puts the versions of a group that answered in part into the order they had before, new ones last. The
// preferred version stays, as long as it is known: the server names another only because that one does not answer.
func mergeVersions(old metav1.APIGroup,
	g *restmapper.APIGroupResources) ([]metav1.GroupVersionForDiscovery, metav1.GroupVersionForDiscovery) {
	var versions []metav1.GroupVersionForDiscovery
	for _, v := range slices.Concat(old.Versions, g.Group.Versions) {
		if _, known := g.VersionedResources[v.Version]; known && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if _, known := g.VersionedResources[old.PreferredVersion.Version]; known {
		return versions, old.PreferredVersion
	}
	return versions, g.Group.PreferredVersion
}

// index returns the place of a group in the server's order, -1 when it is not there.
func (s *snapshot) index(group string) int {
	return slices.IndexFunc(s.groups, func(g *restmapper.APIGroupResources) bool { return g.Group.Name == group })
}

// core is the group version that every Kubernetes API server has. client-go takes a 404 for it as "has none".
var core = schema.GroupVersion{Version: "v1"}

// lostCore reports whether an answer misses the core resources that were there before: a proxy or a server half
// started, never news.
func lostCore(lists []*metav1.APIResourceList, before *snapshot) bool {
	known, _ := before.resources(core)
	return len(known) > 0 && !slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == core.Version && len(l.APIResources) > 0
	})
}

func (s *snapshot) resources(gv schema.GroupVersion) ([]metav1.APIResource, bool) {
	i := s.index(gv.Group)
	if i < 0 {
		return nil, false
	}
	resources, ok := s.groups[i].VersionedResources[gv.Version]
	return resources, ok
}

// served is a resource in one version, as the server describes it.
type served struct {
	gvr schema.GroupVersionResource
	metav1.APIResource
}

// within returns the resources of a group and a version, nil and "" for all of them, in the order in which names are
// looked up: as the groups are, preferred versions first. Subresources are not among them.
func (s *snapshot) within(group *string, version string) iter.Seq[served] {
	return func(yield func(served) bool) {
		for _, g := range s.groups {
			if group != nil && g.Group.Name != *group {
				continue
			}
			for _, v := range versionsOf(g) {
				if version != "" && v != version {
					continue
				}
				for _, r := range g.VersionedResources[v] {
					gvr := schema.GroupVersionResource{Group: g.Group.Name, Version: v, Resource: r.Name}
					if !strings.Contains(r.Name, "/") && !yield(served{gvr, r}) {
						return
					}
				}
			}
		}
	}
}

// served returns the server's own description of a resource; one without a name where there is none.
func (s *snapshot) served(gvr schema.GroupVersionResource) served {
	for r := range s.within(&gvr.Group, gvr.Version) {
		if r.gvr == gvr {
			return r
		}
	}
	return served{gvr: gvr}
}

// versionsOf returns the versions of a group, the preferred one first.
func versionsOf(g *restmapper.APIGroupResources) []string {
	versions := []string{g.Group.PreferredVersion.Version}
	for _, v := range g.Group.Versions {
		if v.Version != versions[0] {
			versions = append(versions, v.Version)
		}
	}
	return versions
}
