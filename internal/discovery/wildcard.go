package discovery

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"kubejournal/internal/config"
)

// served is a resource in one version, as the server describes it.
type served struct {
	gvr schema.GroupVersionResource
	metav1.APIResource
}

func (r served) watchable() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// cohabitants are the resources through which Kubernetes serves the same objects, the one that stands for all first.
// Discovery's storageVersionHash says the same, but its aggregated form, which newer servers give, leaves it out.
var cohabitants = [][]schema.GroupResource{
	{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}},
}

// class identifies the objects behind a resource: it is equal for resources that serve the same ones. Where a server gives
// no hash, each resource is a class of its own.
func (r served) class() string {
	gr := r.gvr.GroupResource()
	for _, same := range cohabitants {
		if slices.Contains(same, gr) {
			return same[0].String()
		}
	}
	if r.StorageVersionHash != "" {
		return r.Kind + "/" + r.StorageVersionHash
	}
	return gr.String()
}

// isHeld reports whether the objects of a resource belong to a group that did not answer yet. To begin with this group
// and change to that one later would be two streams for the same objects.
func (s *snapshot) isHeld(gr schema.GroupResource) bool {
	for _, same := range cohabitants {
		for _, before := range same[:max(slices.Index(same, gr), 0)] {
			if slices.ContainsFunc(s.failed, func(gv schema.GroupVersion) bool { return gv.Group == before.Group }) {
				return true
			}
		}
	}
	return false
}

const widest = 2

// breadth is how much an entry leaves open: of two wildcards the narrower one has what both cover.
func breadth(entry config.Resource) int {
	switch {
	case !entry.IsWildcard():
		return 0
	case entry.Name == config.Wildcard && (entry.Group == nil || *entry.Group == config.Wildcard):
		return widest
	}
	return widest - 1
}

// IsWildcard reports whether an entry stands for whatever resources the server has.
func IsWildcard(entry config.Resource) bool { return entry.IsWildcard() }

// matches returns the resources that a wildcard stands for, in the order of their groups.
func (s *snapshot) matches(entry config.Resource) []served {
	var all []served
	for _, g := range s.coreFirst() {
		name := g.Group.Name
		if entry.Group != nil && *entry.Group != config.Wildcard && *entry.Group != name {
			continue
		}
		only := ""
		if entry.Name != config.Wildcard {
			gvr, err := s.find(entry.Name, &name, entry.Version)
			if err != nil {
				continue
			}
			only = gvr.Resource
		}
		for _, r := range watchables(g, entry.Version) {
			if (only == "" || r.Name == only) && !s.isHeld(r.gvr.GroupResource()) {
				all = append(all, r)
			}
		}
	}
	return all
}

// coreFirst returns the groups in the order in which they are preferred over others that serve the same objects.
func (s *snapshot) coreFirst() []*restmapper.APIGroupResources {
	groups := slices.Clone(s.groups)
	slices.SortStableFunc(groups, func(a, b *restmapper.APIGroupResources) int {
		return min(len(a.Group.Name), 1) - min(len(b.Group.Name), 1)
	})
	return groups
}

// ranks are the places of the groups in that order.
func (s *snapshot) ranks() map[string]int {
	ranks := map[string]int{}
	for i, g := range s.coreFirst() {
		ranks[g.Group.Name] = i
	}
	return ranks
}

// watchables returns what can be watched in a group, each resource once: in the preferred version if it can be watched
// there, else in the first where it can. With a version, it is looked for in that one alone.
func watchables(g *restmapper.APIGroupResources, version string) []served {
	var all []served
	seen := map[string]bool{}
	for _, v := range versionsOf(g) {
		if version != "" && v != version {
			continue
		}
		for _, described := range g.VersionedResources[v] {
			r := served{schema.GroupVersionResource{Group: g.Group.Name, Version: v, Resource: described.Name}, described}
			if !r.watchable() || seen[r.Name] || strings.Contains(r.Name, "/") {
				continue
			}
			seen[r.Name] = true
			all = append(all, r)
		}
	}
	return all
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

// claims are resources that a wildcard does not cover: by name, and by the objects that they serve.
type claims map[string]bool

func (c claims) has(r served) bool {
	return c["resource "+r.gvr.GroupResource().String()] || c["objects "+r.class()]
}

// add takes a resource and, where sameObjects is set, all others that serve the same objects.
func (c claims) add(r served, sameObjects bool) {
	c["resource "+r.gvr.GroupResource().String()] = true
	if sameObjects {
		c["objects "+r.class()] = true
	}
}

var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// named returns the resources that a name is about, whether or not they can be watched, and also where the version that
// is asked for is not served. What the server does not know is taken at its word: plural or plural.group.
func (s *snapshot) named(name string, group *string, version string) []served {
	gvr, err := s.find(name, group, version)
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	ambiguous := new(AmbiguousError)
	switch {
	case err == nil:
		return []served{s.served(gvr)}
	case errors.As(err, &ambiguous):
		var all []served
		for _, m := range ambiguous.Matches {
			all = append(all, s.served(m))
		}
		return all
	case version != "":
		return s.named(name, group, "")
	case full != nil && apiVersion.MatchString(full.Version):
		return s.named(full.Resource, &full.Group, "")
	}
	gvr = partial.WithVersion("")
	if group != nil {
		gvr.Group = *group
	}
	return []served{{gvr: gvr}}
}

func (s *snapshot) served(gvr schema.GroupVersionResource) served {
	described, _ := s.resource(gvr)
	return served{gvr, described}
}

// excluded returns what the exclude list of a wildcard keeps from it: what kubectl takes each name for. A name without a
// group is meant for the objects, so that it holds for all resources that serve them.
func (s *snapshot) excluded(entry config.Resource) claims {
	c := claims{}
	for _, name := range entry.Exclude {
		for _, r := range s.named(name, nil, "") {
			c.add(r, isBare(name))
		}
	}
	return c
}

// cover returns what a wildcard covers beside the claims of others.
func (s *snapshot) cover(entry config.Resource, others claims) []served {
	excluded := s.excluded(entry)
	return slices.DeleteFunc(s.matches(entry), func(r served) bool {
		return others.has(r) || excluded.has(r) || len(entry.Namespaces) > 0 && !r.Namespaced
	})
}
