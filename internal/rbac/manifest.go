package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
)

// Subject is who gets the rights.
type Subject struct {
	Name               string // of the roles and bindings
	Namespace, Account string // of the service account
}

// Manifest returns the YAML of roles and bindings for a config that was read from path: the ClusterRole, then each
// namespace's Role. The error is config.Faults; warnings are of entries that get no right.
func Manifest(cfg *config.Config, path string, resolver *discovery.Resolver, o Options, to Subject) (yaml []byte, warnings config.Faults, err error) {
	rights, warnings, err := rightsOf(cfg, resolver, o)
	if err != nil {
		return nil, nil, err
	}
	return manifest(path, rights, to), warnings, nil
}

func manifest(path string, rights []right, to Subject) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The least rights that kubejournal needs for %s, for the service account %s in the namespace %s.\n", oneLine(path), to.Account, to.Namespace)
	fmt.Fprintf(&b, "# Above each rule stands what it is for.\n")
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
		fmt.Fprintln(&b, "rules:")
		for _, r := range rulesOf(byNamespace[ns]) {
			r.write(&b)
		}
		to.writeHead(&b, kind+"Binding", ns)
		fmt.Fprintf(&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", kind, QuoteName(to.Name))
		fmt.Fprintf(&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", QuoteName(to.Account), QuoteName(to.Namespace))
	}
	return []byte(b.String())
}

// writeHead begins an object.
func (s Subject) writeHead(b *strings.Builder, kind, namespace string) {
	fmt.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n", kind, QuoteName(s.Name))
	if namespace != "" {
		fmt.Fprintf(b, "  namespace: %s\n", QuoteName(namespace))
	}
	fmt.Fprintf(b, "  labels:\n    app.kubernetes.io/name: kubejournal\n")
}

// rule is one rule of a role: a right to several resources.
type rule struct {
	right
	resources []string
}

// rulesOf puts the rights of one namespace into as few rules as allow no more.
func rulesOf(rights []right) []rule {
	rights = slices.SortedStableFunc(slices.Values(rights), func(a, b right) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.resource, b.resource))
	})
	var all []rule
	for _, r := range rights {
		i := slices.IndexFunc(all, func(other rule) bool {
			return other.group == r.group && other.name == r.name && other.get == r.get && other.note == r.note && r.resource != config.Wildcard
		})
		if i < 0 {
			all = append(all, rule{r, []string{r.resource}})
			continue
		}
		all[i].resources = append(all[i].resources, r.resource)
		all[i].addReasons(r)
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

func (r rule) write(b *strings.Builder) {
	for _, w := range slices.Concat(r.why, []string{r.note}) {
		if w != "" {
			fmt.Fprintf(b, "# %s\n", oneLine(w))
		}
	}
	fmt.Fprintf(b, "- apiGroups: [%q]\n  resources: [\"%s\"]\n", r.group, strings.Join(r.resources, `", "`))
	if r.name != "" {
		fmt.Fprintf(b, "  resourceNames: [%q]\n", r.name)
	}
	if r.get {
		b.WriteString("  verbs: [\"get\"]\n")
	} else {
		b.WriteString("  verbs: [\"list\", \"watch\"]\n")
	}
}

// QuoteName writes the name of an object as YAML text, in quotes where it could be taken for anything else.
func QuoteName(name string) string {
	if name[0] < 'a' || slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, name) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// oneLine keeps a comment on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
