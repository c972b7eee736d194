package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"kubejournal/internal/config"
	"kubejournal/internal/host/suggest"
)

// Resolver records what the server serves and finds in it what a user names. It is safe for concurrent use.
type Resolver struct {
	client discovery.DiscoveryInterfaceWithContext
	// Warn is called in Refresh with what is left out of the server's answer as it has no valid name, unless that was
	// so the time before; nil says nothing. It is set before the first Refresh.
	Warn func(text string)

	refresh sync.Mutex               // held during a request to the server
	leftOut string                   // guarded by refresh: what was left out of the last answer
	known   atomic.Pointer[snapshot] // nil before the first answer
	follows func(stream string) bool // see Prefer; nil reports nothing
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
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		return fmt.Errorf("discover resources: %w", err)
	}
	// A cut connection or a canceled context fails every group that was not asked yet: not an answer.
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("discover resources: %w", ctxErr)
	}
	partial := &PartialError{Failed: map[schema.GroupVersion]error{}}
	maps.Copy(partial.Failed, failed)
	maps.DeleteFunc(partial.Failed, func(gv schema.GroupVersion, _ error) bool {
		return !isGroup(gv.Group) || !isLabel(gv.Version)
	})
	groups, lists, leftOut := valid(groups, lists)
	if leftOut != "" && leftOut != r.leftOut && r.Warn != nil {
		r.Warn(leftOut)
	}
	r.leftOut = leftOut
	before := r.snapshot()
	if failed[core] == nil && lostCore(lists, before) {
		partial.Failed[core] = errors.New("missing from the answer")
	}
	r.known.Store(newSnapshot(groups, lists, partial, before))
	if len(partial.Failed) > 0 {
		return partial
	}
	return nil
}

// Fits reports whether a user may mean a resource by name, as kubectl takes it: plural, singular, short name or kind,
// with or without group and version. Of several resources with one name each fits, whichever kubectl would take. known
// reports whether any does.
func (r *Resolver) Fits(name string, resource schema.GroupResource) (fits, known bool) {
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	for d := range r.snapshot().within(nil, "") {
		if d.is(partial.Resource) && strings.HasPrefix(d.gvr.Group, partial.Group) ||
			full != nil && d.is(full.Resource) && d.gvr.GroupVersion() == full.GroupVersion() {
			known = true
			fits = fits || d.gvr.GroupResource() == resource
		}
	}
	return fits, known
}

// CheckRule returns a *NotFoundError where a name is of no resource that the server has, nor of one that may come. A
// rule about it keeps nothing out of the journal.
func (r *Resolver) CheckRule(name string) error {
	s := r.snapshot()
	if _, known := r.Fits(name, schema.GroupResource{}); known {
		return nil
	}
	if missing := (&NotFoundError{Name: name, Near: s.near(name), Failed: s.failed}); !missing.MayCome() {
		return missing
	}
	return nil
}

// Near returns the name of the resource that an unknown name may be a misspelling of, as kubectl takes it; "" if
// nothing is close.
func (r *Resolver) Near(name string) string { return r.snapshot().near(name) }

// near is Near. With a group, the name is compared with names that have theirs.
func (s *snapshot) near(name string) string {
	wanted := anyVersion(name)
	var plurals, singulars, shorts []string
	for r := range s.within(nil, "") {
		if !r.watchable() {
			continue
		}
		suffix := ""
		if wanted.Group != "" && r.gvr.Group != "" {
			suffix = "." + r.gvr.Group
		}
		plurals = append(plurals, r.Name+suffix)
		singulars = append(singulars, strings.ToLower(cmp.Or(r.SingularName, r.Kind))+suffix)
		for _, short := range r.ShortNames {
			shorts = append(shorts, short+suffix)
		}
	}
	return suggest.Near(wanted.String(), slices.Concat(plurals, singulars, shorts))
}

// anyVersion splits a name into resource and group. What looks like a version between the two is left out.
func anyVersion(name string) schema.GroupResource {
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	if full != nil && apiVersion.MatchString(full.Version) {
		return full.GroupResource()
	}
	return partial
}

// snapshot returns what is known, which may be nothing.
func (r *Resolver) snapshot() *snapshot { return cmp.Or(r.known.Load(), new(snapshot)) }

// is reports whether word is a name or the kind of a resource.
func (r served) is(word string) bool {
	return r.isName(word) || r.isShortName(word) || strings.EqualFold(r.Kind, word)
}

// isName reports whether word is the plural or the singular, which aggregated APIs may leave out.
func (r served) isName(word string) bool {
	return strings.EqualFold(r.Name, word) || strings.EqualFold(cmp.Or(r.SingularName, r.Kind), word)
}

func (r served) isShortName(word string) bool {
	return slices.ContainsFunc(r.ShortNames, func(short string) bool { return strings.EqualFold(short, word) })
}

// find returns the resource that kubectl takes a name for, in kubectl's order: resource.version.group, then
// resource.group, then a kind. A group or a version said beside the name narrows the search to it. It returns several
// where the server gives no order between them.
func (s *snapshot) find(name string, group *string, version string) []served {
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	if full != nil && (group == nil || *group == full.Group) && (version == "" || version == full.Version) {
		exact := schema.GroupResource{Resource: full.Resource}
		if found := s.lookup(exact, &full.Group, full.Version); len(found) == 1 {
			return found
		}
	}
	return s.lookup(partial, group, version)
}

// lookup returns the resource that a name means in the first of these senses: a plural or singular, a short name, a
// kind; in the group that the name has, else in groups that begin like it. Only as a plural or singular can it mean
// several.
func (s *snapshot) lookup(name schema.GroupResource, group *string, version string) []served {
	if name.Resource == "" {
		return nil
	}
	for _, ofGroup := range []func(group, asked string) bool{
		func(group, asked string) bool { return asked == "" || group == asked }, strings.HasPrefix,
	} {
		for i, has := range []func(served, string) bool{served.isName, served.isShortName, served.is} {
			var found []served
			for r := range s.within(group, version) {
				if len(found) > 0 && (i > 0 || r.gvr.GroupVersion() != found[0].gvr.GroupVersion()) {
					break
				}
				if has(r, name.Resource) && ofGroup(r.gvr.Group, name.Group) {
					found = append(found, r)
				}
			}
			if len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// isBare reports whether a name has neither version nor group.
func isBare(name string) bool { return !strings.Contains(name, ".") }

// written joins the parts of an entry's long form as kubectl takes them.
func written(entry config.Resource) string {
	name := entry.Name
	if entry.Version != "" {
		name += "." + entry.Version
	}
	if entry.Group != nil && *entry.Group != "" {
		name += "." + *entry.Group
	}
	return name
}
