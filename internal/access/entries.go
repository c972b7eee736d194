package access

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"kubejournal/internal/discovery"
	"kubejournal/internal/rbac"
)

// WriteEntries writes what may be watched as the resources of a config, each with a comment about it. What is refused is
// counted, or with all written as a comment. namespace is the one that the entries name; "" is none.
func WriteEntries(w io.Writer, offers []discovery.Offer, namespace string, all bool) error {
	refused := len(slices.DeleteFunc(slices.Clone(offers), func(o discovery.Offer) bool { return o.Refusal == "" }))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "defaults:\n  changes: true # MODIFIED lines say which fields changed")
	if refused == len(offers) {
		fmt.Fprintln(t, "resources: [] # this identity may list and watch none of them")
	} else {
		fmt.Fprintln(t, "resources:")
	}
	for _, o := range offers {
		switch {
		case o.Refusal == "":
			fmt.Fprintf(t, "  - %s\t# %s\n", entryOf(o, namespace), aboutOffer(o))
		case all:
			fmt.Fprintf(t, "  # - %s\t# %s\n", entryOf(o, namespace), aboutOffer(o))
		}
	}
	if refused > 0 && !all {
		fmt.Fprintf(t, "  # and %d that this identity may not list and watch; --all shows them\n", refused)
	}
	return t.Flush()
}

func entryOf(o discovery.Offer, namespace string) string {
	name := o.GVR.GroupResource().String()
	if namespace != "" && o.Namespaced {
		return fmt.Sprintf("{resource: %s, namespaces: [%s]}", name, rbac.QuoteName(namespace))
	}
	return name
}

func aboutOffer(o discovery.Offer) string {
	scope := "cluster-scoped"
	if o.Namespaced {
		scope = "namespaced"
	}
	about := strings.Join([]string{o.Kind, scope, strings.Join(o.Versions, " ")}, ", ")
	if len(o.ShortNames) > 0 {
		about += ", short " + strings.Join(o.ShortNames, " ")
	}
	for _, same := range o.Same {
		about += "; the same objects as " + same.String()
	}
	if o.Refusal != "" {
		about += "; " + o.Refusal
	}
	return about
}
