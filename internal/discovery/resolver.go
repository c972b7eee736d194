package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resolver records what the server serves and finds in it what a user names. It is safe for concurrent use.
type Resolver struct {
	client discovery.DiscoveryInterfaceWithContext

	refresh sync.Mutex // held during a request to the server

	mu    sync.RWMutex
	known *snapshot // guarded by mu; replaced as a whole; nil before the first answer
}

// New returns a Resolver that knows nothing until its first Refresh.
func New(client discovery.DiscoveryInterface) *Resolver {
	return &Resolver{client: discovery.ToDiscoveryInterfaceWithContext(client)}
}

// Refresh asks the server what it serves, with one aggregated request where the server can, else group by group. On a
// *PartialError the groups that answered are up to date and the others as they were before. On any other error
// everything is as it was before.
func (r *Resolver) Refresh(ctx context.Context) error {
	r.refresh.Lock()
	defer r.refresh.Unlock()

	groups, lists, err := r.client.ServerGroupsAndResourcesWithContext(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return fmt.Errorf("discover resources: %w", err)
	}
	// A cut connection or a canceled context fails every group that was not asked yet: not an answer.
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("discover resources: %w", ctxErr)
	}
	before := r.snapshot()
	if failed[core] == nil && lostCore(lists, before) {
		if failed = maps.Clone(failed); failed == nil {
			failed = map[schema.GroupVersion]error{}
		}
		failed[core] = errors.New("missing from the answer")
	}
	r.mu.Lock()
	r.known = newSnapshot(groups, lists, failed, before)
	r.mu.Unlock()
	if len(failed) > 0 {
		return &PartialError{Failed: failed}
	}
	return nil
}

// Fits reports whether a user may mean a resource by name, as kubectl takes it: plural, singular, short name or kind, with
// or without group and version. Of several resources with one name each fits, whichever kubectl would take. known
// reports whether any does.
func (r *Resolver) Fits(name string, resource schema.GroupResource) (fits, known bool) {
	s := r.snapshot()
	if s == nil {
		return false, false
	}
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	for _, g := range s.groups {
		group := g.Group.Name
		for version, resources := range g.VersionedResources {
			for _, d := range resources {
				as := func(word string) bool {
					return slices.ContainsFunc(append([]string{d.Name, d.SingularName, d.Kind}, d.ShortNames...), func(name string) bool {
						return strings.EqualFold(name, word)
					})
				}
				if strings.Contains(d.Name, "/") ||
					!(as(partial.Resource) && strings.HasPrefix(group, partial.Group)) &&
						!(full != nil && as(full.Resource) && group == full.Group && version == full.Version) {
					continue
				}
				known = true
				fits = fits || schema.GroupResource{Group: group, Resource: d.Name} == resource
			}
		}
	}
	return fits, known
}

func (r *Resolver) snapshot() *snapshot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known
}

// find resolves what kubectl takes, in kubectl's order: resource.version.group, then resource.group, then a kind. A
// group or a version said beside the name narrows the search to it.
func (s *snapshot) find(name string, group *string, version string) (schema.GroupVersionResource, error) {
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	within := s.only(group, version)
	if full != nil {
		if gvr, err := within.only(&full.Group, full.Version).match(full.Resource, ""); err == nil {
			return gvr, nil
		}
	}
	gvr, err := within.match(partial.Resource, partial.Group)
	if meta.IsNoMatchError(err) {
		gvr, err = within.kind(partial)
	}
	var ambiguous *meta.AmbiguousResourceError
	switch {
	case err == nil:
		return gvr, nil
	case errors.As(err, &ambiguous):
		return schema.GroupVersionResource{}, &AmbiguousError{Name: name, Matches: ambiguous.MatchingResources}
	default:
		return schema.GroupVersionResource{}, &NotFoundError{Name: written(name, group, version), Failed: s.failed}
	}
}

// match looks for a plural, a singular or a short name.
func (s *snapshot) match(resource, group string) (schema.GroupVersionResource, error) {
	asked := schema.GroupVersionResource{Group: group, Resource: resource}
	if resource == "" || len(s.groups) == 0 {
		return schema.GroupVersionResource{}, &meta.NoResourceMatchError{PartialResource: asked}
	}
	gvr, err := s.mapper().ResourceForWithContext(context.Background(), asked)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	// The mapper makes up plurals for kinds ending in List; only what the server described is there.
	if _, ok := s.resource(gvr); !ok {
		return schema.GroupVersionResource{}, &meta.NoResourceMatchError{PartialResource: asked}
	}
	return gvr, nil
}

// kind looks for a kind whose lower-case form is not the singular name, as custom resources may have it.
func (s *snapshot) kind(asked schema.GroupResource) (schema.GroupVersionResource, error) {
	for _, g := range s.groups {
		if !strings.HasPrefix(g.Group.Name, asked.Group) {
			continue
		}
		for _, v := range versionsOf(g) {
			for _, r := range g.VersionedResources[v] {
				if strings.EqualFold(r.Kind, asked.Resource) && !strings.Contains(r.Name, "/") {
					return schema.GroupVersionResource{Group: g.Group.Name, Version: v, Resource: r.Name}, nil
				}
			}
		}
	}
	return schema.GroupVersionResource{}, &meta.NoResourceMatchError{PartialResource: asked.WithVersion("")}
}

// isBare reports whether a name has neither version nor group.
func isBare(name string) bool { return !strings.Contains(name, ".") }

// written joins the parts of a long form as kubectl takes them.
func written(name string, group *string, version string) string {
	if version != "" {
		name += "." + version
	}
	if group != nil && *group != "" {
		name += "." + *group
	}
	return name
}
