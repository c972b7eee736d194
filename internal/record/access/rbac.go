package access

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubejournal/internal/config"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/yamlflow"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/discovery"
)

const (
	listWatch = `"list", "watch"`
	notKnown  = " is not known yet and taken at its word"
)

// RBACOptions is how wildcards and unknown names are treated.
type RBACOptions struct {
	Offline   bool // no server was asked: a name that is not Kubernetes' own must be written in full
	Enumerate bool // a wildcard names what the server has now
}

// Subject is who gets the rights.
type Subject struct {
	Name               string // of the roles and bindings
	Namespace, Account string // of the service account
}

// right is a right to some resources, and what it is for. It is also a rule of a role.
type right struct {
	namespace string // "" is a ClusterRole's
	group     string // config.Wildcard is every one
	resources []string
	name      string // "" is all objects
	verbs     string // as YAML
	why       []string
	note      string // what to know about it; "" for nothing
}

// Check sets the account where none is named, and refuses what cannot be a name.
func (s *Subject) Check() error {
	s.Account = cmp.Or(s.Account, s.Name)
	for _, given := range [...]struct{ flag, value string }{{"--name", s.Name}, {"--service-account", s.Account}} {
		if len(validation.IsDNS1123Subdomain(given.value)) > 0 {
			return fmt.Errorf("%s: %q is not a name; it takes lower-case letters, digits, dots and -", given.flag,
				given.value)
		}
	}
	if len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		return fmt.Errorf("--namespace: %q is not the name of a namespace; it takes lower-case letters, digits and -",
			s.Namespace)
	}
	return nil
}

// RBAC returns the YAML of roles and bindings for a config that was read from path: the ClusterRole, then each
// namespace's Role. The error is config.Faults; warnings are of entries that get no right.
func RBAC(
	cfg *config.Config, path string, resolver *discovery.Resolver, o RBACOptions, to Subject,
) (yaml []byte, warnings config.Faults, err error) {
	rights, warnings, err := rightsOf(cfg, resolver, o)
	if err != nil {
		return nil, nil, err
	}
	rights = append(rights, toLeases(cfg, to.Namespace)...)
	var b strings.Builder
	fmt.Fprintf(
		&b, "# The least rights that kubejournal needs for %s, for the service account %s in the namespace %s.\n",
		terminal.Comment(path), terminal.Line(to.Account), terminal.Line(to.Namespace),
	)
	b.WriteString("# The comment above a rule says what it is for.\n")
	byNamespace := map[string][]right{}
	for _, r := range rights {
		byNamespace[r.namespace] = append(byNamespace[r.namespace], r)
	}
	for _, ns := range slices.Sorted(maps.Keys(byNamespace)) {
		kind := "Role"
		if ns == "" {
			kind = "ClusterRole"
		}
		to.writeHead(&b, kind, ns)
		b.WriteString("rules:\n")
		for _, r := range rulesOf(byNamespace[ns]) {
			for _, w := range append(r.why, r.note) {
				if w != "" {
					fmt.Fprintf(&b, "# %s\n", terminal.Comment(w))
				}
			}
			fmt.Fprintf(
				&b, "- apiGroups: %s\n  resources: %s\n", yamlflow.Quoted(r.group), yamlflow.Quoted(r.resources...),
			)
			if r.name != "" {
				fmt.Fprintf(&b, "  resourceNames: %s\n", yamlflow.Quoted(r.name))
			}
			fmt.Fprintf(&b, "  verbs: [%s]\n", r.verbs)
		}
		to.writeHead(&b, kind+"Binding", ns)
		fmt.Fprintf(
			&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", kind,
			yamlflow.Inline(to.Name),
		)
		fmt.Fprintf(
			&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", yamlflow.Inline(to.Account),
			yamlflow.Inline(to.Namespace),
		)
	}
	return []byte(b.String()), warnings, nil
}

// rightsOf returns what a config needs. The error is config.Faults; warnings are of entries that get no right.
func rightsOf(
	cfg *config.Config, resolver *discovery.Resolver, o RBACOptions,
) (all []right, warnings config.Faults, err error) {
	var faults config.Faults
	for i, resolved := range resolver.ResolveAll(cfg.Resources) {
		entry := cfg.Resources[i]
		wildcard := entry.IsWildcard()
		if discovery.IsConfigFault(resolved.Err) {
			faults = append(faults, config.Fault{Msg: resolved.Err.Error()})
			continue
		}
		for _, st := range resolved.Streams {
			if wildcard && !o.Enumerate && (st.Namespaced || entry.Namespace == "") {
				continue // its rule has a wildcard
			}
			note := ""
			if wildcard {
				note = "what comes later is not in it"
			}
			all = append(all, rightTo(entry, st.Namespace, st.GVR.GroupResource(), note))
		}
		switch {
		case wildcard && !o.Enumerate:
			all = append(all, toWildcard(entry, resolved.Streams)...)
		case resolved.Err != nil:
			named, why := byName(resolver, entry, resolved.Err, o.Offline)
			all = append(all, named...)
			if why != "" {
				warnings = append(warnings, cfg.Fault(entry.Entry, "resource", why))
			}
		}
	}
	if len(faults) > 0 || o.Offline && len(warnings) > 0 {
		return nil, nil, append(faults, warnings...)
	}
	isCustom := func(r right) bool { return !builtin.HasGroup(r.group) }
	if slices.ContainsFunc(cfg.Resources, config.Resource.IsWildcard) || slices.ContainsFunc(all, isCustom) {
		all = append(all, right{group: "apiextensions.k8s.io", resources: []string{
			"customresourcedefinitions",
		}, verbs: listWatch,
			why: []string{"so that a custom resource that is defined later is noticed at once"}})
	}
	all = append(all, right{resources: []string{"namespaces"}, name: "kube-system", verbs: `"get"`,
		why: []string{"tells one cluster from another, so that a checkpoint is never used on the wrong one"}})
	return minimal(all), warnings, nil
}

// toLeases are the rights to the Lease of the leader election, or to that of each shard, in the pod's own namespace.
func toLeases(cfg *config.Config, namespace string) (all []right) {
	if cfg.LeaderElection.LeaseName == "" {
		return nil
	}
	lease := right{
		namespace: cmp.Or(
			cfg.LeaderElection.LeaseNamespace, namespace,
		), group: "coordination.k8s.io", resources: []string{"leases"},
		verbs: `"get", "update"`, why: []string{"leaderElection: one of several replicas writes"},
	}
	each := *cfg
	for each.Shard.Index = range max(1, cfg.Shard.Count) {
		lease.name = each.Lease()
		all = append(all, lease)
	}
	lease.name, lease.verbs, lease.note = "", `"create"`, "RBAC cannot name what does not exist yet"
	return append(all, lease)
}

// rightTo is the right that an entry needs to a resource.
func rightTo(entry config.Resource, namespace string, gr schema.GroupResource, note string) right {
	return right{
		namespace: namespace, group: gr.Group, resources: []string{gr.Resource},
		name:  discovery.OneName(entry.FieldSelector),
		verbs: listWatch, why: []string{fmt.Sprintf("%s (%s)", entry.Entry, EntryName(entry))}, note: note,
	}
}

// EntryName is what an entry says of its resource, in one word.
func EntryName(entry config.Resource) string {
	if entry.Group == nil || *entry.Group == "" {
		return entry.Name
	}
	return entry.Name + "." + *entry.Group
}

// inNamespaces are the rights that an entry needs to a resource in each of its namespaces.
func inNamespaces(entry config.Resource, gr schema.GroupResource, note string) (all []right) {
	if len(entry.Namespaces) == 0 {
		return []right{rightTo(entry, entry.Namespace, gr, note)} // "" is all
	}
	for _, ns := range entry.Namespaces {
		all = append(all, rightTo(entry, ns, gr, note))
	}
	return all
}

// toWildcard are the rights to what a wildcard covers now and later. streams are those of now.
func toWildcard(entry config.Resource, streams []discovery.Stream) (all []right) {
	group := config.Wildcard
	if entry.Group != nil {
		group = *entry.Group
	}
	resources, note := []string{strings.ToLower(entry.Name)}, ""
	switch {
	case entry.Name == config.Wildcard && group == config.Wildcard:
		note = "allows all resources, Secrets too, also what other entries decide on"
	case entry.Name == config.Wildcard:
		note = "allows all resources of the group, also what other entries decide on"
	case len(streams) == 0:
		note = resources[0] + notKnown
	default:
		resources = nil
		for _, st := range streams {
			resources = append(resources, st.GVR.Resource)
		}
	}
	if len(entry.Exclude) > 0 {
		note = `RBAC cannot say "all but": this allows what the entry excludes too (` + strings.Join(entry.Exclude, ", ") + "); --enumerate names the others"
	}
	for _, resource := range resources {
		all = append(all, inNamespaces(entry, schema.GroupResource{Group: group, Resource: resource}, note)...)
	}
	return all
}

// byName are the rights for an entry whose resource is not there now, by the name that it gives in full. If there are
// none, why is the reason.
func byName(resolver *discovery.Resolver, entry config.Resource, err error, offline bool) (all []right, why string) {
	missing, ok := errors.AsType[*discovery.NotFoundError](err)
	if !ok || missing.Wildcard {
		return nil, err.Error() + "; it gets no right"
	}
	named, known := resolver.Named(entry)
	switch bare := named[0].Group == "" && !known; {
	case bare && offline:
		return nil, fmt.Sprintf("%q is none of Kubernetes' own resources%s; write its name in full, e.g. %s.example.com, or leave --offline out",
			entry.Name, discovery.DidYouMean(missing.Near), named[0].Resource)
	case bare:
		return nil, fmt.Sprintf(
			"%v; it gets no right; write its name in full, e.g. %s.example.com, or run this again when it is there",
			err, named[0].Resource,
		)
	}
	for _, gr := range named {
		note := gr.String() + notKnown
		if known {
			note = ""
		}
		all = append(all, inNamespaces(entry, gr, note)...)
	}
	return all, ""
}

// minimal leaves out the rights that others imply, which take over what those were for.
func minimal(rights []right) (all []right) {
	for _, r := range rights {
		if i := slices.IndexFunc(all, func(other right) bool { return other.implies(r) }); i >= 0 {
			all[i].why = append(all[i].why, r.why...)
			continue
		}
		all = slices.DeleteFunc(all, func(other right) bool {
			implied := r.implies(other)
			if implied {
				r.why = append(r.why, other.why...)
			}
			return implied
		})
		all = append(all, r)
	}
	return all
}

// implies reports whether a right includes another one. Both are to one resource.
func (r right) implies(other right) bool {
	is := func(wide, narrow, every string) bool { return wide == every || wide == narrow }
	return r.verbs == other.verbs && is(r.namespace, other.namespace, "") &&
		is(r.group, other.group, config.Wildcard) &&
		is(r.resources[0], other.resources[0], config.Wildcard) && is(r.name, other.name, "")
}

// writeHead begins an object.
func (s Subject) writeHead(b *strings.Builder, kind, namespace string) {
	if namespace != "" {
		namespace = fmt.Sprintf("  namespace: %s\n", yamlflow.Inline(namespace))
	}
	fmt.Fprintf(
		b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n%s", kind,
		yamlflow.Inline(s.Name), namespace,
	)
	b.WriteString("  labels:\n    app.kubernetes.io/name: kubejournal\n")
}

// rulesOf puts the rights of one namespace into as few rules as allow no more.
func rulesOf(rights []right) (all []right) {
	slices.SortStableFunc(rights, func(a, b right) int {
		return cmp.Or(
			cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.resources[0], b.resources[0]),
		)
	})
	for _, r := range rights {
		i := slices.IndexFunc(all, func(other right) bool {
			return other.group == r.group && other.name == r.name && other.verbs == r.verbs && other.note == r.note &&
				r.resources[0] != config.Wildcard
		})
		if i >= 0 {
			all[i].resources = append(all[i].resources, r.resources...)
			all[i].why = append(all[i].why, r.why...)
		} else {
			all = append(all, r)
		}
	}
	for i := range all {
		slices.SortFunc(all[i].why, func(a, b string) int { // resources[2] before resources[10]
			return cmp.Or(cmp.Compare(strings.IndexByte(a, ']'), strings.IndexByte(b, ']')), cmp.Compare(a, b))
		})
		all[i].why = slices.Compact(all[i].why)
	}
	return all
}
