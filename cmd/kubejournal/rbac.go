package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubejournal/internal/config"
	resources "kubejournal/internal/discovery"
)

func newRBACCommand() *cobra.Command {
	var (
		configFlag         string
		to                 grantee
		offline, enumerate bool
	)
	cmd := &cobra.Command{
		Use:   "rbac --config FILE",
		Short: "Print the least rights that a config needs, as YAML",
		Long: `Print the least RBAC rules that the daemon needs for a config, with the bindings to its service account: a Role in
each namespace that entries name, and a ClusterRole for the rest. They are
  list and watch   of what is journalled; where a fieldSelector lets one metadata.name through, of this object alone
  get              of the namespace kube-system, by whose uid clusters are told apart
  list and watch   of CustomResourceDefinitions, where the config has a wildcard or a custom resource, so that one that is
                   defined later is noticed at once
Discovery needs no rule: everyone whom the server knows may ask for it.

Names are resolved by the server, as run does it. With --offline no server is asked: Kubernetes' own resources are known
by all their names, and others must be written in full, e.g. widgets.example.com.

A wildcard covers what comes later too, so its rule has a wildcard. RBAC cannot say "all but": such a rule allows what
'exclude' leaves out as well, Secrets among it. --enumerate names instead what the server has now.

Service account, namespace and roles are not created: apply the output to a cluster that has the first two.

Exit status: 0, 2 for a usage or config fault, 1 where the server cannot be asked.`,
		Example: `  kubejournal rbac --config kubejournal.yaml | kubectl apply -f -

  # for another service account, without a cluster
  kubejournal rbac --config kubejournal.yaml --offline --namespace audit --service-account journal`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := to.check(); err != nil {
				return &usageError{cmd, err}
			}
			if offline && enumerate {
				return &usageError{cmd, errors.New("--enumerate needs the server; leave --offline out")}
			}
			path, err := configPath(configFlag, nil, os.LookupEnv)
			if err != nil {
				return err
			}
			cfg, err := config.Load(path, config.Overrides{Flags: givenFlags(cmd)}, os.LookupEnv)
			if err != nil {
				return err
			}
			resolver := resources.Offline()
			if !offline {
				s, err := askServer(cmd.Context(), cfg.Kubernetes, cmd.ErrOrStderr())
				if err != nil {
					return fmt.Errorf("%w; or name no server with --offline", err)
				}
				resolver = s.Resolver
			}
			needs, warnings, err := rightsOf(cfg, resolver, offline, enumerate)
			if err != nil {
				return err
			}
			for _, w := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), w.Error())
			}
			_, err = cmd.OutOrStdout().Write(manifest(path, needs, to))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&configFlag, "config", "", "config `FILE` (default: as for run)")
	addServerFlags(cmd)
	flags.StringVar(&to.name, "name", "kubejournal", "`NAME` of the roles and bindings")
	flags.StringVar(&to.namespace, "namespace", "kubejournal", "`NAMESPACE` of the service account")
	flags.StringVar(&to.account, "service-account", "", "`NAME` of the service account (default: that of the roles)")
	flags.BoolVar(&offline, "offline", false, "ask no server")
	flags.BoolVar(&enumerate, "enumerate", false, "for a wildcard, name what the server has now")
	return cmd
}

// grantee is who gets the rights, and under what name.
type grantee struct{ name, namespace, account string }

func (g *grantee) check() error {
	g.account = cmp.Or(g.account, g.name)
	for _, said := range [...]struct{ flag, value string }{{"--name", g.name}, {"--service-account", g.account}} {
		if len(validation.IsDNS1123Subdomain(said.value)) > 0 {
			return fmt.Errorf("%s: %q is not a name; it takes lower-case letters, digits, dots and -", said.flag, said.value)
		}
	}
	if len(validation.IsDNS1123Label(g.namespace)) > 0 {
		return fmt.Errorf("--namespace: %q is not the name of a namespace; it takes lower-case letters, digits and -", g.namespace)
	}
	return nil
}

// need is a right to some resources, and what it is for.
type need struct {
	namespace       string // "" is a ClusterRole's
	group, resource string // config.Wildcard is every one
	name            string // "" is all objects
	get             bool   // else list and watch
	why             []string
	note            string // what to know about it; "" for nothing
}

// rightsOf returns what a config needs. The error is config.Faults; warnings are of entries that get no right.
func rightsOf(cfg *config.Config, resolver *resources.Resolver, offline, enumerate bool) (needs []need, warnings config.Faults, err error) {
	var faults config.Faults
	custom := false
	for i, resolved := range resolver.ResolveAll(cfg.Resources) {
		entry := cfg.Resources[i]
		wildcard := resources.IsWildcard(entry)
		custom = custom || wildcard
		if resources.IsConfigFault(resolved.Err) {
			faults = append(faults, config.Fault{Msg: resolved.Err.Error()})
			continue
		}
		for _, st := range resolved.Streams {
			custom = custom || !resources.IsBuiltin(st.GVR.Group)
			if wildcard && !enumerate && (st.Namespaced || entry.Namespace == "") {
				continue // its rule has a wildcard
			}
			n := need{namespace: st.Namespace, group: st.GVR.Group, resource: st.GVR.Resource, name: resources.OneName(st.FieldSelector), why: []string{label(entry)}}
			if wildcard {
				n.note = "what comes later is not in it"
			}
			needs = append(needs, n)
		}
		switch {
		case wildcard && !enumerate:
			needs = append(needs, wildcardNeeds(entry, resolved.Streams)...)
		case resolved.Err != nil:
			more, why := byName(resolver, entry, resolved.Err, offline)
			if why != "" && offline {
				faults = append(faults, cfg.Fault(entry.Entry, "resource", why))
			} else if why != "" {
				warnings = append(warnings, cfg.Fault(entry.Entry, "resource", why))
			}
			for _, n := range more {
				custom = custom || !resources.IsBuiltin(n.group)
			}
			needs = append(needs, more...)
		}
	}
	if len(faults) > 0 {
		return nil, nil, faults
	}
	needs = append(needs, need{resource: "namespaces", name: "kube-system", get: true, why: []string{"tells one cluster from another, so that a checkpoint is never used on the wrong one"}})
	if custom {
		needs = append(needs, need{
			group: "apiextensions.k8s.io", resource: "customresourcedefinitions",
			why: []string{"so that a custom resource that is defined later is noticed at once"},
		})
	}
	return least(needs), warnings, nil
}

// label names an entry.
func label(entry config.Resource) string {
	return fmt.Sprintf("%s (%s)", entry.Entry, entryName(entry))
}

// entryName is what an entry says of its resource, in one word.
func entryName(entry config.Resource) string {
	if entry.Group == nil || *entry.Group == "" {
		return entry.Name
	}
	return entry.Name + "." + *entry.Group
}

// wildcardNeeds are the rights to what a wildcard covers now and later. streams are those of now.
func wildcardNeeds(entry config.Resource, streams []resources.Stream) []need {
	group := config.Wildcard
	if entry.Group != nil {
		group = *entry.Group
	}
	plurals := []string{config.Wildcard}
	note := ""
	if entry.Name != config.Wildcard {
		plurals = nil
		for _, st := range streams {
			plurals = append(plurals, st.GVR.Resource)
		}
		if len(plurals) == 0 {
			plurals = []string{strings.ToLower(entry.Name)}
			note = plurals[0] + " is not known yet and taken at its word"
		}
	}
	if entry.Name == config.Wildcard {
		note = "allows all resources, Secrets too, also what other entries decide on"
		if group != config.Wildcard {
			note = "allows all resources of the group, also what other entries decide on"
		}
	}
	if len(entry.Exclude) > 0 {
		note = `RBAC cannot say "all but": this allows what the entry excludes too (` + strings.Join(entry.Exclude, ", ") + "); --enumerate names the others"
	}
	namespaces := entry.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{entry.Namespace}
	}
	var all []need
	for _, ns := range namespaces {
		for _, plural := range plurals {
			all = append(all, need{
				namespace: ns, group: group, resource: plural, name: resources.OneName(entry.FieldSelector),
				why: []string{label(entry)}, note: note,
			})
		}
	}
	return all
}

// byName are the rights for an entry whose resource is not there now, by the name that it gives in full. Where there are
// none, why says it.
func byName(resolver *resources.Resolver, entry config.Resource, err error, offline bool) (needs []need, why string) {
	missing := new(resources.NotFoundError)
	if !errors.As(err, &missing) || missing.Wildcard {
		return nil, err.Error() + "; it gets no right"
	}
	named, known := resolver.Named(entry)
	if bare := named[0].Group == "" && !known; bare && offline {
		return nil, fmt.Sprintf("%q is none of Kubernetes' own resources; write its name in full, e.g. %s.example.com, or leave --offline out", entry.Name, named[0].Resource)
	} else if bare {
		return nil, fmt.Sprintf("%v; it gets no right; write its name in full, e.g. %s.example.com, or run this again when it is there", err, named[0].Resource)
	}
	namespaces := entry.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{entry.Namespace}
	}
	for _, gr := range named {
		for _, ns := range namespaces {
			n := need{namespace: ns, group: gr.Group, resource: gr.Resource, name: resources.OneName(entry.FieldSelector), why: []string{label(entry)}}
			if !known {
				n.note = gr.String() + " is not known yet and taken at its word"
			}
			needs = append(needs, n)
		}
	}
	return needs, ""
}

// least takes out what other rights say already.
func least(needs []need) []need {
	var all []need
	for _, n := range needs {
		if i := slices.IndexFunc(all, func(other need) bool { return other.implies(n) }); i >= 0 {
			all[i].take(n)
			continue
		}
		for i := 0; i < len(all); i++ {
			if n.implies(all[i]) {
				n.take(all[i])
				all = slices.Delete(all, i, i+1)
				i--
			}
		}
		all = append(all, n)
	}
	return all
}

// implies tells whether a right holds another one.
func (n need) implies(other need) bool {
	is := func(wide, narrow, every string) bool { return wide == every || wide == narrow }
	return n.get == other.get && is(n.namespace, other.namespace, "") && is(n.group, other.group, config.Wildcard) &&
		is(n.resource, other.resource, config.Wildcard) && is(n.name, other.name, "")
}

// take notes that a right is for what another one was for.
func (n *need) take(other need) {
	for _, w := range other.why {
		if !slices.Contains(n.why, w) {
			n.why = append(slices.Clone(n.why), w)
		}
	}
}

// rule is one rule of a role.
type rule struct {
	need
	resources []string
}

// rules puts needs of one namespace into as few rules as say no more.
func rules(needs []need) []rule {
	needs = slices.Clone(needs)
	slices.SortStableFunc(needs, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.resource, b.resource))
	})
	var all []rule
	for _, n := range needs {
		i := slices.IndexFunc(all, func(r rule) bool {
			return r.group == n.group && r.name == n.name && r.get == n.get && r.note == n.note && n.resource != config.Wildcard
		})
		if i < 0 {
			all = append(all, rule{n, []string{n.resource}})
			continue
		}
		all[i].resources = append(all[i].resources, n.resource)
		all[i].take(n)
	}
	for i := range all {
		slices.SortFunc(all[i].why, naturally)
	}
	return all
}

// naturally puts resources[2] before resources[10].
func naturally(a, b string) int {
	return cmp.Or(cmp.Compare(strings.IndexByte(a, ']'), strings.IndexByte(b, ']')), cmp.Compare(a, b))
}

// manifest is the YAML of roles and bindings: the ClusterRole, then each namespace's Role.
func manifest(path string, needs []need, to grantee) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The least rights that kubejournal needs for %s, for the service account %s in the namespace %s.\n", oneLine(path), to.account, to.namespace)
	fmt.Fprintf(&b, "# Above each rule stands what it is for.\n")
	byNamespace := map[string][]need{}
	var namespaces []string
	for _, n := range needs {
		if byNamespace[n.namespace] == nil {
			namespaces = append(namespaces, n.namespace)
		}
		byNamespace[n.namespace] = append(byNamespace[n.namespace], n)
	}
	slices.Sort(namespaces)
	for _, ns := range namespaces {
		kind := "Role"
		if ns == "" {
			kind = "ClusterRole"
		}
		to.head(&b, kind, ns)
		fmt.Fprintln(&b, "rules:")
		for _, r := range rules(byNamespace[ns]) {
			r.write(&b)
		}
		to.head(&b, kind+"Binding", ns)
		fmt.Fprintf(&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", kind, plainYAML(to.name))
		fmt.Fprintf(&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", plainYAML(to.account), plainYAML(to.namespace))
	}
	return []byte(b.String())
}

// head begins an object.
func (g grantee) head(b *strings.Builder, kind, namespace string) {
	fmt.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n", kind, plainYAML(g.name))
	if namespace != "" {
		fmt.Fprintf(b, "  namespace: %s\n", plainYAML(namespace))
	}
	fmt.Fprintf(b, "  labels:\n    app.kubernetes.io/name: kubejournal\n")
}

func (r rule) write(b *strings.Builder) {
	for _, w := range slices.Concat(r.why, []string{r.note}) {
		if w != "" {
			fmt.Fprintf(b, "# %s\n", oneLine(w))
		}
	}
	fmt.Fprintf(b, "- apiGroups: [%q]\n  resources: [", r.group)
	for i, resource := range r.resources {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q", resource)
	}
	b.WriteString("]\n")
	if r.name != "" {
		fmt.Fprintf(b, "  resourceNames: [%q]\n", r.name)
	}
	if r.get {
		b.WriteString("  verbs: [\"get\"]\n")
	} else {
		b.WriteString("  verbs: [\"list\", \"watch\"]\n")
	}
}

// plainYAML writes the name of an object as YAML text, in quotes where it could be taken for anything else.
func plainYAML(name string) string {
	if name[0] < 'a' || slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, name) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
