// Package rbac derives from a config the minimal RBAC rules that the daemon needs, and writes them as YAML.
package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
)

// Options is how wildcards and unknown names are treated.
type Options struct {
	Offline   bool // no server was asked: a name that is not Kubernetes' own must be written in full
	Enumerate bool // a wildcard names what the server has now
}

// right is a right to some resources, and what it is for.
type right struct {
	namespace       string // "" is a ClusterRole's
	group, resource string // config.Wildcard is every one
	name            string // "" is all objects
	get             bool   // else list and watch
	why             []string
	note            string // what to know about it; "" for nothing
}

// rightTo is the right that an entry needs to a resource.
func rightTo(entry config.Resource, namespace string, gr schema.GroupResource) right {
	return right{
		namespace: namespace, group: gr.Group, resource: gr.Resource, name: discovery.OneName(entry.FieldSelector),
		why: []string{fmt.Sprintf("%s (%s)", entry.Entry, EntryName(entry))},
	}
}

// rightsOf returns what a config needs. The error is config.Faults; warnings are of entries that get no right.
func rightsOf(cfg *config.Config, resolver *discovery.Resolver, o Options) (all []right, warnings config.Faults, err error) {
	var faults config.Faults
	custom := false // custom resources may be among them
	for i, resolved := range resolver.ResolveAll(cfg.Resources) {
		entry := cfg.Resources[i]
		wildcard := entry.IsWildcard()
		custom = custom || wildcard
		if discovery.IsConfigFault(resolved.Err) {
			faults = append(faults, config.Fault{Msg: resolved.Err.Error()})
			continue
		}
		for _, st := range resolved.Streams {
			custom = custom || !discovery.IsBuiltin(st.GVR.Group)
			if wildcard && !o.Enumerate && (st.Namespaced || entry.Namespace == "") {
				continue // its rule has a wildcard
			}
			r := rightTo(entry, st.Namespace, st.GVR.GroupResource())
			if r.name = discovery.OneName(st.FieldSelector); wildcard {
				r.note = "what comes later is not in it"
			}
			all = append(all, r)
		}
		switch {
		case wildcard && !o.Enumerate:
			all = append(all, toWildcard(entry, resolved.Streams)...)
		case resolved.Err != nil:
			named, why := byName(resolver, entry, resolved.Err, o.Offline)
			if why != "" && o.Offline {
				faults = append(faults, cfg.Fault(entry.Entry, "resource", why))
			} else if why != "" {
				warnings = append(warnings, cfg.Fault(entry.Entry, "resource", why))
			}
			custom = custom || slices.ContainsFunc(named, func(r right) bool { return !discovery.IsBuiltin(r.group) })
			all = append(all, named...)
		}
	}
	if len(faults) > 0 {
		return nil, nil, faults
	}
	all = append(all, right{resource: "namespaces", name: "kube-system", get: true, why: []string{"tells one cluster from another, so that a checkpoint is never used on the wrong one"}})
	if custom {
		all = append(all, right{
			group: "apiextensions.k8s.io", resource: "customresourcedefinitions",
			why: []string{"so that a custom resource that is defined later is noticed at once"},
		})
	}
	return minimal(all), warnings, nil
}

// EntryName is what an entry says of its resource, in one word.
func EntryName(entry config.Resource) string {
	if entry.Group == nil || *entry.Group == "" {
		return entry.Name
	}
	return entry.Name + "." + *entry.Group
}

// namespacesOf are the namespaces that an entry names; "" is all.
func namespacesOf(entry config.Resource) []string {
	if len(entry.Namespaces) == 0 {
		return []string{entry.Namespace}
	}
	return entry.Namespaces
}

// toWildcard are the rights to what a wildcard covers now and later. streams are those of now.
func toWildcard(entry config.Resource, streams []discovery.Stream) []right {
	group := config.Wildcard
	if entry.Group != nil {
		group = *entry.Group
	}
	var plurals []string
	note := ""
	switch {
	case entry.Name == config.Wildcard && group == config.Wildcard:
		plurals, note = []string{config.Wildcard}, "allows all resources, Secrets too, also what other entries decide on"
	case entry.Name == config.Wildcard:
		plurals, note = []string{config.Wildcard}, "allows all resources of the group, also what other entries decide on"
	case len(streams) == 0:
		plurals = []string{strings.ToLower(entry.Name)}
		note = plurals[0] + " is not known yet and taken at its word"
	default:
		for _, st := range streams {
			plurals = append(plurals, st.GVR.Resource)
		}
	}
	if len(entry.Exclude) > 0 {
		note = `RBAC cannot say "all but": this allows what the entry excludes too (` + strings.Join(entry.Exclude, ", ") + "); --enumerate names the others"
	}
	var all []right
	for _, ns := range namespacesOf(entry) {
		for _, plural := range plurals {
			r := rightTo(entry, ns, schema.GroupResource{Group: group, Resource: plural})
			r.note = note
			all = append(all, r)
		}
	}
	return all
}

// byName are the rights for an entry whose resource is not there now, by the name that it gives in full. If there are none,
// why is the reason.
func byName(resolver *discovery.Resolver, entry config.Resource, err error, offline bool) (all []right, why string) {
	missing := new(discovery.NotFoundError)
	if !errors.As(err, &missing) || missing.Wildcard {
		return nil, err.Error() + "; it gets no right"
	}
	named, known := resolver.Named(entry)
	if bare := named[0].Group == "" && !known; bare && offline {
		return nil, fmt.Sprintf("%q is none of Kubernetes' own resources; write its name in full, e.g. %s.example.com, or leave --offline out", entry.Name, named[0].Resource)
	} else if bare {
		return nil, fmt.Sprintf("%v; it gets no right; write its name in full, e.g. %s.example.com, or run this again when it is there", err, named[0].Resource)
	}
	for _, gr := range named {
		for _, ns := range namespacesOf(entry) {
			r := rightTo(entry, ns, gr)
			if !known {
				r.note = gr.String() + " is not known yet and taken at its word"
			}
			all = append(all, r)
		}
	}
	return all, ""
}

// minimal leaves out the rights that others imply, which take over what those were for.
func minimal(rights []right) []right {
	var all []right
	for _, r := range rights {
		if i := slices.IndexFunc(all, func(other right) bool { return other.implies(r) }); i >= 0 {
			all[i].addReasons(r)
			continue
		}
		all = slices.DeleteFunc(all, func(other right) bool {
			if !r.implies(other) {
				return false
			}
			r.addReasons(other)
			return true
		})
		all = append(all, r)
	}
	return all
}

// implies reports whether a right includes another one.
func (r right) implies(other right) bool {
	is := func(wide, narrow, every string) bool { return wide == every || wide == narrow }
	return r.get == other.get && is(r.namespace, other.namespace, "") && is(r.group, other.group, config.Wildcard) &&
		is(r.resource, other.resource, config.Wildcard) && is(r.name, other.name, "")
}

// addReasons notes that a right is for what another one was for.
func (r *right) addReasons(other right) {
	for _, w := range other.why {
		if !slices.Contains(r.why, w) {
			r.why = append(slices.Clone(r.why), w)
		}
	}
}
