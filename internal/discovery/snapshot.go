package discovery

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// snapshot is what the server was known to serve at one time. It never changes once it is made.
type snapshot struct {
	groups []*restmapper.APIGroupResources // in the server's order, which decides between equal names
	failed []schema.GroupVersion           // asked for and never seen, sorted

	once sync.Once
	all  meta.RESTMapperWithContext // made of groups at the first look-up
}

// mapper finds plurals, singulars and short names.
func (s *snapshot) mapper() meta.RESTMapperWithContext {
	s.once.Do(func() {
		s.all = restmapper.NewShortcutExpanderWithContext(
			meta.ToRESTMapperWithContext(restmapper.NewDiscoveryRESTMapper(s.groups)), cached{snapshot: s}, nil)
	})
	return s.all
}

// newSnapshot puts an answer together; where the answer has a hole that before could fill, it does.
func newSnapshot(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error, before *snapshot) *snapshot {
	byVersion := make(map[string][]metav1.APIResource, len(lists))
	for _, l := range lists {
		byVersion[l.GroupVersion] = l.APIResources
	}
	s := &snapshot{}
	listed := map[schema.GroupVersion]bool{}
	for _, g := range groups {
		out := &restmapper.APIGroupResources{Group: *g, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			listed[gv] = true
			if resources, ok := byVersion[v.GroupVersion]; ok && failed[gv] == nil {
				out.VersionedResources[v.Version] = resources
			} else if resources, ok := before.resources(gv); ok && failed[gv] != nil {
				out.VersionedResources[v.Version] = resources
			} else if failed[gv] != nil {
				s.failed = append(s.failed, gv)
			}
		}
		s.groups = append(s.groups, out)
	}
	for gv := range failed {
		if !listed[gv] {
			s.keep(gv, before)
		}
	}
	slices.SortFunc(s.failed, func(a, b schema.GroupVersion) int {
		return slices.Compare([]string{a.Group, a.Version}, []string{b.Group, b.Version})
	})
	return s
}

// keep carries a failed version over that the answer's list of groups left out: aggregated discovery does that to a
// group none of whose versions can be reached.
func (s *snapshot) keep(gv schema.GroupVersion, before *snapshot) {
	resources, ok := before.resources(gv)
	if !ok {
		s.failed = append(s.failed, gv)
		return
	}
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
func mergeVersions(old metav1.APIGroup, g *restmapper.APIGroupResources) ([]metav1.GroupVersionForDiscovery, metav1.GroupVersionForDiscovery) {
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
	if known, _ := before.resources(core); len(known) == 0 {
		return false
	}
	return !slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == core.Version && len(l.APIResources) > 0
	})
}

func (s *snapshot) resources(gv schema.GroupVersion) ([]metav1.APIResource, bool) {
	if s == nil {
		return nil, false
	}
	i := s.index(gv.Group)
	if i < 0 {
		return nil, false
	}
	resources, ok := s.groups[i].VersionedResources[gv.Version]
	return resources, ok
}

// resource finds the server's own description of a resource, never that of a subresource.
func (s *snapshot) resource(gvr schema.GroupVersionResource) (metav1.APIResource, bool) {
	resources, _ := s.resources(gvr.GroupVersion())
	for _, r := range resources {
		if r.Name == gvr.Resource {
			return r, true
		}
	}
	return metav1.APIResource{}, false
}

// only returns the part of the snapshot within a group and a version; nil and "" leave it whole.
func (s *snapshot) only(group *string, version string) *snapshot {
	if group == nil && version == "" {
		return s
	}
	out := &snapshot{failed: s.failed}
	for _, g := range s.groups {
		if group != nil && g.Group.Name != *group {
			continue
		}
		if version == "" {
			out.groups = append(out.groups, g)
		} else if resources, ok := g.VersionedResources[version]; ok {
			out.groups = append(out.groups, &restmapper.APIGroupResources{
				Group:              g.Group,
				VersionedResources: map[string][]metav1.APIResource{version: resources},
			})
		}
	}
	return out
}

// cached answers from a snapshot the one question that the shortcut expander asks. The rest of the interface is not
// there and must not be called.
type cached struct {
	discovery.DiscoveryInterfaceWithContext
	*snapshot
}

// ServerGroupsAndResourcesWithContext lists the resources in the order of their groups, preferred versions first: the
// first short name that fits is the one that counts. (client-go's own list is in random order with aggregated discovery.)
func (c cached) ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	var groups []*metav1.APIGroup
	var lists []*metav1.APIResourceList
	for _, g := range c.groups {
		groups = append(groups, &g.Group)
		for _, v := range g.Group.Versions {
			if resources, ok := g.VersionedResources[v.Version]; ok {
				lists = append(lists, &metav1.APIResourceList{GroupVersion: v.GroupVersion, APIResources: resources})
			}
		}
	}
	return groups, lists, nil
}
