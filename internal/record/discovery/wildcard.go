package discovery

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
)

func (r served) watchable() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// cohabitants are the resources through which Kubernetes serves the same objects, each with the one that is watched for
// all. Discovery's storageVersionHash says the same, but its aggregated form, which newer servers give, leaves it out.
var cohabitants = map[schema.GroupResource]schema.GroupResource{
	{Resource: "events"}:                         {Resource: "events"},
	{Group: "events.k8s.io", Resource: "events"}: {Resource: "events"},
}

// views are resources through which OpenShift shows the objects of others in another form, under their uids and
// versions.
var views = map[schema.GroupResource]bool{
	{Group: "project.openshift.io", Resource: "projects"}:                  true,
	{Group: "authorization.openshift.io", Resource: "roles"}:               true,
	{Group: "authorization.openshift.io", Resource: "rolebindings"}:        true,
	{Group: "authorization.openshift.io", Resource: "clusterroles"}:        true,
	{Group: "authorization.openshift.io", Resource: "clusterrolebindings"}: true,
}

// class identifies the objects behind a resource: it is equal for resources that serve the same ones. Where a server
// gives no hash, each resource is a class of its own.
func (r served) class() string {
	first, ok := cohabitants[r.gvr.GroupResource()]
	switch {
	case ok:
		return first.String()
	case r.StorageVersionHash != "":
		return r.Kind + "/" + r.StorageVersionHash
	}
	return r.gvr.GroupResource().String()
}

// isHeld reports whether the objects of a resource belong to a group that did not answer yet. To begin with this group
// and change to that one later would be two streams for the same objects.
func (s *snapshot) isHeld(gr schema.GroupResource) bool {
	first, ok := cohabitants[gr]
	return ok && first != gr && slices.ContainsFunc(s.failed, func(gv schema.GroupVersion) bool {
		return gv.Group == first.Group
	})
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

// matches returns the resources that a wildcard matches, in the order of their groups.
func (s *snapshot) matches(entry config.Resource) []served {
	var all []served
	for _, g := range s.groups {
		name := g.Group.Name
		if entry.Group != nil && *entry.Group != config.Wildcard && *entry.Group != name {
			continue
		}
		only := ""
		if entry.Name != config.Wildcard {
			found := s.find(entry.Name, &name, entry.Version)
			if len(found) != 1 {
				continue
			}
			only = found[0].Name
		}
		for _, r := range s.watchables(name, entry.Version) {
			if (only == "" || r.Name == only) && !s.isHeld(r.gvr.GroupResource()) {
				all = append(all, r)
			}
		}
	}
	return all
}

// watchables returns what can be watched in a group, each resource once: in the preferred version if it can be watched
// there, else in the first where it can. With a version, it is looked for in that one alone.
func (s *snapshot) watchables(group, version string) []served {
	var all []served
	for r := range s.within(&group, version) {
		if r.watchable() && !slices.ContainsFunc(all, func(other served) bool { return other.Name == r.Name }) {
			all = append(all, r)
		}
	}
	return all
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
	if found := s.find(name, group, version); len(found) > 0 {
		return found
	}
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	switch {
	case version != "":
		return s.named(name, group, "")
	case full != nil && apiVersion.MatchString(full.Version):
		return s.named(full.Resource, &full.Group, "")
	case group != nil:
		partial.Group = *group
	}
	return []served{{gvr: partial.WithVersion("")}}
}

// excluded returns what the exclude list of a wildcard keeps from it: what kubectl takes each name for. A name without
// a group is meant for the objects, so that it holds for all resources that serve them.
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
